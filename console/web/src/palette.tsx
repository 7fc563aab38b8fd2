// The command palette: every kind, view and setting by its name.
import { useEffect, useRef, useState } from 'preact/hooks'
import { keyOf } from './api'
import { access, go, home, hrefOf, learn, parameter, set } from './route'
import { signOut } from './session'
import { namespaces, paletteOpen, resources, theme, type Theme } from './store'
import { language, setLanguage, t } from './text'

interface Command { name: string; note: string; run: () => void }

function commands(): Command[] {
  const next: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' }
  const ns = parameter('ns')
  return [
    { name: t('home'), note: '', run: () => go(home) },
    { name: t('access'), note: 'can-i whoami rbac', run: () => go(ns ? `${access}?ns=${encodeURIComponent(ns)}` : access) },
    { name: t('learn'), note: 'tour', run: () => go(learn) },
    ...resources.value.map(r => ({ name: r.kind, note: [keyOf(r), ...r.shortNames].join(' '), run: () => go(hrefOf(r, r.namespaced ? ns : '')) })),
    { name: t('theme', { name: t(`theme.${next[theme.value]}`) }), note: 'theme', run: () => { theme.value = next[theme.value] } },
    { name: language.value === 'en' ? '语言：中文' : 'Language: English', note: 'language', run: () => setLanguage(language.value === 'en' ? 'zh' : 'en') },
    { name: t('signOut'), note: 'log out', run: () => void signOut() },
    ...namespaces.value.map(n => ({ name: n, note: t('namespace'), run: () => set({ ns: n }, false) })),
  ]
}

/** Orders matches: the short name itself, then names that start with the text, then those that contain it. */
function score(c: Command, text: string): number {
  const name = c.name.toLowerCase()
  if (c.note.split(' ').includes(text) || name === text) return 0
  if (name.startsWith(text) || c.note.startsWith(text)) return 1
  return name.includes(text) || c.note.toLowerCase().includes(text) ? 2 : 9
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  useEffect(() => { dialog.current!.showModal() }, [])
  const wanted = text.trim().toLowerCase()
  const found = commands().map(c => ({ c, s: wanted ? score(c, wanted) : 1 })).filter(x => x.s < 9).sort((a, b) => a.s - b.s).slice(0, 50).map(x => x.c)
  const close = () => { paletteOpen.value = false }
  const run = (c: Command | undefined) => { if (c) { close(); c.run() } }
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(at + 1, found.length - 1))
    else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0))
    else if (e.key === 'Enter') run(found[at])
    else return
    e.preventDefault()
  }
  useEffect(() => { document.getElementById(`command-${at}`)?.scrollIntoView({ block: 'nearest' }) }, [at])
  return (
    <dialog class="palette" ref={dialog} aria-label={t('command')} onClose={close} onClick={e => { if (e.target === dialog.current) close() }}>
      <input role="combobox" aria-expanded="true" aria-controls="commands" aria-activedescendant={`command-${at}`} aria-label={t('commandHint')}
        placeholder={t('commandHint')} value={text} onKeyDown={onKey} onInput={e => { setText(e.currentTarget.value); setAt(0) }} autofocus />
      <ul id="commands" role="listbox" aria-label={t('command')}>
        {found.map((c, i) => (
          <li key={i} id={`command-${i}`} role="option" aria-selected={i === at} onClick={() => run(c)}><span>{c.name}</span><small>{c.note}</small></li>
        ))}
      </ul>
      {!found.length && <p class="quiet">{t('noMatch')}</p>}
    </dialog>
  )
}
