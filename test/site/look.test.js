// How pages look, at the width of a desktop and of a phone, light and dark.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { desktop, fits, isAccessible, openPage, pages, phone, shoot, startBrowser, startServer } from './server.js'

let browser, server
before(async () => { [browser, server] = [await startBrowser(), await startServer()] })
after(async () => { await browser.close(); server.stop() })

test('all pages fit, without an error', async () => {
  const all = pages('main')
  assert.ok(all.length > 150, `${all.length} pages`)
  for (const viewport of [phone, desktop]) {
    const { page, verify, close } = await openPage(browser, { viewport })
    for (const name of all) {
      await page.goto(`${server.address}main/${name}`)
      await fits(page, name)
      assert.equal(await page.locator('h1').count(), 1, `${name}: titles`)
    }
    verify()
    await close()
  }
})

// One page of each form: first pages, a tutorial, wide tables, long code, figures, many children, generated.
for (const name of ['index', 'index.zh-CN', 'docs/index', 'docs/getting-started', 'docs/flags', 'docs/performance', 'docs/embedding', 'docs/console', 'docs/decisions/index', 'docs/reference/kapok_up', 'examples/foo/index']) {
  test(`${name} is accessible`, async () => {
    for (const [viewport, size] of [[desktop, 'desktop'], [phone, 'phone']]) {
      for (const colorScheme of ['light', 'dark']) {
        const { page, verify, close } = await openPage(browser, { viewport, colorScheme })
        await page.goto(`${server.address}main/${name}.html`)
        await isAccessible(page, `${name}, ${size}, ${colorScheme}`)
        await shoot(page, `${name.replaceAll('/', '-')}-${size}-${colorScheme}`)
        verify()
        await close()
      }
    }
  })
}

test('the menu of a phone shows the pages', async () => {
  const { page, verify, close } = await openPage(browser, { viewport: phone })
  await page.goto(`${server.address}main/docs/getting-started.html`)
  const link = page.locator('#pages').getByRole('link', { name: 'Tests without a cluster' })
  assert.equal(await link.isVisible(), false)
  await page.getByRole('button', { name: 'Menu' }).click()
  await isAccessible(page, 'the menu')
  await shoot(page, 'menu')
  await fits(page, 'the menu')
  await link.click()
  await page.waitForURL('**/testing.html')
  verify()
  await close()
})

test('without scripts, pages are complete, and show nothing that needs them', async () => {
  for (const viewport of [phone, desktop]) {
    const { page, verify, close } = await openPage(browser, { viewport, javaScriptEnabled: false })
    await page.goto(`${server.address}main/docs/getting-started.html`)
    await page.getByRole('heading', { name: 'Your first custom resource' }).waitFor()
    assert.equal(await page.locator('button.find, button.theme, button.copy').filter({ visible: true }).count(), 0)
    if (viewport === phone) await page.getByRole('button', { name: 'Menu' }).click()
    await page.locator('#pages').getByRole('link', { name: 'Tests without a cluster' }).click()
    await page.waitForURL('**/testing.html')
    verify()
    await close()
  }
})
