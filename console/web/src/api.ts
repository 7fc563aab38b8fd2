// Requests to the API of Kubernetes: discovery, lists in chunks, watches, writes.
import { ended, sessionHeaders } from './session'
import { isAction, note } from './trail'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export interface OwnerReference { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }
export interface ManagedField { manager: string; operation: string; subresource?: string; time?: string; fieldsV1?: { [key: string]: Json } }
export interface Metadata {
  name: string
  namespace?: string
  uid: string
  resourceVersion: string
  creationTimestamp?: string
  deletionTimestamp?: string
  generation?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
  managedFields?: ManagedField[]
}
export interface Condition { type: string; status: string; reason?: string; message?: string; lastTransitionTime?: string }
export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: Metadata
  status?: { conditions?: Condition[]; phase?: string; [key: string]: unknown }
  spec?: { [key: string]: unknown }
  [key: string]: unknown
}
export interface List<T> { metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number }; items: T[] }
export interface WatchEvent<T> { type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'; object: T }

/** An error with the Status of the server. */
export class ApiError extends Error {
  constructor(readonly code: number, readonly reason: string, message: string, readonly causes: { field?: string; message?: string; reason?: string }[] = []) {
    super(message)
  }
}

export async function request(path: string, init: RequestInit = {}, accept = 'application/json'): Promise<Response> {
  const noted = isAction(init.method ?? 'GET', path) ? note(init.method!, path, init.headers as Record<string, string>, init.body as string) : undefined
  const response = await fetch(path, { ...init, headers: { Accept: accept, ...init.headers, ...sessionHeaders() } })
  noted?.(response.status)
  if (response.ok) return response
  const status = await response.json().catch(() => ({}))
  if (response.status === 401) ended()
  throw new ApiError(response.status, status.reason ?? '', status.message ?? `${response.status} ${response.statusText}`, status.details?.causes)
}

/** Reads an object or a list. kube-apiserver writes the items of an empty list of metadata as null. */
export const get = async <T>(path: string, accept?: string, signal?: AbortSignal): Promise<T> => {
  const body = await (await request(path, { signal }, accept)).json()
  if (body.items === null) body.items = []
  return body
}

/** A resource that the server serves. */
export interface Resource {
  group: string
  version: string
  resource: string
  kind: string
  namespaced: boolean
  verbs: string[]
  shortNames: string[]
  subresources: string[]
}

export const keyOf = (r: { group: string; resource: string }) => (r.group ? `${r.resource}.${r.group}` : r.resource)

/** The path of a collection or of an object. */
export function pathOf(r: Resource, namespace?: string, name?: string): string {
  const parts = r.group ? ['/apis', r.group, r.version] : ['/api', r.version]
  if (namespace && r.namespaced) parts.push('namespaces', encodeURIComponent(namespace))
  parts.push(r.resource)
  if (name !== undefined) parts.push(encodeURIComponent(name))
  return parts.join('/')
}

interface Discovered {
  items: {
    metadata?: { name?: string }
    versions: {
      version: string
      resources?: {
        resource: string
        responseKind?: { kind: string }
        scope: string
        verbs: string[]
        shortNames?: string[]
        subresources?: { subresource: string }[]
      }[]
    }[]
  }[]
}

/** Returns the resources that can be listed, each in the version that the server prefers. */
export async function discover(): Promise<Resource[]> {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const [core, groups] = await Promise.all([get<Discovered>('/api', accept), get<Discovered>('/apis', accept)])
  const all = new Map<string, Resource>()
  for (const group of [...core.items, ...groups.items]) {
    for (const version of group.versions) {
      for (const r of version.resources ?? []) {
        const found: Resource = {
          group: group.metadata?.name ?? '', version: version.version, resource: r.resource, kind: r.responseKind?.kind ?? r.resource,
          namespaced: r.scope === 'Namespaced', verbs: r.verbs, shortNames: r.shortNames ?? [],
          subresources: (r.subresources ?? []).map(s => s.subresource),
        }
        if (r.verbs.includes('list') && !all.has(keyOf(found))) all.set(keyOf(found), found)
      }
    }
  }
  all.delete('events.events.k8s.io') // the same objects as events
  return [...all.values()]
}

export const asMetadata = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1'
export const asMetadataList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'
export const asTable = 'application/json;as=Table;g=meta.k8s.io;v=v1'

/** Reads the events of a watch until it ends or the signal aborts it. */
export async function watch<T>(path: string, accept: string, signal: AbortSignal, each: (e: WatchEvent<T>) => void): Promise<void> {
  const response = await request(path, { signal }, accept)
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!line) continue
      const event: WatchEvent<T> = JSON.parse(line)
      if (event.type === 'ERROR') {
        const status = event.object as { code?: number; reason?: string; message?: string }
        throw new ApiError(status.code ?? 500, status.reason ?? '', status.message ?? '')
      }
      each(event)
    }
  }
}

/** Waits, or returns early when the signal aborts. */
export const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
  })

/** Calls a function for each item, with a bounded number of calls at a time. */
export async function forEachOf<T>(items: T[], bound: number, call: (item: T) => Promise<void>): Promise<void> {
  const left = [...items]
  await Promise.all(Array.from({ length: Math.min(bound, left.length) }, async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await call(next)
  }))
}

/** Whether many requests can wait at a time: browsers open six connections of HTTP/1.1 to a server. */
export const manyStreams = () => {
  const navigation = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined
  return navigation?.nextHopProtocol === 'h2'
}
