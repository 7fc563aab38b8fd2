// The output of a pod's containers, as it comes.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { pathOf, request, type KubeObject, type Resource } from './api'
import { parameter, set } from './route'
import { number, t } from './text'

const kept = 5000 // lines

interface Line { id: number; container: string; text: string }

export function LogsView({ resource, object }: { resource: Resource; object: KubeObject }) {
  const names = useMemo(() => {
    const spec = object.spec as { initContainers?: { name: string }[]; containers?: { name: string }[]; ephemeralContainers?: { name: string }[] } | undefined
    return [...(spec?.initContainers ?? []), ...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])].map(c => c.name)
  }, [object.metadata.uid])
  const container = parameter('container')
  const previous = parameter('previous') === '1'
  const wanted = parameter('q')
  const [lines, setLines] = useState<Line[]>([])
  const [errors, setErrors] = useState<string[]>([])
  const [follow, setFollow] = useState(true)
  const box = useRef<HTMLPreElement>(null)

  useEffect(() => {
    const ending = new AbortController()
    let all: Line[] = []
    let next = 0
    let frame = 0
    setLines([])
    setErrors([])
    const read = async (name: string) => {
      const query = new URLSearchParams({ container: name, tailLines: '1000', ...(previous ? { previous: 'true' } : { follow: 'true' }) })
      const path = `${pathOf(resource, object.metadata.namespace, object.metadata.name)}/log?${query}`
      const response = await request(path, { signal: ending.signal }, '*/*')
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { done, value } = await reader.read()
        const parts = done ? (rest ? [rest, ''] : ['']) : (rest + value).split('\n')
        rest = parts.pop() ?? ''
        for (const text of parts) all.push({ id: next++, container: name, text })
        if (all.length > kept) all = all.slice(-kept)
        frame = frame || requestAnimationFrame(() => { frame = 0; setLines([...all]) })
        if (done) return
      }
    }
    for (const name of container ? [container] : names) {
      read(name).catch(e => { if (!ending.signal.aborted) setErrors(old => [...old, `${name}: ${e.message}`]) })
    }
    return () => { ending.abort(); cancelAnimationFrame(frame) }
  }, [object.metadata.uid, container, previous, names.join()])

  const shown = wanted ? lines.filter(l => l.text.toLowerCase().includes(wanted.toLowerCase())) : lines
  useEffect(() => { if (follow && box.current) box.current.scrollTop = box.current.scrollHeight }, [shown.length, lines, follow])
  return (
    <>
      <div class="filters">
        <input type="search" aria-label={t('filter')} placeholder={t('filter')} value={wanted} onInput={e => set({ q: e.currentTarget.value })} />
        <select aria-label={t('logs.container')} value={container} onChange={e => set({ container: e.currentTarget.value })}>
          <option value="">{t('logs.all')}</option>
          {names.map(n => <option key={n} value={n}>{n}</option>)}
        </select>
        <label class="check"><input type="checkbox" checked={follow} onChange={e => setFollow(e.currentTarget.checked)} />{t('logs.follow')}</label>
        <label class="check"><input type="checkbox" checked={previous} onChange={e => set({ previous: e.currentTarget.checked ? '1' : '' })} />{t('logs.previous')}</label>
        <span class="quiet">{t('rows', { n: number(shown.length), all: number(lines.length) })}</span>
      </div>
      {errors.map(e => <p key={e} class="error" role="alert">{t('error', { message: e })}</p>)}
      <pre class="logs" ref={box} tabIndex={0} aria-label={t('logs')}>
        {shown.map(l => <div key={l.id}>{names.length > 1 && !container && <span class="tag">{l.container} </span>}{l.text || ' '}</div>)}
      </pre>
    </>
  )
}
