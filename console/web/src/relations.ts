// How the objects of a namespace belong together: owners, selectors, and references by name.
import { asMetadataList, forEachOf, get, keyOf, pathOf, type KubeObject, type List, type Resource } from './api'
import { problemsOf } from './problems'
import { byKey, resources } from './store'

export interface Item {
  id: string
  resource: Resource
  namespace: string
  name: string
  problem: string // the first one; '' if there is none
}
/** from owns, selects or uses to. */
export interface Edge { from: string; to: string; how: 'owns' | 'selects' | 'uses' }
export interface Relations { items: Map<string, Item>; edges: Edge[]; partial: number }

const perKind = 1000
const searchedKinds = 150
const ignored = ['events', 'leases.coordination.k8s.io', 'endpoints', 'controllerrevisions.apps', 'bindings']

/** Kinds whose objects are read whole, for what they refer to or how they are; of others, the metadata is read. */
const whole = [
  'pods', 'services', 'persistentvolumeclaims', 'replicationcontrollers', 'deployments.apps', 'replicasets.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch',
  'ingresses.networking.k8s.io', 'networkpolicies.networking.k8s.io', 'poddisruptionbudgets.policy', 'horizontalpodautoscalers.autoscaling', 'rolebindings.rbac.authorization.k8s.io',
]

export const idOf = (key: string, namespace: string, name: string) => `${key}/${namespace}/${name}`

/** Reads the objects of a namespace, and returns how they belong together. */
export async function relationsOf(namespace: string, signal: AbortSignal): Promise<Relations> {
  const found: { resource: Resource; object: KubeObject }[] = []
  const complete = new Set<string>()
  const kinds = resources.value.filter(r => r.namespaced && !ignored.includes(keyOf(r)))
  await forEachOf(kinds.slice(0, searchedKinds), 6, async r => {
    const list = await get<List<KubeObject>>(`${pathOf(r, namespace)}?limit=${perKind}`, whole.includes(keyOf(r)) ? undefined : asMetadataList, signal).catch(() => null)
    if (list && !list.metadata.continue) complete.add(keyOf(r))
    for (const object of list?.items ?? []) found.push({ resource: r, object })
  })
  return { ...relate(found, complete), partial: kinds.length - complete.size }
}

type Fields = { [key: string]: unknown }
const fields = (v: unknown): Fields => (typeof v === 'object' && v !== null ? (v as Fields) : {})
const all = (v: unknown): Fields[] => (Array.isArray(v) ? v.map(fields) : [])
const text = (v: unknown) => (typeof v === 'string' ? v : '')

/** complete are the kinds of which all objects of the namespace were found. */
function relate(found: { resource: Resource; object: KubeObject }[], complete: Set<string>): Omit<Relations, 'partial'> {
  const items = new Map<string, Item>()
  const edges: Edge[] = []
  const byUid = new Map<string, string>()
  const labelled = new Map<string, { id: string; labels: Record<string, string> }[]>() // pods, by namespace
  for (const { resource, object } of found) {
    const { name, namespace = '', uid } = object.metadata
    const id = idOf(keyOf(resource), namespace, name)
    items.set(id, { id, resource, namespace, name, problem: problemsOf({ ...object, kind: resource.kind })[0] ?? '' })
    byUid.set(uid, id)
    if (keyOf(resource) === 'pods') labelled.set(namespace, [...(labelled.get(namespace) ?? []), { id, labels: object.metadata.labels ?? {} }])
  }
  const link = (from: string, to: string, how: Edge['how']) => { if (from !== to) edges.push({ from, to, how }) }
  /** Links to an object by its name, which may be of a kind of the whole cluster, or not exist. */
  const refer = (from: string, key: string, namespace: string, name: string) => {
    const resource = byKey.value.get(key)
    if (!resource || !name) return
    const id = idOf(key, resource.namespaced ? namespace : '', name)
    if (!items.has(id)) {
      items.set(id, { id, resource, namespace: resource.namespaced ? namespace : '', name, problem: complete.has(key) ? '?' : '' })
    }
    link(from, id, 'uses')
  }
  for (const { resource, object } of found) {
    const key = keyOf(resource)
    const { name, namespace = '' } = object.metadata
    const id = idOf(key, namespace, name)
    const spec = fields(object.spec)
    for (const owner of object.metadata.ownerReferences ?? []) {
      const from = byUid.get(owner.uid)
      if (from) link(from, id, 'owns')
    }
    const select = (labels: unknown) => {
      const wanted = Object.entries(fields(labels))
      if (wanted.length) for (const pod of labelled.get(namespace) ?? []) if (wanted.every(([k, v]) => pod.labels[k] === v)) link(id, pod.id, 'selects')
    }
    switch (key) {
      case 'pods': {
        for (const v of all(spec.volumes)) {
          refer(id, 'configmaps', namespace, text(fields(v.configMap).name))
          refer(id, 'secrets', namespace, text(fields(v.secret).secretName))
          refer(id, 'persistentvolumeclaims', namespace, text(fields(v.persistentVolumeClaim).claimName))
        }
        for (const c of [...all(spec.initContainers), ...all(spec.containers)]) {
          const sources = [...all(c.envFrom).map(e => ({ config: e.configMapRef, secret: e.secretRef })),
            ...all(c.env).map(e => ({ config: fields(e.valueFrom).configMapKeyRef, secret: fields(e.valueFrom).secretKeyRef }))]
          for (const s of sources) {
            refer(id, 'configmaps', namespace, text(fields(s.config).name))
            refer(id, 'secrets', namespace, text(fields(s.secret).name))
          }
        }
        const account = text(spec.serviceAccountName)
        if (account !== 'default') refer(id, 'serviceaccounts', namespace, account)
        refer(id, 'nodes', '', text(spec.nodeName))
        break
      }
      case 'services': select(spec.selector); break
      case 'poddisruptionbudgets.policy': select(fields(spec.selector).matchLabels); break
      case 'networkpolicies.networking.k8s.io': select(fields(spec.podSelector).matchLabels); break
      case 'persistentvolumeclaims':
        refer(id, 'persistentvolumes', '', text(spec.volumeName))
        refer(id, 'storageclasses.storage.k8s.io', '', text(spec.storageClassName))
        break
      case 'ingresses.networking.k8s.io': {
        refer(id, 'ingressclasses.networking.k8s.io', '', text(spec.ingressClassName))
        const backends = [spec.defaultBackend, ...all(spec.rules).flatMap(r => all(fields(r.http).paths).map(p => p.backend))]
        for (const b of backends) refer(id, 'services', namespace, text(fields(fields(b).service).name))
        for (const tls of all(spec.tls)) refer(id, 'secrets', namespace, text(tls.secretName))
        break
      }
      case 'horizontalpodautoscalers.autoscaling': {
        const target = fields(spec.scaleTargetRef)
        const group = text(target.apiVersion).includes('/') ? text(target.apiVersion).split('/')[0]! : ''
        const of = resources.value.find(r => r.group === group && r.kind === target.kind)
        if (of) refer(id, keyOf(of), namespace, text(target.name))
        break
      }
      case 'rolebindings.rbac.authorization.k8s.io': {
        const role = fields(object.roleRef)
        refer(id, `${role.kind === 'ClusterRole' ? 'clusterroles' : 'roles'}.rbac.authorization.k8s.io`, namespace, text(role.name))
        for (const s of all(object.subjects)) if (s.kind === 'ServiceAccount') refer(id, 'serviceaccounts', text(s.namespace) || namespace, text(s.name))
      }
    }
  }
  const seen = new Set<string>()
  return { items, edges: edges.filter(e => { const k = `${e.from} ${e.to} ${e.how}`; return !seen.has(k) && Boolean(seen.add(k)) }) }
}

/** Returns what an object depends on and what depends on it, directly or not. */
export function around(r: Relations, id: string): Relations {
  const reach = (next: Map<string, string[]>) => {
    const seen = new Set([id])
    for (const at of seen) for (const to of next.get(at) ?? []) seen.add(to)
    return seen
  }
  const forward = new Map<string, string[]>()
  const back = new Map<string, string[]>()
  for (const e of r.edges) {
    forward.set(e.from, [...(forward.get(e.from) ?? []), e.to])
    back.set(e.to, [...(back.get(e.to) ?? []), e.from])
  }
  const down = reach(forward)
  const up = reach(back)
  // What uses something below the object, such as the service of its pods, belongs to the picture too.
  const beside = new Set<string>()
  for (const e of r.edges) if (down.has(e.to) && e.how !== 'uses') beside.add(e.from)
  for (const at of beside) for (const e of r.edges) if (e.to === at && e.how === 'owns') beside.add(e.from)
  const shown = new Set([...down, ...up, ...beside])
  return { items: new Map([...r.items].filter(([key]) => shown.has(key))), edges: r.edges.filter(e => shown.has(e.from) && shown.has(e.to)), partial: r.partial }
}

export interface Box { id: string; members: Item[] }

/** Puts objects of one kind with the same neighbours into one box, unless it is open or small. */
export function boxesOf(r: Relations, open: Set<string>, small = 6): { boxes: Box[]; edges: Edge[] } {
  const near = new Map<string, string[]>()
  for (const e of r.edges) {
    near.set(e.to, [...(near.get(e.to) ?? []), `<${e.how}${e.from}`])
    // What each of many pods uses differs by node, which must not take the box apart.
    if (r.items.get(e.to)?.resource.namespaced) near.set(e.from, [...(near.get(e.from) ?? []), `>${e.how}${e.to}`])
  }
  const groups = new Map<string, Item[]>()
  for (const item of r.items.values()) {
    const key = `${keyOf(item.resource)} ${(near.get(item.id) ?? []).sort().join(' ')}`
    groups.set(key, [...(groups.get(key) ?? []), item])
  }
  const boxes: Box[] = []
  const boxOf = new Map<string, string>()
  for (const members of groups.values()) {
    const together = members.length > small && !open.has(members[0]!.id)
    for (const part of together ? [members] : members.map(m => [m])) {
      boxes.push({ id: part[0]!.id, members: part })
      for (const m of part) boxOf.set(m.id, part[0]!.id)
    }
  }
  const seen = new Set<string>()
  const edges: Edge[] = []
  for (const e of r.edges) {
    const from = boxOf.get(e.from)!
    const to = boxOf.get(e.to)!
    const key = `${from} ${to} ${e.how}`
    if (from !== to && !seen.has(key)) { seen.add(key); edges.push({ from, to, how: e.how }) }
  }
  return { boxes, edges }
}
