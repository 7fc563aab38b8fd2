// What can be done with an object, by its kind: scale, restart, suspend, cordon, delete.
import { useEffect, useState } from 'preact/hooks'
import { keyOf, pathOf, request, type KubeObject, type Resource } from './api'
import { DependentList, dependentsOf, type Dependent } from './dependents'
import { Dialog } from './dialog'
import { manager } from './managed'
import { go, hrefOf } from './route'
import { say } from './store'
import { t } from './text'

async function patch(resource: Resource, object: KubeObject, body: unknown, subresource = ''): Promise<void> {
  await request(`${pathOf(resource, object.metadata.namespace, object.metadata.name)}${subresource}?fieldManager=${manager}`, {
    method: 'PATCH', headers: { 'Content-Type': 'application/merge-patch+json' }, body: JSON.stringify(body),
  })
}

export function Actions({ resource, object }: { resource: Resource; object: KubeObject }) {
  const [dialog, setDialog] = useState<'scale' | 'delete' | null>(null)
  const key = keyOf(resource)
  const act = (body: unknown, done: string) => void patch(resource, object, body).then(() => say(done), e => say(t('error', { message: e.message })))
  const may = (verb: string) => resource.verbs.includes(verb)
  const suspended = object.spec?.suspend === true
  const cordoned = object.spec?.unschedulable === true
  return (
    <div class="actions">
      {may('patch') && resource.subresources.includes('scale') && <button onClick={() => setDialog('scale')}>{t('scale')}</button>}
      {may('patch') && ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps'].includes(key) && (
        <button onClick={() => act({ spec: { template: { metadata: { annotations: { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() } } } } }, t('restarted'))}>{t('restart')}</button>
      )}
      {may('patch') && ['cronjobs.batch', 'jobs.batch'].includes(key) && (
        <button onClick={() => act({ spec: { suspend: !suspended } }, t('applied'))}>{t(suspended ? 'resume' : 'suspend')}</button>
      )}
      {may('patch') && key === 'nodes' && <button onClick={() => act({ spec: { unschedulable: cordoned ? null : true } }, t('applied'))}>{t(cordoned ? 'uncordon' : 'cordon')}</button>}
      {may('create') && <button onClick={() => go(`${hrefOf(resource)}?${new URLSearchParams({ ns: object.metadata.namespace ?? '', new: '1', from: object.metadata.name })}`)}>{t('copy')}</button>}
      {may('delete') && <button class="danger" onClick={() => setDialog('delete')}>{t('delete')}</button>}
      {dialog === 'scale' && <Scale resource={resource} object={object} close={() => setDialog(null)} />}
      {dialog === 'delete' && <Delete resource={resource} object={object} close={() => setDialog(null)} />}
    </div>
  )
}

function Scale({ resource, object, close }: { resource: Resource; object: KubeObject; close: () => void }) {
  const [replicas, setReplicas] = useState(String(object.spec?.replicas ?? 1))
  const [error, setError] = useState('')
  const send = () => void patch(resource, object, { spec: { replicas: Number(replicas) } }, '/scale').then(() => { say(t('applied')); close() }, e => setError(e.message))
  return (
    <Dialog title={`${t('scale')} ${object.metadata.name}`} close={close}>
      <form onSubmit={e => { e.preventDefault(); send() }}>
        <label>{t('scale.to')}<input type="number" min="0" required value={replicas} onInput={e => setReplicas(e.currentTarget.value)} autofocus /></label>
        {error && <p class="error" role="alert">{t('error', { message: error })}</p>}
        <div class="buttons"><button type="button" onClick={close}>{t('cancel')}</button><button class="primary">{t('scale')}</button></div>
      </form>
    </Dialog>
  )
}

const policies = ['Background', 'Foreground', 'Orphan'] as const

function Delete({ resource, object, close }: { resource: Resource; object: KubeObject; close: () => void }) {
  const [along, setAlong] = useState<Dependent[] | null>(null)
  const [policy, setPolicy] = useState<(typeof policies)[number]>('Background')
  const [error, setError] = useState('')
  useEffect(() => {
    const ending = new AbortController()
    void dependentsOf(object, ending.signal).then(r => { if (!ending.signal.aborted) setAlong(r.found) })
    return () => ending.abort()
  }, [])
  const send = () => void request(pathOf(resource, object.metadata.namespace, object.metadata.name), {
    method: 'DELETE', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: policy, preconditions: { uid: object.metadata.uid } }),
  }).then(() => { say(t('deleted', { name: object.metadata.name })); close() }, e => setError(e.message))
  return (
    <Dialog title={t('delete.title', { kind: resource.kind, name: object.metadata.name })} close={close}>
      {!along && <p class="quiet">{t('loading')}</p>}
      {along && <p>{t(along.length ? 'delete.along' : 'delete.alone')}</p>}
      {along && <div class="scroll"><DependentList all={along} /></div>}
      <select aria-label={t('dependents')} value={policy} onChange={e => setPolicy(e.currentTarget.value as typeof policy)}>
        {policies.map(p => <option key={p} value={p}>{t(`delete.${p}`)}</option>)}
      </select>
      {error && <p class="error" role="alert">{t('error', { message: error })}</p>}
      <div class="buttons"><button onClick={close} autofocus>{t('cancel')}</button><button class="danger" onClick={send}>{t('delete')}</button></div>
    </Dialog>
  )
}
