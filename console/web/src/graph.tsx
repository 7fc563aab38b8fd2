// The objects around an object, or those of a namespace, as a picture: each is a link.
import { Graph, layout } from '@dagrejs/dagre'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { keyOf, pause, type KubeObject, type Resource } from './api'
import { around, boxesOf, idOf, relationsOf, type Relations } from './relations'
import { hrefOf } from './route'
import { number, t } from './text'

const width = 210
const height = 46
const margin = 16
const most = 400

/** Follows the relations in a namespace: they are read again after a pause that grows with the time it takes. */
function useRelations(namespace: string): Relations | null {
  const [relations, setRelations] = useState<Relations | null>(null)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    const run = async () => {
      while (!signal.aborted) {
        const begin = performance.now()
        if (!document.hidden) {
          const next = await relationsOf(namespace, signal).catch(() => null)
          if (next && !signal.aborted) setRelations(next)
        }
        await pause(Math.max(2000, 10 * (performance.now() - begin)), signal)
      }
    }
    void run()
    return () => ending.abort()
  }, [namespace])
  return relations
}

interface Placed { width: number; height: number; boxes: { id: string; x: number; y: number }[]; lines: { path: string; how: string; key: string }[] }

function place(ids: string[], edges: { from: string; to: string; how: string }[]): Placed {
  const g = new Graph()
  g.setGraph({ rankdir: 'LR', nodesep: 14, ranksep: 70, marginx: margin, marginy: margin })
  g.setDefaultEdgeLabel(() => ({}))
  for (const id of ids) g.setNode(id, { width, height })
  for (const e of edges) g.setEdge(e.from, e.to)
  layout(g)
  const size = g.graph() as { width?: number; height?: number }
  const hows = new Map(edges.map(e => [`${e.from}\0${e.to}`, e.how]))
  return {
    width: size.width ?? 0, height: size.height ?? 0,
    boxes: ids.map(id => { const n = g.node(id) as { x: number; y: number }; return { id, x: n.x - width / 2, y: n.y - height / 2 } }),
    lines: g.edges().map((e: { v: string; w: string }) => {
      const { points } = g.edge(e) as { points: { x: number; y: number }[] }
      return { key: `${e.v}\0${e.w}`, how: hows.get(`${e.v}\0${e.w}`) ?? '', path: points.map((p, i) => `${i ? 'L' : 'M'}${p.x} ${p.y}`).join('') }
    }),
  }
}

export function GraphView({ resource, object }: { resource: Resource; object: KubeObject }) {
  const isNamespace = keyOf(resource) === 'namespaces'
  const namespace = isNamespace ? object.metadata.name : object.metadata.namespace ?? ''
  const own = isNamespace ? '' : idOf(keyOf(resource), namespace, object.metadata.name)
  const relations = useRelations(namespace)
  const [open, setOpen] = useState(new Set<string>())
  const [scale, setScale] = useState(1)
  const shown = useMemo(() => relations && boxesOf(own ? around(relations, own) : relations, open), [relations, open, own])
  const boxes = shown?.boxes.slice(0, most) ?? []
  const ids = boxes.map(b => b.id)
  const known = new Set(ids)
  const edges = shown?.edges.filter(e => known.has(e.from) && known.has(e.to)) ?? []
  // The picture moves only if something appears or goes.
  const placed = useMemo(() => place(ids, edges), [JSON.stringify([ids, edges])])
  const at = new Map(placed.boxes.map(b => [b.id, b]))
  if (!shown) return <p class="quiet">{t('loading')}</p>
  return (
    <>
      <div class="filters">
        <span class="how owns">{t('graph.owns')}</span><span class="how selects">{t('graph.selects')}</span><span class="how uses">{t('graph.uses')}</span>
        <span class="space" />
        {open.size > 0 && <button onClick={() => setOpen(new Set())}>{t('graph.close')}</button>}
        <button aria-label={t('graph.smaller')} onClick={() => setScale(Math.max(0.3, scale / 1.25))}>−</button>
        <button aria-label={t('graph.larger')} onClick={() => setScale(Math.min(2, scale * 1.25))}>+</button>
      </div>
      <div class="graph" tabIndex={0} role="region" aria-label={t('graph')}>
        <div style={{ width: `${placed.width * scale}px`, height: `${placed.height * scale}px` }}>
          <div class="picture" style={{ width: `${placed.width}px`, height: `${placed.height}px`, transform: `scale(${scale})` }}>
            <svg width={placed.width} height={placed.height} aria-hidden="true">
              <defs>
                <marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke" /></marker>
              </defs>
              {placed.lines.map(l => <path key={l.key} class={l.how} d={l.path} marker-end="url(#tip)" />)}
            </svg>
            {boxes.map(b => {
              const first = b.members[0]!
              const p = at.get(b.id)!
              const problem = b.members.find(m => m.problem)?.problem ?? ''
              const where = { left: `${p.x}px`, top: `${p.y}px`, width: `${width}px`, height: `${height}px` }
              const looks = `node ${problem ? 'bad' : ''} ${b.id === own ? 'self' : ''}`
              const shownProblem = problem === '?' ? t('graph.missing') : problem
              if (b.members.length > 1) {
                return (
                  <button key={b.id} class={looks} style={where} title={shownProblem || undefined} onClick={() => setOpen(new Set([...open, b.id]))}>
                    <small>{first.resource.kind}</small><span>{t('graph.many', { n: number(b.members.length) })}</span>
                  </button>
                )
              }
              return (
                <a key={b.id} class={looks} style={where} title={shownProblem || undefined} aria-current={b.id === own ? 'true' : undefined} href={`${hrefOf(first.resource, first.namespace, first.name)}${first.namespace ? '&' : '?'}tab=graph`}>
                  <small>{first.resource.kind}{shownProblem && ` · ${shownProblem}`}</small><span>{first.name}</span>
                </a>
              )
            })}
          </div>
        </div>
      </div>
      {shown.boxes.length > most && <p class="note">{t('graph.first', { n: number(most) })}</p>}
      {relations!.partial > 0 && <p class="note">{t('graph.part', { n: number(relations!.partial) })}</p>}
    </>
  )
}
