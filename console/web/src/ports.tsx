// The ports of a pod or service, with the commands that reach them from here.
import { keyOf, pathOf, type KubeObject, type Resource } from './api'
import { Copyable } from './copyable'
import { quoted } from './shell'
import { t } from './text'

interface Port { name?: string; port: number; protocol: string; container?: string }

function portsOf(key: string, object: KubeObject): Port[] {
  const spec = object.spec as { ports?: { name?: string; port: number; protocol?: string }[]; containers?: { name: string; ports?: { name?: string; containerPort: number; protocol?: string }[] }[] } | undefined
  if (key === 'services') return (spec?.ports ?? []).map(p => ({ name: p.name, port: p.port, protocol: p.protocol ?? 'TCP' }))
  return (spec?.containers ?? []).flatMap(c => (c.ports ?? []).map(p => ({ name: p.name, port: p.containerPort, protocol: p.protocol ?? 'TCP', container: c.name })))
}

const isTls = (p: Port) => p.port === 443 || p.name?.startsWith('https')

/** Nothing for other kinds. There are no links to the API server's proxy: their pages would have the
 * origin of this one. */
export function Ports({ resource, object }: { resource: Resource; object: KubeObject }) {
  const key = keyOf(resource)
  if (key !== 'pods' && key !== 'services') return null
  const ports = portsOf(key, object)
  if (!ports.length) return null
  const { name, namespace = '' } = object.metadata
  return (
    <section aria-labelledby="ports">
      <h2 id="ports">{t('ports')}</h2>
      {ports.map(p => (
        <div class="port" key={`${p.container} ${p.port} ${p.protocol}`}>
          <strong>{p.port}/{p.protocol}</strong> <span class="tag">{[p.name, p.container].filter(Boolean).join(' · ')}</span>
          {/* kubectl forwards TCP only, and the proxy of the API server speaks HTTP. */}
          {p.protocol === 'TCP' && <Copyable text={`kubectl -n ${quoted(namespace)} port-forward ${key === 'pods' ? 'pod' : 'service'}/${quoted(name)} ${p.port < 1024 ? p.port + 8000 : p.port}:${p.port}`} />}
          {p.protocol === 'TCP' && <Copyable text={`kubectl get --raw ${quoted(`${pathOf(resource, namespace)}/${isTls(p) ? 'https:' : ''}${name}:${p.port}/proxy/`)}`} />}
        </div>
      ))}
    </section>
  )
}
