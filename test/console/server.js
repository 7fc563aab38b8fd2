// The servers, browsers and objects of the tests.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'

const kapok = process.env.KAPOK ?? assert.fail('set KAPOK to the built command')
export const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(p => p && existsSync(p)) ??
  assert.fail('no browser: install chromium, or set CHROMIUM')

/** Starts a command of kapok, and returns what it prints until a pattern matches. */
function start(args, pattern, env = {}) {
  const child = spawn(kapok, args, { env: { ...process.env, ...env } })
  const ended = new Promise(resolve => child.on('exit', resolve))
  let printed = ''
  const match = new Promise((resolve, reject) => {
    child.stderr.on('data', data => process.stderr.write(data))
    child.stdout.on('data', data => {
      printed += data
      const found = printed.match(pattern)
      if (found) resolve(found)
    })
    child.on('error', reject)
    void ended.then(code => reject(new Error(`kapok ${args.join(' ')} has ended with ${code}: ${printed}`)))
  })
  return { match, printed: () => printed, stop: async () => { child.kill('SIGTERM'); await ended } }
}

/** The kubeconfig of a server that is not Kapok's, if the tests of views run on one. */
export const elsewhere = process.env.ELSEWHERE

/** A server in memory with simulated nodes; or the one that is elsewhere, with kapok console. */
export async function startServer(...flags) {
  if (elsewhere) {
    const proxy = await startProxy(elsewhere)
    return { ...commands(elsewhere), kubeconfig: elsewhere, link: proxy.link, origin: proxy.origin, stop: proxy.stop }
  }
  const dir = mkdtempSync(join(tmpdir(), 'kapok-console-'))
  const kubeconfig = join(dir, 'kubeconfig')
  const up = start(['up', '--in-memory', '--listen', '127.0.0.1:0', '--kubeconfig', kubeconfig, '--nodes', '3', ...flags], /^(?:[\s\S]*console +(\S+))?[\s\S]*kubectl/)
  const [, link] = await up.match
  return {
    ...commands(kubeconfig), link, kubeconfig, origin: link && new URL(link).origin, printed: up.printed,
    stop: async () => { await up.stop(); rmSync(dir, { recursive: true, force: true }) },
  }
}

/** Commands for the server of a kubeconfig: of kubectl, and of a shell in which kubectl is that of kapok. */
function commands(kubeconfig) {
  const env = { ...process.env, KAPOK: kapok, KUBECONFIG: kubeconfig }
  return {
    kubectl: async (args, input) => {
      const running = promisify(execFile)(kapok, ['kubectl', ...args], { env, maxBuffer: 64 << 20 })
      running.child.stdin.end(input ?? '')
      return (await running).stdout
    },
    shell: async line => (await promisify(execFile)('sh', ['-ec', `kubectl() { "$KAPOK" kubectl "$@"; }\n${line}`], { env })).stdout,
  }
}

/** kapok console for a kubeconfig. */
export async function startProxy(kubeconfig) {
  const proxy = start(['console', '--kubeconfig', kubeconfig, '--open=false'], /(http:\S+token=\S+)/)
  const [, link] = await proxy.match
  return { link, origin: new URL(link).origin, stop: proxy.stop }
}

export async function startBrowser() {
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
}

export const desktop = { width: 1280, height: 800 }
export const phone = { width: 390, height: 844 }

/** Opens a page of which violations of the policy and errors fail the test that calls verify. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: desktop, locale: 'en-US', colorScheme: 'light', reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  const faults = []
  page.on('pageerror', e => faults.push(`error: ${e.message}`))
  page.on('console', m => {
    if (m.type() === 'error' && /Content Security Policy|Trusted|Refused|Uncaught/.test(m.text())) faults.push(m.text())
  })
  return {
    context, page,
    verify: () => assert.deepEqual(faults, []),
    close: () => context.close(),
  }
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

const shots = process.env.SCREENSHOTS
export async function shoot(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled' })
}

/** Checks a view at both widths and in both themes. */
export async function look(page, name) {
  await isAccessible(page, name)
  await shoot(page, name)
  const size = page.viewportSize()
  await page.setViewportSize(phone)
  await page.emulateMedia({ colorScheme: 'dark' })
  const wide = await page.evaluate(() => document.documentElement.scrollWidth)
  assert.ok(wide <= phone.width, `${name} is ${wide} wide on a phone`)
  await isAccessible(page, `${name} on a phone, dark`)
  await shoot(page, `${name}-phone`)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(size)
}

/** Waits until a function returns a true value. */
export async function until(what, look, patience = 30_000) {
  const end = Date.now() + patience
  for (;;) {
    const found = await look()
    if (found) return found
    if (Date.now() > end) assert.fail(`timeout: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

export const hostile = '"><img src=x onerror=alert(1)><script>alert(2)</script>&amp;'

export const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, annotations: {note: 'the colours of the shop'}}
data: {colour: green, size: large}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: hostile
  namespace: shop
  labels: {app: hostile}
  annotations: {note: '${hostile}'}
data: {text: '${hostile}', 'javascript': 'javascript:alert(3)'}
---
apiVersion: v1
kind: Event
metadata: {name: hostile.1, namespace: shop}
involvedObject: {kind: ConfigMap, namespace: shop, name: hostile}
type: Warning
reason: '${hostile}'
message: '${hostile}'
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cakes.bakery.example.com}
spec:
  group: bakery.example.com
  scope: Namespaced
  names: {kind: Cake, plural: cakes, singular: cake}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Flavour, type: string, jsonPath: .spec.flavour}
    - {name: Layers, type: integer, jsonPath: .spec.layers}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [flavour]
            x-kubernetes-validations: [{rule: "self.layers < 9 || self.flavour != 'cream'", message: cream cakes have at most 8 layers}]
            properties:
              flavour: {type: string, description: The taste of the cake.}
              layers: {type: integer, minimum: 1}
              size: {type: string, enum: [small, large]}
              price: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              candles: {type: object, additionalProperties: {type: integer}}
              toppings: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, vegan: {type: boolean}}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
export const cakes = `
apiVersion: bakery.example.com/v1
kind: Cake
metadata: {name: sacher, namespace: shop}
spec: {flavour: chocolate, layers: 2}
---
apiVersion: bakery.example.com/v1
kind: Cake
metadata: {name: linzer, namespace: shop}
spec: {flavour: nut, layers: 10}
`

export const graph = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, namespace: shop}
spec:
  replicas: 9
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec:
      containers:
      - name: till
        image: nginx
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: lost-key, optional: true}}]
---
apiVersion: v1
kind: Service
metadata: {name: till, namespace: shop}
spec: {selector: {app: till}, ports: [{port: 80}]}
`
