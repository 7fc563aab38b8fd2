// The part of an object's details that shows what it uses.
import { keyOf, type KubeObject, type Resource } from './api'
import { t } from './text'
import { cpuText, memoryText, quantity, useUsage } from './usage'

interface Limited { name: string; resources?: { limits?: { cpu?: string; memory?: string } } }

/** Nothing for other kinds than pods and nodes, and where nothing measures. */
export function Measured({ resource, object }: { resource: Resource; object: KubeObject }) {
  const usage = useUsage(keyOf(resource), object.metadata.namespace ?? '', object.metadata.name)
  if (!usage?.length) return null
  const containers = (object.spec as { containers?: Limited[] } | undefined)?.containers ?? []
  const allocatable = (object.status as { allocatable?: { cpu?: string; memory?: string } } | undefined)?.allocatable
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">{t('usage')}</h2>
      <table class="plain">
        <thead><tr><th>{t('logs.container')}</th><th>{t('usage.cpu')}</th><th>{t('usage.memory')}</th></tr></thead>
        <tbody>
          {usage.map(([name, use]) => {
            const limits = name ? containers.find(c => c.name === name)?.resources?.limits : allocatable
            return (
              <tr key={name}>
                <td>{name || object.metadata.name}</td>
                <td><Amount use={use.cpu} most={quantity(limits?.cpu)} text={cpuText} /></td>
                <td><Amount use={use.memory} most={quantity(limits?.memory)} text={memoryText} /></td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </section>
  )
}

/** A number, and how much it is of the most that is permitted; 0 if nothing limits it. */
function Amount({ use, most, text }: { use: number; most: number; text: (n: number) => string }) {
  const of = t('usage.of', { limit: text(most) })
  return <>{text(use)}{most > 0 && <> <meter min={0} max={most} high={most * 0.9} value={use} aria-label={of} /> <small>{of}</small></>}</>
}
