// The text editor: CodeMirror with YAML. It is loaded when an object's text is shown for the first time.
//
// It lives in a shadow root, where its style sheets are constructed by script: the policy of the page
// does not permit style elements.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, linter, type Diagnostic } from '@codemirror/lint'
import { unifiedMergeView } from '@codemirror/merge'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { parseDocument, stringify } from 'yaml'
import type { Json } from './api'

type Tree = { [key: string]: Json }

export interface Handle {
  show(text: string): void
  reveal(line: number): void
  destroy(): void
}

export const toYaml = (value: Json) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

/** Parses an object, or returns the line and the message of the first error. */
export function parse(text: string): { object: Tree } | { line: number; message: string } {
  const document = parseDocument(text, { prettyErrors: false })
  const error = document.errors[0]
  if (error) return { line: text.slice(0, error.pos[0]).split('\n').length, message: error.message }
  const value: unknown = document.toJS({ maxAliasCount: 100 })
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { line: 1, message: 'object' }
  return { object: value as Tree }
}

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

function handleOf(view: EditorView, quiet: { now: boolean }): Handle {
  return {
    show(text) {
      if (view.state.doc.toString() === text) return
      quiet.now = true
      const { scrollTop } = view.scrollDOM
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
      view.scrollDOM.scrollTop = scrollTop
      quiet.now = false
    },
    reveal(line) {
      const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines)).from
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}

/** Errors of YAML at their lines. */
const errors = linter((view): Diagnostic[] => {
  const text = view.state.doc.toString()
  return parseDocument(text, { prettyErrors: false }).errors.slice(0, 20).map(e => {
    const from = Math.min(e.pos[0], text.length)
    return { from, to: Math.min(Math.max(e.pos[1], from), text.length), severity: 'error', message: e.message }
  })
}, { delay: 300 })

/** Shows a text that can be changed. */
export function edit(host: HTMLElement, text: string, writable: boolean, changed: (text: string) => void): Handle {
  const quiet = { now: false }
  const view = mount(host, text, [
    history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(), lintGutter(), errors,
    keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap]),
    EditorState.readOnly.of(!writable),
    EditorView.contentAttributes.of({ 'aria-label': 'YAML' }),
    EditorView.updateListener.of(u => { if (u.docChanged && !quiet.now) changed(u.state.doc.toString()) }),
  ])
  return handleOf(view, quiet)
}

/** Shows two texts as one, with the lines that differ. */
export function diff(host: HTMLElement, before: string, after: string): Handle {
  const view = mount(host, after, [
    EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ 'aria-label': 'diff', tabindex: '0' }),
    unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
    keymap.of(searchKeymap),
  ])
  return handleOf(view, { now: false })
}
