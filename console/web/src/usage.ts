// What pods and nodes use, by metrics.k8s.io. A server has it only where something measures: without it,
// nothing is shown.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { ApiError, get, pathOf, pause } from './api'
import { byKey } from './store'

export interface Use { cpu: number; memory: number } // cores, bytes

const interval = 15_000 // metrics-server measures as often

interface Amounts { cpu?: string; memory?: string }
interface Metrics { metadata: { name: string; namespace?: string }; usage?: Amounts; containers?: { name: string; usage: Amounts }[] }

const factors: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
}

/** Returns the number that a quantity of Kubernetes is, such as 250m or 64Mi; NaN for other texts. */
export function quantity(text = '0'): number {
  const [, digits = '', suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text) ?? []
  return digits ? Number(digits) * (factors[suffix] ?? NaN) : NaN
}

const useOf = (a: Amounts): Use => ({ cpu: quantity(a.cpu), memory: quantity(a.memory) })
const sum = (all: Use[]): Use => all.reduce((a, b) => ({ cpu: a.cpu + b.cpu, memory: a.memory + b.memory }), { cpu: 0, memory: 0 })

/** As kubectl top writes them. */
export const cpuText = (cores: number) => (Number.isFinite(cores) ? `${Math.ceil(cores * 1000)}m` : '')
export const memoryText = (bytes: number) => (Number.isFinite(bytes) ? `${Math.floor(bytes / 2 ** 20)}Mi` : '')

/** Asks now and then while the page is visible, until the answer says that there is nothing to ask for. */
function usePolled<T>(path: string | undefined): T | null {
  const [found, setFound] = useState<T | null>(null)
  useEffect(() => {
    setFound(null)
    if (!path) return
    const ending = new AbortController()
    const { signal } = ending
    const run = async () => {
      while (!signal.aborted) {
        try {
          if (!document.hidden) setFound(await get<T>(path, undefined, signal))
        } catch (e) {
          if (signal.aborted) return
          setFound(null)
          if (e instanceof ApiError && (e.code === 401 || e.code === 403)) return
        }
        await pause(interval, signal)
      }
    }
    void run()
    return () => ending.abort()
  }, [path])
  return found
}

const served = (key: string) => (key === 'pods' || key === 'nodes' ? byKey.value.get(`${key}.metrics.k8s.io`) : undefined)

/** What the objects of a list use, by NAMESPACE/NAME; null where nothing measures. */
export function useUsageOf(key: string, namespace: string): Map<string, Use> | null {
  const resource = served(key)
  const list = usePolled<{ items: Metrics[] }>(resource && pathOf(resource, namespace))
  return useMemo(() => list?.items.length ? new Map(list.items.map(m =>
    [`${m.metadata.namespace ?? ''}/${m.metadata.name}`, m.usage ? useOf(m.usage) : sum((m.containers ?? []).map(c => useOf(c.usage)))])) : null, [list])
}

/** What one pod uses, by container, or a node, by ''; null where nothing measures. */
export function useUsage(key: string, namespace: string, name: string): [string, Use][] | null {
  const resource = served(key)
  const found = usePolled<Metrics>(resource && pathOf(resource, namespace, name))
  return found && (found.usage ? [['', useOf(found.usage)]] : (found.containers ?? []).map(c => [c.name, useOf(c.usage)]))
}
