// A text to copy, such as a command.
import { say } from './store'
import { t } from './text'

export function Copyable({ text }: { text: string }) {
  const copy = () => void navigator.clipboard.writeText(text).then(() => say(t('copied')), e => say(String(e)))
  return <div class="copyable"><code>{text}</code><button onClick={copy}>{t('copyText')}</button></div>
}
