import { defineConfig } from 'vite'

// The same sources give the same files: the names are hashes of the contents, and nothing depends on
// the directory or the time.
export default defineConfig({
  base: '/console/',
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
