// What pages do: search, themes, versions, languages, and buttons that copy.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { fits, isAccessible, openPage, phone, shoot, site, startBrowser, startServer } from './server.js'

let browser, server
before(async () => { [browser, server] = [await startBrowser(), await startServer()] })
after(async () => { await browser.close(); server.stop() })

const found = page => page.locator('#found').getByRole('option')
const first = page => found(page).first()

/** Opens the search by a key, and searches. */
async function search(page, words) {
  if (!await page.locator('dialog.search').isVisible()) await page.keyboard.press('/')
  await page.locator('dialog.search input').fill(words)
}

test('the search finds pages', async () => {
  const { page, verify, close } = await openPage(browser)
  await page.goto(`${server.address}main/`)
  for (const [words, link] of [
    ['virtual time', 'docs/testing-time.html'],
    ['getting started', 'docs/getting-started.html'],
    ['kapok snapshot restore', 'docs/reference/kapok_snapshot_restore.html'],
    ['encryption', 'docs/encryption.html'],
    ['--listen', 'docs/'],
    ['五分钟', 'index.zh-CN.html'],
  ]) {
    await search(page, words)
    await page.locator(`#found a:first-child[href*="${link}"]`).waitFor({ timeout: 10_000 }).catch(async () => {
      assert.fail(`${words}: found ${await page.locator('#found a').evaluateAll(all => all.slice(0, 5).map(a => a.getAttribute('href')))}, want ${link} first`)
    })
  }
  await search(page, 'virtual time')
  assert.equal(await first(page).getAttribute('aria-selected'), 'true')
  await page.keyboard.press('ArrowDown')
  assert.equal(await found(page).nth(1).getAttribute('aria-selected'), 'true')
  await page.keyboard.press('ArrowUp')
  await isAccessible(page, 'the search')
  await shoot(page, 'search')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/testing-time.html*')

  await search(page, 'no-such-word-at-all')
  await page.getByText('Nothing found').waitFor()
  await search(page, '<img src=x onerror=alert(1)> (*')
  await page.getByText('Nothing found').waitFor()
  await page.keyboard.press('Escape')
  await page.locator('dialog.search').waitFor({ state: 'hidden' })
  verify()
  await close()
})

test('the search fits a phone', async () => {
  const { page, verify, close } = await openPage(browser, { viewport: phone, colorScheme: 'dark' })
  await page.goto(`${server.address}main/index.zh-CN.html`)
  await page.getByRole('button', { name: '搜索' }).click()
  await search(page, 'kapok')
  await first(page).waitFor()
  await fits(page, 'the search')
  await isAccessible(page, 'the search of a phone')
  await shoot(page, 'search-phone')
  // The reader's language comes first.
  assert.match(await first(page).getAttribute('href'), /zh-CN/)
  verify()
  await close()
})

test('from a disk, pages and their search work', async () => {
  const { page, verify, close } = await openPage(browser)
  await page.goto(`${pathToFileURL(site)}/main/docs/access.html`)
  await search(page, 'virtual time')
  await first(page).click()
  await page.waitForURL('**/docs/testing-time.html*')
  verify()
  await close()
})

test('the reader chooses light or dark', async () => {
  const { page, verify, close } = await openPage(browser)
  const dark = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme === 'dark')
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  await page.goto(`${server.address}main/`)
  const light = await background()
  await page.getByRole('button', { name: 'Light or dark' }).click()
  assert.ok(await dark())
  assert.notEqual(await background(), light)
  await page.goto(`${server.address}main/docs/access.html`)
  assert.ok(await dark(), 'the choice is kept')
  await page.getByRole('button', { name: 'Light or dark' }).click()
  assert.equal(await background(), light)
  await page.emulateMedia({ colorScheme: 'dark' })
  assert.notEqual(await background(), light, 'the choice of the system is followed again')
  verify()
  await close()
})

test('versions offer each other', async () => {
  const { page, verify, close } = await openPage(browser)
  await page.goto(server.address)
  await page.waitForURL('**/v0.1.0/')
  const versions = page.getByLabel('Version')
  await versions.waitFor()
  assert.deepEqual(await versions.locator('option').allTextContents(), ['v0.1.0', 'main'])
  await page.goto(`${server.address}v0.1.0/docs/access.html#try-it`)
  await versions.selectOption('main')
  await page.waitForURL('**/main/docs/access.html#try-it')
  verify()
  await close()
})

test('a page that another version lacks leads to its first page', async () => {
  const { page, close } = await openPage(browser)
  await page.goto(`${server.address}main/docs/console.html`)
  await page.getByLabel('Version').selectOption('v0.1.0')
  await page.waitForURL('**/v0.1.0/')
  await close()
})

test('pages lead to their translation', async () => {
  const { page, verify, close } = await openPage(browser)
  await page.goto(`${server.address}main/`)
  await page.getByRole('link', { name: '中文' }).click()
  await page.waitForURL('**/index.zh-CN.html')
  await page.getByText('本页内容').last().waitFor()
  await page.getByRole('link', { name: 'English' }).click()
  await page.waitForURL('**/main/index.html')
  verify()
  await close()
})

test('buttons copy commands without their output', async () => {
  const { page, context, verify, close } = await openPage(browser)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(`${server.address}main/docs/getting-started.html`)
  const copied = async text => {
    await page.locator('.code').filter({ hasText: text }).first().getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('button', { name: 'Copied' }).first().waitFor()
    return page.evaluate(() => navigator.clipboard.readText())
  }
  assert.equal(await copied('service/web exposed'), 'kubectl create deployment web --image=nginx --port=80\nkubectl expose deployment web\nkubectl get deployments')
  assert.match(await copied('CustomResourceDefinition'), /^kubectl apply -f - <<EOF\napiVersion[^]*\nEOF\nkubectl wait/)
  verify()
  await close()
})

test('the section that is read is marked', async () => {
  const { page, verify, close } = await openPage(browser)
  await page.goto(`${server.address}main/docs/access.html#default-roles`)
  await page.locator('.toc a.read', { hasText: 'Default roles' }).waitFor()
  verify()
  await close()
})
