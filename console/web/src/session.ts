// The session of the page: see package console. The key is in the local storage, so that it belongs to
// this origin and survives a reload; the other secret is a cookie that scripts cannot read.
import { signal } from '@preact/signals'
import { trail } from './trail'

const header = 'X-Kapok-Console'
const stored = 'kapok.key'

export const signedIn = signal(!!localStorage.getItem(stored))
export const loginError = signal('')

export function sessionHeaders(): Record<string, string> {
  const key = localStorage.getItem(stored)
  return key ? { [header]: key } : {}
}

/** The key as a protocol of a WebSocket, whose headers scripts cannot set. */
export function sessionProtocols(): string[] {
  const key = localStorage.getItem(stored)
  return key ? [`key.console.kapok.dev.${key}`] : []
}

async function start(init: RequestInit): Promise<boolean> {
  const response = await fetch('/console/session', {
    ...init, method: 'POST', headers: { ...init.headers, [header]: 'start', 'Content-Type': 'application/json' },
  })
  const body = await response.json().catch(() => ({}))
  if (!response.ok) {
    loginError.value = body.message ?? response.statusText
    return false
  }
  localStorage.setItem(stored, body.key)
  loginError.value = ''
  signedIn.value = true
  return true
}

/** Starts a session by the token in the address, and removes it from the address and the history. */
export async function redeemLink(): Promise<void> {
  const url = new URL(location.href)
  const link = url.searchParams.get('token')
  if (link === null) return
  url.searchParams.delete('token')
  history.replaceState(null, '', url)
  if (!(await start({ body: JSON.stringify({ link }) })) && signedIn.value) loginError.value = ''
}

/** Returns the address of the provider by which users can log in, '' if there is none. */
export async function providerOfLogins(): Promise<string> {
  const response = await fetch('/console/session', { headers: { [header]: 'start' } }).catch(() => undefined)
  return response?.ok ? (await response.json()).provider ?? '' : ''
}

export const signInByToken = (token: string) => start({ headers: { Authorization: `Bearer ${token}` } })

export async function signOut(): Promise<void> {
  await fetch('/console/session', { method: 'DELETE', headers: sessionHeaders() }).catch(() => undefined)
  ended()
}

/** Forgets a session that the server does not know any more. */
export function ended(): void {
  localStorage.removeItem(stored)
  trail.value = [] // another user may be next
  signedIn.value = false
}
