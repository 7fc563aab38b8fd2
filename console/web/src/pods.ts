// The pods of an object: those that its selector selects.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get, keyOf, pause, watch, type KubeObject, type List, type Resource } from './api'

interface LabelSelector { matchLabels?: Record<string, string>; matchExpressions?: { key: string; operator: string; values?: string[] }[] }

const withLabels = ['services', 'replicationcontrollers'] // whose selectors are only labels
const withSelector = ['deployments.apps', 'replicasets.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch']

/** Whether objects of a kind select the pods that they run or reach. */
export const selectsPods = (resource: Resource) => [...withLabels, ...withSelector].includes(keyOf(resource))

/** Returns the selector of an object as a parameter of a list; empty if it selects nothing. */
export function selectorOf(resource: Resource, object: KubeObject): string {
  const spec = object.spec?.selector as LabelSelector | Record<string, string> | undefined
  if (!spec) return ''
  const { matchLabels, matchExpressions } = (withLabels.includes(keyOf(resource)) ? { matchLabels: spec } : spec) as LabelSelector
  const labels = Object.entries(matchLabels ?? {}).map(([key, value]) => `${key}=${value}`)
  const expressions = (matchExpressions ?? []).map(({ key, operator, values }) => {
    switch (operator) {
      case 'In': return `${key} in (${values?.join()})`
      case 'NotIn': return `${key} notin (${values?.join()})`
      case 'DoesNotExist': return `!${key}`
      default: return key
    }
  })
  return [...labels, ...expressions].join()
}

/** Follows the pods of a namespace that a selector selects, by name; none without a selector. */
export function usePods(namespace: string, selector: string): { pods: KubeObject[]; error: Error | null } {
  const [pods, setPods] = useState<KubeObject[]>([])
  const [error, setError] = useState<Error | null>(null)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    const found = new Map<string, KubeObject>()
    const show = () => setPods([...found.values()].sort((a, b) => a.metadata.name.localeCompare(b.metadata.name)))
    const run = async () => {
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?labelSelector=${encodeURIComponent(selector)}`
      while (!signal.aborted) {
        try {
          const list = await get<List<KubeObject>>(path, undefined, signal)
          found.clear()
          for (const pod of list.items) found.set(pod.metadata.name, pod)
          show()
          setError(null)
          await watch<KubeObject>(`${path}&watch=1&resourceVersion=${list.metadata.resourceVersion}`, 'application/json', signal, ({ type, object }) => {
            if (type === 'DELETED') found.delete(object.metadata.name)
            else if (type !== 'BOOKMARK') found.set(object.metadata.name, object)
            show()
          })
        } catch (e) {
          if (signal.aborted) return
          const code = (e as ApiError).code
          if (code !== 410) setError(e as Error)
          if (code === 401 || code === 403) return
        }
        await pause(2000, signal)
      }
    }
    show()
    if (selector) void run()
    return () => ending.abort()
  }, [namespace, selector])
  return { pods, error }
}
