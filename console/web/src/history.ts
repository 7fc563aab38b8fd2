// The past of an object, as far as the server still has it: by history.kapok.dev where that is served, and
// elsewhere by a watch from an old resourceVersion, which replays each change since. How old that may be is
// found by search, as no request tells it.
import { ApiError, get, keyOf, pathOf, watch, type Json, type KubeObject, type List, type ManagedField, type Resource } from './api'

export interface Revision {
  version: string
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'KNOWN' // KNOWN is the state before the first change that is known
  object: KubeObject
  managers: string[] // whose entries of the managed fields are new
  time: string // '' if the managed fields do not tell it
  paths: string[] // what has changed, such as spec.replicas
}

/** Whether changes since a version are still there. A watch from before the object's own version has at least one event. */
async function replays(path: string, version: number, signal: AbortSignal, each: (type: Revision['type'], object: KubeObject) => boolean): Promise<boolean> {
  const ending = new AbortController()
  const stop = () => ending.abort()
  signal.addEventListener('abort', stop, { once: true })
  let any = false
  try {
    await watch<KubeObject>(`${path}&watch=1&timeoutSeconds=10&resourceVersion=${version}`, 'application/json', ending.signal, e => {
      if (e.type === 'BOOKMARK' || e.type === 'ERROR' || ending.signal.aborted) return
      any = true
      if (!each(e.type, e.object)) stop()
    })
  } catch (e) {
    if (signal.aborted) throw e
    if (e instanceof ApiError && e.code === 410) return false
    if (!ending.signal.aborted) throw e
  } finally {
    signal.removeEventListener('abort', stop)
  }
  return any
}

interface Served {
  regarding: { resourceVersion: string }
  metadata: { creationTimestamp?: string | null }
  change: 'Created' | 'Updated' | 'Deleted' | 'Earliest'
  managers?: string[]
  fields?: string[]
  object?: KubeObject
}

const types = { Created: 'ADDED', Updated: 'MODIFIED', Deleted: 'DELETED', Earliest: 'KNOWN' } as const

/** Returns the revisions by history.kapok.dev; null if the server does not have it, or the user may not read it. */
async function served(resource: Resource, object: KubeObject, signal: AbortSignal): Promise<Revision[] | null> {
  const { name, namespace } = object.metadata
  const where = namespace ? `namespaces/${namespace}/revisions` : 'clusterrevisions'
  const selector = encodeURIComponent(`regarding.resource=${keyOf(resource)},regarding.name=${name},regarding.apiVersion=${object.apiVersion}`)
  const items: Served[] = []
  for (let token = ''; ;) {
    const path = `/apis/history.kapok.dev/v1/${where}?fieldSelector=${selector}&limit=500${token && `&continue=${token}`}`
    try {
      const page = await get<{ metadata: { continue?: string }; items: Served[] }>(path, undefined, signal)
      items.push(...page.items)
      token = page.metadata.continue ?? ''
    } catch (e) {
      if (e instanceof ApiError && (e.code === 404 || e.code === 403)) return null
      throw e
    }
    if (!token) break
  }
  const revisions: Revision[] = []
  for (const r of items.reverse()) {
    const state = r.object ?? revisions.at(-1)?.object // that of a deletion is the one before, as in an event of a watch
    if (!state) continue // it cannot be read
    revisions.push({
      version: r.regarding.resourceVersion, type: types[r.change], object: state,
      managers: r.managers ?? [], time: r.metadata.creationTimestamp ?? '', paths: r.fields ?? [],
    })
  }
  return revisions
}

/** Returns the revisions of an object, the oldest first. The last one is the object, or its deletion. */
export async function historyOf(resource: Resource, object: KubeObject, signal: AbortSignal): Promise<Revision[]> {
  const known = await served(resource, object, signal)
  if (known?.length) return known
  const { name, namespace = '', resourceVersion } = object.metadata
  const path = `${pathOf(resource, namespace)}?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`
  const last = Number(resourceVersion)
  if (!Number.isSafeInteger(last)) return [revision(null, 'KNOWN', object)]
  const once = () => false
  // From `newer` on, changes are there; before `older`, they are not.
  let older = 0
  let newer = last
  if (await replays(path, 1, signal, once)) newer = 1
  else while (newer - older > 1) {
    const middle = Math.floor((older + newer) / 2)
    if (await replays(path, middle, signal, once)) newer = middle
    else older = middle
  }
  const revisions: Revision[] = []
  if (newer > 1) {
    const before = await get<List<KubeObject>>(`${path}&resourceVersion=${newer}&resourceVersionMatch=Exact`, undefined, signal).catch(() => null)
    if (before?.items[0]) revisions.push(revision(null, 'KNOWN', before.items[0]))
  }
  if (newer < last) {
    await replays(path, newer, signal, (type, next) => {
      const previous = revisions.at(-1)
      revisions.push(revision(previous && previous.type !== 'DELETED' ? previous.object : null, type, next))
      return Number(next.metadata.resourceVersion) < last
    })
  }
  return revisions.length ? revisions : [revision(null, 'KNOWN', object)]
}

/** Adds the state of an object that is followed, if it is new. */
export function followed(revisions: Revision[], object: KubeObject): Revision[] {
  const previous = revisions.at(-1)
  if (!previous || Number(object.metadata.resourceVersion) <= Number(previous.version)) return revisions
  return [...revisions, revision(previous.object, 'MODIFIED', object)]
}

function revision(before: KubeObject | null, type: Revision['type'], object: KubeObject): Revision {
  const known = before?.metadata.managedFields ?? []
  const now = object.metadata.managedFields ?? []
  const unlike = (entry: (m: ManagedField) => string) => now.filter(m => !known.some(k => entry(k) === entry(m)))
  // An entry that has only lost fields to another manager keeps its time. Times are in seconds.
  const written = unlike(m => JSON.stringify([m.manager, m.operation, m.subresource, m.time]))
  const fresh = written.length ? written : unlike(m => JSON.stringify(m))
  return {
    version: object.metadata.resourceVersion, type, object,
    managers: type === 'DELETED' || type === 'KNOWN' ? [] : [...new Set(fresh.map(m => m.manager))],
    time: type === 'DELETED' ? '' : fresh.map(m => m.time ?? '').sort().at(-1) ?? '',
    paths: before ? changed(before as Json, object as unknown as Json) : [],
  }
}

const silent = ['metadata.managedFields', 'metadata.resourceVersion', 'metadata.generation']

/** Returns the paths of what differs; a list is one value. */
export function changed(before: Json | undefined, after: Json | undefined, path = ''): string[] {
  if (silent.includes(path)) return []
  const isTree = (v: Json | undefined): v is { [key: string]: Json } => typeof v === 'object' && v !== null && !Array.isArray(v)
  if (isTree(before) && isTree(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)])
    return [...keys].flatMap(k => changed(before[k], after[k], path ? `${path}.${k}` : k))
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [path]
}
