// Terminals of containers, which are processes of this machine. With SCREENSHOTS=DIR, it writes those of docs/console.md.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { isAccessible, look, openPage, startBrowser, startProxy, startServer, until } from './server.js'

const pod = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: till, namespace: shop}
spec:
  nodeName: machine
  containers:
  - {name: till, image: 'file:///bin/sleep', args: ['86400']}
  - {name: clock, image: 'file:///bin/sleep', args: ['86400'], env: [{name: WHO, value: the clock}]}
  - {name: shell, image: 'file:///bin/sh', stdin: true, tty: true}
  - {name: lines, image: 'file:///bin/sh', args: ['-c', 'while read -r line; do echo "got $line"; done'], stdin: true}
  - {name: ticker, image: 'file:///bin/sh', args: ['-c', 'while :; do echo tick; sleep 0.2; done']}
`
let server, browser, session
before(async () => {
  [server, browser] = await Promise.all([startServer('--node', 'process', '--node-name', 'machine'), startBrowser()])
  await server.kubectl(['apply', '-f', '-'], pod)
  await server.kubectl(['-n', 'shop', 'wait', '--for=condition=Ready', 'pod/till', '--timeout=120s'])
  session = await openPage(browser)
  await session.page.goto(server.link)
  await session.page.getByRole('heading', { name: 'Overview' }).waitFor()
})
after(async () => { await browser?.close(); await server?.stop() })

const view = '/console/core/v1/pods/till?ns=shop&tab=terminal'
const rows = page => page.locator('.xterm-rows')
const state = page => page.locator('#terminal-state')
const shows = (page, what) => until(`the terminal shows ${what}`, async () => (await rows(page).innerText()).replaceAll('\u00a0', ' ').includes(what))
const button = (page, name) => page.getByRole('button', { name, exact: true })

async function connect(page, { command = 'sh', container = 'till' } = {}) {
  await page.goto(server.origin + view)
  await page.getByLabel('Container').selectOption(container)
  await page.getByLabel('Command').fill(command)
  await button(page, 'Connect').click()
}

/** Types a line at the prompt. */
async function line(page, text) {
  await page.keyboard.type(text)
  await page.keyboard.press('Enter')
}

test('typed text comes back, the size arrives, and the exit code is shown', async () => {
  const { page } = session
  await page.goto(server.origin + view)
  await state(page).getByText('Connect starts the command').waitFor()
  await page.getByLabel('Container').selectOption('clock')
  await button(page, 'Connect').click()
  await state(page).getByText('Connected').waitFor()
  await line(page, 'PS1="$ "; echo "I am $WHO" | tr a-z A-Z')
  await shows(page, 'I AM THE CLOCK')
  await line(page, 'stty size')
  const sizeOf = async () => [...(await rows(page).innerText()).matchAll(/^(\d+)\s(\d+)\s*$/gm)].at(-1)?.slice(1).map(Number)
  const [high, wide] = await until('the size', sizeOf)
  assert.equal(high, await rows(page).locator('> div').count())
  await page.setViewportSize({ width: 900, height: 600 })
  await until('fewer rows', async () => await rows(page).locator('> div').count() < high)
  await line(page, 'stty size')
  await until('the new size', async () => { const now = await sizeOf(); return now && now[0] < high && now[1] < wide })
  await page.setViewportSize({ width: 1280, height: 800 })
  // Keys of the page are keys of the terminal here.
  await page.keyboard.type('echo lost')
  await page.keyboard.press('Control+a')
  await page.keyboard.press('Control+k')
  assert.equal(await page.getByRole('combobox', { name: /Go to/ }).count(), 0)
  await line(page, 'cd /; clear')
  await until('an empty terminal', async () => !(await rows(page).innerText()).includes('stty'))
  await line(page, 'echo $TERM on $WHO')
  await shows(page, 'xterm-256color on the clock')
  await line(page, 'for i in 1 2 3 4 5 6; do printf "\\033[3${i}mcolour $i "; done; printf "\\033[38;2;200;80;0mand a million more\\033[0m\\n"')
  await shows(page, 'and a million more')
  await look(page, 'terminal')
  await page.keyboard.press('Control+,')
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Disconnect')
  await page.locator('.xterm').click()
  await line(page, 'exit 7')
  await state(page).getByText('The command has ended with exit code 7.').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Connect', 'the focus does not stay in a terminal that has ended')
  session.verify()
})

test('commands have words, and errors are words', async () => {
  const { page } = session
  await connect(page, { command: `sh -c 'printf "%s|" "$@"; exit 0' x "two words" it\\'s ''` })
  await state(page).getByText('exit code 0').waitFor()
  await shows(page, "two words|it's||")
  await page.getByLabel('Command').fill('echo "half')
  await button(page, 'Connect').click()
  await state(page).getByText('A quote in the command is not closed.').waitFor()
  await connect(page, { command: 'no-such-program' })
  await until('an error', async () => /exit code 12\d|no-such-program/.test(await state(page).innerText()))
  await server.kubectl(['-n', 'shop', 'run', 'gone', '--image=unmapped', '--overrides={"spec":{"nodeName":"machine"}}'])
  await page.goto(`${server.origin}/console/core/v1/pods/gone?ns=shop&tab=terminal`)
  await button(page, 'Connect').click()
  await page.locator('#terminal-state.error').waitFor()
  session.verify()
})

test('attach: the main process, with the streams that its container has', async () => {
  const { page } = session
  const attach = async container => {
    await page.goto(server.origin + view)
    await page.getByLabel('Container').selectOption(container)
    await page.getByLabel('Connect to').selectOption('The main process')
    assert.equal(await page.getByLabel('Command').count(), 0)
    assert.match(page.url(), /attach=1/)
  }
  await attach('shell')
  await state(page).getByText('Ctrl C can end the container').waitFor()
  await button(page, 'Connect').click()
  await state(page).getByText('Connected').waitFor()
  await line(page, 'echo I am $$; kept=this')
  await shows(page, 'I am')
  await isAccessible(page, 'a main process')
  await button(page, 'Disconnect').click()
  await state(page).getByText('The connection has ended').waitFor()
  // It is the same process, which goes on.
  await button(page, 'Connect').click()
  await state(page).getByText('Connected').waitFor()
  await line(page, 'echo still $kept')
  await shows(page, 'still this')
  await line(page, 'exit')
  await state(page).getByText('The connection has ended').waitFor()
  await page.getByRole('button', { name: 'What this page has done' }).click()
  const done = page.getByRole('dialog')
  await done.locator('summary', { hasText: 'kubectl -n shop attach -it till -c shell' }).first().waitFor()
  await done.getByRole('button', { name: 'Close' }).click()

  // Without a terminal of its own, the page edits lines.
  await attach('lines')
  await button(page, 'Connect').click()
  await state(page).getByText('Connected').waitFor()
  await page.keyboard.type('helloo')
  await page.keyboard.press('Backspace')
  await line(page, ' there')
  await shows(page, 'hello there')
  await shows(page, 'got hello there')
  await line(page, 'again')
  await shows(page, 'got again')
  assert.match((await rows(page).innerText()).replaceAll('\u00a0', ' '), /^again\s*$/m, 'lines begin at the left')

  await attach('ticker')
  await state(page).getByText('This container takes no input').waitFor()
  await button(page, 'Connect').click()
  await shows(page, 'tick')
  await page.keyboard.type('nothing')
  await button(page, 'Disconnect').click()
  assert.equal((await rows(page).innerText()).includes('nothing'), false)
  session.verify()
})

test('an address starts no command', async () => {
  const { page } = session
  let sockets = 0
  page.on('websocket', () => { sockets++ })
  await page.goto(`${server.origin}${view}&container=shell&attach=1`)
  await button(page, 'Connect').waitFor()
  await page.goto(`${server.origin}${view}&container=clock&command=sh`)
  await button(page, 'Connect').waitFor()
  assert.equal(await page.getByLabel('Command').inputValue(), '')
  assert.equal(sockets, 0)
})

test('what a container writes is text of the terminal', async () => {
  const { page } = session
  const title = await page.title()
  let dialogs = 0
  page.on('dialog', d => { dialogs++; void d.dismiss() })
  await connect(page)
  await state(page).getByText('Connected').waitFor()
  const hostile = [
    '<img src=x onerror=alert(1)><script>alert(2)</script>', '\\033]0;evil title\\007', '\\033]52;c;ZXZpbA==\\007',
    '\\033]8;;javascript:alert(3)\\033\\\\a link\\033]8;;\\033\\\\', '\\033[8;1;1t', '\\033[38;2;1;2;3;4m', '\\033P+q544e\\033\\\\', '\\033[4:3m\\033[58;2;9;9;9mwavy\\033[0m',
    '\\033]4;1;url(https://evil.example)\\007', '\\033]10;red;x}body{display:none}\\007', '\\377\\376\\033[?9999h', 'the end',
  ]
  await line(page, `clear; printf '${hostile.join('\\n')}\\n'`)
  await shows(page, 'the end')
  await shows(page, '<img src=x onerror=alert(1)><script>alert(2)</script>')
  const link = await page.getByText('a link').last().boundingBox()
  await page.mouse.click(link.x + link.width / 2, link.y + link.height / 2)
  assert.equal(await page.title(), title)
  assert.equal(await page.locator('img[src=x], script:not([src])').count(), 0)
  assert.equal(page.context().pages().length, 1)
  assert.equal(dialogs, 0)
  // Much output leaves the page usable, and the command can be interrupted.
  await line(page, 'clear; yes 0123456789012345678901234567890123456789')
  await shows(page, '0123456789')
  await page.keyboard.press('Control+c')
  await line(page, 'echo; echo st""ill here')
  await shows(page, 'still here')
  await button(page, 'Disconnect').click()
  await state(page).getByText('The connection has ended').waitFor()
  session.verify()
})

test('a user without permission for exec and attach sees which is missing', async () => {
  await server.kubectl(['-n', 'shop', 'create', 'serviceaccount', 'viewer'])
  await server.kubectl(['-n', 'shop', 'create', 'rolebinding', 'viewer', '--clusterrole=view', '--serviceaccount=shop:viewer'])
  const token = (await server.kubectl(['-n', 'shop', 'create', 'token', 'viewer'])).trim()
  const { page, verify, close } = await openPage(browser)
  await page.goto(server.origin + view)
  await page.getByLabel('Bearer token').fill(token)
  await button(page, 'Log in').click()
  await button(page, 'Connect').click()
  await state(page).getByText('forbidden').waitFor()
  assert.match(await state(page).innerText(), /cannot (get|create) resource "pods\/exec"/)
  await page.getByLabel('Connect to').selectOption('The main process')
  await button(page, 'Connect').click()
  await state(page).getByText('forbidden').waitFor()
  assert.match(await state(page).innerText(), /cannot (get|create) resource "pods\/attach"/)
  verify()
  await close()
})

test('a terminal needs the key and the origin of the session, and ends with it', async () => {
  const evil = createServer((_, response) => response.end('<!doctype html><title>evil</title>'))
  await new Promise(resolve => evil.listen(0, '127.0.0.1', resolve))
  const proxy = await startProxy(server.kubeconfig)
  const { page, context, verify, close } = await openPage(browser)
  try {
    await page.goto(proxy.link)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    const key = await page.evaluate(() => localStorage.getItem('kapok.key'))
    const address = `${proxy.origin.replace('http', 'ws')}/api/v1/namespaces/shop/pods/till/exec?container=till&command=true&stdout=true`
    const dial = (from, protocols) => from.evaluate(([address, protocols]) => new Promise(resolve => {
      const socket = new WebSocket(address, protocols)
      socket.onopen = () => { resolve('open'); socket.close() }
      socket.onerror = () => resolve('refused')
    }), [address, protocols])
    const channels = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
    const own = [...channels, `key.console.kapok.dev.${key}`]
    assert.equal(await dial(page, own), 'open')
    assert.equal(await dial(page, channels), 'refused', 'the cookie alone')
    assert.equal(await dial(page, [...channels, 'key.console.kapok.dev.AAAA']), 'refused', 'a wrong key')
    const attacker = await context.newPage()
    await attacker.goto(`http://127.0.0.1:${evil.address().port}/`)
    assert.equal(await dial(attacker, own), 'refused', 'another origin, even with the key')
    await attacker.close()

    // The terminal itself, by kapok console.
    await page.goto(proxy.origin + view)
    await page.getByLabel('Command').fill('sh')
    await button(page, 'Connect').click()
    await state(page).getByText('Connected').waitFor()
    await line(page, 'echo by""proxy')
    await shows(page, 'byproxy')
    await page.getByLabel('Screen reader').check()
    await isAccessible(page, 'a terminal for screen readers')
    await page.evaluate(key => fetch('/console/session', { method: 'DELETE', headers: { 'X-Kapok-Console': key } }), key)
    await until('the terminal has ended', async () => await button(page, 'Log in').count() || /ended/.test(await state(page).innerText()))
    verify()
  } finally {
    await close()
    await proxy.stop()
    evil.close()
  }
})
