// Access: who the user is, what the user or another one is permitted to do, and by which binding.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { keyOf, request, type Resource } from './api'
import { parameter, set } from './route'
import { byKey, namespaces, resources } from './store'
import { t } from './text'

const api = { review: '/apis/authorization.k8s.io/v1', self: '/apis/authentication.k8s.io/v1/selfsubjectreviews' }

async function post<T>(path: string, body: unknown): Promise<T> {
  return (await request(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).json()
}

interface User { username: string; groups?: string[] }
interface Rule { verbs: string[]; apiGroups?: string[]; resources?: string[]; resourceNames?: string[] }

export function AccessView() {
  const namespace = parameter('ns') || 'default'
  const [user, setUser] = useState<User | null>(null)
  useEffect(() => {
    post<{ status: { userInfo: User } }>(api.self, { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }).then(r => setUser(r.status.userInfo), () => undefined)
  }, [])
  return (
    <div class="access">
      <div class="title"><h1>{t('access')}</h1></div>
      {user && <p>{t('as', { user: user.username })}{user.groups?.length ? ` (${user.groups.join(', ')})` : ''}.</p>}
      <div class="filters">
        <input aria-label={t('namespace')} list="namespaces" value={namespace} onChange={e => set({ ns: e.currentTarget.value })} />
        <datalist id="namespaces">{namespaces.value.map(n => <option key={n} value={n} />)}</datalist>
      </div>
      <Question namespace={namespace} self={user?.username ?? ''} />
      <Matrix namespace={namespace} />
    </div>
  )
}

interface Answer { allowed: boolean; reason: string; user: string; groups: string[]; verb: string; kind: string; resource: Resource | undefined; name: string }

/** May a user do something, and why? */
function Question({ namespace, self }: { namespace: string; self: string }) {
  const [user, setUser] = useState('')
  const [groups, setGroups] = useState('')
  const [verb, setVerb] = useState('get')
  const [kind, setKind] = useState('pods')
  const [name, setName] = useState('')
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [error, setError] = useState('')
  const ask = async () => {
    setError('')
    setAnswer(null)
    const [plural = '', subresource = ''] = kind.split('/')
    const resource = byKey.value.get(plural)
    const resourceAttributes = {
      verb, group: resource?.group ?? plural.slice(plural.indexOf('.') + 1 || plural.length), version: resource?.version, resource: resource?.resource ?? plural.split('.')[0],
      subresource, name, namespace: resource?.namespaced === false ? '' : namespace,
    }
    const list = groups.split(',').map(g => g.trim()).filter(Boolean)
    const type = user ? 'SubjectAccessReview' : 'SelfSubjectAccessReview'
    try {
      const { status } = await post<{ status: { allowed: boolean; reason?: string } }>(`${api.review}/${type.toLowerCase()}s`, {
        apiVersion: 'authorization.k8s.io/v1', kind: type, spec: { resourceAttributes, ...(user ? { user, groups: list } : {}) },
      })
      setAnswer({ allowed: status.allowed, reason: status.reason ?? '', user: user || self, groups: list, verb, kind, resource, name })
    } catch (e) {
      setError(t('error', { message: (e as Error).message }))
    }
  }
  return (
    <section aria-labelledby="may">
      <h2 id="may">{t('access.question')}</h2>
      <form class="filters" onSubmit={e => { e.preventDefault(); void ask() }}>
        <input aria-label={t('access.user')} placeholder={self || t('access.user')} value={user} onInput={e => setUser(e.currentTarget.value)} />
        {user && <input aria-label={t('access.groups')} placeholder={t('access.groups')} value={groups} onInput={e => setGroups(e.currentTarget.value)} />}
        <select aria-label={t('access.verb')} value={verb} onChange={e => setVerb(e.currentTarget.value)}>{[...verbs, 'deletecollection'].map(v => <option key={v}>{v}</option>)}</select>
        <input aria-label={t('access.kind')} list="resources" required value={kind} onInput={e => setKind(e.currentTarget.value)} />
        <datalist id="resources">{resources.value.flatMap(r => [keyOf(r), ...r.subresources.map(s => `${keyOf(r)}/${s}`)]).map(k => <option key={k} value={k} />)}</datalist>
        <input aria-label={t('access.name')} placeholder={t('access.name')} value={name} onInput={e => setName(e.currentTarget.value)} />
        <button class="primary">{t('access.ask')}</button>
      </form>
      {error && <p class="error" role="alert">{error}</p>}
      {answer && (
        <div role="status">
          <p><span class={`state ${answer.allowed ? 'good' : 'bad'}`}>{t(answer.allowed ? 'access.yes' : 'access.no')}</span> {answer.reason}</p>
          {!answer.allowed && <Proposal answer={answer} namespace={namespace} />}
        </div>
      )}
    </section>
  )
}

/** The least role that would permit what was denied. */
function Proposal({ answer, namespace }: { answer: Answer; namespace: string }) {
  const [shown, setShown] = useState(false)
  if (!shown) return <button onClick={() => setShown(true)}>{t('access.propose')}</button>
  const whole = answer.resource?.namespaced === false
  const [plural = '', subresource = ''] = answer.kind.split('/')
  const resource = (answer.resource?.resource ?? plural.split('.')[0]) + (subresource ? `/${subresource}` : '')
  const role = `${answer.verb}-${resource.replace('/', '-')}`
  const meta = [`  name: ${role}`, ...(whole ? [] : [`  namespace: ${JSON.stringify(namespace)}`])]
  const account = /^system:serviceaccount:([^:]+):(.+)$/.exec(answer.user)
  const subject = account ? [`- kind: ServiceAccount`, `  name: ${JSON.stringify(account[2])}`, `  namespace: ${JSON.stringify(account[1])}`] : [`- kind: User`, `  name: ${JSON.stringify(answer.user)}`, '  apiGroup: rbac.authorization.k8s.io']
  const text = [
    'apiVersion: rbac.authorization.k8s.io/v1', `kind: ${whole ? 'ClusterRole' : 'Role'}`, 'metadata:', ...meta, 'rules:',
    `- apiGroups: [${JSON.stringify(answer.resource?.group ?? '')}]`, `  resources: [${resource}]`, ...(answer.name ? [`  resourceNames: [${JSON.stringify(answer.name)}]`] : []), `  verbs: [${answer.verb}]`,
    '---', 'apiVersion: rbac.authorization.k8s.io/v1', `kind: ${whole ? 'ClusterRoleBinding' : 'RoleBinding'}`, 'metadata:', ...meta,
    'roleRef:', '  apiGroup: rbac.authorization.k8s.io', `  kind: ${whole ? 'ClusterRole' : 'Role'}`, `  name: ${role}`, 'subjects:', ...subject,
  ].join('\n')
  return <pre class="proposal" tabIndex={0} aria-label={t('access.propose')}>{text}</pre>
}

const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete']

/** What the user is permitted to do with each kind in a namespace. */
function Matrix({ namespace }: { namespace: string }) {
  const [rules, setRules] = useState<{ resourceRules: Rule[]; incomplete: boolean } | null>(null)
  const [error, setError] = useState('')
  useEffect(() => {
    setRules(null)
    post<{ status: { resourceRules: Rule[]; incomplete: boolean } }>(`${api.review}/selfsubjectrulesreviews`, {
      apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace },
    }).then(r => setRules(r.status), e => setError(t('error', { message: e.message })))
  }, [namespace])
  const rows = useMemo(() => resources.value.map(r => ({ r, may: verbs.map(v => permits(rules?.resourceRules ?? [], r, v)) })).filter(row => row.may.some(Boolean)), [rules, resources.value])
  return (
    <section aria-labelledby="matrix">
      <h2 id="matrix">{t('access.matrix', { namespace })}</h2>
      {error && <p class="error" role="alert">{error}</p>}
      {!rules && !error && <p class="quiet">{t('loading')}</p>}
      {rules && (
        <div class="sheet" tabIndex={0} role="region" aria-labelledby="matrix">
          <table class="plain matrix">
            <thead><tr><th>{t('access.kind')}</th>{verbs.map(v => <th key={v}>{v}</th>)}</tr></thead>
            <tbody>
              {rows.map(({ r, may }) => (
                <tr key={keyOf(r)}>
                  <th scope="row">{keyOf(r)}</th>
                  {may.map((how, i) => <td key={verbs[i]}>{how === 'all' ? <span class="good">●<span class="hidden">{t('access.yes')}</span></span> : how === 'some' ? <span title={t('access.some')}>◐<span class="hidden">{t('access.some')}</span></span> : ''}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rules?.incomplete && <p class="note">{t('access.incomplete')}</p>}
    </section>
  )
}

/** Whether rules permit a verb on all objects of a kind, or on some by their names. */
function permits(rules: Rule[], r: Resource, verb: string): 'all' | 'some' | '' {
  const has = (list: string[] | undefined, value: string) => list?.includes(value) || list?.includes('*')
  const fitting = rules.filter(rule => has(rule.verbs, verb) && has(rule.apiGroups, r.group) && has(rule.resources, r.resource))
  if (fitting.some(rule => !rule.resourceNames?.length)) return 'all'
  return fitting.length ? 'some' : ''
}
