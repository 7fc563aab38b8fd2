// Text that is not saved yet: it stays in the tab, through reloads and errors, until it is saved or
// discarded.
import type { Json, KubeObject } from './api'

type Tree = { [key: string]: Json }

/** A text, or the object that the text is to be of, and the object that was edited. */
export interface Draft { text: string; base: Tree }

const keyOf = (uid: string) => `kapok.draft.${uid}`

export function readDraft(uid: string): Draft | null {
  const stored = sessionStorage.getItem(keyOf(uid))
  return stored ? JSON.parse(stored) : null
}

export function writeDraft(uid: string, draft: Draft): void { sessionStorage.setItem(keyOf(uid), JSON.stringify(draft)) }

export function dropDraft(uid: string): void { sessionStorage.removeItem(keyOf(uid)) }

/** Makes another state of an object its draft. JSON is YAML: the editor shows it in its own style. */
export function keepDraft(object: KubeObject, state: Tree): void {
  const current = object as unknown as Tree
  const { resourceVersion: _, ...metadata } = state.metadata as Tree
  const { status: __, ...rest } = state
  const now = (current.metadata as Tree).resourceVersion!
  const next: Tree = { ...rest, metadata: { ...metadata, resourceVersion: now }, ...(current.status === undefined ? {} : { status: current.status }) }
  writeDraft(object.metadata.uid, { text: JSON.stringify(next), base: current })
}
