// The texts of the page, in the languages of the folder text. Both files have the same keys: the
// compiler checks it.
import { effect, signal } from '@preact/signals'
import prettyMs from 'pretty-ms'
import en from './text/en.json'
import zh from './text/zh.json'

export type Key = keyof typeof en
const texts = { en, zh } satisfies Record<string, Record<Key, string>>
type Language = keyof typeof texts

const stored = localStorage.getItem('kapok.language')
export const language = signal<Language>(stored === 'en' || stored === 'zh' ? stored : navigator.language.startsWith('zh') ? 'zh' : 'en')
effect(() => { document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en' })

export function setLanguage(to: Language): void {
  localStorage.setItem('kapok.language', to)
  language.value = to
}

/** Returns a text in the language of the page, with its parameters. */
export function t(key: Key, parameters: Record<string, string | number> = {}): string {
  return texts[language.value][key].replace(/\{(\w+)\}/g, (whole, name) => String(parameters[name] ?? whole))
}

/** The clock of the page, for ages. */
export const now = signal(Date.now())
setInterval(() => { now.value = Date.now() }, 5000)

/** Returns the time since an instant, such as 5m. */
export function age(instant: string | undefined): string {
  if (!instant) return ''
  return prettyMs(Math.max(0, now.value - Date.parse(instant)), { compact: true })
}

export const number = (n: number) => n.toLocaleString(language.value)

export function instant(at: string | undefined): string {
  return at ? new Intl.DateTimeFormat(language.value, { dateStyle: 'medium', timeStyle: 'medium' }).format(new Date(at)) : ''
}
