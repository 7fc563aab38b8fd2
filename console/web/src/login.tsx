import { useState } from 'preact/hooks'
import { loginError, signInByToken } from './session'
import { t } from './text'

export function LoginView() {
  const [token, setToken] = useState('')
  return (
    <main class="login">
      <form onSubmit={e => { e.preventDefault(); void signInByToken(token.trim()) }}>
        <img src="/console/icon.svg" alt="" width="48" height="48" />
        <h1>{t('signIn')}</h1>
        <p>{t('signIn.text')}</p>
        <p class="quiet">{t('signIn.orToken')}</p>
        <label>{t('signIn.token')}<input type="password" autocomplete="off" required value={token} onInput={e => setToken(e.currentTarget.value)} /></label>
        {loginError.value && <p class="error" role="alert">{t('error', { message: loginError.value })}</p>}
        <button class="primary">{t('signIn')}</button>
      </form>
    </main>
  )
}
