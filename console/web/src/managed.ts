// The fields of an object and their managers, as metadata.managedFields tells them.

/** The field manager of every write of this page. */
export const manager = 'kapok-console'

/** Returns the paths of managed fields, such as spec.replicas. */
export function pathsOf(fields: { [key: string]: unknown } | undefined, before = ''): string[] {
  const found: string[] = []
  for (const [key, value] of Object.entries(fields ?? {})) {
    if (key === '.') continue
    const path = key.startsWith('f:') ? (before ? `${before}.` : '') + key.slice(2) : `${before}[${itemOf(key)}]`
    const below = pathsOf(value as { [key: string]: unknown }, path)
    below.length ? found.push(...below) : found.push(path)
  }
  return found
}

/** Returns an item of a list without JSON, such as name=web. */
function itemOf(key: string): string {
  const value = key.slice(2)
  try {
    const keys: unknown = JSON.parse(value)
    if (key.startsWith('k:') && typeof keys === 'object' && keys) return Object.entries(keys).map(([k, v]) => `${k}=${v}`).join(',')
    return String(keys)
  } catch {
    return value
  }
}
