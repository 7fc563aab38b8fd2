// What a schema says against an object, before the server is asked. The server has the last word: CEL
// rules, formats and rules of code are its own.
import type { Json } from './api'
import { shapeOf, type KindSchema, type Path, type Schema } from './schema'
import { t } from './text'

export interface Problem { path: Path; message: string }

const most = 50

export function check(kind: KindSchema, object: Json): Problem[] {
  const found: Problem[] = []
  visit(object, kind.root, [])
  return found

  function say(path: Path, message: string) { found.push({ path, message }) }

  function visit(value: Json | undefined, schema: Schema, path: Path): void {
    if (found.length >= most || value === undefined) return
    if (value === null) return // Kubernetes drops a null, or takes it as the default
    switch (shapeOf(schema)) {
      case 'object': case 'map': {
        if (typeof value !== 'object' || Array.isArray(value)) return say(path, t('check.type', { type: 'object' }))
        for (const name of schema.required ?? []) {
          if (value[name] === undefined && kind.below(schema, name)?.default === undefined) say(path, t('check.required', { name }))
        }
        for (const [key, below] of Object.entries(value)) {
          const next = kind.below(schema, key)
          if (next) visit(below, next, [...path, key])
          else if (path.length || !['apiVersion', 'kind', 'metadata', 'status'].includes(key)) {
            if (!schema['x-kubernetes-preserve-unknown-fields'] && schema.additionalProperties !== true) say([...path, key], t('check.unknown', { name: key }))
          }
        }
        return
      }
      case 'list':
        if (!Array.isArray(value)) return say(path, t('check.type', { type: 'array' }))
        if (schema.minItems !== undefined && value.length < schema.minItems) say(path, t('check.atLeast', { n: schema.minItems }))
        if (schema.maxItems !== undefined && value.length > schema.maxItems) say(path, t('check.atMost', { n: schema.maxItems }))
        value.forEach((item, i) => visit(item, kind.resolve(schema.items!), [...path, i]))
        return
      case 'choice':
        if (!schema.enum!.includes(value as string)) say(path, t('check.enum', { values: schema.enum!.join(', ') }))
        return
      case 'text':
        if (typeof value !== 'string') return say(path, t('check.type', { type: 'string' }))
        if (schema.minLength !== undefined && [...value].length < schema.minLength) say(path, t('check.atLeast', { n: schema.minLength }))
        if (schema.maxLength !== undefined && [...value].length > schema.maxLength) say(path, t('check.atMost', { n: schema.maxLength }))
        if (schema.pattern && !matches(schema.pattern, value)) say(path, t('check.pattern', { pattern: schema.pattern }))
        return
      case 'boolean':
        if (typeof value !== 'boolean') say(path, t('check.type', { type: 'boolean' }))
        return
      case 'integer': case 'number':
        if (typeof value !== 'number' || (schema.type === 'integer' && !Number.isInteger(value))) return say(path, t('check.type', { type: schema.type! }))
        if (schema.minimum !== undefined && value < schema.minimum) say(path, t('check.atLeast', { n: schema.minimum }))
        if (schema.maximum !== undefined && value > schema.maximum) say(path, t('check.atMost', { n: schema.maximum }))
        return
      case 'textOrNumber':
        if (typeof value !== 'string' && typeof value !== 'number') say(path, t('check.type', { type: 'string, number' }))
    }
  }
}

/** Expressions of Go that a browser does not know are left to the server. */
function matches(pattern: string, text: string): boolean {
  try { return new RegExp(pattern, 'u').test(text) } catch { return true }
}
