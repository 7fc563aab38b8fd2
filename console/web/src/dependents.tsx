// The objects that an object owns: they are deleted with it.
import { useEffect, useState } from 'preact/hooks'
import { asMetadataList, forEachOf, get, keyOf, pathOf, type KubeObject, type List, type Resource } from './api'
import { hrefOf } from './route'
import { resources } from './store'
import { number, t } from './text'

const perKind = 500
const searchedKinds = 100

export interface Dependent { resource: Resource; object: KubeObject }

/** Finds the objects whose owner is this one. */
export async function dependentsOf(owner: KubeObject, signal: AbortSignal): Promise<{ found: Dependent[]; partial: number }> {
  const found: Dependent[] = []
  let partial = 0
  const ns = owner.metadata.namespace ?? ''
  const kinds = resources.value.filter(r => (!ns || r.namespaced) && !['events', 'leases.coordination.k8s.io'].includes(keyOf(r))).slice(0, searchedKinds)
  await forEachOf(kinds, 6, async r => {
    const list = await get<List<KubeObject>>(`${pathOf(r, ns)}?limit=${perKind}`, asMetadataList, signal).catch(() => null)
    if (list?.metadata.continue) partial++
    for (const object of list?.items ?? []) if (object.metadata.ownerReferences?.some(o => o.uid === owner.metadata.uid)) found.push({ resource: r, object })
  })
  return { found, partial }
}

export function Dependents({ object }: { object: KubeObject }) {
  const [state, setState] = useState<Awaited<ReturnType<typeof dependentsOf>> | null>(null)
  useEffect(() => {
    const ending = new AbortController()
    void dependentsOf(object, ending.signal).then(s => { if (!ending.signal.aborted) setState(s) })
    return () => ending.abort()
  }, [object.metadata.uid, object.metadata.resourceVersion])
  return (
    <section aria-labelledby="dependents">
      <h2 id="dependents">{t('dependents')}</h2>
      {!state && <p class="quiet">{t('loading')}</p>}
      {state && !state.found.length && <p class="quiet">{t('dependents.none')}</p>}
      <DependentList all={state?.found ?? []} />
      {state && state.partial > 0 && <p class="note">{t('dependents.part', { n: number(perKind), kinds: state.partial })}</p>}
    </section>
  )
}

export function DependentList({ all }: { all: Dependent[] }) {
  return (
    <ul class="links">
      {all.slice(0, 200).map(d => (
        <li key={d.object.metadata.uid}>
          <a href={hrefOf(d.resource, d.object.metadata.namespace, d.object.metadata.name)}><span class="tag">{d.resource.kind}</span> {d.object.metadata.name}</a>
        </li>
      ))}
    </ul>
  )
}
