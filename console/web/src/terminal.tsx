// A terminal in a container of a pod. The command starts when the user says so, and never by an
// address: a link to a command would run it with the rights of whoever opens the link.
import { FitAddon } from '@xterm/addon-fit'
import { Terminal, type ITheme } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { pathOf, type KubeObject, type Resource } from './api'
import { exec, type Command, type End } from './exec'
import { parameter, set } from './route'
import { wordsOf } from './shell'
import { theme } from './store'
import { t } from './text'

/** The command without another one: bash where the container has it. */
const shell = ['sh', '-c', 'export TERM=${TERM:-xterm-256color}; command -v bash >/dev/null && exec bash; exec sh']

/** Output that waits to be shown, in bytes; what comes beyond is dropped. */
const waiting = 4 << 20

type State = 'idle' | 'unclosed' | 'connecting' | 'open' | { end: End }

export function TerminalView({ resource, object }: { resource: Resource; object: KubeObject }) {
  const spec = object.spec as { containers?: { name: string }[]; initContainers?: { name: string; restartPolicy?: string }[]; ephemeralContainers?: { name: string }[] }
  const names = [...(spec.containers ?? []), ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])].map(c => c.name)
  const wanted = parameter('container')
  const container = names.includes(wanted) ? wanted : names[0] ?? ''
  const [line, setLine] = useState('')
  const [state, setState] = useState<State>('idle')
  const [reader, setReader] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const terminal = useRef<Terminal | null>(null)
  const running = useRef<Command | null>(null)
  const busy = state === 'connecting' || state === 'open'

  useEffect(() => {
    const shown = new Terminal({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), fontSize: 13, scrollback: 5000, minimumContrastRatio: 4.5,
      theme: colours(), linkHandler: { activate: () => undefined }, // links are of the container's making
    })
    const fit = new FitAddon()
    shown.loadAddon(fit)
    shown.open(box.current!)
    shown.attachCustomKeyEventHandler(e => {
      if (!(e.ctrlKey && e.key === ',')) return true
      if (e.type === 'keydown') button.current?.focus()
      e.preventDefault()
      return false
    })
    shown.onData(text => running.current?.send(text))
    shown.onResize(({ cols, rows }) => running.current?.resize(cols, rows))
    const sized = new ResizeObserver(() => fit.fit())
    sized.observe(box.current!)
    terminal.current = shown
    return () => {
      sized.disconnect()
      running.current?.close()
      running.current = null
      shown.dispose()
    }
  }, [])

  useEffect(() => {
    const paint = () => { terminal.current!.options.theme = colours() }
    const system = matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', paint)
    paint()
    return () => system.removeEventListener('change', paint)
  }, [theme.value])
  useEffect(() => { terminal.current!.options.screenReaderMode = reader }, [reader])

  // Ctrl W closes a tab of the browser, and deletes a word in a shell.
  useEffect(() => {
    if (state !== 'open') return
    const ask = (e: BeforeUnloadEvent) => e.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [state])

  const connect = () => {
    const shown = terminal.current!
    const words = wordsOf(line)
    if (!words) { setState('unclosed'); return }
    let pending = 0
    let dropped = 0
    shown.reset()
    setState('connecting')
    const command = exec(pathOf(resource, object.metadata.namespace, object.metadata.name), container, words.length ? words : shell, {
      open: () => {
        setState('open')
        command.resize(shown.cols, shown.rows)
        shown.focus()
      },
      output: data => {
        if (running.current !== command) return
        if (pending > waiting) { dropped += data.length; return }
        if (dropped) shown.write(`\x18\r\n${t('terminal.dropped', { n: Math.ceil(dropped / 1024) })}\r\n`)
        dropped = 0
        pending += data.length
        shown.write(data, () => { pending -= data.length })
      },
      end: how => {
        if (running.current !== command) return
        running.current = null
        setState({ end: how })
        if (box.current?.contains(document.activeElement)) button.current?.focus()
      },
    })
    running.current = command
  }
  const disconnect = () => running.current?.close()
  const end = typeof state === 'object' ? state.end : null
  return (
    <>
      <form class="filters" onSubmit={e => { e.preventDefault(); busy ? disconnect() : connect() }}>
        <select aria-label={t('logs.container')} value={container} disabled={busy} onChange={e => set({ container: e.currentTarget.value })}>
          {names.map(n => <option key={n} value={n}>{n}</option>)}
        </select>
        <input class="line" aria-label={t('terminal.command')} placeholder={t('terminal.shell')} value={line} disabled={busy} spellcheck={false} autocapitalize="off" autocomplete="off" onInput={e => setLine(e.currentTarget.value)} />
        <button ref={button} class={busy ? '' : 'primary'}>{t(busy ? 'terminal.disconnect' : 'terminal.connect')}</button>
        <label class="check"><input type="checkbox" checked={reader} onChange={e => setReader(e.currentTarget.checked)} />{t('terminal.reader')}</label>
      </form>
      <p class={state === 'unclosed' || (end && end !== 'closed' && 'message' in end) ? 'error' : 'quiet'} role="status" id="terminal-state">
        {state === 'idle' && t('terminal.idle')}
        {state === 'unclosed' && t('terminal.unclosed')}
        {state === 'connecting' && t('loading')}
        {state === 'open' && t('terminal.open')}
        {end === 'closed' && t('terminal.closed')}
        {end && end !== 'closed' && ('code' in end ? t('terminal.code', { code: end.code }) : t('error', { message: end.message }))}
      </p>
      <div class="terminal-box" role="group" aria-label={t('terminal')} aria-describedby="terminal-state" ref={box} />
    </>
  )
}

/** The colours of the page, which its theme sets. */
function colours(): ITheme {
  const style = getComputedStyle(document.documentElement)
  const of = (name: string) => style.getPropertyValue(name).trim()
  return {
    background: of('--surface'), foreground: of('--text'), cursor: of('--accent'), cursorAccent: of('--surface'), selectionBackground: of('--select'),
    scrollbarSliderBackground: of('--line'),
  }
}
