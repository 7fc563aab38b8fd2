// A CustomResourceDefinition: the schemas of its versions as trees, their differences, what is stored, and
// objects that the schema would not permit today.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { get, keyOf, pathOf, type Json, type KubeObject, type List, type Resource } from './api'
import { check, type Problem } from './check'
import { useEditor } from './compose'
import type * as Editor from './editor'
import { parameter, hrefOf, set } from './route'
import { KindSchema, shapeOf, textOfPath, type Schema } from './schema'
import { byKey, theme } from './store'
import { number, t } from './text'

interface Version { name: string; served: boolean; storage: boolean; deprecated?: boolean; schema?: { openAPIV3Schema?: Schema }; subresources?: { [name: string]: unknown } }
interface Spec { group: string; names: { plural: string; kind: string }; versions: Version[]; conversion?: { strategy?: string; webhook?: { clientConfig?: { url?: string; service?: { name: string; namespace: string } } } } }

export function DefinitionView({ object }: { resource: Resource; object: KubeObject }) {
  const spec = object.spec as unknown as Spec
  const wanted = parameter('version')
  const version = spec.versions.find(v => v.name === wanted) ?? spec.versions.find(v => v.storage) ?? spec.versions[0]!
  const [other, setOther] = useState('')
  const stored = ((object.status as { storedVersions?: string[] } | undefined)?.storedVersions ?? []).join(', ')
  const webhook = spec.conversion?.webhook?.clientConfig
  const by = webhook?.service ? `${webhook.service.namespace}/${webhook.service.name}` : webhook?.url ?? ''
  const compared = spec.versions.find(v => v.name === other && v !== version)
  return (
    <>
      <div class="filters">
        <select aria-label={t('crd.version')} value={version.name} onChange={e => set({ version: e.currentTarget.value })}>
          {spec.versions.map(v => <option key={v.name} value={v.name}>{[v.name, !v.served && t('crd.unserved'), v.storage && t('crd.storage'), v.deprecated && t('crd.deprecated')].filter(Boolean).join(' · ')}</option>)}
        </select>
        {spec.versions.length > 1 && (
          <select aria-label={t('crd.compare')} value={other} onChange={e => setOther(e.currentTarget.value)}>
            <option value="">{t('crd.compare')}</option>
            {spec.versions.filter(v => v !== version).map(v => <option key={v.name}>{v.name}</option>)}
          </select>
        )}
        <span class="quiet">{t('crd.stored', { versions: stored || '–' })} · {t('crd.conversion', { how: spec.conversion?.strategy ?? 'None' })}{by && ` (${by})`}</span>
      </div>
      {compared
        ? <Difference before={compared} after={version} />
        : <section aria-labelledby="tree"><h2 id="tree">{spec.names.kind}</h2><Tree schema={version.schema?.openAPIV3Schema ?? {}} depth={0} /></section>}
      <Misfits resource={byKey.value.get(keyOf({ group: spec.group, resource: spec.names.plural }))} version={version} />
    </>
  )
}

/** The fields of a schema; those below the first levels are closed. */
function Tree({ schema, depth }: { schema: Schema; depth: number }) {
  const fields = Object.entries(schema.properties ?? {}).sort(([a], [b]) => a.localeCompare(b))
  const rules = schema['x-kubernetes-validations'] ?? []
  return (
    <ul class="tree">
      {rules.map(r => <li key={r.rule}><code>{r.rule}</code> <span class="quiet">{r.message}</span></li>)}
      {fields.map(([name, s]) => <Node key={name} name={name} schema={s} required={schema.required?.includes(name)} depth={depth} />)}
      {schema.items && <Node name="[ ]" schema={schema.items} depth={depth} />}
      {typeof schema.additionalProperties === 'object' && <Node name="{ }" schema={schema.additionalProperties} depth={depth} />}
    </ul>
  )
}

function Node({ name, schema, required, depth }: { name: string; schema: Schema; required?: boolean; depth: number }) {
  const [open, setOpen] = useState(depth < 1)
  const facts: string[] = [schema.format ?? schema.type ?? shapeOf(schema)]
  if (schema.enum) facts.push(schema.enum.join(' | '))
  if (schema.default !== undefined) facts.push(`= ${JSON.stringify(schema.default)}`)
  if (schema.minimum !== undefined) facts.push(`≥ ${schema.minimum}`)
  if (schema.maximum !== undefined) facts.push(`≤ ${schema.maximum}`)
  if (schema.pattern) facts.push(`/${schema.pattern}/`)
  if (schema['x-kubernetes-list-map-keys']) facts.push(`[${schema['x-kubernetes-list-map-keys'].join(', ')}]`)
  const title = <><code>{name}</code>{required && <span class="must" title={t('form.required')}>*</span>} <span class="tag">{facts.join(' · ')}</span> <span class="quiet">{schema.description}</span></>
  const deeper = schema.properties || schema.items || typeof schema.additionalProperties === 'object' || schema['x-kubernetes-validations']
  if (!deeper) return <li>{title}</li>
  return (
    <li>
      <details open={open} onToggle={e => setOpen((e.currentTarget as HTMLDetailsElement).open)}>
        <summary>{title}</summary>
        {open && <Tree schema={schema} depth={depth + 1} />}
      </details>
    </li>
  )
}

function Difference({ before, after }: { before: Version; after: Version }) {
  const host = useRef<HTMLDivElement>(null)
  const lib = useEditor()
  useEffect(() => {
    if (!lib) return
    const text = (v: Version) => lib.toYaml((v.schema ?? {}) as Json)
    const handle: Editor.Handle = lib.diff(host.current!, text(before), text(after))
    return () => handle.destroy()
  }, [lib, before, after, theme.value])
  return <div class="editor" ref={host} />
}

const examined = 500

/** Stored objects that the schema of a version does not permit, such as those from before it was stricter. */
function Misfits({ resource, version }: { resource: Resource | undefined; version: Version }) {
  const [objects, setObjects] = useState<List<KubeObject> | null>(null)
  const [error, setError] = useState('')
  const schema = version.schema?.openAPIV3Schema
  useEffect(() => {
    setObjects(null)
    if (!resource || !version.served || !schema) return
    const ending = new AbortController()
    get<List<KubeObject>>(`${pathOf({ ...resource, version: version.name })}?limit=${examined}`, undefined, ending.signal)
      .then(setObjects, e => { if (!ending.signal.aborted) setError(t('error', { message: e.message })) })
    return () => ending.abort()
  }, [resource, version.name])
  const found = useMemo(() => {
    const kind = schema && new KindSchema({}, schema)
    const all: { o: KubeObject; problems: Problem[] }[] = []
    for (const o of objects?.items ?? []) {
      const problems = kind ? check(kind, o as unknown as Json) : []
      if (problems.length) all.push({ o, problems })
    }
    return all
  }, [objects, schema])
  if (!resource || !version.served || !schema) return null
  return (
    <section aria-labelledby="misfits">
      <h2 id="misfits">{t('crd.misfits')}</h2>
      {error && <p class="error" role="alert">{error}</p>}
      {!objects && !error && <p class="quiet">{t('loading')}</p>}
      {objects && !found.length && <p class="quiet">{t('crd.fit', { n: number(objects.items.length) })}</p>}
      <ul class="links">
        {found.map(({ o, problems }) => (
          <li key={o.metadata.uid}>
            <a href={hrefOf(resource, o.metadata.namespace, o.metadata.name)}>{[o.metadata.namespace, o.metadata.name].filter(Boolean).join('/')}</a>{' '}
            <span class="bad">{problems.slice(0, 3).map(p => `${textOfPath(p.path)} ${p.message}`).join('; ')}</span>
          </li>
        ))}
      </ul>
      {objects?.metadata.continue && <p class="note">{t('crd.first', { n: number(examined) })}</p>}
    </section>
  )
}
