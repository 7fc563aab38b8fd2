// A terminal in a container of a pod: of a command, or of the main process. It is connected when the
// user says so, and never by an address: a link to a command would run it with the rights of whoever
// opens the link.
import { FitAddon } from '@xterm/addon-fit'
import { Terminal, type ITheme } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { pathOf, type KubeObject, type Resource } from './api'
import { connect as dial, type Connection, type End, type Program } from './exec'
import { parameter, set } from './route'
import { wordsOf } from './shell'
import { theme } from './store'
import { t } from './text'

/** The command without another one: bash where the container has it. */
const shell = ['sh', '-c', 'export TERM=${TERM:-xterm-256color}; command -v bash >/dev/null && exec bash; exec sh']

/** Output that waits to be shown, in bytes; what comes beyond is dropped. */
const waiting = 4 << 20

type State = 'idle' | 'unclosed' | 'connecting' | 'open' | { end: End }

interface Container { name: string; stdin?: boolean; tty?: boolean }

export function TerminalView({ resource, object }: { resource: Resource; object: KubeObject }) {
  const spec = object.spec as { containers?: Container[]; initContainers?: Container[]; ephemeralContainers?: Container[] }
  const containers = [...(spec.containers ?? []), ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])]
  const { name: container = '', stdin = false, tty = false } = containers.find(c => c.name === parameter('container')) ?? containers[0] ?? {}
  const attach = parameter('attach') === '1'
  const [line, setLine] = useState('')
  const [state, setState] = useState<State>('idle')
  const [reader, setReader] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const terminal = useRef<Terminal | null>(null)
  const running = useRef<Connection | null>(null)
  const input = useRef<(text: string) => void>(() => undefined)
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
    shown.onData(text => { if (running.current) input.current(text) })
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
    if (!words && !attach) { setState('unclosed'); return }
    const program: Program = attach ? { stdin, tty } : { command: words?.length ? words : shell }
    let pending = 0
    let dropped = 0
    shown.reset()
    shown.options.convertEol = attach && !tty
    setState('connecting')
    const connection = dial(pathOf(resource, object.metadata.namespace, object.metadata.name), container, program, {
      open: () => {
        setState('open')
        connection.resize(shown.cols, shown.rows)
        shown.focus()
      },
      output: data => {
        if (running.current !== connection) return
        if (pending > waiting) { dropped += data.length; return }
        if (dropped) shown.write(`\x18\r\n${t('terminal.dropped', { n: Math.ceil(dropped / 1024) })}\r\n`)
        dropped = 0
        pending += data.length
        shown.write(data, () => { pending -= data.length })
      },
      end: how => {
        if (running.current !== connection) return
        running.current = null
        setState({ end: how })
        if (box.current?.contains(document.activeElement)) button.current?.focus()
      },
    })
    running.current = connection
    input.current = !attach || tty ? connection.send : stdin ? lineInput(text => shown.write(text), connection.send) : () => undefined
  }
  const disconnect = () => running.current?.close()
  const end = typeof state === 'object' ? state.end : null
  return (
    <>
      <form class="filters" onSubmit={e => { e.preventDefault(); busy ? disconnect() : connect() }}>
        <select aria-label={t('logs.container')} value={container} disabled={busy} onChange={e => set({ container: e.currentTarget.value })}>
          {containers.map(c => <option key={c.name} value={c.name}>{c.name}</option>)}
        </select>
        <select aria-label={t('terminal.to')} value={attach ? '1' : ''} disabled={busy} onChange={e => { setState('idle'); set({ attach: e.currentTarget.value }) }}>
          <option value="">{t('terminal.run')}</option>
          <option value="1">{t('terminal.attach')}</option>
        </select>
        {!attach && <input class="line" aria-label={t('terminal.command')} placeholder={t('terminal.shell')} value={line} disabled={busy} spellcheck={false} autocapitalize="off" autocomplete="off" onInput={e => setLine(e.currentTarget.value)} />}
        <button ref={button} class={busy ? '' : 'primary'}>{t(busy ? 'terminal.disconnect' : 'terminal.connect')}</button>
        <label class="check"><input type="checkbox" checked={reader} onChange={e => setReader(e.currentTarget.checked)} />{t('terminal.reader')}</label>
      </form>
      <p class={state === 'unclosed' || (end && end !== 'closed' && 'message' in end) ? 'error' : 'quiet'} role="status" id="terminal-state">
        {state === 'idle' && t(!attach ? 'terminal.idle' : stdin ? 'terminal.idleAttach' : 'terminal.idleOutput')}
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

/** Edits lines, as a terminal does for a process, and sends each whole line. */
function lineInput(echo: (text: string) => void, send: (text: string) => void): (text: string) => void {
  let line = ''
  return text => {
    for (const c of text) {
      if (c === '\r') {
        echo('\r\n')
        send(`${line}\n`)
        line = ''
      } else if (c === '\x7f') {
        if (line) echo('\b \b')
        line = [...line].slice(0, -1).join('')
      } else if (c >= ' ') {
        echo(c)
        line += c
      }
    }
  }
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
