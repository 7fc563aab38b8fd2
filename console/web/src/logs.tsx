// The output of containers, as it comes: of one pod, or of all that an object selects.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { manyStreams, request, type KubeObject, type Resource } from './api'
import { selectorOf, usePods } from './pods'
import { parameter, set } from './route'
import { number, t } from './text'

const kept = 5000 // lines
const tail = 1000 // lines of the past, of all containers together

interface Line { id: number; source: Source; text: string }

/** A container of a pod. A new run of it is another source. */
interface Source { key: string; namespace: string; pod: string; container: string }

const containersOf = (pod: KubeObject): string[] => {
  const spec = pod.spec as { initContainers?: { name: string }[]; containers?: { name: string }[]; ephemeralContainers?: { name: string }[] } | undefined
  return [...(spec?.initContainers ?? []), ...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])].map(c => c.name)
}

/** Returns the containers that have output: those that have started. */
function sourcesOf(pod: KubeObject, previous: boolean): Source[] {
  const { name, namespace = '', uid } = pod.metadata
  type Status = { name: string; restartCount: number; state?: { waiting?: unknown } }
  const status = pod.status as { initContainerStatuses?: Status[]; containerStatuses?: Status[]; ephemeralContainerStatuses?: Status[] } | undefined
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? []), ...(status?.ephemeralContainerStatuses ?? [])]
  return all.filter(s => (previous ? s.restartCount > 0 : !s.state?.waiting || s.restartCount > 0))
    .map(s => ({ key: `${uid} ${s.name} ${s.restartCount}`, namespace, pod: name, container: s.name }))
}

export const LogsView = ({ object }: { object: KubeObject }) => <Logs pods={[object]} />

/** The logs of the pods that an object selects. Pods that appear later are added. */
export function LogsOfPods({ resource, object }: { resource: Resource; object: KubeObject }) {
  const { pods, error } = usePods(object.metadata.namespace ?? '', selectorOf(resource, object))
  return (
    <>
      {error && <p class="error" role="alert">{t('error', { message: error.message })}</p>}
      <Logs pods={pods} several />
    </>
  )
}

function Logs({ pods, several = false }: { pods: KubeObject[]; several?: boolean }) {
  const pod = several ? parameter('pod') : ''
  const container = parameter('container')
  const previous = parameter('previous') === '1'
  const wanted = parameter('q')
  const [lines, setLines] = useState<Line[]>([])
  const [errors, setErrors] = useState<string[]>([])
  const [follow, setFollow] = useState(true)
  const box = useRef<HTMLPreElement>(null)
  const reading = useRef(new Map<string, AbortController>())
  const all = useRef<Line[]>([])
  const next = useRef(0)
  const frame = useRef(0)

  const names = useMemo(() => [...new Set(pods.flatMap(containersOf))], [pods])
  const chosen = pods.filter(p => !pod || p.metadata.name === pod).flatMap(p => sourcesOf(p, previous)).filter(s => !container || s.container === container)
  // The page needs other connections besides, and a server has 100 streams for each.
  const sources = chosen.slice(0, manyStreams() ? 50 : 3)

  const read = async (source: Source, lines: number, signal: AbortSignal) => {
    const query = new URLSearchParams({ container: source.container, tailLines: String(lines), ...(previous ? { previous: 'true' } : { follow: 'true' }) })
    const path = `/api/v1/namespaces/${encodeURIComponent(source.namespace)}/pods/${encodeURIComponent(source.pod)}/log?${query}`
    const response = await request(path, { signal }, '*/*')
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (signal.aborted) return
      const parts = done ? (rest ? [rest, ''] : ['']) : (rest + value).split('\n')
      rest = parts.pop() ?? ''
      for (const text of parts) all.current.push({ id: next.current++, source, text })
      if (all.current.length > kept) all.current = all.current.slice(-kept)
      frame.current = frame.current || requestAnimationFrame(() => { frame.current = 0; setLines([...all.current]) })
      if (done) return
    }
  }

  useEffect(() => {
    all.current = []
    setLines([])
    setErrors([])
    return () => {
      for (const ending of reading.current.values()) ending.abort()
      reading.current.clear()
      cancelAnimationFrame(frame.current)
      frame.current = 0
    }
  }, [pod, container, previous])
  useEffect(() => {
    const more = sources.filter(s => !reading.current.has(s.key))
    for (const source of more) {
      const ending = new AbortController()
      reading.current.set(source.key, ending)
      read(source, Math.ceil(tail / sources.length), ending.signal).catch(e => {
        if (!ending.signal.aborted) setErrors(old => [...old, `${source.pod} ${source.container}: ${e.message}`])
      })
    }
  }, [sources.map(s => s.key).join(), pod, container, previous])

  const shown = wanted ? lines.filter(l => l.text.toLowerCase().includes(wanted.toLowerCase())) : lines
  useEffect(() => { if (follow && box.current) box.current.scrollTop = box.current.scrollHeight }, [shown.length, lines, follow])
  const label = (s: Source) => [several && !pod && s.pod, names.length > 1 && !container && s.container].filter(Boolean).join(' ')
  return (
    <>
      <div class="filters">
        <input type="search" aria-label={t('filter')} placeholder={t('filter')} value={wanted} onInput={e => set({ q: e.currentTarget.value })} />
        {several && (
          <select aria-label={t('logs.pod')} value={pod} onChange={e => set({ pod: e.currentTarget.value })}>
            <option value="">{t('logs.pods')}</option>
            {[...new Set([...pods.map(p => p.metadata.name), ...(pod ? [pod] : [])])].map(n => <option key={n} value={n}>{n}</option>)}
          </select>
        )}
        <select aria-label={t('logs.container')} value={container} onChange={e => set({ container: e.currentTarget.value })}>
          <option value="">{t('logs.all')}</option>
          {names.map(n => <option key={n} value={n}>{n}</option>)}
        </select>
        <label class="check"><input type="checkbox" checked={follow} onChange={e => setFollow(e.currentTarget.checked)} />{t('logs.follow')}</label>
        <label class="check"><input type="checkbox" checked={previous} onChange={e => set({ previous: e.currentTarget.checked ? '1' : '' })} />{t('logs.previous')}</label>
        <span class="quiet">{t('rows', { n: number(shown.length), all: number(lines.length) })}</span>
      </div>
      {errors.map(e => <p key={e} class="error" role="alert">{t('error', { message: e })}</p>)}
      {chosen.length > sources.length && <p class="quiet" role="status">{t('logs.some', { n: number(sources.length), all: number(chosen.length) })}</p>}
      {chosen.length === 0 && <p class="quiet">{t('logs.none')}</p>}
      <pre class="logs" ref={box} tabIndex={0} aria-label={t('logs')}>
        {shown.map(l => <div key={l.id}>{label(l.source) && <span class="tag">{label(l.source)} </span>}{l.text || ' '}</div>)}
      </pre>
    </>
  )
}
