// What all views share: the kinds of the server, pins, the theme, messages.
import { computed, effect, signal } from '@preact/signals'
import { asMetadataList, discover, get, keyOf, type KubeObject, type List, type Resource } from './api'

export const resources = signal<Resource[]>([])
export const discoveryError = signal<Error | null>(null)
export const namespaces = signal<string[]>([])

export const byKey = computed(() => new Map(resources.value.map(r => [keyOf(r), r])))

/** Reads the kinds and the namespaces of the server. */
export async function loadKinds(): Promise<void> {
  try {
    resources.value = await discover()
    discoveryError.value = null
  } catch (e) {
    discoveryError.value = e as Error
  }
  get<List<KubeObject>>('/api/v1/namespaces?limit=5000', asMetadataList)
    .then(list => { namespaces.value = list.items.map(n => n.metadata.name) })
    .catch(() => undefined) // without permission to list them, the user types the name
}

/** Finds the kind that an owner reference or an event names. */
export function kindOf(apiVersion: string, kind: string): Resource | undefined {
  const slash = apiVersion.indexOf('/')
  const group = slash < 0 ? '' : apiVersion.slice(0, slash)
  return resources.value.find(r => r.group === group && r.kind === kind)
}

const storedPins = localStorage.getItem('kapok.pins')
export const pins = signal<string[]>(storedPins ? JSON.parse(storedPins) : ['pods', 'deployments.apps', 'services', 'configmaps', 'nodes', 'events'])
export function togglePin(key: string): void {
  pins.value = pins.value.includes(key) ? pins.value.filter(k => k !== key) : [...pins.value, key]
  localStorage.setItem('kapok.pins', JSON.stringify(pins.value))
}

export type Theme = 'auto' | 'light' | 'dark'
const storedTheme = localStorage.getItem('kapok.theme')
export const theme = signal<Theme>(storedTheme === 'light' || storedTheme === 'dark' ? storedTheme : 'auto')
effect(() => {
  localStorage.setItem('kapok.theme', theme.value)
  document.documentElement.dataset.theme = theme.value
})

export const message = signal('')
let timer = 0
export function say(text: string): void {
  message.value = text
  clearTimeout(timer)
  timer = window.setTimeout(() => { message.value = '' }, 5000)
}

export const paletteOpen = signal(false)
export const menuOpen = signal(false)

/** Kubernetes' own groups; all others are custom kinds. */
export const isCustom = (group: string) => group.includes('.') && !group.endsWith('.k8s.io')
