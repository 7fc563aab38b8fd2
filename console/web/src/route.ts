// The address of the page is the state of the view: /console/GROUP/VERSION/RESOURCE/NAME?ns=... The core
// group is "core".
import { computed, signal } from '@preact/signals'

const base = '/console'

export const address = signal(location.pathname + location.search)
addEventListener('popstate', () => { address.value = location.pathname + location.search })

export const url = computed(() => new URL(address.value, location.origin))
export const parameter = (name: string) => url.value.searchParams.get(name) ?? ''

export interface Route { group: string; resource: string; name: string }
export const route = computed<Route | null>(() => {
  const [group, , resource, name = ''] = url.value.pathname.slice(base.length + 1).split('/').map(decode)
  return group && resource ? { group: group === 'core' ? '' : group, resource, name } : null
})

function decode(part: string): string {
  try { return decodeURIComponent(part) } catch { return part }
}

export function hrefOf(r: { group: string; version: string; resource: string }, namespace = '', name = ''): string {
  const parts = [base, r.group || 'core', r.version, r.resource]
  if (name) parts.push(encodeURIComponent(name))
  return parts.join('/') + (namespace ? `?ns=${encodeURIComponent(namespace)}` : '')
}

export const home = `${base}/`
export const access = `${base}/access`
export const learn = `${base}/learn`

export function go(href: string, replace = false): void {
  if (href === address.value) return
  history[replace ? 'replaceState' : 'pushState'](null, '', href)
  address.value = href
  if (!replace) scrollTo(0, 0)
}

/** Changes parameters of the address; empty ones are removed. */
export function set(changes: Record<string, string>, replace = true): void {
  const next = new URL(url.value)
  for (const [name, value] of Object.entries(changes)) value ? next.searchParams.set(name, value) : next.searchParams.delete(name)
  go(next.pathname + next.search, replace)
}

/** Follows links of the page without loading it again. */
addEventListener('click', e => {
  const link = (e.target as Element | null)?.closest?.('a')
  if (!link || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || link.target || link.origin !== location.origin) return
  if (!link.pathname.startsWith(`${base}/`)) return
  e.preventDefault()
  go(link.pathname + link.search)
})
