// The difference between two states of an object, as an applied configuration.
import type { Json, ManagedField } from './api'

type Tree = { [key: string]: Json }
const isTree = (v: Json | undefined): v is Tree => typeof v === 'object' && v !== null && !Array.isArray(v)
const equal = (a: Json | undefined, b: Json | undefined) => JSON.stringify(a) === JSON.stringify(b)

/** Returns the parts of after that differ from before; lists are whole. removed gets the paths that after lacks. */
export function changesOf(before: Tree, after: Tree, removed: string[], path = ''): Tree {
  const changes: Tree = {}
  for (const [key, value] of Object.entries(after)) {
    const old = before[key]
    if (isTree(value) && isTree(old)) {
      const below = changesOf(old, value, removed, `${path}${key}.`)
      if (Object.keys(below).length) changes[key] = below
    } else if (!equal(value, old)) changes[key] = value
  }
  for (const key of Object.keys(before)) if (!(key in after)) removed.push(path + key)
  return changes
}

/** Adds to an applied configuration the fields that its manager has applied before, which it would give up otherwise. */
export function keepOwn(changes: Tree, after: Tree, managed: ManagedField[], manager: string): Tree {
  const own = managed.find(m => m.manager === manager && m.operation === 'Apply' && !m.subresource)
  return own?.fieldsV1 ? merge(changes, after, own.fieldsV1) : changes
}

function merge(into: Tree, from: Tree, fields: Tree): Tree {
  const result: Tree = { ...into }
  for (const [field, below] of Object.entries(fields)) {
    if (!field.startsWith('f:')) continue
    const key = field.slice(2)
    const value = from[key]
    if (value === undefined) continue
    const deeper = isTree(below) && Object.keys(below).some(k => k.startsWith('f:'))
    result[key] = deeper && isTree(value) ? merge(isTree(result[key]) ? result[key] : {}, value, below) : value
  }
  return result
}

/** Returns an object without the fields that the server alone writes and that hide what matters. */
export function plain(object: Tree, managed = false): Tree {
  const { metadata, ...rest } = structuredClone(object)
  const m = { ...(metadata as Tree) }
  if (!managed) delete m.managedFields
  const { apiVersion, kind, ...others } = rest
  return { ...(apiVersion ? { apiVersion } : {}), ...(kind ? { kind } : {}), metadata: m, ...others }
}
