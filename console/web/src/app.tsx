// The frame of the page: navigation, the view of the address, keys.
import { useEffect, useState } from 'preact/hooks'
import { keyOf, type Resource } from './api'
import { DoneView } from './done'
import { HomeView } from './home'
import { lazy } from './lazy'
import { ListView } from './list'
import { LoginView } from './login'
import { ObjectView } from './object'
import { Palette } from './palette'
import { access, go, home, hrefOf, learn, parameter, route, url } from './route'
import { signedIn } from './session'
import { byKey, discoveryError, isCustom, loadKinds, menuOpen, message, paletteOpen, pins, resources, togglePin } from './store'
import { number, t } from './text'
import { trail } from './trail'

export function App() {
  if (!signedIn.value) return <LoginView />
  return <Frame />
}

function Frame() {
  const [done, setDone] = useState(false)
  useEffect(() => {
    void loadKinds()
    const refresh = setInterval(() => { if (!document.hidden) void loadKinds() }, 60_000)
    const onKey = (e: KeyboardEvent) => {
      const typing = (e.target as Element).closest?.('input, textarea, select, [contenteditable], dialog, .editor')
      if ((e.target as Element).closest?.('.terminal-box')) return
      else if ((e.metaKey || e.ctrlKey) && e.key === 'k') paletteOpen.value = true
      else if (typing || e.metaKey || e.ctrlKey || e.altKey) return
      else if (e.key === ':') paletteOpen.value = true
      else if (e.key === 'h') go(home)
      else if (e.key === '/') document.querySelector<HTMLInputElement>('input[type=search]')?.focus()
      else return
      e.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => { clearInterval(refresh); removeEventListener('keydown', onKey) }
  }, [])
  return (
    <>
      <header class="bar">
        <button class="icon menu" aria-label={t('menu')} aria-expanded={menuOpen.value} onClick={() => { menuOpen.value = !menuOpen.value }}>☰</button>
        <a class="brand" href={home}><img src="/console/icon.svg" alt="" width="24" height="24" />{t('title')}</a>
        <button class="command" onClick={() => { paletteOpen.value = true }}><span>{t('command')}</span><kbd>Ctrl K</kbd></button>
        <button class="icon" title={t('trail')} onClick={() => setDone(true)}><span aria-hidden="true">›_</span><span class="hidden">{t('trail')}</span>{trail.value.length > 0 && <small> {number(trail.value.length)}</small>}</button>
      </header>
      <div class="columns">
        <Navigation />
        <main tabIndex={-1}><View /></main>
      </div>
      {done && <DoneView close={() => setDone(false)} />}
      {paletteOpen.value && <Palette />}
      <div class="message" role="status">{message.value && <span>{message.value}</span>}</div>
    </>
  )
}

/** Views that few need are loaded when they are shown. */
const AccessView = lazy(() => import('./access').then(m => m.AccessView))
const LearnView = lazy(() => import('./learn').then(m => m.LearnView))

function View() {
  if (url.value.pathname === access) return <AccessView />
  if (url.value.pathname === learn) return <LearnView />
  const at = route.value
  if (!at) return <HomeView />
  const resource = byKey.value.get(keyOf(at))
  if (!resource) {
    const error = discoveryError.value
    if (error) return <p class="error" role="alert">{t('error', { message: error.message })}</p>
    return <p class="quiet">{resources.value.length ? t('unknownKind', { name: keyOf(at) }) : t('loading')}</p>
  }
  if (at.name) return <ObjectView key={`${keyOf(at)}/${parameter('ns')}/${at.name}`} resource={resource} namespace={parameter('ns')} name={at.name} />
  return <ListView key={keyOf(at)} resource={resource} />
}

function Navigation() {
  const [open, setOpen] = useState<string[]>([])
  const pinned = pins.value.map(k => byKey.value.get(k)).filter(r => r !== undefined)
  const groups = new Map<string, Resource[]>()
  for (const r of resources.value) groups.set(r.group, [...(groups.get(r.group) ?? []), r])
  // Custom kinds come first: they are what the user has made.
  const order = [...groups.keys()].sort((a, b) => Number(isCustom(b)) - Number(isCustom(a)) || a.localeCompare(b))
  const here = route.value
  return (
    <nav class={menuOpen.value ? 'open' : ''} aria-label={t('kinds')} onClick={e => { if ((e.target as Element).closest('a')) menuOpen.value = false }}>
      <a class="kind" href={home} aria-current={url.value.pathname === home ? 'page' : undefined}><span>{t('home')}</span></a>
      <a class="kind" href={access} aria-current={url.value.pathname === access ? 'page' : undefined}><span>{t('access')}</span></a>
      <a class="kind" href={learn} aria-current={url.value.pathname === learn ? 'page' : undefined}><span>{t('learn')}</span></a>
      <h2>{t('pinned')}</h2>
      <ul>{pinned.map(r => <Kind key={keyOf(r)} resource={r} />)}</ul>
      {order.map(group => {
        const kinds = groups.get(group)!
        const shown = open.includes(group) || isCustom(group) || here?.group === group && !pins.value.includes(keyOf(here))
        return (
          <details key={group} open={shown} onToggle={e => {
            const now = (e.currentTarget as HTMLDetailsElement).open
            if (now !== open.includes(group)) setOpen(now ? [...open, group] : open.filter(g => g !== group))
          }}>
            <summary>{group || t('core')}</summary>
            {shown && <ul>{kinds.map(r => <Kind key={keyOf(r)} resource={r} />)}</ul>}
          </details>
        )
      })}
    </nav>
  )
}

function Kind({ resource }: { resource: Resource }) {
  const key = keyOf(resource)
  const pinned = pins.value.includes(key)
  const at = route.value
  const ns = resource.namespaced ? parameter('ns') : ''
  return (
    <li>
      <a class="kind" href={hrefOf(resource, ns)} aria-current={at && keyOf(at) === key ? 'page' : undefined}><span>{resource.kind}</span></a>
      <button class="pin" aria-pressed={pinned} aria-label={t(pinned ? 'unpin' : 'pin', { name: resource.kind })} onClick={() => togglePin(key)}>{pinned ? '★' : '☆'}</button>
    </li>
  )
}
