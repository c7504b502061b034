/// <reference lib="dom" />
/**
 * The site as its readers meet it: served from some folder, searched, on a phone, without a request to another host.
 * `npm run -s slow:tests` alone, since a build takes 18 s of processor time.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from '../../tools/workspace/layout.mjs'
import { buildSite } from '../../tools/workspace/site.mjs'
import { chromiumFlags, findChromium } from './chromium.js'

const isAsked = process.env.ODDFLOW_TESTS === 'all'
const executablePath = findChromium()
if (isAsked && executablePath === null)
  console.warn('SKIPPED: the site was not tried in a browser: no chromium or google-chrome on the PATH.')

const dist = join(root, 'site/dist')
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}
const server = createServer((request, response) => {
  const path = decodeURI(new URL(request.url!, 'http://x').pathname)
  const file = join(dist, path.replace(/^\/some\/where/, '').replace(/\/$/, '/index.html'))
  const isThere = path.startsWith('/some/where/') && existsSync(file) && statSync(file).isFile()
  response.writeHead(isThere ? 200 : 404, { 'content-type': TYPES[extname(file)] ?? 'text/plain' })
  response.end(isThere ? readFileSync(file) : 'not there')
})

let browser: Browser
let page: Page
let home: string
const strangers: string[] = []
const failures: string[] = []

beforeAll(async () => {
  if (!isAsked || executablePath === null) return
  await buildSite()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  home = `http://127.0.0.1:${(server.address() as AddressInfo).port}/some/where/`
  browser = await chromium.launch({ executablePath, args: chromiumFlags })
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  page.on('request', (request) => {
    if (!request.url().startsWith(home) && !request.url().startsWith('data:')) strangers.push(request.url())
  })
  page.on('response', (response) => {
    if (response.status() >= 400) failures.push(`${response.status()} ${response.url()}`)
  })
  page.on('pageerror', (error) => failures.push(error.message))
}, 600_000)
afterAll(async () => {
  await browser?.close()
  server.close()
})

describe.skipIf(!isAsked || executablePath === null)('the site, from some folder', () => {
  it('finds a page by its words, goes there and on', async () => {
    await page.goto(`${home}docs/results/sweep-nu.html`)
    await page.click('.VPNavBarSearch button')
    await page.fill('.search-input', 'mirror port of your switch')
    await page.click('.VPLocalSearchBox .result >> nth=0')
    await expect.poll(() => page.url()).toContain('/some/where/docs/guides/first-week.html')
    await page.click('.vp-doc a >> text=which machines')
    await expect.poll(() => page.url()).toBe(`${home}docs/agent-machines.html`)
    await page.click('.VPNavBarMenuLink >> text=Developers')
    await expect.poll(() => page.title()).toContain('For developers')
    await page.reload()
    await expect.poll(() => page.title()).toContain('For developers')
  }, 60_000)

  it('fits a phone, light and dark', async () => {
    await page.setViewportSize({ width: 390, height: 844 })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const path of ['', 'docs/results/README.html', 'docs/parameters.html', 'site/api/oddflow.html']) {
        await page.goto(home + path)
        const extra = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        expect(extra, path).toBe(0)
      }
    }
  }, 60_000)

  it('asks no other host, and lacks nothing', () => {
    expect(strangers).toEqual([])
    expect(failures).toEqual([])
  })
})
