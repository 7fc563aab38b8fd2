// The text of an object beside the form of its kind. Both can be changed, and show the same: the text is
// what is kept.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Json, Resource } from './api'
import { check, type Problem } from './check'
import type * as Editor from './editor'
import { ObjectForm } from './form'
import { parameter, set } from './route'
import { pathOfField, schemaOf, type KindSchema } from './schema'
import { theme } from './store'
import { t } from './text'

type Tree = { [key: string]: Json }

/** The editor's module, which is large, once it is loaded. */
export function useEditor(): typeof Editor | null {
  const [lib, setLib] = useState<typeof Editor | null>(null)
  useEffect(() => { void import('./editor').then(module => setLib(module)) }, [])
  return lib
}

function useSchema(resource: Resource): KindSchema | null {
  const [kind, setKind] = useState<KindSchema | null>(null)
  useEffect(() => {
    let closed = false
    setKind(null)
    // Without a schema there is no form; the text remains.
    schemaOf(resource).then(found => { if (!closed) setKind(found) }, () => undefined)
    return () => { closed = true }
  }, [resource.group, resource.version, resource.kind])
  return kind
}

/** What the server has said against fields. */
export type Causes = { field?: string; message?: string }[]

export interface ComposeProps {
  resource: Resource
  lib: typeof Editor
  text: string
  writable: boolean
  causes: Causes
  /** A line to show, by a new object for each time. */
  reveal?: { line: number } | null
  change: (text: string) => void
}

/** Whether the form is shown, which the address says. */
export const formShown = () => parameter('form') !== '0'
export const FormSwitch = () => (
  <label class="check"><input type="checkbox" checked={formShown()} onChange={e => set({ form: e.currentTarget.checked ? '' : '0' })} />{t('form')}</label>
)

export function Compose({ resource, lib, text, writable, causes, reveal, change }: ComposeProps) {
  const host = useRef<HTMLDivElement>(null)
  const handle = useRef<Editor.Handle | null>(null)
  const kind = useSchema(resource)
  const latest = useRef(change)
  latest.current = change

  const parsed = useMemo(() => lib.parse(text), [text])
  const kept = useRef<Tree>({}) // while the text cannot be parsed
  if ('object' in parsed) kept.current = parsed.object
  const problems = useMemo((): Problem[] => {
    const said = causes.filter(c => c.field && c.field !== '<nil>').map(c => ({ path: pathOfField(c.field!), message: c.message ?? '' }))
    return [...(kind && 'object' in parsed ? check(kind, parsed.object) : []), ...said]
  }, [kind, parsed, causes])

  // What was typed comes back as the text, perhaps after more was typed: it is shown already.
  const typed = useRef<string[]>([])
  useEffect(() => {
    handle.current = lib.edit(host.current!, text, writable, next => { typed.current.push(next); latest.current(next) })
    return () => { handle.current?.destroy(); handle.current = null }
  }, [theme.value])
  useEffect(() => {
    const at = typed.current.indexOf(text)
    typed.current.splice(0, at < 0 ? typed.current.length : at + 1)
    if (at < 0) handle.current?.show(text)
  }, [text])
  useEffect(() => { handle.current?.judge(kind, problems) }, [kind, problems, theme.value])
  useEffect(() => { if (reveal) handle.current?.reveal(reveal.line) }, [reveal])

  const broken = !('object' in parsed)
  return (
    <div class={kind && formShown() ? 'compose' : ''}>
      {kind && formShown() && (
        <div class="side">
          {broken && text.trim() && <p class="banner">{t('form.broken')}</p>}
          <ObjectForm kind={kind} object={kept.current} writable={writable && (!broken || !text.trim())} problems={problems} set={(path, value) => change(lib.withValue(text, path, value))} />
        </div>
      )}
      <div class="editor" ref={host} />
    </div>
  )
}
