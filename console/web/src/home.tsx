// The overview: is the server healthy, what is wrong, what happens now, what is there.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { asMetadata, asMetadataList, forEachOf, get, keyOf, manyStreams, pathOf, pause, request, watch, type KubeObject, type List, type Resource } from './api'
import { problemsOf } from './problems'
import { hrefOf, parameter, set } from './route'
import { byKey, isCustom, resources } from './store'
import { age, number, t, type Key } from './text'

const examined = 500 // objects of each kind that are searched for problems
const keptChanges = 200
const countedKinds = 200

/** Kinds whose objects have states that can be wrong; custom kinds as well. */
const watched = ['pods', 'nodes', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'replicasets.apps', 'jobs.batch', 'persistentvolumeclaims', 'namespaces',
  'customresourcedefinitions.apiextensions.k8s.io', 'apiservices.apiregistration.k8s.io', 'horizontalpodautoscalers.autoscaling', 'replicationcontrollers',
  'certificatesigningrequests.certificates.k8s.io', 'poddisruptionbudgets.policy']
/** Kinds that change all the time and say nothing. */
const noise = ['leases.coordination.k8s.io', 'endpoints', 'endpointslices.discovery.k8s.io']
/** What is followed if the connection has few streams. */
const few = ['pods', 'deployments.apps', 'events']

interface Problem { key: string; resource: Resource; object: KubeObject; texts: string[] }
interface Change { id: number; at: string; type: Key & ('ADDED' | 'MODIFIED' | 'DELETED'); resource: Resource; object: KubeObject; manager: string }

export function HomeView() {
  const [health, setHealth] = useState<boolean | null>(null)
  const [version, setVersion] = useState('')
  const [user, setUser] = useState('')
  const [counts, setCounts] = useState<Map<string, number>>(new Map())
  const [problems, setProblems] = useState<Map<string, Problem[]> | null>(null)
  const [changes, setChanges] = useState<Change[]>([])
  const [paused, setPaused] = useState(false)
  const pausedNow = useRef(paused)
  pausedNow.current = paused
  const kinds = resources.value
  // The streams start again only if the set of kinds has changed.
  const identity = useMemo(() => kinds.map(keyOf).join(), [kinds])

  useEffect(() => {
    const look = () => { void request('/readyz').then(() => setHealth(true), () => setHealth(false)) }
    look()
    void get<{ gitVersion: string }>('/version').then(v => setVersion(v.gitVersion), () => undefined)
    void request('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
      method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }),
    }).then(r => r.json()).then(r => setUser(r.status.userInfo.username), () => undefined)
    const timer = setInterval(look, 15_000)
    return () => clearInterval(timer)
  }, [])

  useEffect(() => {
    if (!kinds.length) return
    const ending = new AbortController()
    const { signal } = ending
    const found = new Map<string, Problem[]>()
    const numbers = new Map<string, number>()
    let pending: Change[] = []
    let next = 0
    let frame = 0
    const show = () => {
      frame = frame || requestAnimationFrame(() => {
        frame = 0
        setCounts(new Map(numbers))
        if (pending.length && !pausedNow.current) {
          const fresh = pending.reverse()
          pending = []
          setChanges(old => [...fresh, ...old].slice(0, keptChanges))
        }
      })
    }
    const examine = async (r: Resource) => {
      const list = await get<List<KubeObject>>(`${pathOf(r)}?limit=${examined}`, undefined, signal)
      const kind = r.kind
      const wrong = list.items.flatMap(o => {
        const object = { ...o, kind }
        const texts = problemsOf(object)
        return texts.length ? [{ key: object.metadata.uid, resource: r, object, texts }] : []
      })
      wrong.length ? found.set(keyOf(r), wrong) : found.delete(keyOf(r))
    }
    const timers = new Map<string, number>()
    const examineSoon = (r: Resource) => {
      const key = keyOf(r)
      if (timers.has(key)) return
      timers.set(key, window.setTimeout(() => {
        timers.delete(key)
        void examine(r).then(() => setProblems(new Map(found)), () => undefined)
      }, 1500))
    }
    const hasProblems = (r: Resource) => watched.includes(keyOf(r)) || isCustom(r.group)
    const streams = manyStreams()
    /** Counts the objects of a kind, and returns the revision at which there are that many. */
    const count = async (r: Resource) => {
      const list = await get<List<KubeObject>>(`${pathOf(r)}?limit=1`, asMetadataList, signal)
      numbers.set(keyOf(r), list.items.length + (list.metadata.remainingItemCount ?? 0))
      show()
      return list.metadata.resourceVersion
    }
    const follow = async (r: Resource) => {
      while (!signal.aborted) {
        try {
          const revision = await count(r)
          if (!r.verbs.includes('watch') || noise.includes(keyOf(r))) return
          await watch<KubeObject>(`${pathOf(r)}?watch=1&resourceVersion=${revision}`, asMetadata, signal, e => {
            if (e.type === 'BOOKMARK') return
            if (e.type !== 'MODIFIED') numbers.set(keyOf(r), Math.max(0, (numbers.get(keyOf(r)) ?? 0) + (e.type === 'ADDED' ? 1 : -1)))
            pending.push({ id: next++, at: new Date().toISOString(), type: e.type as Change['type'], resource: r, object: e.object, manager: lastManager(e.object) })
            if (pending.length > keptChanges) pending.shift()
            if (hasProblems(r)) examineSoon(r)
            show()
          })
        } catch (e) {
          if ((e as { code?: number }).code === 403 || (e as { code?: number }).code === 405) return // not permitted
        }
        await pause(3000, signal)
      }
    }
    const counted = [...kinds].sort((a, b) => Number(few.includes(keyOf(b))) - Number(few.includes(keyOf(a)))).slice(0, countedKinds)
    void forEachOf(kinds.filter(hasProblems).slice(0, 60), 4, r => examine(r).catch(() => undefined)).then(() => { if (!signal.aborted) setProblems(new Map(found)) })
    if (streams) counted.forEach(r => void follow(r))
    else {
      counted.filter(r => few.includes(keyOf(r))).forEach(r => void follow(r))
      // Once: a kind that cannot be counted now must not keep others waiting.
      void forEachOf(counted.filter(r => !few.includes(keyOf(r))), 2, r => count(r).then(() => undefined, () => undefined))
    }
    const poll = streams ? 0 : window.setInterval(() => { if (!document.hidden) kinds.filter(hasProblems).slice(0, 15).forEach(examineSoon) }, 15_000)
    return () => {
      ending.abort()
      cancelAnimationFrame(frame)
      clearInterval(poll)
      for (const timer of timers.values()) clearTimeout(timer)
    }
  }, [identity])

  const all = problems && [...problems.values()].flat()
  const text = parameter('q').toLowerCase()
  const shown = changes.filter(c => !text || `${c.resource.kind} ${c.object.metadata.namespace ?? ''}/${c.object.metadata.name} ${c.manager} ${t(c.type)}`.toLowerCase().includes(text))
  const present = [...counts].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1])
  return (
    <div class="home">
      <div class="title">
        <h1>{t('home')}</h1>
        <span class={`state ${health === false ? 'bad' : health ? 'good' : ''}`}>{health === null ? t('loading') : t(health ? 'healthy' : 'unhealthy')}</span>
        <span class="quiet">{version && t('server', { version })}</span>
        <span class="quiet">{user && t('as', { user })}</span>
      </div>
      <section aria-labelledby="problems">
        <h2 id="problems">{t('problems')}{all && all.length > 0 && <b class="count">{number(all.length)}</b>}</h2>
        {!all && <p class="quiet">{t('problems.checking')}</p>}
        {all && !all.length && <p class="quiet good">✓ {t('problems.none')}</p>}
        {all && all.length > 0 && (
          <ul class="problems">
            {all.slice(0, 100).map(p => (
              <li key={p.key}>
                <a href={hrefOf(p.resource, p.object.metadata.namespace, p.object.metadata.name)}>
                  <span class="tag">{p.resource.kind}</span>
                  <strong>{p.object.metadata.namespace ? `${p.object.metadata.namespace}/` : ''}{p.object.metadata.name}</strong>
                  <span class="why">{p.texts[0]}</span>
                  <small>{age(p.object.metadata.creationTimestamp)}</small>
                </a>
              </li>
            ))}
          </ul>
        )}
        <p class="note">{t('problems.note', { n: number(examined) })}</p>
      </section>
      <div class="halves">
        <section aria-labelledby="changes">
          <div class="title">
            <h2 id="changes">{t('changes')}</h2>
            <input type="search" aria-label={t('changes.filter')} placeholder={t('changes.filter')} value={parameter('q')} onInput={e => set({ q: e.currentTarget.value })} />
            <button onClick={() => setPaused(!paused)} aria-pressed={paused}>{t(paused ? 'changes.resume' : 'changes.pause')}</button>
          </div>
          {!shown.length && <p class="quiet">{t('changes.none')}</p>}
          <ul class="changes" aria-live="off">
            {shown.map(c => (
              <li key={c.id}>
                <a href={hrefOf(c.resource, c.object.metadata.namespace, c.object.metadata.name)}>
                  <span class={`dot ${c.type}`} aria-hidden="true" />
                  <span class="what"><span class="tag">{c.resource.kind}</span> {c.object.metadata.namespace ? `${c.object.metadata.namespace}/` : ''}<strong>{c.object.metadata.name}</strong></span>
                  <small>{t(c.type)}{c.manager && ` ${t('by', { manager: c.manager })}`}</small>
                  <small>{age(c.at)}</small>
                </a>
              </li>
            ))}
          </ul>
          {!manyStreams() && <p class="note">{t('changes.few', { kinds: few.map(k => byKey.value.get(k)?.kind ?? k).join(', ') })}</p>}
        </section>
        <section aria-labelledby="counts">
          <h2 id="counts">{t('counts')}</h2>
          <ul class="counts">
            {present.map(([key, n]) => {
              const r = byKey.value.get(key)
              return r && <li key={key}><a href={hrefOf(r)}><span>{r.kind}</span><b>{number(n)}</b></a></li>
            })}
          </ul>
          {kinds.length > countedKinds && <p class="note">{t('counts.more', { n: number(kinds.length - countedKinds) })}</p>}
        </section>
      </div>
    </div>
  )
}

/** Returns the manager of the newest managed fields. */
function lastManager(o: KubeObject): string {
  let newest = { manager: '', time: '' }
  for (const f of o.metadata.managedFields ?? []) if ((f.time ?? '') >= newest.time) newest = { manager: f.manager, time: f.time ?? '' }
  return newest.manager
}
