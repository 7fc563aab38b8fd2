// The tour of the view "learn" on a real server. With SCREENSHOTS=DIR, it writes that of docs/console.md.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { desktop, isAccessible, look, openPage, phone, startBrowser, startProxy, startServer, until } from './server.js'

let server, browser, session
before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()])
  session = await openPage(browser)
  await session.page.goto(server.link)
  await session.page.getByRole('heading', { name: 'Overview' }).waitFor()
})
after(async () => { await browser?.close(); await server?.stop() })

const learn = '/console/learn'
const run = page => page.getByRole('button', { name: 'Run', exact: true })
const status = (page, code) => page.getByText(`HTTP status ${code}.`)
const events = page => page.getByRole('log').getByRole('listitem')
const lines = page => page.locator('.call .copyable code').allInnerTexts()
const tourOf = page => new URL(page.url()).searchParams.get('tour')
const left = async id => (await server.kubectl(['get', 'namespaces,crd', '-l', `console.kapok.dev/tour=${id}`, '-o', 'name'])).trim()
const to = (page, step) => page.getByRole('navigation', { name: 'Steps' }).getByRole('link', { name: step }).click()

/** Opens a new tour, and returns its name. */
async function begin(page, origin = server.origin) {
  await page.goto(origin + learn)
  await page.getByRole('heading', { name: 'Namespace' }).waitFor()
  return tourOf(page)
}

/** Ends the tour that a page shows. */
async function end(page) {
  await page.getByRole('link', { name: 'End the tour' }).click()
  await page.getByRole('button', { name: 'End the tour' }).click()
  await page.getByText(/✓ Nothing (that you may read )?is left of/).waitFor()
}

async function logIn(page, account) {
  const token = (await server.kubectl(['create', 'token', account])).trim()
  await page.goto(server.origin + learn)
  await page.getByLabel('Bearer token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
}

test('the tour: each step shows, runs and explains a request, and nothing is left', async () => {
  const { page } = session
  const id = await begin(page)
  assert.match(id, /^tour-[a-z0-9]{6}$/)
  const [kubectl, http] = await lines(page)
  assert.match(kubectl, new RegExp(`^kubectl create -f - <<'EOF'\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${id}\n`))
  assert.match(http, /^POST \/api\/v1\/namespaces\?fieldManager=kapok-console HTTP\/1\.1\nContent-Type: application\/yaml\n\napiVersion: v1\n/)
  assert.equal(await left(id), '', 'an address runs nothing')
  await run(page).click()
  await status(page, 201).waitFor()
  await events(page).filter({ hasText: `ADDED Namespace ${id}` }).waitFor()
  await page.getByText('Done: it exists.').waitFor()
  await until('the focus goes on when the button is gone', () => page.evaluate(() => document.activeElement.id === 'next'))
  await page.keyboard.press('Enter')

  await page.getByRole('heading', { name: 'Definition' }).waitFor()
  assert.match(page.url(), /step=definition/)
  await until('the focus is at the new step', () => page.evaluate(() => document.activeElement.textContent === 'Definition 2 of 8'))
  await run(page).click()
  await status(page, 201).waitFor()
  await events(page).filter({ hasText: /MODIFIED CustomResourceDefinition .*status\.conditions/s }).first().waitFor()
  await page.getByText('Done: it exists.').waitFor()

  await to(page, 'Object')
  await run(page).click()
  await page.locator('.call').getByText('layers: 2').waitFor()
  await events(page).filter({ hasText: 'ADDED Cake sacher' }).waitFor()

  await to(page, 'Schema')
  await run(page).click()
  await status(page, 422).waitFor()
  assert.deepEqual((await page.locator('.call .links code').allInnerTexts()).map(c => c.split(':')[0]).sort(), ['spec.flavour', 'spec.layers'])
  await page.getByRole('link', { name: /Schema \(done\)/ }).waitFor()

  // A reload in the middle: what exists is done.
  await page.reload()
  await page.getByRole('heading', { name: 'Schema' }).waitFor()
  assert.equal(tourOf(page), id)
  for (const step of ['Namespace', 'Definition', 'Object']) await page.getByRole('link', { name: `${step} (done)` }).waitFor()

  await to(page, 'Watch and patch')
  await run(page).first().click()
  await page.getByText('The watch is open').waitFor()
  await events(page).filter({ hasText: 'ADDED Cake sacher' }).waitFor()
  await run(page).click()
  await events(page).filter({ hasText: /MODIFIED Cake sacher.*spec\.layers/s }).waitFor()
  await server.kubectl(['-n', id, 'patch', `cakes.${id}.example.com`, 'sacher', '--type=merge', '-p', '{"spec":{"layers":7}}'])
  await until('the watch stays open', async () => await events(page).count() === 3)
  await look(page, 'learn')

  await to(page, 'Explain')
  await run(page).click()
  await page.locator('.call').getByText('What the cake tastes of.').waitFor()

  await to(page, 'Roll back')
  await run(page).first().click()
  await page.locator('.call').getByText('change: Created').waitFor()
  assert.equal(await page.getByRole('link', { name: 'Roll back (done)' }).count(), 0)
  await run(page).last().click()
  await events(page).filter({ hasText: /MODIFIED Cake sacher.*spec\.layers/s }).waitFor()
  await page.getByRole('link', { name: 'Roll back (done)' }).waitFor()
  assert.equal(await server.kubectl(['-n', id, 'get', `cakes.${id}.example.com`, 'sacher', '-o', 'jsonpath={.spec}']), '{"flavour":"chocolate","layers":2}')

  // The other views show the same object.
  await page.getByRole('link', { name: 'Timeline' }).click()
  await page.getByRole('list', { name: 'Timeline' }).getByText('spec.layers').first().waitFor()
  await page.goBack()
  await page.getByRole('link', { name: 'sacher' }).click()
  await page.getByRole('heading', { name: 'sacher' }).waitFor()
  await page.goBack()

  await page.getByRole('button', { name: 'What this page has done' }).click()
  await page.getByRole('dialog').getByText('kubectl replace -f -').first().waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()

  await page.getByRole('link', { name: 'End the tour' }).click()
  assert.equal((await lines(page)).filter(line => line.startsWith('kubectl delete')).length, 2)
  await page.getByRole('button', { name: 'End the tour' }).click()
  await page.getByText(`Nothing is left of ${id}.`).waitFor()
  await events(page).filter({ hasText: `DELETED Namespace ${id}` }).waitFor()
  assert.equal(await left(id), '')
  await look(page, 'learn-end')
  await page.getByRole('link', { name: 'Start another tour' }).click()
  await until('another name', () => tourOf(page) && tourOf(page) !== id)
  session.verify()
})

test('the lines of kubectl do the same as the buttons', async () => {
  const { page } = session
  const id = await begin(page)
  const line = async n => (await lines(page))[2 * n]
  const step = async name => {
    await page.goto(`${server.origin}${learn}?tour=${id}&step=${name}`)
    await page.locator('.call').first().waitFor()
  }
  assert.match(await server.shell(await line(0)), /namespace\/tour-\S+ created/)
  await step('definition')
  assert.match(await server.shell(await line(0)), /cakes\.tour-\S+ created/)
  await server.kubectl(['wait', '--for=condition=Established', `crd/cakes.${id}.example.com`, '--timeout=60s'])
  await step('object')
  assert.match(await server.shell(await line(0)), /sacher created/)
  await step('reject')
  await assert.rejects(server.shell(await line(0)), /spec\.flavour: Unsupported value/)
  await step('watch')
  assert.match(await server.shell((await line(0)).replace(' --watch --output-watch-events', '')), /sacher +chocolate +2/)
  assert.match(await server.shell(await line(1)), /sacher patched/)
  await step('explain')
  const explain = await line(0)
  await until('the documentation', () => server.shell(explain).then(out => out.includes('What the cake tastes of.'), () => false))
  await step('time')
  assert.match(await server.shell(await line(0)), new RegExp(`cakes\\.${id}\\.example\\.com:sacher`))
  assert.match(await server.shell(await line(1)), /sacher replaced/)
  await step('end')
  for (const one of [await line(0), await line(1)]) assert.match(await server.shell(one), /deleted/)
  await page.getByText(`✓ Nothing is left of ${id}.`).waitFor() // the page follows
  assert.equal(await left(id), '')
  session.verify()
})

test('a tour that was left is found, and ended after a reload', async () => {
  const { page } = session
  const id = await begin(page)
  await run(page).click()
  await status(page, 201).waitFor()
  await to(page, 'Definition')
  await run(page).click()
  await page.getByText('Done: it exists.').waitFor()
  const other = await begin(page)
  assert.notEqual(other, id)
  await page.getByRole('link', { name: id }).click()
  await page.getByRole('heading', { name: 'End' }).waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'End the tour' }).click()
  await page.getByText(`Nothing is left of ${id}.`).waitFor()
  assert.equal(await left(id), '')
  session.verify()
})

test('objects of others are not of the tour', async () => {
  const { page } = session
  await server.kubectl(['create', 'namespace', 'tour-bcdfgh'])
  await page.goto(`${server.origin}${learn}?tour=tour-bcdfgh&step=end`)
  await page.getByText(/✓ Nothing (that you may read )?is left of/).waitFor()
  assert.equal(await page.getByRole('button', { name: 'End the tour' }).count(), 0)
  await to(page, 'Namespace')
  await run(page).click()
  await page.getByText('already exists').waitFor()
  await page.goto(`${server.origin}${learn}?tour=kube-system&step=end`)
  await until('a name of its own', () => /^tour-[a-z0-9]{6}$/.test(tourOf(page)))
  await server.kubectl(['delete', 'namespace', 'tour-bcdfgh'])
  session.verify()
})

test('a step whose step before is missing names it', async () => {
  const { page } = session
  const id = await begin(page)
  await page.goto(`${server.origin}${learn}?tour=${id}&step=object`)
  await page.getByText('This step needs:').waitFor()
  assert.equal(await run(page).count(), 0)
  await page.getByText('This step needs:').getByRole('link', { name: 'Definition' }).click()
  await page.getByRole('heading', { name: 'Definition' }).waitFor()
  session.verify()
})

test('users see the permissions that they lack, and nothing fails', async () => {
  await server.kubectl(['create', 'serviceaccount', 'viewer'])
  await server.kubectl(['create', 'clusterrolebinding', 'viewer', '--clusterrole=view', '--serviceaccount=default:viewer'])
  await server.kubectl(['create', 'serviceaccount', 'maker'])
  await server.kubectl(['create', 'clusterrole', 'maker', '--verb=get,list,watch,create,delete', '--resource=namespaces'])
  await server.kubectl(['create', 'clusterrolebinding', 'maker', '--clusterrole=maker', '--serviceaccount=default:maker'])

  for (const size of [desktop, phone]) {
    const { page, verify, close } = await openPage(browser, { viewport: size })
    let writes = 0
    page.on('request', r => { if (r.method() !== 'GET' && !/\/apis\/auth|\/console\/session/.test(r.url())) writes++ })
    await logIn(page, 'viewer')
    const missing = page.locator('.banner')
    const tour = async () => { await until('a tour', () => tourOf(page)); return tourOf(page) }
    const id = await tour()
    for (const [step, right, line] of [
      ['namespace', 'create namespaces', 'kubectl auth can-i create namespaces'],
      ['definition', 'create customresourcedefinitions.apiextensions.k8s.io', 'kubectl auth can-i create customresourcedefinitions.apiextensions.k8s.io'],
      ['object', `create cakes.${id}.example.com`, `kubectl auth can-i create cakes.${id}.example.com -n ${id}`],
      ['watch', `patch cakes.${id}.example.com`, `kubectl auth can-i patch cakes.${id}.example.com/sacher -n ${id}`],
    ]) {
      await page.goto(`${server.origin}${learn}?tour=${id}&step=${step}`)
      await missing.getByText(right, { exact: true }).waitFor()
      await missing.getByText(line, { exact: true }).waitFor()
      assert.equal(await run(page).count(), 0)
      assert.match(await server.shell(`${line} --as=system:serviceaccount:default:viewer || true`), /no/)
    }
    await isAccessible(page, `a step without permission, ${size.width} wide`)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= size.width)
    await page.goto(`${server.origin}${learn}?tour=${id}&step=explain`)
    await page.getByText('This step needs:').waitFor()
    assert.equal(writes, 0)
    verify()
    await close()
  }

  // The rights decide step by step.
  const { page, verify, close } = await openPage(browser)
  await logIn(page, 'maker')
  await run(page).click()
  await page.getByText('Done: it exists.').waitFor()
  await to(page, 'Definition')
  await page.locator('.banner').getByText('create customresourcedefinitions.apiextensions.k8s.io', { exact: true }).waitFor()
  await end(page)
  assert.equal(await left(tourOf(page)), '')
  verify()
  await close()
})

test('every step in Chinese, on a phone, by keys', async () => {
  const { page, verify, close } = await openPage(browser, { viewport: phone, colorScheme: 'dark', locale: 'zh-CN' })
  const token = (await server.kubectl(['create', 'token', 'default'])).trim()
  await server.kubectl(['create', 'clusterrolebinding', 'all', '--clusterrole=cluster-admin', '--serviceaccount=default:default'])
  await page.goto(server.origin + learn)
  await page.getByLabel('Bearer').fill(token)
  await page.keyboard.press('Enter')
  const step = async (name, buttons) => {
    await page.getByRole('heading', { name }).waitFor()
    for (let i = 0; i < buttons; i++) {
      const button = page.getByRole('button', { name: '运行', exact: true })
      const at = name === '回滚' ? i : 0 // the button that opens the watch has gone
      await until(`${name} has a button`, async () => await button.count() > at && await button.nth(at).isEnabled())
      await button.nth(at).press('Enter')
      await page.getByText(name === '监视与修补' && i === 0 ? '监视保持打开' : /HTTP 状态 \d+/).nth(at).waitFor()
    }
    await isAccessible(page, name)
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), phone.width, name)
    assert.doesNotMatch(await page.locator('.learn h1, .learn h2, .learn p:not(.error), .steps').allInnerTexts().then(all => all.join(' ')), /\b(the|step|watch|tour (is|was)|learn)\b/i)
  }
  for (const [name, buttons] of [['命名空间', 1], ['定义', 1], ['对象', 1], ['模式校验', 1], ['监视与修补', 2], ['字段说明', 1], ['回滚', 2]]) {
    await step(name, buttons)
    const next = page.locator('#next')
    await next.focus()
    await page.keyboard.press('Enter')
  }
  await step('结束', 0)
  await page.getByRole('button', { name: '结束教程' }).press('Enter')
  await page.getByText(/✓ .*没有留下任何内容/).waitFor()
  assert.equal(await left(tourOf(page)), '')
  verify()
  await close()
})

test('any cluster: by kapok console, and without the history of objects', async () => {
  const proxy = await startProxy(server.kubeconfig)
  const { page, verify, close } = await openPage(browser)
  try {
    await page.route('**/apis', async route => {
      const response = await route.fetch()
      const body = await response.json()
      await route.fulfill({ response, json: { ...body, items: body.items.filter(g => g.metadata.name !== 'history.kapok.dev') } })
    })
    await page.goto(proxy.link)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    const id = await begin(page, proxy.origin)
    assert.equal(await page.getByRole('link', { name: 'Roll back' }).count(), 0)
    for (const step of ['Namespace', 'Definition', 'Object']) {
      await to(page, step)
      await run(page).click()
      await page.getByText('Done: it exists.').waitFor()
    }
    await page.goto(`${proxy.origin}${learn}?tour=${id}&step=time`)
    await page.getByRole('heading', { name: 'Namespace' }).waitFor()
    await end(page)
    assert.equal(await left(id), '')
    verify()
  } finally {
    await close()
    await proxy.stop()
  }
})
