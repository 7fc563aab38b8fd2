// One object: what is wrong with it, its conditions, its relations, its text, and what can be done with it.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Actions } from './actions'
import { ApiError, get, keyOf, pathOf, pause, watch, type KubeObject, type List, type Resource } from './api'
import { Dependents } from './dependents'
import { EditView } from './edit'
import { lazy } from './lazy'
import { LogsOfPods, LogsView } from './logs'
import { pathsOf } from './managed'
import { Measured } from './measured'
import { selectsPods } from './pods'
import { Ports } from './ports'
import { isProblem, problemsOf } from './problems'
import { hrefOf, parameter, set } from './route'
import { byKey, kindOf } from './store'
import { age, instant, number, t, type Key } from './text'

type Tab = 'details' | 'yaml' | 'schema' | 'graph' | 'time' | 'logs' | 'terminal' | 'events' | 'fields'
const tabsOf = (r: Resource): Tab[] => [
  'details', 'yaml', ...(keyOf(r) === 'customresourcedefinitions.apiextensions.k8s.io' ? (['schema'] as const) : []), ...(r.namespaced || keyOf(r) === 'namespaces' ? (['graph'] as const) : []), ...(r.verbs.includes('watch') ? (['time'] as const) : []), ...(keyOf(r) === 'pods' ? (['logs', 'terminal'] as const) : []), ...(selectsPods(r) ? (['logs'] as const) : []), 'events', 'fields',
]

/** Views with large libraries are loaded when they are shown. */
const GraphView = lazy(() => import('./graph').then(m => m.GraphView))
const DefinitionView = lazy(() => import('./definition').then(m => m.DefinitionView))
const TerminalView = lazy(() => import('./terminal').then(m => m.TerminalView))
const TimeView = lazy(() => import('./time').then(m => m.TimeView))

export interface ObjectProps { resource: Resource; namespace: string; name: string }

/** Follows one object. The last state stays when it is deleted. */
function useObject({ resource, namespace, name }: ObjectProps) {
  const [object, setObject] = useState<KubeObject | null>(null)
  const [error, setError] = useState<Error | null>(null)
  const [gone, setGone] = useState(false)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    const run = async () => {
      while (!signal.aborted) {
        try {
          const found = await get<KubeObject>(pathOf(resource, namespace, name), undefined, signal)
          setObject(found)
          setGone(false)
          setError(null)
          const query = new URLSearchParams({ watch: '1', fieldSelector: `metadata.name=${name}`, resourceVersion: found.metadata.resourceVersion })
          if (!resource.verbs.includes('watch')) return
          await watch<KubeObject>(`${pathOf(resource, namespace)}?${query}`, 'application/json', signal, e => {
            if (e.type === 'DELETED') setGone(true)
            else if (e.type !== 'BOOKMARK') { setObject(e.object); setGone(false) }
          })
        } catch (e) {
          if (signal.aborted) return
          const code = (e as ApiError).code
          if (code === 404) setGone(true)
          if (code !== 410) setError(e as Error)
          if (code === 401 || code === 403 || code === 404) return
        }
        await pause(2000, signal)
      }
    }
    void run()
    return () => ending.abort()
  }, [resource.group, resource.version, resource.resource, namespace, name])
  return { object, error, gone }
}

export function ObjectView(props: ObjectProps) {
  const { resource, namespace, name } = props
  const { object, error, gone } = useObject(props)
  const tabs = tabsOf(resource)
  const wanted = parameter('tab') as Tab
  const tab = tabs.includes(wanted) ? wanted : 'details'
  const at = useRef<HTMLDivElement>(null)
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0
    if (!step) return
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]!
    set({ tab: next === 'details' ? '' : next, q: '', at: '', version: '' })
    requestAnimationFrame(() => at.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus())
  }
  const problems = object ? problemsOf({ ...object, kind: resource.kind }) : []
  return (
    <div class="object">
      <a class="back" href={hrefOf(resource, namespace)}>‹ {resource.kind}</a>
      <div class="title">
        <h1>{name}</h1>
        {namespace && <span class="quiet">{namespace}</span>}
        {object && <span class="quiet" title={instant(object.metadata.creationTimestamp)}>{t('age', { age: age(object.metadata.creationTimestamp) })}</span>}
        {object && !gone && <Actions resource={resource} object={object} />}
      </div>
      {gone && <p class="error" role="alert">{t('gone')}</p>}
      {error && !gone && <p class="error" role="alert">{t('error', { message: error.message })}</p>}
      {!gone && problems.length > 0 && <ul class="banner">{problems.map(p => <li key={p}>{p}</li>)}</ul>}
      {!object && !error && <p class="quiet">{t('loading')}</p>}
      {object && (
        <>
          <div class="tabs" role="tablist" ref={at} onKeyDown={onKey}>
            {tabs.map(one => (
              <button key={one} role="tab" id={`tab-${one}`} aria-controls="panel" aria-selected={one === tab} tabIndex={one === tab ? 0 : -1} onClick={() => set({ tab: one === 'details' ? '' : one, q: '', at: '', version: '' })}>{t(one as Key)}</button>
            ))}
          </div>
          <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
            {tab === 'details' && <Details resource={resource} object={object} />}
            {tab === 'yaml' && <EditView resource={resource} object={object} />}
            {tab === 'schema' && <DefinitionView resource={resource} object={object} />}
            {tab === 'graph' && <GraphView resource={resource} object={object} />}
            {tab === 'time' && <TimeView resource={resource} object={object} gone={gone} />}
            {tab === 'logs' && (selectsPods(resource) ? <LogsOfPods resource={resource} object={object} /> : <LogsView object={object} />)}
            {tab === 'terminal' && <TerminalView resource={resource} object={object} />}
            {tab === 'events' && <Events object={object} />}
            {tab === 'fields' && <FieldOwners object={object} />}
          </div>
        </>
      )}
    </div>
  )
}

function Details({ resource, object }: { resource: Resource; object: KubeObject }) {
  const m = object.metadata
  const conditions = object.status?.conditions
  return (
    <>
      {Array.isArray(conditions) && conditions.length > 0 && (
        <section aria-labelledby="conditions">
          <h2 id="conditions">{t('conditions')}</h2>
          <table class="plain">
            <thead><tr><th>{t('condition')}</th><th>{t('status')}</th><th>{t('reason')}</th><th>{t('message')}</th><th>{t('since')}</th></tr></thead>
            <tbody>
              {conditions.map(c => (
                <tr key={c.type}>
                  <td>{c.type}</td><td><span class={`state ${isProblem(c) ? 'bad' : 'good'}`}>{c.status}</span></td><td>{c.reason}</td><td class="wrap">{c.message}</td>
                  <td title={instant(c.lastTransitionTime)}>{age(c.lastTransitionTime)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      <Measured resource={resource} object={object} />
      <Ports resource={resource} object={object} />
      <div class="halves">
        <section aria-labelledby="owners">
          <h2 id="owners">{t('owners')}</h2>
          {!m.ownerReferences?.length && <p class="quiet">{t('none')}</p>}
          <ul class="links">
            {m.ownerReferences?.map(o => {
              const r = kindOf(o.apiVersion, o.kind)
              const text = <><span class="tag">{o.kind}</span> {o.name}</>
              return <li key={o.uid}>{r ? <a href={hrefOf(r, r.namespaced ? m.namespace : '', o.name)}>{text}</a> : text}</li>
            })}
          </ul>
        </section>
        <Dependents object={object} />
      </div>
      <div class="halves">
        <Pairs id="labels" pairs={m.labels} href={(k, v) => `${hrefOf(resource, m.namespace)}${m.namespace ? '&' : '?'}l=${encodeURIComponent(`${k}=${v}`)}`} />
        <Pairs id="annotations" pairs={m.annotations} />
      </div>
    </>
  )
}

function Pairs({ id, pairs, href }: { id: 'labels' | 'annotations'; pairs?: Record<string, string>; href?: (key: string, value: string) => string }) {
  const all = Object.entries(pairs ?? {})
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{t(id)}</h2>
      {!all.length && <p class="quiet">{t('none')}</p>}
      <dl>{all.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{href ? <a href={href(k, v)}>{v || '""'}</a> : v}</dd></div>)}</dl>
    </section>
  )
}

interface KubeEvent extends KubeObject { type?: string; reason?: string; message?: string; count?: number; lastTimestamp?: string; eventTime?: string; series?: { count: number; lastObservedTime: string } }

function Events({ object }: { object: KubeObject }) {
  const [events, setEvents] = useState<KubeEvent[] | null>(null)
  const [error, setError] = useState<Error | null>(null)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    const resource = byKey.value.get('events')
    if (!resource) return
    const selector = `fieldSelector=${encodeURIComponent(`involvedObject.uid=${object.metadata.uid}`)}`
    const path = `${pathOf(resource, object.metadata.namespace ?? 'default')}?${selector}`
    const run = async () => {
      while (!signal.aborted) {
        try {
          const list = await get<List<KubeEvent>>(path, undefined, signal)
          const all = new Map(list.items.map(e => [e.metadata.uid, e]))
          const show = () => setEvents([...all.values()].sort((a, b) => lastSeen(b).localeCompare(lastSeen(a))))
          show()
          await watch<KubeEvent>(`${path}&watch=1&resourceVersion=${list.metadata.resourceVersion}`, 'application/json', signal, e => {
            if (e.type === 'DELETED') all.delete(e.object.metadata.uid)
            else if (e.type !== 'BOOKMARK') all.set(e.object.metadata.uid, e.object)
            show()
          })
        } catch (e) {
          if (signal.aborted) return
          setError(e as Error)
          if ((e as ApiError).code === 403) return
        }
        await pause(2000, signal)
      }
    }
    void run()
    return () => ending.abort()
  }, [object.metadata.uid])
  if (error && !events) return <p class="error" role="alert">{t('error', { message: error.message })}</p>
  if (!events) return <p class="quiet">{t('loading')}</p>
  if (!events.length) return <p class="quiet">{t('events.none')}</p>
  return (
    <ul class="events">
      {events.map(e => (
        <li key={e.metadata.uid}>
          <span class={`dot ${e.type === 'Normal' ? 'ADDED' : 'DELETED'}`} aria-hidden="true" />
          <strong>{e.reason}</strong><span class="wrap">{e.message}</span>
          <small>{(e.series?.count ?? e.count ?? 1) > 1 && `${number(e.series?.count ?? e.count ?? 1)}× `}{age(lastSeen(e))}</small>
        </li>
      ))}
    </ul>
  )
}

const lastSeen = (e: KubeEvent) => e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp ?? ''

function FieldOwners({ object }: { object: KubeObject }) {
  const owners = [...(object.metadata.managedFields ?? [])].sort((a, b) => (b.time ?? '').localeCompare(a.time ?? ''))
  return (
    <>
      <p class="quiet">{t('fields.text')}</p>
      {owners.map((o, i) => {
        const paths = pathsOf(o.fieldsV1)
        return (
          <details class="owner" key={i} open={paths.length <= 12}>
            <summary><strong>{o.manager}</strong> <span class="tag">{o.operation}{o.subresource && ` /${o.subresource}`}</span> <small>{t('fields.count', { n: number(paths.length) })} · {age(o.time)}</small></summary>
            <ul>{paths.map(p => <li key={p}><code>{p}</code></li>)}</ul>
          </details>
        )
      })}
    </>
  )
}
