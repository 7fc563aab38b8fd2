// Command lines, as a shell reads them.

/** Splits a command line into words, which can be quoted; there are no variables or patterns. Returns
 * null if a quote is not closed. */
export function wordsOf(line: string): string[] | null {
  const word = /(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs
  if (line.replace(word, '').trim()) return null
  return (line.match(word) ?? []).map(w => w.replace(/\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/gs,
    (_, escaped, double, single) => escaped ?? single ?? double.replace(/\\(["\\])/g, '$1')))
}

/** Quotes a word where a shell needs that. */
export const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
