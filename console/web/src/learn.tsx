// A tour of the API: each step shows a request before it runs it, what came back, and what changed.
// The address has the name and the step of the tour; what it has made is read from the server.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, pause, request, watch, type Json, type KubeObject } from './api'
import { plain } from './changes'
import { Copyable } from './copyable'
import { toYaml } from './document'
import { changed } from './history'
import { hrefOf, learn, parameter, set } from './route'
import { byKey, discoveryError, loadKinds, resources } from './store'
import { cake, definitionOf, isServed, isTour, kindsOf, madeBy, missingFor, newTour, steps, toursOf, type Call, type Made, type Right, type Step, type StepName } from './tour'
import { number, t } from './text'

const hrefOfStep = (id: string, name: StepName) => `${learn}?tour=${id}&step=${name}`

export function LearnView() {
  const id = parameter('tour')
  useEffect(() => { if (!isTour(id)) set({ tour: newTour() }) }, [id])
  const unread = !resources.value.length && discoveryError.value
  if (unread) return <p class="error" role="alert">{t('error', { message: unread.message })}</p>
  return isTour(id) && resources.value.length ? <Tour key={id} id={id} /> : <p class="quiet">{t('loading')}</p>
}

function Tour({ id }: { id: string }) {
  const withHistory = byKey.value.has('revisions.history.kapok.dev')
  const all = steps.filter(s => s.name !== 'time' || withHistory)
  const at = Math.max(0, all.findIndex(s => s.name === parameter('step')))
  const step = all[at]!
  const [made, setMade] = useState<Made | null>(null)
  const [taken, setTaken] = useState<StepName[]>([]) // of those that make nothing
  const [error, setError] = useState('')
  const last = useRef(0)
  const load = async () => {
    const own = ++last.current
    const [found, wrong] = await madeBy(id, withHistory).then(m => [m, ''] as const, e => [null, t('error', { message: e.message })] as const)
    if (own !== last.current) return // a later one has the state of later
    setError(wrong)
    if (found) setMade(found)
  }
  useEffect(() => {
    void load()
    return () => { last.current++ }
  }, [])

  // Deletions take their time.
  const going = made !== null && [made.namespace, made.definition].some(o => o?.metadata.deletionTimestamp)
  useEffect(() => {
    if (!going) return
    const ending = new AbortController()
    void (async () => {
      for (;;) {
        await pause(500, ending.signal)
        if (ending.signal.aborted) return
        await load()
      }
    })()
    return () => { ending.abort(); void loadKinds() }
  }, [going])

  const isDone = (s: Step) => (s.exists ? made !== null && s.exists(made) : taken.includes(s.name))
  return (
    <div class="learn">
      <div class="title">
        <h1>{t('learn')}</h1>
        <span class="quiet">{id}</span>
        {made && (made.namespace || made.definition) && step.name !== 'end' && <a class="last" href={hrefOfStep(id, 'end')}>{t('learn.finish')}</a>}
      </div>
      <p class="quiet">{t('learn.intro')}</p>
      <Others id={id} />
      <div role="navigation" aria-label={t('learn.steps')}>
        <ol class="steps">
          {all.map((s, i) => (
            <li key={s.name}>
              <a href={hrefOfStep(id, s.name)} aria-current={i === at ? 'step' : undefined}>
                <span class={isDone(s) ? 'good' : ''}>{isDone(s) ? '✓' : number(i + 1)}</span> <span class="what">{t(`learn.${s.name}`)}</span>{isDone(s) && <span class="hidden"> {t('learn.done')}</span>}
              </a>
            </li>
          ))}
        </ol>
      </div>
      {error && <p class="error" role="alert">{error}</p>}
      {!made && !error && <p class="quiet">{t('loading')}</p>}
      {made && <StepView key={step.name} id={id} step={step} place={t('rows', { n: number(at + 1), all: number(all.length) })} made={made} going={going} isMissing={name => !isDone(steps.find(s => s.name === name)!)} load={load}
        done={async ok => { if (ok) setTaken(old => [...old, step.name]); await load() }} />}
      <div class="buttons">
        {at > 0 && <a class="button" href={hrefOfStep(id, all[at - 1]!.name)}>‹ {t(`learn.${all[at - 1]!.name}`)}</a>}
        {at < all.length - 1 && <a class="button" id="next" href={hrefOfStep(id, all[at + 1]!.name)}>{t(`learn.${all[at + 1]!.name}`)} ›</a>}
      </div>
    </div>
  )
}

/** Tours that were left without their end. */
function Others({ id }: { id: string }) {
  const [others, setOthers] = useState<string[]>([])
  useEffect(() => { void toursOf().then(all => setOthers(all.filter(one => one !== id))) }, [])
  if (!others.length) return null
  return <p class="banner">{t('learn.others')} {others.map(one => <a key={one} class="link" href={hrefOfStep(one, 'end')}>{one}</a>)}</p>
}

/** What came back: a status of HTTP, and the text of an object or of an error. */
interface Result { call: Call; code: number; text: string; causes: string[] }

/** Whether a response is what its step is about: an error of the schema in one of them. */
const isExpected = (step: Step, { code }: Result) => (step.name === 'reject' ? code === 422 : code >= 200 && code < 300)

const keyOf = (c: Call) => `${c.method} ${c.path}`
const isWatch = (c: Call) => c.method === 'GET' && /[?&]watch=1(&|$)/.test(c.path)

async function send(call: Call): Promise<Result> {
  try {
    const response = await request(call.path, { method: call.method, ...(call.body ? { body: call.body } : {}), headers: call.headers })
    const body: Json = await response.json()
    const shown = call.part ? call.part(body) : plain(body as { [key: string]: Json })
    return { call, code: response.status, text: toYaml(shown), causes: [] }
  } catch (e) {
    if (!(e instanceof ApiError)) return { call, code: 0, text: String(e), causes: [] }
    return { call, code: e.code, text: e.message, causes: e.causes.map(c => `${c.field ?? ''}: ${c.message ?? ''}`) }
  }
}

interface StepProps { id: string; step: Step; place: string; made: Made; going: boolean; isMissing: (name: StepName) => boolean; load: () => Promise<void>; done: (ok: boolean) => Promise<void> }

function StepView({ id, step, place, made, going, isMissing, load, done }: StepProps) {
  const [results, setResults] = useState<Map<string, Result>>(new Map())
  const [opened, setOpened] = useState<string[]>([])
  const busy = useRef(false)
  const ran = useRef(false)
  const heading = useRef<HTMLHeadingElement>(null)
  const ending = useRef(new AbortController())
  // The first step that is shown does not take the focus from the page.
  useEffect(() => {
    if (document.activeElement?.closest('.learn')) heading.current!.focus()
    return () => ending.current.abort()
  }, [])

  const needed = step.needs.filter(isMissing)
  const events = useEvents(needed.length ? [] : step.follows?.(id) ?? opened)
  useEffect(() => { if (events.length) void load() }, [events.at(-1)?.id]) // a change can be of another client
  const exists = step.exists?.(made) ?? false
  // The button has gone when the step has made what it makes.
  useEffect(() => { if (exists && ran.current && document.activeElement === document.body) document.getElementById('next')?.focus() }, [exists])
  const calls = step.calls(id, made)
  const shown = new Map(calls.map(c => [keyOf(c), c]))
  for (const [key, { call }] of results) shown.set(key, call) // what was sent, not what would be sent now

  const run = async (some: Call[]) => {
    const { signal } = ending.current
    if (busy.current) return
    busy.current = ran.current = true
    const found: [string, Result][] = []
    for (const call of some) found.push([keyOf(call), await send(call)])
    const ok = found.every(([, result]) => isExpected(step, result))
    const whole = some.at(-1) === calls.at(-1)
    if (step.name === 'definition' && ok) {
      for (let i = 0; i < 50 && !signal.aborted && !(await isServed(id)); i++) await pause(200, signal)
      void loadKinds()
    }
    await done(ok && whole)
    setResults(old => new Map([...old, ...found]))
    busy.current = false
  }
  const start = (call: Call) => (isWatch(call) ? setOpened([call.path]) : void run([call]))
  const log = events.length > 0 && <Events events={events} />
  const ends = step.name === 'end'
  const over = ends && !made.namespace && !made.definition
  return (
    <section aria-labelledby="step">
      <h2 id="step" tabIndex={-1} ref={heading}>{t(`learn.${step.name}`)} <small>{place}</small></h2>
      <p>{t(`learn.${step.name}.text`, { id })}</p>
      {[...shown].map(([key, call]) => (
        <div class="call" key={key}>
          <div><h3>kubectl</h3><Copyable text={call.kubectl} /></div>
          <div><h3>HTTP</h3><Copyable text={call.http} /></div>
          {!ends && !exists && !opened.includes(call.path) && <Start id={id} calls={[call]} needed={needed} text={t('learn.run')} start={() => start(call)} />}
          {opened.includes(call.path) && <p class="quiet" role="status">{t('learn.open')}</p>}
          {opened.includes(call.path) && log}
          <Outcome result={results.get(key)} />
        </div>
      ))}
      {ends && calls.length > 0 && <Start id={id} calls={calls} needed={needed} text={t('learn.finish')} start={() => void run(calls)} />}
      <div role="status">
        {exists && <p class="good">✓ {t('learn.exists')}</p>}
        {going && <p class="quiet">{t('learn.going')}</p>}
        {over && <p class="good">✓ {t(made.unreadable ? 'learn.goneReadable' : 'learn.gone', { id })}</p>}
      </div>
      {over && <a class="button" href={learn}>{t('learn.again')}</a>}
      {!opened.length && log}
      <Links id={id} step={step.name} made={made} />
    </section>
  )
}

/** The button that runs requests, or what is missing for it. */
function Start({ id, calls, needed, text, start }: { id: string; calls: Call[]; needed: StepName[]; text: string; start: () => void }) {
  const [missing, setMissing] = useState<Right[] | null>(null)
  useEffect(() => {
    let closed = false
    void Promise.all(calls.map(missingFor)).then(found => { if (!closed) setMissing(found.filter(r => r !== null)) })
    return () => { closed = true }
  }, [calls.map(keyOf).join()])
  if (missing?.length) {
    return (
      <div class="banner" role="status">
        <p>{t('learn.missing')}</p>
        <ul>{missing.map(r => <li key={r.line}><strong>{r.verb} {r.resource}</strong>{r.namespace && ` · ${t('namespace')} ${r.namespace}`}<br /><code>{r.line}</code></li>)}</ul>
      </div>
    )
  }
  if (needed.length) return <p class="quiet">{t('learn.needs')} {needed.map(name => <a key={name} class="link" href={hrefOfStep(id, name)}>{t(`learn.${name}`)}</a>)}</p>
  return <button class="primary" disabled={!missing} onClick={start}>{text}</button>
}

function Outcome({ result }: { result: Result | undefined }) {
  const failed = result !== undefined && (result.code === 0 || result.code >= 400)
  return (
    <>
      <div role="status">
        {result && <p class={failed ? 'error' : 'good'}>{t('learn.status', { code: result.code })}{failed && ` ${result.text}`}</p>}
        {result && result.causes.length > 0 && <ul class="links">{result.causes.map(c => <li key={c}><code>{c}</code></li>)}</ul>}
      </div>
      {result && !failed && <pre class="response" tabIndex={0} role="region" aria-label={t('learn.response')}>{result.text}</pre>}
    </>
  )
}

interface Seen { id: number; type: string; object: KubeObject; paths: string[] }

/** Follows watches, each of which is open as long as the step is shown. */
function useEvents(paths: string[]): Seen[] {
  const [events, setEvents] = useState<Seen[]>([])
  useEffect(() => {
    const ending = new AbortController()
    const before = new Map<string, KubeObject>()
    let next = 0
    setEvents([])
    for (const path of paths) {
      // Without permission there are no events; the step itself shows what is missing.
      watch<KubeObject>(path, 'application/json', ending.signal, ({ type, object }) => {
        if (type === 'BOOKMARK' || ending.signal.aborted) return
        const { uid } = object.metadata
        const seen: Seen = { id: next++, type, object, paths: type === 'MODIFIED' ? changed(before.get(uid) as Json | undefined, object as unknown as Json) : [] }
        before.set(uid, object)
        setEvents(old => [...old, seen].slice(-50))
      }).catch(() => undefined)
    }
    return () => ending.abort()
  }, [paths.join()])
  return events
}

function Events({ events }: { events: Seen[] }) {
  return (
    <div role="log" aria-labelledby="events">
      <h3 id="events">{t('learn.events')}</h3>
      <ul class="seen">
        {events.map(e => (
          <li key={e.id}>
            <span class={`dot ${e.type}`} aria-hidden="true" />
            <span><code>{e.type}</code> {e.object.kind} <strong>{e.object.metadata.name}</strong> <small>{e.object.metadata.resourceVersion}</small></span>
            <span>{e.paths.slice(0, 6).map(p => <code key={p}>{p} </code>)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

/** The same objects in the other views. */
function Links({ id, step, made }: { id: string; step: StepName; made: Made }) {
  const { namespaces, definitions, cakes } = kindsOf(id)
  const namespace = hrefOf(namespaces, '', id)
  const definition = hrefOf(definitions, '', definitionOf(id))
  const object = hrefOf(cakes, id, cake)
  const ofCake: [string, string][] = made.cake ? [[cake, object], [t('yaml'), `${object}&tab=yaml`], [t('time'), `${object}&tab=time`]] : []
  const ofDefinition: [string, string][] = made.definition ? [['Cake', definition], [t('schema'), `${definition}?tab=schema`]] : []
  const all: Record<StepName, [string, string][]> = {
    namespace: made.namespace ? [[id, namespace], [t('graph'), `${namespace}?tab=graph`]] : [],
    definition: ofDefinition, reject: ofDefinition, explain: ofDefinition, object: ofCake, watch: ofCake, time: ofCake, end: [],
  }
  if (!all[step].length) return null
  return <p class="quiet">{t('learn.links')} {all[step].map(([text, href]) => <a key={href} class="link" href={href}>{text}</a>)}</p>
}
