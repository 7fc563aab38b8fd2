// The site as a web server has it, and browsers.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { chromium } from 'playwright-core'

/** The directory of the versions: v0.1.0, which lacks docs/console.html, and main. */
export const site = process.env.SITE ?? assert.fail('set SITE to a directory with the versions v0.1.0 and main of the site')
const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(p => p && existsSync(p)) ??
  assert.fail('no browser: install chromium, or set CHROMIUM')

export const desktop = { width: 1280, height: 800 }
export const phone = { width: 390, height: 844 }

const types = { '.html': 'text/html; charset=utf-8', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml', '.png': 'image/png', '.json': 'application/json' }

/** Serves the site below a path. */
export async function startServer() {
  const prefix = '/some/where/'
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://host').pathname)
    let file = join(site, path.slice(prefix.length))
    if (existsSync(file) && statSync(file).isDirectory()) file = join(file, 'index.html')
    if (!path.startsWith(prefix) || !existsSync(file)) return response.writeHead(404).end()
    response.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file))
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return { address: `http://127.0.0.1:${server.address().port}${prefix}`, stop: () => { server.closeAllConnections(); server.close() } }
}

/** The paths of all pages of a version. */
export function pages(version) {
  return readdirSync(join(site, version), { recursive: true }).filter(name => name.endsWith('.html')).sort()
}

export async function startBrowser() {
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
}

/** Opens a page of which errors, violations of the policy and requests to other hosts fail the test that calls verify. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: desktop, locale: 'en-US', colorScheme: 'light', reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  const faults = []
  page.on('pageerror', e => faults.push(`${page.url()}: ${e.message}`))
  page.on('console', m => { if (m.type() === 'error' || m.type() === 'warning') faults.push(`${page.url()}: ${m.text()}`) })
  page.on('request', r => { if (!/^(http:\/\/127\.0\.0\.1|file:)/.test(r.url())) faults.push(`${page.url()}: request of ${r.url()}`) })
  return { context, page, verify: () => assert.deepEqual(faults, []), close: () => context.close() }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Fails for what axe finds serious. */
export async function isAccessible(page, what) {
  // Not by a script element, which the policy forbids.
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  const serious = violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html).join(' ')}`)
  assert.deepEqual(serious, [], what)
}

/** Fails if a page is wider than the window. */
export async function fits(page, what) {
  const { wide, width } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, width: innerWidth }))
  assert.ok(wide <= width, `${what} is ${wide} wide in a window of ${width}`)
}

const shots = process.env.SCREENSHOTS
export async function shoot(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled' })
}
