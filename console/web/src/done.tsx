// What the page has done, in a dialog.
import { Copyable } from './copyable'
import { Dialog } from './dialog'
import { instant, t } from './text'
import { trail } from './trail'

export function DoneView({ close }: { close: () => void }) {
  return (
    <Dialog title={t('trail')} close={close} wide>
      <p class="quiet">{t(trail.value.length ? 'trail.note' : 'trail.none')}</p>
      <div class="trail">
        {trail.value.map(d => (
          <details key={d.id}>
            <summary><code>{d.kubectl.split('\n', 1)[0]}</code> <small class={d.code >= 400 ? 'bad' : ''}>{d.code || '…'} · {instant(new Date(d.at).toISOString())}</small></summary>
            <Copyable text={d.kubectl} />
            <Copyable text={d.request} />
          </details>
        ))}
      </div>
      <div class="buttons"><button onClick={close} autofocus>{t('close')}</button></div>
    </Dialog>
  )
}
