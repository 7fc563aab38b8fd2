// What the pages of pods, services and nodes of processes show: use, ports. With SCREENSHOTS=DIR, it writes those of docs/console.md.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { look, openPage, startBrowser, startServer, until } from './server.js'

const pod = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: till, namespace: shop, labels: {app: till}}
spec:
  nodeName: machine
  containers:
  - {name: till, image: 'file:///bin/sleep', args: ['86400'], ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 5353, protocol: UDP}], resources: {limits: {memory: 64Mi}}}
  - {name: clock, image: 'file:///bin/sleep', args: ['86400']}
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

test('what pods and nodes use is shown where it is measured', async () => {
  const { page } = session
  await page.goto(`${server.origin}/console/core/v1/pods?ns=shop`)
  await page.getByRole('columnheader', { name: 'Memory' }).waitFor({ timeout: 60_000 })
  const row = page.locator('.body .row', { hasText: 'till' })
  await until('the memory of the pod', async () => /\d+Mi/.test(await row.innerText()), 60_000)
  await page.getByRole('button', { name: 'Memory' }).click()
  assert.match(page.url(), /sort=Memory/)
  await page.goto(`${server.origin}/console/core/v1/pods/till?ns=shop`)
  const usage = page.getByRole('region', { name: 'Usage' })
  await usage.getByRole('cell', { name: 'clock' }).waitFor()
  assert.match(await usage.innerText(), /\d+m\s+\d+Mi/)
  await usage.getByRole('meter', { name: 'of 64Mi' }).waitFor()
  await look(page, 'pod')
  await page.goto(`${server.origin}/console/core/v1/nodes/machine`)
  await usage.getByRole('cell', { name: 'machine' }).waitFor()
  await page.goto(`${server.origin}/console/core/v1/configmaps?ns=shop`)
  await page.getByRole('columnheader', { name: 'Name' }).waitFor()
  assert.equal(await page.getByRole('columnheader', { name: 'Memory' }).count(), 0)
  session.verify()
})

test('ports: commands that reach them, to copy', async () => {
  const { page } = session
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  const copied = () => page.evaluate(() => navigator.clipboard.readText())
  const ports = page.getByRole('region', { name: 'Ports' })
  await page.goto(`${server.origin}/console/core/v1/pods/till?ns=shop`)
  await ports.getByRole('button', { name: 'Copy' }).first().click()
  await page.getByText('Copied.').waitFor()
  assert.equal(await copied(), 'kubectl -n shop port-forward pod/till 8080:8080')
  await server.kubectl(['-n', 'shop', 'expose', 'pod', 'till', '--port=80', '--target-port=8080'])
  await page.goto(`${server.origin}/console/core/v1/services/till?ns=shop`)
  await ports.getByText('kubectl -n shop port-forward service/till 8080:80', { exact: true }).waitFor()
  await ports.getByText('kubectl get --raw /api/v1/namespaces/shop/services/till:80/proxy/', { exact: true }).waitFor()
  assert.equal(await ports.getByRole('link').count(), 0, 'a page of a pod would have the origin of the console')
  await page.goto(`${server.origin}/console/core/v1/namespaces/shop`)
  await page.getByRole('region', { name: 'Labels' }).waitFor()
  assert.equal(await ports.count(), 0)
  session.verify()
})
