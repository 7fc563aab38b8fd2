// A command in a container, or its main process: the subresources exec and attach over a WebSocket. The
// first byte of each message is its channel, as in the protocols v5.channel.k8s.io and v4.channel.k8s.io
// of Kubernetes.
import { request, type ApiError } from './api'
import { sessionProtocols } from './session'
import { quoted } from './shell'
import { note } from './trail'

const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
const channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 }

/** How a connection ended: by the exit code of a command, or why there is none. */
export type End = { code: number } | { message: string } | 'closed'

/** What a terminal is connected to. A main process has the streams that its container asks for. */
export type Program = { command: string[] } | { stdin: boolean; tty: boolean }

export interface Connection {
  send(text: string): void
  resize(columns: number, rows: number): void
  close(): void
}

interface Status { status?: string; reason?: string; message?: string; details?: { causes?: { reason?: string; message?: string }[] } }

/** Connects a terminal, which is the caller's; `path` is that of the pod. Calls `end` once. */
export function connect(path: string, container: string, program: Program, on: { open(): void; output(data: Uint8Array): void; end(how: End): void }): Connection {
  const query = new URLSearchParams({ container, stdout: 'true' })
  const { stdin, tty } = 'command' in program ? { stdin: true, tty: true } : program
  if (stdin) query.set('stdin', 'true')
  query.set(tty ? 'tty' : 'stderr', 'true') // a terminal has one output
  if ('command' in program) for (const word of program.command) query.append('command', word)
  const target = `${path}/${'command' in program ? 'exec' : 'attach'}?${query}`
  const address = new URL(target, location.href)
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:'
  const socket = new WebSocket(address, [...protocols, ...sessionProtocols()])
  socket.binaryType = 'arraybuffer'
  let ended: End | null = null
  let opened = false
  const noted = note('GET', target, { Upgrade: 'websocket', 'Sec-WebSocket-Protocol': protocols.join(', ') }, '', lineOf(path, container, program))
  socket.onopen = () => { opened = true; noted(101); on.open() }
  socket.onmessage = (e: MessageEvent<ArrayBuffer>) => {
    const data = new Uint8Array(e.data)
    if (data[0] === channel.stdout || data[0] === channel.stderr) on.output(data.subarray(1))
    else if (data[0] === channel.error) {
      const how = endOf(new TextDecoder().decode(data.subarray(1)))
      ended = 'command' in program || 'message' in how ? how : 'closed' // the end of attach has no exit code
    }
  }
  socket.onclose = async () => {
    if (!opened && !ended) ended = await reasonOf(target, noted)
    on.end(ended ?? 'closed')
  }
  const send = (to: number, text: string) => {
    if (socket.readyState !== WebSocket.OPEN) return
    const data = new TextEncoder().encode(text)
    const message = new Uint8Array(data.length + 1)
    message[0] = to
    message.set(data, 1)
    socket.send(message)
  }
  return {
    send: text => send(channel.stdin, text),
    resize: (columns, rows) => send(channel.resize, JSON.stringify({ Width: columns, Height: rows })),
    close: () => socket.close(),
  }
}

function lineOf(path: string, container: string, program: Program): string {
  const [, namespace = '', name = ''] = /namespaces\/([^/]+)\/pods\/([^/]+)$/.exec(path) ?? []
  const line = (verb: string, flags: string, ...rest: string[]) =>
    ['kubectl', '-n', decodeURIComponent(namespace), verb, ...(flags ? [`-${flags}`] : []), decodeURIComponent(name), '-c', container, ...rest].map(quoted).join(' ')
  if ('command' in program) return line('exec', 'it', '--', ...program.command)
  return line('attach', (program.stdin ? 'i' : '') + (program.tty ? 't' : ''))
}

function endOf(text: string): Exclude<End, 'closed'> {
  let status: Status
  try { status = JSON.parse(text) } catch { return { message: text } }
  if (status.status === 'Success') return { code: 0 }
  const code = status.reason === 'NonZeroExitCode' && Number(status.details?.causes?.find(c => c.reason === 'ExitCode')?.message)
  return code ? { code } : { message: status.message ?? text }
}

/** Browsers hide the response to a WebSocket that fails. The same request without an upgrade starts
 * nothing, and has the same error. */
async function reasonOf(target: string, noted: (code: number) => void): Promise<End | null> {
  return request(target).then(() => null, (e: ApiError) => { noted(e.code); return { message: e.message } })
}
