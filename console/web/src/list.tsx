// The objects of a kind: the server's table, live, filtered and sorted. Only visible rows are in the page.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { keyOf, type Resource } from './api'
import { CreateView } from './create'
import { go, hrefOf, parameter, set } from './route'
import { namespaces } from './store'
import { LiveTable, compare, type Column, type Row } from './table'
import { age, number, t } from './text'
import { cpuText, memoryText, useUsageOf, type Use } from './usage'

export function ListView({ resource }: { resource: Resource }) {
  if (parameter('new')) return <CreateView key={parameter('from')} resource={resource} namespace={parameter('ns')} from={parameter('from')} />
  return <Objects resource={resource} />
}

function Objects({ resource }: { resource: Resource }) {
  const ns = resource.namespaced ? parameter('ns') : ''
  const label = parameter('l')
  const field = parameter('f')
  const text = parameter('q')
  const wide = parameter('wide') === '1'
  const [sortName = '', descending] = parameter('sort').split(':')
  const [table, setTable] = useState<LiveTable | null>(null)
  const [version, setVersion] = useState(0)

  useEffect(() => {
    const live = new LiveTable(resource, ns, { label, field }, () => setVersion(v => v + 1))
    setTable(live)
    live.start()
    return () => live.stop()
  }, [resource.group, resource.version, resource.resource, ns, label, field])

  const usage = useUsageOf(keyOf(resource), ns)
  const columns = useMemo(() => {
    const all: Shown[] = (table?.columns ?? []).map((c, index) => ({ ...c, index })).filter(c => wide || c.priority === 0)
    return usage && all.length ? [...all, ...measured] : all
  }, [table, version, wide, !usage])
  const withNamespace = resource.namespaced && !ns
  const rows = useMemo(() => {
    const all = [...(table?.rows.values() ?? [])]
    const wanted = text.toLowerCase()
    const kept = wanted ? all.filter(r => matches(r, wanted)) : all
    const by = columns.find(c => c.name === sortName)
    const sign = descending ? -1 : 1
    if (sortName === 'Namespace' && !by) kept.sort((a, b) => sign * (compare(a.namespace, b.namespace) || compare(a.name, b.name)))
    else if (by?.name === 'Age') kept.sort((a, b) => -sign * compare(a.created, b.created))
    else if (by?.use) kept.sort((a, b) => sign * compare(usage?.get(placeOf(a))?.[by.use!] ?? -1, usage?.get(placeOf(b))?.[by.use!] ?? -1))
    else if (by) kept.sort((a, b) => sign * compare(a.cells[by.index] ?? '', b.cells[by.index] ?? ''))
    return kept
  }, [table, version, text, sortName, descending, columns, usage])

  const sort = (name: string) => set({ sort: sortName !== name ? name : descending ? '' : `${name}:desc` })
  const total = table ? Math.max(table.expected, table.rows.size) : 0
  const count = t(table?.state === 'loading' ? 'rows.loading' : 'rows', { n: number(rows.length), all: number(table?.state === 'loading' ? total : table?.rows.size ?? 0) })
  return (
    <div class="list">
      <div class="title">
        <h1>{resource.kind}</h1>
        <span class="quiet">{resource.group ? `${resource.group}/${resource.version}` : resource.version}</span>
        <span class="quiet" data-testid="count">{count}</span>
        {table && table.state !== 'loading' && <span class={`state ${table.state === 'live' ? 'good' : 'bad'}`}>{t(table.state === 'live' ? 'rows.live' : 'rows.waiting')}</span>}
        {resource.verbs.includes('create') && <button class="last" onClick={() => set({ new: '1' }, false)}>{t('create')}</button>}
      </div>
      <div class="filters">
        <input type="search" aria-label={t('filter')} placeholder={`${t('filter')}  /`} value={text} onInput={e => set({ q: e.currentTarget.value })} />
        {resource.namespaced && <NamespacePicker value={ns} />}
        <Selector name={t('label')} example={t('label.example')} value={label} parameter="l" />
        <Selector name={t('field')} example={t('field.example')} value={field} parameter="f" />
        {table?.columns.some(c => c.priority > 0) && (
          <label class="check"><input type="checkbox" checked={wide} onChange={e => set({ wide: e.currentTarget.checked ? '1' : '' })} />{t('more')}</label>
        )}
      </div>
      {table?.error && <p class="error" role="alert">{t('error', { message: table.error.message })}</p>}
      {table && columns.length > 0 && (
        <Rows key={`${keyOf(resource)} ${ns}`} resource={resource} rows={rows} columns={columns} usage={usage} withNamespace={withNamespace} sort={sort} sortName={sortName} descending={!!descending} />
      )}
      {table && !rows.length && table.state === 'live' && <p class="quiet">{t(table.rows.size ? 'rows.filtered' : 'rows.none')}</p>}
      {table?.state === 'loading' && !table.rows.size && <p class="quiet">{t('loading')}</p>}
    </div>
  )
}

function matches(r: Row, text: string): boolean {
  if (r.name.toLowerCase().includes(text) || r.namespace.toLowerCase().includes(text)) return true
  return r.cells.some(c => c !== null && String(c).toLowerCase().includes(text))
}

function NamespacePicker({ value }: { value: string }) {
  const known = namespaces.value
  return (
    <select aria-label={t('namespace')} value={value} onChange={e => set({ ns: e.currentTarget.value }, false)}>
      <option value="">{t('namespace.all')}</option>
      {value && !known.includes(value) && <option value={value}>{value}</option>}
      {known.map(n => <option key={n} value={n}>{n}</option>)}
    </select>
  )
}

/** A selector is sent when the user has finished it: half of one is an error. */
function Selector({ name, example, value, parameter }: { name: string; example: string; value: string; parameter: string }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return <input aria-label={name} placeholder={`${name}: ${example}`} value={text} onInput={e => setText(e.currentTarget.value)} onChange={() => set({ [parameter]: text.trim() })} />
}

/** A column of the server, or of what objects use. */
type Shown = Column & { index: number; use?: keyof Use }
const measured: Shown[] = (['cpu', 'memory'] as const).map(use => ({ name: use === 'cpu' ? 'CPU' : 'Memory', type: 'string', format: '', description: '', priority: 0, index: -1, use }))
const placeOf = (r: Row) => `${r.namespace}/${r.name}`

interface RowsProps {
  resource: Resource
  rows: Row[]
  columns: Shown[]
  usage: Map<string, Use> | null
  withNamespace: boolean
  sort: (name: string) => void
  sortName: string
  descending: boolean
}

const phone = matchMedia('(max-width: 700px)')

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(phone.matches)
  useEffect(() => {
    const changed = () => setNarrow(phone.matches)
    phone.addEventListener('change', changed)
    return () => phone.removeEventListener('change', changed)
  }, [])
  return narrow
}

function Rows({ resource, rows, columns, usage, withNamespace, sort, sortName, descending }: RowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [, draw] = useState(0)
  const [at, setAt] = useState(-1)
  const narrow = useNarrow()
  const height = narrow ? 64 : 36
  const virtual = useRef<Virtualizer<HTMLDivElement, HTMLElement> | null>(null)
  const options = {
    count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12,
    scrollToFn: elementScroll, observeElementRect, observeElementOffset, onChange: () => draw(n => n + 1),
    getItemKey: (i: number) => rows[i]?.uid ?? i,
  }
  virtual.current ??= new Virtualizer(options)
  virtual.current.setOptions(options)
  useEffect(() => virtual.current!._didMount(), [])
  useEffect(() => virtual.current!._willUpdate())
  useEffect(() => virtual.current!.measure(), [height])

  const template = useMemo(() => {
    const widths = columns.map(c => {
      let longest = c.name.length + 2
      for (const r of rows.slice(0, 200)) longest = Math.max(longest, shown(r, c, usage).length)
      const fit = Math.min(longest, c.name === 'Name' ? 60 : 36) + 2
      return `minmax(${Math.min(fit, c.name === 'Name' ? 16 : 8)}ch, ${fit}fr)`
    })
    if (withNamespace) widths.splice(1, 0, 'minmax(10ch, 16fr)')
    return widths.join(' ')
  }, [columns, withNamespace, rows.length > 0, rows.length >> 7])

  const onKey = (e: KeyboardEvent) => {
    let to = at
    if (e.key === 'ArrowDown' || e.key === 'j') to = Math.min(at + 1, rows.length - 1)
    else if (e.key === 'ArrowUp' || e.key === 'k') to = Math.max(at - 1, 0)
    else if (e.key === 'Home') to = 0
    else if (e.key === 'End') to = rows.length - 1
    else if (e.key === 'Enter' && rows[at]) { go(hrefOf(resource, rows[at].namespace, rows[at].name)); return }
    else return
    e.preventDefault()
    setAt(to)
    virtual.current!.scrollToIndex(to)
  }
  const names = withNamespace ? ['Name', 'Namespace'] : ['Name']
  return (
    <div class="table" role="table" aria-rowcount={rows.length + 1} aria-label={resource.kind} tabIndex={0} ref={box} onKeyDown={onKey}>
      <div class="row head" role="row" style={{ gridTemplateColumns: template }}>
        {columns.flatMap(c => c.name === names[0] && withNamespace ? [c.name, 'Namespace'] : [c.name]).map(name => (
          <span key={name} role="columnheader" aria-sort={sortName === name ? (descending ? 'descending' : 'ascending') : 'none'}>
            <button title={t('sortBy', { name })} onClick={() => sort(name)}>{name}{sortName === name && <i aria-hidden="true">{descending ? ' ↓' : ' ↑'}</i>}</button>
          </span>
        ))}
      </div>
      <div class="body" role="rowgroup" style={{ height: `${virtual.current.getTotalSize()}px` }}>
        {virtual.current.getVirtualItems().map(item => {
          const r = rows[item.index]
          if (!r) return null
          return (
            <div key={r.uid} class={`row${item.index === at ? ' at' : ''}${r.deleting ? ' deleting' : ''}`} role="row" aria-rowindex={item.index + 2}
              style={{ gridTemplateColumns: narrow ? '' : template, transform: `translateY(${item.start}px)`, height: `${height}px` }}>
              {columns.flatMap(c => {
                const text = shown(r, c, usage)
                const cell = c.name === 'Name'
                  ? <span key="name" role="cell" class="name"><a href={hrefOf(resource, r.namespace, r.name)} title={text}>{text}</a></span>
                  : <span key={c.name} role="cell" class={tone(c.name, text)} data-name={c.name} title={text}>{text}</span>
                return c.name === 'Name' && withNamespace ? [cell, <span key="namespace" role="cell" class="quiet" title={r.namespace}>{r.namespace}</span>] : [cell]
              })}
            </div>
          )
        })}
      </div>
    </div>
  )
}

/** The server writes ages when it sends a row; here they go on. */
function shown(r: Row, c: Shown, usage: Map<string, Use> | null): string {
  if (c.name === 'Age') return age(r.created)
  if (c.use) {
    const use = usage?.get(placeOf(r))
    return use ? (c.use === 'cpu' ? cpuText : memoryText)(use[c.use]) : ''
  }
  const cell = r.cells[c.index]
  return cell === null || cell === undefined ? '' : String(cell)
}

const wrong = /^(CrashLoopBackOff|Error|Failed|ErrImage\w*|ImagePullBackOff|False|Lost|OOMKilled|Evicted|NotReady.*|Unknown|Create\w+Error|InvalidImageName)$/
const right = /^(Running|True|Ready|Active|Bound|Complete|Completed|Succeeded|Available)$/
function tone(column: string, text: string): string {
  if (/^(\d+)\/(\d+)$/.test(text)) {
    const [a, b] = text.split('/')
    return a === b ? '' : 'warn'
  }
  if (column === 'Name') return ''
  return wrong.test(text) ? 'bad' : right.test(text) ? 'good' : ''
}
