// The views on a real server, at desktop and phone width. With SCREENSHOTS=DIR, it writes those of docs/console.md.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { parse } from 'yaml'
import { cakes, hostile, objects, openPage, phone, startBrowser, startProxy, startServer, until } from './server.js'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let server, browser, session
before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()])
  await server.kubectl(['apply', '--server-side', '-f', '-'], objects)
  await server.kubectl(['wait', '--for=condition=Established', 'crd/cakes.bakery.example.com', '--timeout=60s'])
  await server.kubectl(['apply', '-f', '-'], cakes)
  await server.kubectl(['-n', 'shop', 'rollout', 'status', 'deployment/web', '--timeout=120s'])
  await server.kubectl(['-n', 'shop', 'run', 'lost', '--image=nginx', '--overrides={"spec":{"nodeSelector":{"disk":"none"}}}'])
  session = await openPage(browser)
  await session.page.goto(server.link)
  await session.page.getByRole('heading', { name: 'Overview' }).waitFor()
})
after(async () => { await browser?.close(); await server?.stop() })

const open = async path => {
  await session.page.goto(`${server.origin}/console/${path}`)
  return session.page
}

/** Fails for what axe finds serious. */
async function isAccessible(page, what) {
  // Not by a script element, which the policy forbids.
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  const serious = violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html).join(' ')}`)
  assert.deepEqual(serious, [], what)
}

const shots = process.env.SCREENSHOTS
async function shoot(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled' })
}

/** Checks a view at both widths and in both themes. */
async function look(page, name) {
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

test('home: health, problems first, live changes, counts', async () => {
  const page = await open('')
  await page.getByText('Healthy').waitFor()
  const problem = page.locator('.problems li', { hasText: 'shop/lost' })
  await problem.waitFor()
  assert.match(await problem.innerText(), /node/)
  await page.locator('.counts li', { hasText: 'Cake' }).getByText('2').waitFor()
  await server.kubectl(['-n', 'shop', 'create', 'configmap', 'fresh', '--from-literal=a=b'])
  const change = page.locator('.changes li', { hasText: 'fresh' })
  await change.waitFor()
  assert.match(await change.innerText(), /created by kubectl-create/)
  await page.getByLabel('Filter changes').fill('nothing like this')
  await until('the filter hides the change', async () => await change.count() === 0)
  assert.match(page.url(), /q=nothing/)
  await page.getByLabel('Filter changes').fill('')
  await server.kubectl(['-n', 'shop', 'delete', 'pod', 'lost', '--now'])
  await until('the problem goes away', async () => await problem.count() === 0)
  await server.kubectl(['-n', 'shop', 'run', 'lost', '--image=nginx', '--overrides={"spec":{"nodeSelector":{"disk":"none"}}}'])
  await problem.waitFor()
  await look(page, 'home')
  session.verify()
})

test('list: columns of the server, live, sort, filters, keys', async () => {
  const page = await open('bakery.example.com/v1/cakes?ns=shop')
  const names = () => page.locator('.body .row .name').allInnerTexts()
  await until('two cakes', async () => (await names()).length === 2)
  const heads = await page.getByRole('columnheader').allInnerTexts()
  assert.deepEqual(heads.map(h => h.trim()), ['Name', 'Flavour', 'Layers'])
  await page.getByRole('button', { name: 'Layers' }).click()
  assert.deepEqual(await names(), ['sacher', 'linzer'], 'by size, not by text')
  await page.getByRole('button', { name: 'Layers' }).click()
  assert.deepEqual(await names(), ['linzer', 'sacher'])
  await server.kubectl(['apply', '-f', '-'], cakes.replace('name: linzer', 'name: dobos').replace('layers: 10', 'layers: 6'))
  await until('the new cake is shown', async () => (await names()).join() === 'linzer,dobos,sacher')
  await page.getByLabel('Filter by text').fill('choc')
  await until('the filter', async () => (await names()).join() === 'sacher')
  await page.reload()
  await until('the same view after a reload', async () => (await names()).join() === 'sacher')
  await page.getByLabel('Filter by text').fill('')
  await page.getByLabel('Fields').fill('metadata.name=dobos')
  await page.keyboard.press('Enter')
  await until('the field selector', async () => (await names()).join() === 'dobos')
  await page.getByLabel('Fields').fill('nonsense=1')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Labels').pressSequentially('half of')
  await server.kubectl(['-n', 'shop', 'label', 'cake', 'dobos', 'a=b'])
  await page.getByLabel('Filter by text').fill('x')
  await page.getByLabel('Filter by text').fill('')
  assert.equal(await page.getByLabel('Labels').inputValue(), 'half of', 'a change of the list keeps what is typed')
  await page.getByLabel('Labels').fill('')
  await page.getByLabel('Fields').fill('')
  await page.keyboard.press('Enter')
  await server.kubectl(['-n', 'shop', 'delete', 'cake', 'dobos'])
  await until('the deleted cake is gone', async () => (await names()).join() === 'linzer,sacher')
  await page.getByRole('table').focus()
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'linzer' }).waitFor()
  await page.goBack()
  await until('back in the list', async () => (await names()).length === 2)
  await open('core/v1/pods')
  await until('pods of all namespaces', async () => (await names()).length >= 4)
  await page.getByLabel('Namespace').selectOption('shop')
  await page.getByLabel('Labels').fill('app=web')
  await page.keyboard.press('Enter')
  await until('three pods', async () => (await names()).length === 3)
  await look(page, 'list')
  session.verify()
})

test('object: conditions, owners, dependents, events, field owners', async () => {
  const page = await open('apps/v1/deployments/web?ns=shop')
  await page.getByRole('cell', { name: 'MinimumReplicasAvailable' }).waitFor()
  const below = page.getByRole('region', { name: 'Dependents' }).getByRole('link')
  await below.first().waitFor()
  await look(page, 'object')
  await below.first().click()
  await page.getByRole('region', { name: 'Owners' }).getByRole('link', { name: 'web' }).waitFor()
  assert.match(page.url(), /replicasets/)
  await open('apps/v1/deployments/web?ns=shop&tab=events')
  await page.getByText('ScalingReplicaSet').first().waitFor()
  await page.getByRole('tab', { name: 'Field owners' }).click()
  await page.getByText('kube-controller-manager').first().waitFor()
  await page.getByText('spec.replicas').waitFor()
  await look(page, 'fields')
  await page.getByRole('button', { name: 'Scale' }).click()
  await page.getByLabel('Replicas').fill('2')
  await page.getByRole('dialog').getByRole('button', { name: 'Scale' }).click()
  await until('two replicas', async () => await server.kubectl(['-n', 'shop', 'get', 'deployment', 'web', '-o', 'jsonpath={.spec.replicas}']) === '2')
  session.verify()
})

/** Replaces a part of the text in the editor. */
async function type(page, from, to) {
  await page.locator('.cm-content').first().click()
  await page.keyboard.press('Control+Home')
  await page.evaluate(() => undefined)
  const text = await page.locator('.cm-content').first().innerText()
  const line = text.split('\n').findIndex(l => l.includes(from))
  assert.ok(line >= 0, `${from} is not in the text: ${text}`)
  for (let i = 0; i < line; i++) await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Home')
  await page.keyboard.press('Shift+End')
  await page.keyboard.insertText(text.split('\n')[line].trim().replace(from, to))
}

test('edit: diff, dry run, conflicts with owners, apply, replace', async () => {
  const page = await open('core/v1/configmaps/settings?ns=shop&tab=yaml')
  const stored = async () => parse(await server.kubectl(['-n', 'shop', 'get', 'configmap', 'settings', '-o', 'yaml', '--show-managed-fields']))
  await page.locator('.cm-content').getByText('green').waitFor()
  await type(page, 'colour: green', 'colour: blue')
  await page.getByText('Unsaved changes').waitFor()
  await page.reload()
  await page.locator('.cm-content').getByText('blue').waitFor()
  await page.getByRole('button', { name: 'Review changes' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('kubectl').first().waitFor()
  assert.match(await dialog.getByRole('alert').innerText(), /data\.colour/)
  assert.equal(await dialog.getByRole('button', { name: 'Apply' }).isDisabled(), true)
  await dialog.getByLabel('Take these fields over').check()
  await dialog.locator('.cm-insertedLine, .cm-changedLine').first().waitFor()
  assert.equal((await stored()).data.colour, 'green', 'a dry run has changed the object')
  await look(page, 'edit')
  await dialog.getByRole('button', { name: 'Apply' }).click()
  await until('the change is stored', async () => (await stored()).data.colour === 'blue')
  const mine = (await stored()).metadata.managedFields.find(m => m.manager === 'kapok-console')
  assert.deepEqual(mine.fieldsV1, { 'f:data': { 'f:colour': {} } }, 'the page owns what it has changed, and no more')

  await page.getByText('Unsaved changes').waitFor({ state: 'hidden' })
  await type(page, 'size: large', '')
  await page.getByRole('button', { name: 'Review changes' }).click()
  await dialog.getByText('data.size').first().waitFor()
  await dialog.getByLabel(/^Replace/).check()
  await dialog.locator('.cm-deletedChunk').first().waitFor()
  await dialog.getByRole('button', { name: 'Replace' }).click()
  await until('the field is removed', async () => (await stored()).data.size === undefined)

  // A conflict while editing: nothing of the text is lost.
  await page.getByText('Unsaved changes').waitFor({ state: 'hidden' })
  await type(page, 'colour: blue', 'colour: red')
  await server.kubectl(['-n', 'shop', 'annotate', 'configmap', 'settings', 'other=change'])
  await page.getByRole('button', { name: 'Review changes' }).click()
  await dialog.getByLabel(/^Replace/).check()
  await dialog.getByRole('alert').getByText('the object has been modified').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await page.locator('.cm-content').getByText('red').waitFor()
  await page.getByRole('button', { name: 'Discard changes' }).click()
  await type(page, 'colour: blue', 'colour: [')
  await page.getByRole('button', { name: 'Review changes' }).click()
  await page.getByRole('alert').getByText(/Line \d+/).waitFor()
  await page.getByRole('button', { name: 'Discard changes' }).click()
  session.verify()
})

test('create: by text and from another object, by a dry run', async () => {
  const page = await open('bakery.example.com/v1/cakes?ns=shop')
  await page.getByRole('button', { name: 'Create' }).click()
  await type(page, 'name: ""', 'name: opera')
  await page.getByRole('button', { name: 'Check' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.locator('.cm-insertedLine, .cm-changedLine').first().waitFor()
  await assert.rejects(server.kubectl(['-n', 'shop', 'get', 'cake', 'opera']), 'a dry run has created the object')
  await look(page, 'create')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('heading', { name: 'opera' }).waitFor()
  await server.kubectl(['-n', 'shop', 'get', 'cake', 'opera'])

  await open('bakery.example.com/v1/cakes/sacher?ns=shop')
  await page.getByRole('button', { name: 'Copy' }).click()
  await page.locator('.cm-content').getByText('sacher-copy').waitFor()
  await type(page, 'layers: 2', 'layers: 0')
  await page.getByRole('button', { name: 'Check' }).click()
  await page.getByRole('alert').getByText('spec.layers').waitFor()
  await page.reload()
  await page.locator('.cm-content').getByText('layers', { exact: true }).waitFor()
  await type(page, 'layers: 0', 'layers: 3')
  await page.getByRole('button', { name: 'Check' }).click()
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('heading', { name: 'sacher-copy' }).waitFor()
  const copy = parse(await server.kubectl(['-n', 'shop', 'get', 'cake', 'sacher-copy', '-o', 'yaml']))
  assert.deepEqual(copy.spec, { flavour: 'chocolate', layers: 3 })
  await server.kubectl(['-n', 'shop', 'delete', 'cake', 'opera', 'sacher-copy'])
  session.verify()
})

test('logs: of all containers, as they come', async () => {
  const page = await open('core/v1/pods?ns=shop&l=app%3Dweb')
  await page.locator('.body .row .name a').first().click()
  await page.getByRole('tab', { name: 'Logs' }).click()
  const lines = page.locator('.logs div')
  await lines.first().waitFor()
  const before = await lines.count()
  await page.getByLabel('Filter by text').fill('nothing like this')
  await until('the filter', async () => await lines.count() === 0)
  await page.getByLabel('Filter by text').fill('')
  await until('all lines', async () => await lines.count() >= before)
  await look(page, 'logs')
  session.verify()
})

test('a list of 100,000 objects shows a few rows of them', async () => {
  const context = await session.context.newPage()
  // The rows come from the test, in chunks as the server sends them.
  await context.addInitScript(() => {
    const { fetch } = window
    const columnDefinitions = ['Name', 'Data', 'Age'].map(name => ({ name, type: 'string', format: '', description: '', priority: 0 }))
    window.fetch = async (path, init) => {
      if (!String(path).startsWith('/api/v1/namespaces/many/configmaps?')) return fetch(path, init)
      const query = new URL(path, location.origin).searchParams
      if (query.has('watch')) return new Promise(() => undefined)
      const from = Number(query.get('continue') ?? 0)
      const next = from + Number(query.get('limit'))
      const rows = []
      for (let i = from; i < Math.min(next, 100_000); i++) {
        const name = `settings-${String(i).padStart(6, '0')}`
        rows.push({ cells: [name, i, '5m'], object: { metadata: { name, namespace: 'many', uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' } } })
      }
      const metadata = next < 100_000 ? { resourceVersion: '1', continue: String(next), remainingItemCount: 100_000 - next } : { resourceVersion: '1' }
      return new Response(JSON.stringify({ kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata, columnDefinitions, rows }))
    }
  })
  await context.goto(`${server.origin}/console/core/v1/configmaps?ns=many`)
  await context.getByText('100,000 of 100,000').waitFor()
  await context.getByRole('table').focus()
  await context.keyboard.press('End')
  await context.getByRole('link', { name: 'settings-099999' }).waitFor()
  assert.ok(await context.locator('.body .row').count() < 100)
  await context.getByLabel('Filter by text').fill('settings-04242')
  await context.getByText('10 of 100,000').waitFor()
  await context.close()
})

test('delete: shows what goes along', async () => {
  const page = await open('apps/v1/deployments/web?ns=shop')
  await page.getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('These go with it').waitFor()
  await dialog.getByText('ReplicaSet').waitFor()
  await look(page, 'delete')
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('This object was deleted.').waitFor()
  session.verify()
})

test('names and texts of objects are text', async () => {
  session.page.on('dialog', () => assert.fail('a script of an object runs'))
  const page = await open('core/v1/configmaps/hostile?ns=shop')
  await page.locator('dd').getByText(hostile, { exact: true }).waitFor()
  await page.getByRole('tab', { name: 'YAML' }).click()
  await page.locator('.cm-content').getByText('onerror').first().waitFor()
  await open('core/v1/events?ns=shop')
  await page.getByRole('cell').getByText(hostile, { exact: true }).first().waitFor()
  await open(`core/v1/configmaps/${encodeURIComponent(hostile)}?ns=${encodeURIComponent(hostile)}`)
  await page.getByRole('heading', { name: hostile }).waitFor()
  await open(`core/v1/${encodeURIComponent(hostile)}`)
  await page.getByText(`no kind ${hostile}`).waitFor()
  assert.equal(await page.locator('img[src=x], script:not([src])').count(), 0)
  session.verify()
})

test('keys, themes, Chinese', async () => {
  const page = await open('')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('deploy')
  await look(page, 'palette')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Deployment' }).waitFor()
  await page.keyboard.press('h')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const light = await background()
  for (const theme of ['light', 'dark']) {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').fill('theme')
    await page.keyboard.press('Enter')
    await until(theme, async () => (await background() === light) === (theme === 'light'))
  }
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('language')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: '概览' }).waitFor()
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN')
  await isAccessible(page, 'Chinese, dark')
  session.verify()
})

test('kapok console: the same page for any kubeconfig', async () => {
  const proxy = await startProxy(server.kubeconfig)
  const { page, verify, close } = await openPage(browser)
  try {
    await page.goto(proxy.link)
    await page.getByText('Healthy').waitFor()
    await page.getByRole('link', { name: 'Node', exact: true }).click()
    await page.locator('.body .row').nth(2).waitFor()
    await server.kubectl(['label', 'nodes', '--all', 'fresh=1'])
    await page.getByText('live').waitFor()
    verify()
  } finally {
    await close()
    await proxy.stop()
  }
})

test('a viewer sees what a viewer may see', async () => {
  await server.kubectl(['-n', 'shop', 'create', 'serviceaccount', 'viewer'])
  await server.kubectl(['-n', 'shop', 'create', 'rolebinding', 'viewer', '--clusterrole=view', '--serviceaccount=shop:viewer'])
  const token = (await server.kubectl(['-n', 'shop', 'create', 'token', 'viewer'])).trim()
  const { page, verify, close } = await openPage(browser)
  await page.goto(`${server.origin}/console/core/v1/configmaps?ns=shop`)
  await page.getByLabel('Bearer token').fill('wrong')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Bearer token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('link', { name: 'settings' }).waitFor()
  await page.goto(`${server.origin}/console/core/v1/secrets?ns=shop`)
  await page.getByRole('alert').getByText('forbidden').waitFor()
  await page.goto(`${server.origin}/console/core/v1/configmaps/settings?ns=shop`)
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByRole('alert').getByText('forbidden').waitFor()
  await server.kubectl(['-n', 'shop', 'delete', 'serviceaccount', 'viewer'])
  await page.goto(`${server.origin}/console/core/v1/configmaps?ns=shop`)
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  verify()
  await close()
})
