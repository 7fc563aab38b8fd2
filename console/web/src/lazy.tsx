// A component whose module is loaded when it is shown for the first time.
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { t } from './text'

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  return props => {
    const [loaded, setLoaded] = useState<{ View: ComponentType<P> } | null>(null)
    const [error, setError] = useState('')
    useEffect(() => { load().then(View => setLoaded({ View }), e => setError(String(e))) }, [])
    if (error) return <p class="error" role="alert">{error}</p>
    return loaded ? <loaded.View {...props} /> : <p class="quiet">{t('loading')}</p>
  }
}
