// Who gets in: links, cookies and pages of others, in a real browser.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'
import { startProvider } from './provider.js'
import { executablePath, look, openPage, startBrowser, startProxy, startServer } from './server.js'

let server, browser
before(async () => { [server, browser] = await Promise.all([startServer(), startBrowser()]) })
after(async () => { await browser?.close(); await server?.stop() })

/** Sends a request from a page, and returns its status; 0 if the browser does not let it. */
const fetchFrom = (page, url, init = {}) => page.evaluate(([url, init]) => fetch(url, init).then(r => r.status, () => 0), [url, init])

test('a link works once, and the session survives a reload', async () => {
  const { page, context, verify, close } = await openPage(browser)
  await page.goto(server.link)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  assert.equal(page.url().includes('token='), false, 'the token stays in the address')
  const [cookie] = await context.cookies()
  assert.deepEqual([cookie.httpOnly, cookie.secure, cookie.sameSite, cookie.name.startsWith('__Host-')], [true, true, 'Strict', true])
  assert.equal(await page.evaluate(() => document.cookie), '')
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()

  const other = await openPage(browser)
  await other.page.goto(server.link)
  await other.page.getByRole('alert').waitFor()
  assert.match(await other.page.getByRole('alert').innerText(), /has been used, or has expired/)
  await other.close()

  // The cookie alone is nothing, in the page itself as well: the key is what is missing.
  const api = `${server.origin}/api/v1/namespaces`
  const key = await page.evaluate(() => localStorage.getItem('kapok.key'))
  assert.equal(await fetchFrom(page, api), 403)
  assert.equal(await fetchFrom(page, api, { headers: { 'X-Kapok-Console': key } }), 200)
  const socket = await page.evaluate(url => new Promise(resolve => {
    const s = new WebSocket(url)
    s.onopen = () => resolve('open')
    s.onerror = () => resolve('refused')
  }), `${api.replace('https', 'wss')}?watch=1`)
  assert.equal(socket, 'refused')
  // A page of a pod, below the API, would have the origin of the console: it is not served by the cookie.
  const shown = await page.goto(`${server.origin}/api/v1/namespaces/shop/pods/web/proxy/`)
  assert.equal(shown.status(), 403)

  await page.goto(`${server.origin}/console/`)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('log out')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  assert.equal(await fetchFrom(page, api, { headers: { 'X-Kapok-Console': key } }), 401)
  verify()
  await close()
})

test('pages of other origins reach nothing', async () => {
  const proxy = await startProxy(server.kubeconfig)
  // Another program on the same host: its pages are of the same site, and get the cookie.
  let seen = ''
  const evil = createServer((request, response) => { seen = request.headers.cookie ?? ''; response.end('<!doctype html><title>evil</title>') })
  await new Promise(resolve => evil.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${evil.address().port}/`
  try {
    const { page, context, verify, close } = await openPage(browser)
    await page.goto(proxy.link)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    const key = await page.evaluate(() => localStorage.getItem('kapok.key'))
    const attacker = await context.newPage()
    await attacker.goto(address)
    assert.match(seen, /kapok-console-/, 'the browser sends the cookie to all ports')
    assert.equal(await attacker.evaluate(() => localStorage.getItem('kapok.key')), null)
    const api = `${proxy.origin}/api/v1/namespaces`
    for (const [what, init] of Object.entries({
      'a request': {}, 'a request with cookies': { credentials: 'include' }, 'a watch': { credentials: 'include', mode: 'no-cors' },
      'a request with the key': { credentials: 'include', headers: { 'X-Kapok-Console': key } },
      'a write': { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}' },
    })) assert.equal(await fetchFrom(attacker, api, init), 0, what)
    const logout = await fetchFrom(attacker, `${proxy.origin}/console/session`, { method: 'DELETE', credentials: 'include' })
    assert.equal(logout, 0)
    const framed = await attacker.evaluate(url => new Promise(resolve => {
      const frame = document.createElement('iframe')
      frame.onload = () => { let inside; try { inside = frame.contentDocument?.body?.innerText ?? 'blocked' } catch { inside = 'blocked' } resolve(inside) }
      frame.src = url
      document.body.append(frame)
    }), `${proxy.origin}/console/`)
    assert.ok(!framed.includes('Overview'), framed)
    // Sent from outside of a browser, with everything that another program can know.
    const cookie = (await context.cookies()).map(c => `${c.name}=${c.value}`).join('; ')
    for (const headers of [{}, { cookie }, { cookie, 'X-Kapok-Console': 'guess' }]) assert.equal((await fetch(api, { headers })).status, 401)
    assert.equal(await fetchFrom(page, api, { headers: { 'X-Kapok-Console': key } }), 200, 'the session itself')
    verify()
    await close()
  } finally {
    evil.close()
    await proxy.stop()
  }
})

test('a name that DNS points here is not this server', async () => {
  const proxy = await startProxy(server.kubeconfig)
  const other = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP evil.example 127.0.0.1'] })
  try {
    const page = await other.newPage()
    const { port, search } = new URL(proxy.link)
    const response = await page.goto(`http://evil.example:${port}/console/${search}`)
    assert.equal(response.status(), 421)
    assert.equal(await fetchFrom(page, '/api/v1/namespaces', { headers: { 'X-Kapok-Console': 'x' } }), 403)
  } finally {
    await other.close()
    await proxy.stop()
  }
})

test('the console can be turned off', async () => {
  const off = await startServer('--console=false')
  assert.equal(off.link, undefined)
  const address = off.printed().match(/address +(\S+)/)[1]
  const { page, close } = await openPage(browser)
  assert.equal((await page.goto(`${address}/console/`)).status(), 403)
  await close()
  await off.stop()
})

test('by an OpenID Connect provider', async () => {
  const provider = await startProvider('ann@example.com')
  const to = await startServer('--oidc-issuer-url', provider.issuer, '--oidc-client-id', 'kapok', '--oidc-ca-file', provider.certificate,
    '--oidc-username-claim', 'email', '--console-oidc-client-id', 'kapok')
  const { page, verify, close } = await openPage(browser)
  try {
    await to.kubectl(['create', 'configmap', 'settings'])
    await to.kubectl(['create', 'rolebinding', 'ann', '--clusterrole=view', '--user=ann@example.com'])
    const login = page.getByRole('button', { name: `Log in at ${new URL(provider.issuer).host}` })
    await page.goto(`${to.origin}/console/core/v1/configmaps?ns=default`)
    await login.waitFor()
    await look(page, 'login')
    await login.click()
    await page.getByRole('link', { name: 'Cancel' }).click()
    await page.getByText('The login has failed: the provider has refused it: access_denied').waitFor()
    await page.goto(`${to.origin}/console/core/v1/configmaps?ns=default`)
    await login.click()
    await page.getByRole('link', { name: 'Continue as ann@example.com' }).click()
    await page.getByRole('link', { name: 'settings' }).waitFor()
    assert.equal(page.url(), `${to.origin}/console/core/v1/configmaps?ns=default`)
    await page.reload()
    await page.getByRole('link', { name: 'settings' }).waitFor()
    await page.goto(`${to.origin}/console/access?ns=default`)
    await page.getByText(/^You are ann@example.com/).waitFor()
    verify()
  } finally {
    await close()
    await to.stop()
    provider.stop()
  }
})
