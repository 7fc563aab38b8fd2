// The text editor: CodeMirror with YAML, and with the schema of a kind: completion, documentation under
// the pointer, and problems at their lines. It is loaded when an object's text is shown for the first time.
//
// It lives in a shadow root, where its style sheets are constructed by script: the policy of the page
// does not permit style elements.
import { autocompletion, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, linter, type Diagnostic } from '@codemirror/lint'
import { unifiedMergeView } from '@codemirror/merge'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, StateEffect, type Extension } from '@codemirror/state'
import { EditorView, drawSelection, highlightActiveLine, hoverTooltip, keymap, lineNumbers, tooltips } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { Problem } from './check'
import { documentOf, lineOf, pathAt, placeAt, rangeOf } from './document'
import { shapeOf, type KindSchema, type Schema } from './schema'

export interface Handle {
  show(text: string): void
  /** Sets the schema of the text, and what is wrong with it. */
  judge(kind: KindSchema | null, problems: Problem[]): void
  reveal(line: number): void
  destroy(): void
}

export * from './document'

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--code-key)' },
  { tag: [tags.string, tags.content], color: 'var(--code-text)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: 'var(--code-value)' },
  { tag: tags.comment, color: 'var(--quiet)' },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: 'var(--quiet)' },
])

const look = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '13px', height: '100%' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '.cm-gutters': { color: 'var(--quiet)', backgroundColor: 'var(--surface)', border: '0' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--select) !important' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-panels': { color: 'var(--text)', backgroundColor: 'var(--raised)' },
  '.cm-changedLine, .cm-insertedLine': { backgroundColor: 'var(--added) !important' },
  '.cm-deletedChunk': { backgroundColor: 'var(--removed) !important' },
  '.cm-collapsedLines': { color: 'var(--quiet)', background: 'var(--hover)', fontFamily: 'var(--mono)' },
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: '""' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--raised)', border: '1px solid var(--line)', borderRadius: '6px', boxShadow: 'var(--shadow)', maxWidth: '520px' },
  '.doc': { padding: '6px 10px', whiteSpace: 'pre-wrap', maxWidth: '500px', maxHeight: '260px', overflow: 'auto', fontFamily: 'system-ui, sans-serif' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { color: 'var(--text)', backgroundColor: 'var(--select)' },
  '.cm-completionDetail': { color: 'var(--quiet)', fontStyle: 'normal' },
  '.cm-changedText, .cm-deletedText': { background: 'none !important', fontWeight: '600' },
})

function mount(host: HTMLElement, text: string, extensions: Extension[]): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  root.replaceChildren()
  const parent = document.createElement('div')
  parent.style.height = '100%'
  root.append(parent)
  const state = EditorState.create({ doc: text, extensions: [yaml(), syntaxHighlighting(colours), look, lineNumbers(), foldGutter(), search({ top: true }), ...extensions] })
  return new EditorView({ state, parent, root })
}

/** What an editor knows beside its text. */
interface Knowledge { kind: KindSchema | null; problems: Problem[]; quiet: boolean }
const judged = StateEffect.define<null>()
const nothing = (): Knowledge => ({ kind: null, problems: [], quiet: false })

function handleOf(view: EditorView, knowledge: Knowledge): Handle {
  return {
    show(text) {
      const now = view.state.doc.toString()
      if (now === text) return
      // Only what differs is replaced, so that the cursor and the view stay where they are.
      let from = 0
      while (from < now.length && from < text.length && now[from] === text[from]) from++
      let end = 0
      while (end < now.length - from && end < text.length - from && now[now.length - 1 - end] === text[text.length - 1 - end]) end++
      knowledge.quiet = true
      view.dispatch({ changes: { from, to: now.length - end, insert: text.slice(from, text.length - end) } })
      knowledge.quiet = false
    },
    judge(kind, problems) {
      knowledge.kind = kind
      knowledge.problems = problems
      view.dispatch({ effects: judged.of(null) })
    },
    reveal(line) {
      const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines)).from
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}

/** Errors of YAML, or else what is wrong with the object, at their lines. */
const errorsBy = (knowledge: Knowledge) => linter((view): Diagnostic[] => {
  const text = view.state.doc.toString()
  const document = documentOf(text)
  const clip = ([from, to]: [number, number]) => ({ from: Math.min(from, text.length), to: Math.min(Math.max(to, from), text.length) })
  if (document.errors.length) return document.errors.slice(0, 20).map(e => ({ ...clip([e.pos[0], e.pos[1]]), severity: 'error', message: e.message }))
  return knowledge.problems.map(p => ({ ...clip(rangeOf(document, p.path)), severity: 'error', message: p.message }))
}, { delay: 300, needsRefresh: u => u.transactions.some(transaction => transaction.effects.some(e => e.is(judged))) })

const typeOf = (s: Schema) => (shapeOf(s) === 'list' ? 'array' : shapeOf(s) === 'map' ? 'map' : s.format ?? s.type ?? '')

function info(text: string | undefined): Completion['info'] {
  return text ? () => { const node = document.createElement('div'); node.className = 'doc'; node.textContent = text; return node } : undefined
}

/** Whether a key is in the object at a column of a row. */
function isTaken(rows: string[], row: number, column: number, name: string): boolean {
  const here = pathAt(rows, row, column).join('\0')
  return rows.some((text, r) => {
    const line = r === row ? null : lineOf(text)
    return line?.key === name && line.column === column && pathAt(rows, r, column).join('\0') === here
  })
}

/** Completes the keys of the object at the cursor, and the values of choices. */
const completeBy = (knowledge: Knowledge) => (context: CompletionContext): CompletionResult | null => {
  const { kind } = knowledge
  if (!kind) return null
  const line = context.state.doc.lineAt(context.pos)
  const rows = context.state.doc.toString().split('\n')
  const row = line.number - 1
  const before = line.text.slice(0, context.pos - line.from)
  const place = placeAt(rows, row, before.length)
  if (place.inValue) {
    const schema = kind.at(place.path)
    const values = schema && (shapeOf(schema) === 'boolean' ? [true, false] : shapeOf(schema) === 'choice' ? schema.enum! : [])
    if (!values?.length) return null
    return { from: line.from + place.from, options: values.map(v => ({ label: String(v), type: 'enum' })), validFor: /^\S*$/ }
  }
  const word = /[\w.\/-]*$/.exec(before)![0]
  if (!word && !context.explicit) return null
  const column = before.length - word.length
  const schema = kind.at(place.path)
  if (!schema?.properties) return null
  const spaces = ' '.repeat(column)
  const options = Object.keys(schema.properties).filter(name => !isTaken(rows, row, column, name)).map((name): Completion => {
    const below = kind.below(schema, name)!
    const shape = shapeOf(below)
    const after = shape === 'object' || shape === 'map' ? `:\n${spaces}  ` : shape === 'list' ? `:\n${spaces}- ` : ': '
    return { label: name, apply: name + after, type: 'property', detail: typeOf(below), info: info(below.description), boost: schema.required?.includes(name) ? 1 : 0 }
  })
  return { from: line.from + column, options, validFor: /^[\w.-]*$/ }
}

/** Shows what the schema says of a key under the pointer. */
const docsBy = (knowledge: Knowledge) => hoverTooltip((view, at) => {
  const line = view.state.doc.lineAt(at)
  const place = placeAt(view.state.doc.toString().split('\n'), line.number - 1, at - line.from)
  if (!place.key || place.inValue) return null
  const schema = knowledge.kind?.at([...place.path, place.key])
  if (!schema?.description) return null
  const pos = line.from + place.from
  return {
    pos, end: pos + place.key.length, above: true,
    create: () => {
      const dom = document.createElement('div')
      dom.className = 'doc'
      dom.textContent = `${typeOf(schema)}\n${schema.description}`
      return { dom }
    },
  }
})

/** Shows a text that can be changed. */
export function edit(host: HTMLElement, text: string, writable: boolean, changed: (text: string) => void): Handle {
  const knowledge = nothing()
  const view = mount(host, text, [
    history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(), lintGutter(), errorsBy(knowledge),
    autocompletion({ override: [completeBy(knowledge)], icons: false }), docsBy(knowledge), tooltips({ position: 'absolute' }),
    keymap.of([...completionKeymap, indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap]),
    EditorState.readOnly.of(!writable),
    EditorView.contentAttributes.of({ 'aria-label': 'YAML' }),
    EditorView.updateListener.of(u => { if (u.docChanged && !knowledge.quiet) changed(u.state.doc.toString()) }),
  ])
  return handleOf(view, knowledge)
}

/** Shows two texts as one, with the lines that differ. */
export function diff(host: HTMLElement, before: string, after: string): Handle {
  const view = mount(host, after, [
    EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ 'aria-label': 'diff', tabindex: '0' }),
    unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
    keymap.of(searchKeymap),
  ])
  return handleOf(view, nothing())
}
