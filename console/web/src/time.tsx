// The timeline of an object: each change that the server still has, what it changed, and how the object
// was; an old state can be the draft of a new one.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Json, KubeObject, Resource } from './api'
import { plain } from './changes'
import { useEditor } from './compose'
import { keepDraft } from './draft'
import type * as Editor from './editor'
import { followed, historyOf, type Revision } from './history'
import { parameter, set } from './route'
import { theme } from './store'
import { age, instant, number, t } from './text'

type Tree = { [key: string]: Json }

export function TimeView({ resource, object, gone }: { resource: Resource; object: KubeObject; gone: boolean }) {
  const [revisions, setRevisions] = useState<Revision[] | null>(null)
  const [error, setError] = useState('')
  useEffect(() => {
    const ending = new AbortController()
    historyOf(resource, object, ending.signal).then(setRevisions, e => { if (!ending.signal.aborted) setError(e.message) })
    return () => ending.abort()
  }, [object.metadata.uid])
  useEffect(() => { setRevisions(old => old && followed(old, object)) }, [object.metadata.resourceVersion])
  if (error) return <p class="error" role="alert">{t('error', { message: error })}</p>
  if (!revisions) return <p class="quiet">{t('time.search')}</p>
  return <Timeline resource={resource} revisions={revisions} object={object} gone={gone} />
}

function Timeline({ resource, revisions, object, gone }: { resource: Resource; revisions: Revision[]; object: KubeObject; gone: boolean }) {
  const wanted = revisions.findIndex(r => r.version === parameter('at'))
  const at = wanted < 0 ? revisions.length - 1 : wanted
  const list = useRef<HTMLOListElement>(null)
  const show = (i: number) => set({ at: i === revisions.length - 1 ? '' : revisions[i]!.version })
  useEffect(() => { list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' }) }, [at])
  const shown = revisions[at]!
  const restore = () => {
    keepDraft(object, plain(shown.object as unknown as Tree))
    set({ at: '', tab: 'yaml' }, false)
  }
  return (
    <>
      <div class="filters">
        <label class="check">{t('time.drag')}<input type="range" min="0" max={revisions.length - 1} value={at} onInput={e => show(Number(e.currentTarget.value))} /></label>
        <span class="quiet">{t('time.of', { n: number(at + 1), all: number(revisions.length) })}</span>
        <span class="space" />
        {!gone && at < revisions.length - 1 && shown.type !== 'DELETED' && resource.verbs.includes('update') && <button class="primary" onClick={restore}>{t('time.restore')}</button>}
      </div>
      <div class="timeline">
        <ol ref={list} aria-label={t('time')}>
          {revisions.map((r, i) => (
            <li key={r.version}>
              <button class="revision" aria-current={i === at ? 'true' : undefined} onClick={() => show(i)}>
                <span class={`dot ${r.type}`} aria-hidden="true" />
                <span>
                  <strong>{t(r.type === 'KNOWN' ? 'time.known' : r.type)}</strong>{r.managers.length > 0 && ` ${t('by', { manager: r.managers.join(', ') })}`}
                  <small title={instant(r.time)}>{r.time && t('age', { age: age(r.time) })}</small>
                  {r.paths.slice(0, 6).map(p => <code key={p}>{p}</code>)}
                  {r.paths.length > 6 && <small>{t('time.more', { n: number(r.paths.length - 6) })}</small>}
                </span>
              </button>
            </li>
          ))}
        </ol>
        <State before={at ? revisions[at - 1]!.object : null} after={shown.object} />
      </div>
      <p class="note">{t('time.note')}</p>
    </>
  )
}

/** The object at a revision, with the difference to the one before. */
function State({ before, after }: { before: KubeObject | null; after: KubeObject }) {
  const host = useRef<HTMLDivElement>(null)
  const lib = useEditor()
  const [old, now] = useMemo(() => {
    const text = (o: KubeObject | null) => (lib && o ? lib.toYaml(plain(o as unknown as Tree)) : '')
    return [before ? text(before) : text(after), text(after)]
  }, [lib, before, after])
  useEffect(() => {
    if (!lib) return
    const handle: Editor.Handle = lib.diff(host.current!, old, now)
    return () => handle.destroy()
  }, [lib, old, now, theme.value])
  return <div class="editor" ref={host} />
}
