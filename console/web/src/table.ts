// The rows of a resource as the server's own table, kept current by a watch.
import { ApiError, asTable, get, pathOf, pause, watch, type Metadata, type Resource } from './api'

export interface Column { name: string; type: string; format: string; description: string; priority: number }
export interface Row {
  name: string
  namespace: string
  uid: string
  created: string
  deleting: boolean
  labels: Record<string, string>
  cells: (string | number | boolean | null)[]
  changed: number // when a watch has changed it; 0 if none has
}
interface Table {
  metadata?: { resourceVersion?: string; continue?: string; remainingItemCount?: number }
  columnDefinitions?: Column[]
  rows?: { cells: Row['cells']; object: { metadata: Metadata } }[]
}

const firstChunk = 500
const nextChunks = 5000

/** A list that follows the server. start and stop are its life; onChange is called at most once a frame. */
export class LiveTable {
  columns: Column[] = []
  rows = new Map<string, Row>()
  expected = 0 // the number of rows that the server has announced
  state: 'loading' | 'live' | 'waiting' = 'loading'
  error: ApiError | Error | null = null
  private readonly ending = new AbortController()
  private frame = 0

  constructor(private readonly resource: Resource, private readonly namespace: string, private readonly selectors: { label: string; field: string },
    private readonly onChange: () => void) {}

  start(): void { void this.run() }

  stop(): void {
    this.ending.abort()
    cancelAnimationFrame(this.frame)
  }

  private changed(): void {
    if (this.frame || this.ending.signal.aborted) return
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.onChange() })
  }

  private path(more: Record<string, string>): string {
    const query = new URLSearchParams(more)
    if (this.selectors.label) query.set('labelSelector', this.selectors.label)
    if (this.selectors.field) query.set('fieldSelector', this.selectors.field)
    return `${pathOf(this.resource, this.namespace)}?${query}`
  }

  private async run(): Promise<void> {
    const { signal } = this.ending
    for (let delay = 500; !signal.aborted; delay = Math.min(delay * 2, 15_000)) {
      try {
        let revision = await this.list()
        while (!signal.aborted) {
          const begun = performance.now()
          revision = await this.follow(revision)
          delay = 500
          if (performance.now() - begun < 1000) await pause(1000, signal)
        }
      } catch (e) {
        if (signal.aborted) return
        const known = e as ApiError
        if (known.code !== 410) { // 410: the history is compacted, and the list starts again at once
          this.error = known
          this.state = 'waiting'
          this.changed()
          if (known.code === 400 || known.code === 401) return // does not get better
          await pause(delay, signal)
        }
      }
    }
  }

  private async list(): Promise<string> {
    const seen = new Set<string>()
    let more = ''
    let revision = ''
    do {
      const query: Record<string, string> = { limit: String(more ? nextChunks : firstChunk) }
      if (more) query.continue = more
      const table = await get<Table>(this.path(query), asTable, this.ending.signal)
      if (table.columnDefinitions) this.columns = table.columnDefinitions
      for (const row of table.rows ?? []) {
        seen.add(row.object.metadata.uid)
        this.put(row, 0)
      }
      revision = table.metadata?.resourceVersion ?? ''
      more = table.metadata?.continue ?? ''
      this.expected = seen.size + (table.metadata?.remainingItemCount ?? 0)
      this.error = null
      this.changed()
    } while (more)
    for (const uid of this.rows.keys()) if (!seen.has(uid)) this.rows.delete(uid)
    this.state = 'live'
    this.changed()
    return revision
  }

  private async follow(revision: string): Promise<string> {
    let last = revision
    await watch<Table>(this.path({ watch: '1', allowWatchBookmarks: 'true', resourceVersion: revision }), asTable, this.ending.signal, event => {
      for (const row of event.object.rows ?? []) {
        const { uid, resourceVersion } = row.object.metadata
        last = resourceVersion || last
        if (event.type === 'DELETED') this.rows.delete(uid)
        else if (event.type !== 'BOOKMARK') this.put(row, Date.now())
      }
      if (event.type === 'BOOKMARK') last = event.object.metadata?.resourceVersion || last
      else this.changed()
    })
    return last
  }

  private put(row: NonNullable<Table['rows']>[number], changed: number): void {
    const m = row.object.metadata
    this.rows.set(m.uid, {
      name: m.name, namespace: m.namespace ?? '', uid: m.uid, created: m.creationTimestamp ?? '', deleting: !!m.deletionTimestamp,
      labels: m.labels ?? {}, cells: row.cells, changed,
    })
  }
}

/** Orders values of cells: numbers by size, texts by their language with numbers inside. */
const collator = new Intl.Collator(undefined, { numeric: true })
export function compare(a: Row['cells'][number], b: Row['cells'][number]): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return collator.compare(String(a ?? ''), String(b ?? ''))
}
