import { useEffect, useState } from 'preact/hooks'
import { loginError, providerOfLogins, signInByToken } from './session'
import { t } from './text'

export function LoginView() {
  const [token, setToken] = useState('')
  const [provider, setProvider] = useState('')
  useEffect(() => { void providerOfLogins().then(setProvider) }, [])
  return (
    <main class="login">
      <form onSubmit={e => { e.preventDefault(); void signInByToken(token.trim()) }}>
        <img src="/console/icon.svg" alt="" width="48" height="48" />
        <h1>{t('signIn')}</h1>
        {provider && (
          <button type="button" class="primary" onClick={() => location.assign(`/console/login?to=${encodeURIComponent(location.pathname + location.search)}`)}>
            {t('signIn.provider', { host: new URL(provider).host })}
          </button>
        )}
        <p>{t('signIn.text')}</p>
        <p class="quiet">{t('signIn.orToken')}</p>
        <label>{t('signIn.token')}<input type="password" autocomplete="off" required value={token} onInput={e => setToken(e.currentTarget.value)} /></label>
        {loginError.value && <p class="error" role="alert">{t('error', { message: loginError.value })}</p>}
        <button class={provider ? '' : 'primary'}>{t('signIn')}</button>
      </form>
    </main>
  )
}
