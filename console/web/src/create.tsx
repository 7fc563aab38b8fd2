// A new object: its text, what the server would make of it, and then the object itself.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get, pathOf, request, type Json, type Resource } from './api'
import { plain } from './changes'
import { Compose, FormSwitch, useEditor, type Causes } from './compose'
import { Dialog } from './dialog'
import type * as Editor from './editor'
import { manager } from './managed'
import { go, hrefOf, set } from './route'
import { say } from './store'
import { t } from './text'

type Tree = { [key: string]: Json }

/** Returns a copy of an object without what belongs to the object alone. */
function copyOf(object: Tree): Tree {
  const { status: _, ...rest } = plain(object)
  const m = rest.metadata as Tree
  const metadata: Tree = { name: `${m.name}-copy` }
  for (const key of ['namespace', 'labels']) if (m[key]) metadata[key] = m[key]
  const { 'kubectl.kubernetes.io/last-applied-configuration': __, ...annotations } = (m.annotations ?? {}) as Tree
  if (Object.keys(annotations).length) metadata.annotations = annotations
  return { ...rest, metadata }
}

export function CreateView({ resource, namespace, from }: { resource: Resource; namespace: string; from: string }) {
  const lib = useEditor()
  const key = `kapok.new.${resource.group}.${resource.resource}.${from}`
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? '')
  const [error, setError] = useState('')
  const [causes, setCauses] = useState<Causes>([])
  const [result, setResult] = useState<{ sent: Tree; got: Tree } | null>(null)
  const [busy, setBusy] = useState(false)

  useEffect(() => {
    if (!lib || text) return
    let closed = false
    const begin = async () => {
      const fresh: Tree = {
        apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind,
        metadata: { name: '', ...(resource.namespaced ? { namespace: namespace || 'default' } : {}) },
      }
      const old = from ? await get<Tree>(pathOf(resource, namespace, from)).then(copyOf, e => { setError(t('error', { message: e.message })); return fresh }) : fresh
      if (!closed) setText(lib.toYaml({ apiVersion: fresh.apiVersion!, kind: fresh.kind!, ...old }))
    }
    void begin()
    return () => { closed = true }
  }, [lib])
  const change = (next: string) => { setError(''); setCauses([]); setText(next); sessionStorage.setItem(key, next) }

  const send = async (object: Tree, dryRun: boolean): Promise<Tree> => {
    const query = new URLSearchParams({ fieldManager: manager, fieldValidation: 'Strict' })
    if (dryRun) query.set('dryRun', 'All')
    const ns = resource.namespaced ? String((object.metadata as Tree | undefined)?.namespace ?? (namespace || 'default')) : ''
    const response = await request(`${pathOf(resource, ns)}?${query}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(object) })
    return response.json()
  }
  const fail = (e: ApiError | Error) => { setBusy(false); setError(t('error', { message: e.message })); setCauses(e instanceof ApiError ? e.causes : []) }
  const check = () => {
    const parsed = lib!.parse(text)
    if ('message' in parsed) { setError(t('yaml.invalid', parsed)); return }
    setBusy(true)
    send(parsed.object, true).then(got => { setBusy(false); setResult({ sent: parsed.object, got }) }, fail)
  }
  const create = () => {
    setBusy(true)
    send(result!.sent, false).then(got => {
      sessionStorage.removeItem(key)
      const m = got.metadata as Tree
      say(t('created.done', { name: String(m.name) }))
      go(hrefOf(resource, String(m.namespace ?? ''), String(m.name)))
    }, e => { setResult(null); fail(e) })
  }
  return (
    <div class="object">
      <a class="back" href={hrefOf(resource, namespace)} onClick={e => { e.preventDefault(); set({ new: '', from: '' }, false) }}>‹ {resource.kind}</a>
      <div class="title"><h1>{t('create.title', { kind: resource.kind })}</h1></div>
      <div class="filters">
        <span class="quiet">{t('create.text')}</span>
        <span class="space" />
        <FormSwitch />
        <button class="primary" disabled={busy || !text} onClick={check}>{t('create.check')}</button>
      </div>
      {error && <p class="error" role="alert">{error}</p>}
      {lib && text && <Compose resource={resource} lib={lib} text={text} writable causes={causes} change={change} />}
      {result && <Result sent={result.sent} got={result.got} busy={busy} close={() => setResult(null)} create={create} />}
    </div>
  )
}

function Result({ sent, got, busy, close, create }: { sent: Tree; got: Tree; busy: boolean; close: () => void; create: () => void }) {
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let closed = false
    let handle: Editor.Handle | null = null
    void import('./editor').then(editor => { if (!closed) handle = editor.diff(host.current!, editor.toYaml(sent), editor.toYaml(plain(got))) })
    return () => { closed = true; handle?.destroy() }
  }, [])
  return (
    <Dialog title={t('create.result')} close={close} wide>
      <div class="editor diff" ref={host} />
      <div class="buttons"><button onClick={close}>{t('cancel')}</button><button class="primary" disabled={busy} onClick={create}>{t('create')}</button></div>
    </Dialog>
  )
}
