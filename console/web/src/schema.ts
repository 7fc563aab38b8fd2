// The schemas of kinds, by the OpenAPI v3 documents of the server.
import { get, type Json, type Resource } from './api'

export interface Schema {
  type?: string
  format?: string
  description?: string
  properties?: Record<string, Schema>
  items?: Schema
  additionalProperties?: Schema | boolean
  required?: string[]
  enum?: Json[]
  default?: Json
  nullable?: boolean
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  $ref?: string
  allOf?: Schema[]
  oneOf?: Schema[]
  anyOf?: Schema[]
  'x-kubernetes-int-or-string'?: boolean
  'x-kubernetes-preserve-unknown-fields'?: boolean
  'x-kubernetes-list-map-keys'?: string[]
  'x-kubernetes-validations'?: { rule: string; message?: string }[]
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[]
}

export type Path = readonly (string | number)[]

/** What a value looks like, which decides how it is shown and checked. */
export type Shape = 'object' | 'map' | 'list' | 'choice' | 'text' | 'boolean' | 'integer' | 'number' | 'textOrNumber' | 'any'

export function shapeOf(s: Schema): Shape {
  if (s['x-kubernetes-int-or-string'] || s.format === 'int-or-string') return 'textOrNumber'
  if (s.enum?.length) return 'choice'
  switch (s.type) {
    case 'object':
      if (s.properties) return 'object'
      return s.additionalProperties && typeof s.additionalProperties === 'object' ? 'map' : 'any'
    case 'array': return s.items ? 'list' : 'any'
    case 'string': return 'text'
    case 'boolean': case 'integer': case 'number': return s.type
  }
  if (s.properties) return 'object'
  const types = s.oneOf?.map(one => one.type)
  if (types?.includes('string') && types.some(type => type === 'number' || type === 'integer')) return 'textOrNumber'
  return 'any'
}

/** The schema of a kind, with all others that it refers to. */
export class KindSchema {
  readonly root: Schema

  constructor(private readonly all: Record<string, Schema>, root: Schema) {
    const { status: _, ...properties } = root.properties ?? {} // it is a subresource, or ignored on create
    this.root = root.properties ? { ...root, properties } : root
  }

  /** Returns a schema without references at its top. */
  resolve(schema: Schema): Schema {
    let found = schema
    for (let depth = 0; depth < 8 && (found.$ref || found.allOf?.length === 1); depth++) {
      const { $ref, allOf, ...own } = found
      const target = $ref ? this.all[decodeURIComponent($ref.slice($ref.lastIndexOf('/') + 1))] : allOf![0]
      found = { ...target, ...own }
    }
    return found
  }

  /** Returns the schema of a field, an item or a value of a map. */
  below(schema: Schema, key: string | number): Schema | undefined {
    const next = typeof key === 'number' ? schema.items : schema.properties?.[key] ?? (typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined)
    return next && this.resolve(next)
  }

  /** Returns the schema of a path, unless the schema does not say what is there. */
  at(path: Path): Schema | undefined {
    let found: Schema | undefined = this.root
    for (const key of path) found = found && this.below(found, key)
    return found
  }

  /** Returns a first value of a schema: its default, or its required fields. */
  first(schema: Schema, depth = 0): Json {
    if (schema.default !== undefined && shapeOf(schema) !== 'object') return structuredClone(schema.default)
    switch (shapeOf(schema)) {
      case 'object': {
        const value: { [key: string]: Json } = {}
        for (const name of depth < 6 ? schema.required ?? [] : []) {
          const below = this.below(schema, name)
          if (below) value[name] = this.first(below, depth + 1)
        }
        return value
      }
      case 'list': return schema.minItems && depth < 6 ? [this.first(this.resolve(schema.items!), depth + 1)] : []
      case 'choice': return schema.enum![0]!
      case 'boolean': return false
      case 'integer': case 'number': return schema.minimum ?? 0
      case 'text': case 'textOrNumber': return ''
      default: return {}
    }
  }
}

interface Index { paths: Record<string, { serverRelativeURL: string }> }
interface Document { components?: { schemas?: Record<string, Schema> } }

// The address of a document has a hash of its content.
const documents = new Map<string, Promise<Document>>()

/** Returns the schema of a resource; null if the server has none. */
export async function schemaOf(r: Resource): Promise<KindSchema | null> {
  const index = await get<Index>('/openapi/v3')
  const path = index.paths[r.group ? `apis/${r.group}/${r.version}` : `api/${r.version}`]?.serverRelativeURL
  if (!path) return null
  let loading = documents.get(path)
  if (!loading) {
    loading = get<Document>(path)
    loading.catch(() => documents.delete(path))
    documents.set(path, loading)
  }
  const all = (await loading).components?.schemas ?? {}
  const root = Object.values(all).find(s => s['x-kubernetes-group-version-kind']?.some(k => k.group === r.group && k.version === r.version && k.kind === r.kind))
  return root ? new KindSchema(all, root) : null
}

/** Returns the path of a field as errors of Kubernetes write it, such as spec.ports[0].name. */
export function pathOfField(field: string): Path {
  return [...field.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, key, name]) => name ?? (/^\d+$/.test(key!) ? Number(key) : key!))
}

export const textOfPath = (path: Path) => path.map((p, i) => (typeof p === 'number' ? `[${p}]` : i ? `.${p}` : p)).join('')
