// What the page has done: the writes and commands that it has sent, as requests and as lines of kubectl.
import { signal } from '@preact/signals'
import { quoted } from './shell'

export interface Deed {
  id: number
  at: number
  request: string // as HTTP writes it, without the headers of the session
  kubectl: string
  code: number // the status of the response; 0 while there is none
}

const kept = 50

/** The last first, of this session. It is in no storage: a body can be a Secret. */
export const trail = signal<Deed[]>([])

/** Notes a request, and returns what notes the status of its response. */
export function note(method: string, path: string, headers: Record<string, string>, body = '', kubectl = kubectlOf(method, path, headers, body)): (code: number) => void {
  const deed: Deed = { id: (trail.value[0]?.id ?? 0) + 1, at: Date.now(), request: requestOf(method, path, headers, body), kubectl, code: 0 }
  trail.value = [deed, ...trail.value].slice(0, kept)
  return code => { trail.value = trail.value.map(d => (d.id === deed.id ? { ...d, code } : d)) }
}

/** A request as HTTP writes it. */
export function requestOf(method: string, path: string, headers: Record<string, string>, body: string): string {
  const head = [`${method} ${path} HTTP/1.1`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)]
  return head.join('\n') + (body && `\n\n${body}`)
}

/** Whether a request is an action: neither a read nor a question about permissions. */
export const isAction = (method: string, path: string) => method !== 'GET' && !/^\/apis\/auth(entication|orization)\.k8s\.io\//.test(path)

interface Target { resource: string; namespace: string; name: string; subresource: string }

/** Returns what the path of a request names. */
export function targetOf(pathname: string): Target {
  const parts = pathname.split('/').slice(1).map(decodeURIComponent)
  const group = parts[0] === 'api' ? '' : parts[1] ?? ''
  const rest = parts.slice(parts[0] === 'api' ? 2 : 3)
  const inside = rest[0] === 'namespaces' && rest.length > 2
  const [resource = '', name = '', subresource = ''] = inside ? rest.slice(2) : rest
  return { resource: group ? `${resource}.${group}` : resource, namespace: inside ? rest[1]! : '', name, subresource }
}

/** The line of kubectl that sends such a request. */
export function kubectlOf(method: string, path: string, headers: Record<string, string>, body: string): string {
  const { pathname, searchParams } = new URL(path, location.origin)
  const { resource, namespace, name, subresource } = targetOf(pathname)
  const line = (...words: string[]) => ['kubectl', ...words, ...(namespace ? ['-n', namespace] : []), ...(searchParams.has('dryRun') ? ['--dry-run=server'] : [])].map(quoted).join(' ')
  // The body is JSON in one line, so that none of its lines can end the text early.
  const withText = (...words: string[]) => `${line(...words, '-f', '-')} <<'EOF'\n${body}${body.endsWith('\n') ? '' : '\n'}EOF`
  const part = subresource ? [`--subresource=${subresource}`] : []
  switch (method) {
    case 'POST':
      return withText('create')
    case 'PUT':
      return withText('replace', ...part)
    case 'DELETE':
      return line('delete', resource, name, `--cascade=${cascadeOf(body)}`)
  }
  if (headers['Content-Type']?.startsWith('application/apply-patch')) {
    const force = searchParams.get('force') === 'true' ? ['--force-conflicts'] : []
    return withText('apply', '--server-side', `--field-manager=${searchParams.get('fieldManager') ?? ''}`, ...force, ...part)
  }
  const replicas = subresource === 'scale' && JSON.parse(body).spec?.replicas
  if (typeof replicas === 'number') return line('scale', resource, name, `--replicas=${replicas}`)
  return line('patch', resource, name, ...part, '--type=merge', '-p', body)
}

function cascadeOf(body: string): string {
  return String((body && JSON.parse(body).propagationPolicy) || 'background').toLowerCase()
}
