// The tour of the view "learn": its steps, their requests, and what exists of it on the server. All
// objects of a tour have its name as a label. Its kind is in a group of its own, so that tours do not
// meet.
import { ApiError, asMetadataList, get, request, type Json, type KubeObject, type List } from './api'
import { manager } from './managed'
import { requestOf, kubectlOf, targetOf } from './trail'

const label = 'console.kapok.dev/tour'

/** A request of a step. */
export interface Call {
  method: string
  path: string
  headers: Record<string, string>
  body: string
  kubectl: string
  http: string
  /** The part of the response that the step is about; all of it by default. */
  part?: (response: Json) => Json
}

/** What exists of a tour. */
export interface Made {
  namespace: KubeObject | null
  definition: KubeObject | null
  cake: KubeObject | null
  unreadable: boolean // whether the user may not read all of it
  first: KubeObject | null // the earliest revision of the cake, where the history is served and may be read
}

export type StepName = 'namespace' | 'definition' | 'object' | 'reject' | 'watch' | 'explain' | 'time' | 'end'

export interface Step {
  name: StepName
  /** The steps that it needs. */
  needs: StepName[]
  calls: (id: string, made: Made) => Call[]
  /** Whether what it makes exists; steps that make nothing can be taken again. */
  exists?: (made: Made) => boolean
  /** The watches of what it changes. */
  follows?: (id: string) => string[]
}

const letters = 'bcdfghjklmnpqrstvwxz2456789' // as in generated names of Kubernetes

/** Returns the name of a new tour, which is that of its namespace. */
export const newTour = () => `tour-${[...crypto.getRandomValues(new Uint8Array(6))].map(n => letters[n % letters.length]).join('')}`

export const isTour = (id: string) => /^tour-[a-z0-9]{6}$/.test(id)

const groupOf = (id: string) => `${id}.example.com`
export const kindsOf = (id: string) => ({
  namespaces: { group: '', version: 'v1', resource: 'namespaces' },
  definitions: { group: 'apiextensions.k8s.io', version: 'v1', resource: 'customresourcedefinitions' },
  cakes: { group: groupOf(id), version: 'v1', resource: 'cakes' },
})
export const cake = 'sacher'
export const definitionOf = (id: string) => `cakes.${groupOf(id)}`

const namespaces = '/api/v1/namespaces'
const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const cakesOf = (id: string) => `/apis/${groupOf(id)}/v1/namespaces/${id}/cakes`
const revisionsOf = (id: string) =>
  `/apis/history.kapok.dev/v1/namespaces/${id}/revisions?fieldSelector=${encodeURIComponent(`regarding.resource=${definitionOf(id)},regarding.name=${cake}`)}`
const watchOf = (path: string, name: string) => `${path}?watch=1&fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`

function write(method: string, path: string, type: string, body: string): Call {
  const headers = { 'Content-Type': type }
  return { method, path, headers, body, kubectl: kubectlOf(method, path, headers, body), http: requestOf(method, path, headers, body) }
}

const create = (path: string, body: string) => write('POST', `${path}?fieldManager=${manager}`, 'application/yaml', body)

function read(path: string, kubectl: string, part?: Call['part']): Call {
  return { method: 'GET', path, headers: {}, body: '', kubectl, http: requestOf('GET', path, {}, ''), part }
}

function remove(path: string, { metadata }: KubeObject): Call {
  const options = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: metadata.uid } }
  return write('DELETE', `${path}/${metadata.name}`, 'application/json', JSON.stringify(options))
}

const namespaceText = (id: string) => `apiVersion: v1
kind: Namespace
metadata:
  name: ${id}
  labels: {${label}: ${id}}
`

const definitionText = (id: string) => `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ${definitionOf(id)}
  labels: {${label}: ${id}}
spec:
  group: ${groupOf(id)}
  scope: Namespaced
  names: {kind: Cake, plural: cakes, singular: cake}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [flavour]
            properties:
              flavour:
                type: string
                description: What the cake tastes of.
                enum: [chocolate, nut, plum]
              layers:
                type: integer
                minimum: 1
                maximum: 9
                default: 2
    additionalPrinterColumns:
    - {name: Flavour, type: string, jsonPath: .spec.flavour}
    - {name: Layers, type: integer, jsonPath: .spec.layers}
`

const cakeText = (id: string, name: string, spec: string, version = '') => `apiVersion: ${groupOf(id)}/v1
kind: Cake
metadata:
  name: ${name}
  labels: {${label}: ${id}}
${version && `  resourceVersion: '${version}'\n`}spec: ${spec}
`

interface Document { components?: { schemas?: { [name: string]: { properties?: { spec?: Json } } } } }
interface Revisions { items: { regarding: { resourceVersion: string }; change: string; managers?: string[]; fields?: string[]; object?: KubeObject }[] }

const present = (o: KubeObject | null) => o !== null && !o.metadata.deletionTimestamp

export const steps: Step[] = [
  {
    name: 'namespace', needs: [], exists: made => made.namespace !== null,
    calls: id => [create(namespaces, namespaceText(id))],
    follows: id => [watchOf(namespaces, id)],
  },
  {
    name: 'definition', needs: [], exists: made => made.definition !== null,
    calls: id => [create(definitions, definitionText(id))],
    follows: id => [watchOf(definitions, definitionOf(id))],
  },
  {
    name: 'object', needs: ['namespace', 'definition'], exists: made => made.cake !== null,
    calls: id => [create(cakesOf(id), cakeText(id, cake, '{flavour: chocolate}'))],
    follows: id => [watchOf(cakesOf(id), cake)],
  },
  {
    name: 'reject', needs: ['namespace', 'definition'],
    calls: id => [create(cakesOf(id), cakeText(id, 'tower', '{flavour: chalk, layers: 40}'))],
  },
  {
    name: 'watch', needs: ['object'],
    calls: id => [
      read(watchOf(cakesOf(id), cake), `kubectl get ${definitionOf(id)} ${cake} -n ${id} --watch --output-watch-events`),
      write('PATCH', `${cakesOf(id)}/${cake}?fieldManager=${manager}`, 'application/merge-patch+json', '{"spec":{"layers":5}}'),
    ],
  },
  {
    name: 'explain', needs: ['definition'],
    calls: id => [read(`/openapi/v3/apis/${groupOf(id)}/v1`, `kubectl explain cakes.spec --api-version=${groupOf(id)}/v1`,
      document => Object.values((document as unknown as Document).components?.schemas ?? {}).find(s => s.properties?.spec)?.properties?.spec ?? null)],
  },
  {
    name: 'time', needs: ['object'], follows: id => [watchOf(cakesOf(id), cake)],
    calls: (id, { cake: now, first }) => [
      read(revisionsOf(id), `kubectl get revisions -n ${id} --field-selector regarding.resource=${definitionOf(id)},regarding.name=${cake}`,
        list => (list as unknown as Revisions).items.map(r => ({ revision: r.regarding.resourceVersion, change: r.change, managers: r.managers ?? [], fields: r.fields ?? [] }))),
      ...(now && first ? [write('PUT', `${cakesOf(id)}/${cake}?fieldManager=${manager}`, 'application/yaml', cakeText(id, cake, JSON.stringify(first.spec), now.metadata.resourceVersion))] : []),
    ],
  },
  {
    name: 'end', needs: [], follows: id => [watchOf(namespaces, id), watchOf(definitions, definitionOf(id))],
    calls: (_, { namespace, definition }) => [
      ...(present(namespace) ? [remove(namespaces, namespace!)] : []),
      ...(present(definition) ? [remove(definitions, definition!)] : []),
    ],
  },
]

/** Returns what exists of a tour. Objects of the same name without its label are not of the tour. */
export async function madeBy(id: string, withHistory: boolean): Promise<Made> {
  let forbidden = false
  const unreadable = (e: unknown) => {
    if (!(e instanceof ApiError && (e.code === 403 || e.code === 404))) throw e
    forbidden ||= e.code === 403
    return null
  }
  const own = (path: string) => get<KubeObject>(path).then(o => (o.metadata.labels?.[label] === id ? o : null), unreadable)
  const [namespace, definition] = await Promise.all([own(`${namespaces}/${id}`), own(`${definitions}/${definitionOf(id)}`)])
  const found = namespace && definition ? await own(`${cakesOf(id)}/${cake}`) : null
  const revisions = found && withHistory ? await get<Revisions>(revisionsOf(id)).catch(() => null) : null
  const first = revisions?.items.at(-1)?.object ?? null
  return { namespace, definition, cake: found, unreadable: forbidden, first: first?.metadata.uid === found?.metadata.uid ? first : null }
}

/** Returns the names of all tours of which something exists, as far as the user may list it. */
export async function toursOf(): Promise<string[]> {
  const list = (path: string) => get<List<KubeObject>>(`${path}?labelSelector=${encodeURIComponent(label)}`, asMetadataList).then(l => l.items, () => [])
  const all = await Promise.all([list(namespaces), list(definitions)])
  return [...new Set(all.flat().map(o => o.metadata.labels?.[label] ?? ''))].filter(isTour).sort()
}

/** Returns whether the server serves the kind of a tour. */
export const isServed = (id: string) => get(`/apis/${groupOf(id)}/v1`).then(() => true, () => false)

export interface Right { verb: string; resource: string; namespace: string; line: string }

/** Returns the permission that a request needs, if the user does not have it. */
export async function missingFor(call: Call): Promise<Right | null> {
  const { pathname, searchParams } = new URL(call.path, location.origin)
  const verb = { POST: 'create', PATCH: 'patch', PUT: 'update', DELETE: 'delete' }[call.method]
  if (pathname.startsWith('/openapi/')) return (await isPermitted({ nonResourceAttributes: { verb: 'get', path: pathname } })) ? null : { verb: 'get', resource: pathname, namespace: '', line: `kubectl auth can-i get ${pathname}` }
  const { resource, namespace: inside, name } = targetOf(pathname)
  const namespace = resource === 'namespaces' ? name : inside // a namespace is in itself, for authorizers
  const [plural, ...group] = resource.split('.')
  const asked = { verb: verb ?? (searchParams.has('watch') ? 'watch' : name ? 'get' : 'list'), group: group.join('.'), resource: plural!, namespace, name }
  if (await isPermitted({ resourceAttributes: asked })) return null
  const line = ['kubectl auth can-i', asked.verb, name ? `${resource}/${name}` : resource, ...(namespace ? ['-n', namespace] : [])].join(' ')
  return { verb: asked.verb, resource, namespace, line }
}

/** Reviews an access; a server that does not review it decides at the request itself. */
async function isPermitted(spec: unknown): Promise<boolean> {
  const body = JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec })
  try {
    const response = await request('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
    return (await response.json() as { status: { allowed: boolean } }).status.allowed
  } catch {
    return true
  }
}
