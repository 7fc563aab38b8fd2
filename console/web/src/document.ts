// Texts in YAML as documents: changes keep comments and order, and each path has a place in the text.
import { isCollection, isMap, isScalar, parseDocument, stringify, type Document, type Node } from 'yaml'
import type { Json } from './api'
import type { Path } from './schema'

type Tree = { [key: string]: Json }

export const toYaml = (value: Json) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

export const documentOf = (text: string) => parseDocument(text, { prettyErrors: false })

/** Parses an object, or returns the line and the message of the first error. */
export function parse(text: string): { object: Tree } | { line: number; message: string } {
  const document = documentOf(text)
  const error = document.errors[0]
  if (error) return { line: text.slice(0, error.pos[0]).split('\n').length, message: error.message }
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 })
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { line: 1, message: 'object' }
    return { object: value as Tree }
  } catch (e) { // too many aliases
    return { line: 1, message: (e as Error).message }
  }
}

/** Returns the text with another value at a path; undefined removes what is there. */
export function withValue(text: string, path: Path, value: Json | undefined): string {
  const document = documentOf(text)
  if (document.errors.length || !path.length) return text
  if (value === undefined) document.deleteIn(path)
  else {
    // An empty place, such as that after "spec:", becomes what the path needs.
    for (let i = 0; i < path.length; i++) {
      const above = path.slice(0, i)
      const node = document.getIn(above, true) as Node | undefined
      if (!isCollection(node)) document.setIn(above, document.createNode(typeof path[i] === 'number' ? [] : {}))
      else if (!node.items.length) node.flow = false
    }
    const old = document.getIn(path, true)
    if (isScalar(old) && (typeof value !== 'object' || value === null) && typeof old.value === typeof value) {
      if (old.value === '') old.type = undefined // without the quotes of the empty text
      old.value = value
    }
    else document.setIn(path, document.createNode(value, { aliasDuplicateObjects: false }))
  }
  return document.toString({ lineWidth: 0 })
}

/** Returns where a path is in the text of a document: its key if it has one, or else what is nearest above it. */
export function rangeOf(document: Document, path: Path): [number, number] {
  for (let length = path.length; length > 0; length--) {
    const above = document.getIn(path.slice(0, length - 1), true)
    const key = path[length - 1]
    const pair = isMap(above) ? above.items.find(p => isScalar(p.key) && String(p.key.value) === String(key)) : undefined
    const node = (pair?.key ?? (pair ? undefined : document.getIn(path.slice(0, length), true))) as Node | undefined
    if (node?.range) return [node.range[0], Math.max(node.range[1], node.range[0] + 1)]
  }
  return [0, 1]
}

interface Line { dashes: number[]; key: string; column: number; value: number }

/** Describes a line of a block: the columns of its dashes, and its key with the columns where key and value begin. */
export function lineOf(text: string): Line | null {
  if (/^\s*(#|$)/.test(text)) return null
  const dashes: number[] = []
  let column = text.search(/\S/)
  while (/^-(\s|$)/.test(text.slice(column))) {
    dashes.push(column)
    const rest = text.slice(column + 1).search(/\S/)
    column = rest < 0 ? text.length : column + 1 + rest
  }
  const key = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'#[\]{}][^#]*?)\s*:(\s+|$)/.exec(text.slice(column))
  return { dashes, key: key ? key[1]!.replace(/^(["'])(.*)\1$/, '$2') : '', column, value: key ? column + key[0].length : column }
}

/**
 * Returns the path of the collection that a key at a column of a row belongs to. It goes by indentation, so that it also works
 * in a text that is being typed.
 */
export function pathAt(rows: string[], row: number, column: number): Path {
  const path: (string | number)[] = []
  let limit = column // what begins left of it is above
  let list = -1 // the column of the dashes of the list that is being counted
  for (let r = row; r >= 0 && (limit > 0 || list >= 0); r--) {
    const line = lineOf(rows[r]!)
    if (!line) continue
    const parent = list >= 0 && !line.dashes.length && line.column === list
    if (r < row && line.key && (line.column < limit || parent)) {
      path.unshift(line.key)
      limit = line.column
      list = -1
    }
    for (const dash of line.dashes.reverse()) {
      if (dash < limit && dash !== list) {
        path.unshift(0)
        limit = list = dash
      } else if (dash === list) (path[0] as number)++
    }
  }
  return path
}

/** Returns what is at a column of a row: a key, or a value with the path of its key. */
export function placeAt(rows: string[], row: number, column: number): { path: Path; key: string; from: number; inValue: boolean } {
  const text = rows[row]!
  const line = lineOf(text)
  if (!line) return { path: pathAt(rows, row, column), key: '', from: column, inValue: false }
  const path = pathAt(rows, row, line.column)
  if (line.key && column > line.column + line.key.length) return { path: [...path, line.key], key: line.key, from: Math.min(line.value, column), inValue: true }
  return { path, key: line.key, from: line.column, inValue: false }
}
