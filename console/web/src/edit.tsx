// The text of an object: edit it, see what the server would make of it, and apply it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, pathOf, request, type Json, type KubeObject, type Resource } from './api'
import { changesOf, keepOwn, plain } from './changes'
import { Compose, FormSwitch, useEditor } from './compose'
import { Dialog } from './dialog'
import { dropDraft, readDraft, writeDraft, type Draft } from './draft'
import type * as Editor from './editor'
import { manager, pathsOf } from './managed'
import { say } from './store'
import { t } from './text'

type Tree = { [key: string]: Json }
const load = () => import('./editor')

/** A draft that is JSON, such as an old state, is shown as YAML. */
function restyle(lib: typeof Editor, text: string): string {
  const parsed = lib.parse(text)
  return 'object' in parsed ? lib.toYaml(parsed.object) : text
}

export function EditView({ resource, object }: { resource: Resource; object: KubeObject }) {
  const lib = useEditor()
  const [draft, setDraft] = useState<Draft | null>(() => readDraft(object.metadata.uid))
  const [managed, setManaged] = useState(false)
  const [problem, setProblem] = useState('')
  const [error, setError] = useState<{ line: number } | null>(null)
  const [review, setReview] = useState<Tree | null>(null)
  const writable = resource.verbs.includes('patch') || resource.verbs.includes('update')
  // Without a draft, the text follows the object.
  const text = useMemo(() => (draft?.text.startsWith('{') && lib ? restyle(lib, draft.text) : draft?.text) ?? lib?.toYaml(plain(object as unknown as Tree, managed)) ?? '', [lib, draft, managed, object])

  const change = (next: string) => {
    setProblem('')
    setDraft(old => {
      const fresh = { text: next, base: old?.base ?? (object as unknown as Tree) }
      writeDraft(object.metadata.uid, fresh)
      return fresh
    })
  }
  const discard = () => { dropDraft(object.metadata.uid); setDraft(null); setProblem('') }
  const check = () => {
    const parsed = lib!.parse(text)
    if ('message' in parsed) {
      setProblem(t('yaml.invalid', parsed))
      setError({ line: parsed.line })
    } else setReview(parsed.object)
  }
  const stale = draft !== null && (draft.base.metadata as Tree).generation !== object.metadata.generation
  return (
    <>
      <div class="filters">
        {!draft && <label class="check"><input type="checkbox" checked={managed} onChange={e => setManaged(e.currentTarget.checked)} />{t('managed')}</label>}
        {draft && <span class="quiet">{t('draft')}</span>}
        <span class="space" />
        <FormSwitch />
        {draft && <button onClick={discard}>{t('revert')}</button>}
        {writable && <button class="primary" disabled={!draft} onClick={check}>{t('review')}</button>}
      </div>
      {stale && <p class="banner">{t('stale')}</p>}
      {problem && <p class="error" role="alert">{problem}</p>}
      {lib && <Compose resource={resource} lib={lib} text={text} writable={writable} causes={[]} reveal={error} change={change} />}
      {review && draft && (
        <Review resource={resource} object={object} base={draft.base} edited={review} close={() => setReview(null)} done={() => { setReview(null); discard(); say(t('applied')) }} />
      )}
    </>
  )
}

interface ReviewProps { resource: Resource; object: KubeObject; base: Tree; edited: Tree; close: () => void; done: () => void }

function Review({ resource, object, base, edited, close, done }: ReviewProps) {
  const [mode, setMode] = useState<'apply' | 'replace'>(resource.verbs.includes('patch') ? 'apply' : 'replace')
  const [force, setForce] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const [result, setResult] = useState<Tree | null>(null)
  const [busy, setBusy] = useState(true)
  const host = useRef<HTMLDivElement>(null)

  const removed: string[] = []
  const before = plain(base)
  const after = plain(edited)
  const changes = changesOf(before, after, removed)
  const unchanged = !removed.length && !Object.keys(changes).length
  const conflicts = error?.causes.filter(c => c.reason === 'FieldManagerConflict') ?? []

  const send = async (dryRun: boolean): Promise<Tree> => {
    const query = new URLSearchParams({ fieldManager: manager, fieldValidation: 'Strict' })
    if (dryRun) query.set('dryRun', 'All')
    let body: Tree = edited
    if (mode === 'apply') {
      if (force) query.set('force', 'true')
      body = keepOwn(changes, after, object.metadata.managedFields ?? [], manager)
      const { name, namespace, uid } = object.metadata
      const metadata = { ...(body.metadata as Tree | undefined), name, uid, ...(namespace ? { namespace } : {}) }
      body = { ...body, apiVersion: edited.apiVersion ?? base.apiVersion!, kind: edited.kind ?? base.kind!, metadata }
      delete (body.metadata as Tree).resourceVersion
    }
    const response = await request(`${pathOf(resource, object.metadata.namespace, object.metadata.name)}?${query}`, {
      method: mode === 'apply' ? 'PATCH' : 'PUT', headers: { 'Content-Type': mode === 'apply' ? 'application/apply-patch+yaml' : 'application/json' },
      body: JSON.stringify(body),
    })
    return response.json()
  }

  useEffect(() => {
    if (unchanged) { setBusy(false); return }
    let closed = false
    setBusy(true)
    setError(null)
    setResult(null)
    send(true).then(r => { if (!closed) setResult(r) }, e => { if (!closed) setError(e) }).finally(() => { if (!closed) setBusy(false) })
    return () => { closed = true }
  }, [mode, force])

  useEffect(() => {
    if (!result || !host.current) return
    let handle: Editor.Handle | null = null
    let closed = false
    void load().then(editor => {
      if (!closed) handle = editor.diff(host.current!, editor.toYaml(comparable(object as unknown as Tree)), editor.toYaml(comparable(result)))
    })
    return () => { closed = true; handle?.destroy() }
  }, [result])

  const apply = () => {
    setBusy(true)
    send(false).then(done, e => { setError(e); setBusy(false) })
  }
  return (
    <Dialog title={t('diff')} close={close} wide>
      {unchanged && <p class="quiet">{t('unchanged')}</p>}
      {!unchanged && (
        <fieldset>
          {resource.verbs.includes('patch') && <label class="check"><input type="radio" name="mode" checked={mode === 'apply'} onChange={() => setMode('apply')} />{t('mode.apply')}</label>}
          {resource.verbs.includes('update') && <label class="check"><input type="radio" name="mode" checked={mode === 'replace'} onChange={() => setMode('replace')} />{t('mode.replace')}</label>}
        </fieldset>
      )}
      {mode === 'apply' && removed.length > 0 && <p class="banner">{t('stay', { paths: removed.join(', ') })}</p>}
      {result && !error && <Takeover object={object} result={result} />}
      {busy && <p class="quiet">{t('dryRun')}</p>}
      {conflicts.length > 0 && (
        <div class="banner" role="alert">
          <p>{t('conflicts')}</p>
          <ul>{conflicts.map(c => <li key={`${c.field}${c.message}`}><code>{c.field}</code> {c.message}</li>)}</ul>
          <label class="check"><input type="checkbox" checked={force} onChange={e => setForce(e.currentTarget.checked)} />{t('force')}</label>
        </div>
      )}
      {force && !conflicts.length && <label class="check"><input type="checkbox" checked={force} onChange={e => setForce(e.currentTarget.checked)} />{t('force')}</label>}
      {error && !conflicts.length && <p class="error" role="alert">{t('error', { message: error.message })}</p>}
      <div class="editor diff" ref={host} hidden={!result} />
      <div class="buttons">
        <button onClick={close}>{t('cancel')}</button>
        <button class="primary" disabled={busy || !result} onClick={apply}>{t(mode)}</button>
      </div>
    </Dialog>
  )
}

/** Shows whose fields the change takes over. */
function Takeover({ object, result }: { object: KubeObject; result: Tree }) {
  const fields = (managed: KubeObject['metadata']['managedFields'], own: boolean) =>
    (managed ?? []).filter(m => (m.manager === manager) === own && !m.subresource).map(m => ({ manager: m.manager, paths: pathsOf(m.fieldsV1) }))
  const mine = new Set(fields((result.metadata as unknown as KubeObject['metadata']).managedFields, true).flatMap(f => f.paths))
  const owners = fields(object.metadata.managedFields, false).filter(f => f.paths.some(p => mine.has(p))).map(f => f.manager)
  return owners.length ? <p class="quiet">{t('takesOver', { owners: [...new Set(owners)].join(', ') })}</p> : null
}

/** Returns an object without what each write changes. */
function comparable(object: Tree): Tree {
  const o = plain(object)
  const { resourceVersion: _, generation: __, ...metadata } = o.metadata as Tree
  return { ...o, metadata }
}
