import { defineConfig, type Plugin } from 'vite'

// xterm makes style elements and style attributes, which the policy of the page forbids. They become
// sheets that the document adopts, and properties, which it permits.
const withoutInlineStyles: Plugin = {
  name: 'without-inline-styles',
  transform(code, id) {
    if (!id.includes('/@xterm/xterm/') || id.endsWith('.css')) return
    const replace = (from: RegExp, to: string, times: number) => {
      const found = code.match(from)?.length ?? 0
      if (found !== times) throw new Error(`${id} has ${found} of ${from}, want ${times}: does this version make styles in another way?`)
      code = code.replace(from, to)
    }
    replace(/[\w.]+\.createElement\("style"\)/g, 'kapokSheet()', 3)
    replace(/(\w+)\.setAttribute\("style",(`[^;]*;`)\)/g, '$1.style.cssText=$2', 1)
    return { code: `import { sheet as kapokSheet } from '/src/sheet.ts';${code}`, map: null }
  },
}

// The same sources give the same files: the names are hashes of the contents, and nothing depends on
// the directory or the time.
export default defineConfig({
  base: '/console/',
  plugins: [withoutInlineStyles],
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
})
