/// <reference lib="dom" />
/**
 * The page to try OddFlow on, in a real browser, from a plain file server: from captures to a model and verdicts, with
 * the same bytes as in Node; nothing leaves it; hostile files get an answer in words; a person can work with it on a
 * phone, in the dark and by assistive technology. With ODDFLOW_SCREENSHOTS=FOLDER it leaves pictures there.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as inNode from '../../apps/trainer/dist/index.js'
import { MADE_ATTACKS } from '../../packages/program/dist/index.js'
import { writePage } from '../../tools/workspace/page.mjs'
import { lab } from '../e2e/support/oddflow.js'
import { chromiumFlags, findChromium } from './chromium.js'

const executablePath = findChromium()
if (executablePath === null)
  console.warn('SKIPPED: the page was not tried in a browser: no chromium or google-chrome on the PATH.')

const folder = mkdtempSync(join(tmpdir(), 'oddflow-page-'))
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}
const served: string[] = []
const server = createServer((request, response) => {
  served.push(request.url!)
  const file = join(folder, 'try', request.url === '/' ? 'index.html' : request.url!)
  response.writeHead(existsSync(file) ? 200 : 404, { 'content-type': TYPES[extname(file)] ?? 'text/plain' })
  response.end(existsSync(file) ? readFileSync(file) : 'not there')
})
const captures = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => lab(name).path)
const scan = lab('novel-scan.pcap').path

let browser: Browser
let home: string
beforeAll(async () => {
  if (executablePath === null) return
  await writePage(join(folder, 'try'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  home = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  browser = await chromium.launch({ executablePath, args: chromiumFlags })
}, 60_000)
afterAll(async () => {
  await browser?.close()
  server.close()
  rmSync(folder, { recursive: true })
})

/** Opens the page, and holds that it complained of nothing and asked for nothing but its own files. */
async function open(options: BrowserContextOptions, work: (page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext(options)
  try {
    const page = await context.newPage()
    const complaints: string[] = []
    const requests = new Set<string>()
    page.on('console', (message) => complaints.push(message.text()))
    page.on('pageerror', (error) => complaints.push(error.message))
    context.on('request', (request) => {
      if (!request.url().startsWith('blob:')) requests.add(request.url())
    })
    await page.goto(home)
    await work(page)
    expect(complaints).toEqual([])
    expect([...requests].sort()).toEqual(['', 'icon.svg', 'main.js', 'style.css'].map((name) => home + name))
  } finally {
    await context.close()
  }
}

const train = async (page: Page, files: readonly string[]): Promise<void> => {
  await page.getByLabel('Captures of normal traffic').setInputFiles([...files])
  await page.getByRole('button', { name: 'Train a model' }).click()
  await page.getByText('What this model would notice').waitFor()
}

describe.skipIf(executablePath === null)('the page', () => {
  it('trains the model that Node trains, judges with it, and with it after a download', async () => {
    await open({}, async (page) => {
      await train(page, captures)
      const flows = await inNode.readFlows(captures).toArray()
      expect(await page.locator('section').first().textContent()).toContain(
        `${flows.length.toLocaleString('en-US')} flows`,
      )
      const limits = await page.locator('dt').allTextContents()
      expect(limits).toEqual(expect.arrayContaining(MADE_ATTACKS.map(({ title }) => title)))

      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download the model' }).click(),
      ])
      const path = join(folder, 'page.oddflow')
      await download.saveAs(path)
      const expected = inNode.fit(flows)
      expect(readFileSync(path).equals(expected.toBytes())).toBe(true)

      const model = await inNode.loadModel(path)
      const judged = await inNode.readFlows(scan, { model }).toArray()
      const novel = model.predict(judged).filter((sign) => sign === -1).length
      const verdict = `${novel} flows of ${judged.length} are new.`
      const judge = async (): Promise<void> => {
        await page.getByLabel('Captures to judge').setInputFiles(scan)
        await page.getByText(verdict).waitFor()
        await page.getByRole('img', { name: `and ${novel} new flows` }).waitFor()
      }
      await judge()
      expect(await page.locator('tbody tr').last().locator('td').last().textContent()).not.toBe('')

      await page.getByLabel('Load a model').setInputFiles(path)
      await expect.poll(() => page.getByText(verdict).count()).toBe(0)
      await page.getByText('What this model would notice').waitFor()
      await judge()
    })
  }, 60_000)

  it('can connect nowhere, neither the page nor its worker', async () => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(home)
    const tries = async (url: string): Promise<string[]> => {
      const works: string[] = []
      await fetch(url).then(
        () => works.push('fetch'),
        () => {},
      )
      try {
        const request = new XMLHttpRequest()
        request.open('GET', url, false)
        request.send()
        works.push('XMLHttpRequest')
      } catch {}
      try {
        await new Promise((resolve, reject) => {
          const socket = new WebSocket(url.replace('http', 'ws'))
          socket.onopen = resolve
          socket.onerror = reject
        })
        works.push('WebSocket')
      } catch {}
      return works
    }
    expect(await page.evaluate(tries, `${home}elsewhere`)).toEqual([])
    const worker = page.workers()[0] ?? (await page.waitForEvent('worker'))
    expect(await worker.evaluate(tries, `${home}elsewhere`)).toEqual([])
    expect(served).not.toContain('/elsewhere')
    await context.close()
  }, 30_000)

  it('says so where a file comes while it is at work', async () => {
    await open({}, async (page) => {
      await train(page, captures)
      await page.evaluate(() => {
        const [choice] = document.querySelectorAll('label')
        new MutationObserver((_, observer) => {
          if (document.querySelector('progress') === null) return
          observer.disconnect()
          const dataTransfer = new DataTransfer()
          dataTransfer.items.add(new File(['x'], 'second.pcap'))
          choice!.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
        }).observe(document.body, { childList: true, subtree: true })
      })
      await page.getByRole('button', { name: 'Train a model' }).click()
      await page.getByRole('alert').filter({ hasText: 'still at work' }).waitFor()
    })
  }, 60_000)

  it('answers hostile files in words, and goes on', async () => {
    const name = `<img src=x onerror="document.title='pwned'">.pcap`
    const file = (bytes: Uint8Array, given = name) => ({
      name: given,
      mimeType: 'application/octet-stream',
      buffer: Buffer.from(bytes),
    })
    const capture = readFileSync(captures[0]!)
    await open({}, async (page) => {
      const alert = page.getByRole('alert')
      const choose = page.getByLabel('Captures of normal traffic')
      for (const [bytes, said] of [
        [Buffer.from('no capture at all, only words'), /capture: /],
        [Buffer.alloc(0), /capture: /],
        [gzipSync(capture).subarray(0, 40), /gzip: damaged or cut short/],
      ] as const) {
        await choose.setInputFiles(file(bytes))
        await alert.filter({ hasText: said }).waitFor()
      }
      await page.getByLabel('Load a model').setInputFiles(file(capture))
      await alert.filter({ hasText: 'safetensors: ' }).waitFor()
      // cut in the middle of a packet: what is before it is used
      await choose.setInputFiles(file(capture.subarray(0, capture.length - 7)))
      await page.getByText(`${name}: `).first().waitFor()
      await page.getByText(/packets before/).waitFor()
      await train(page, captures)
      expect(await page.title()).toBe('Try OddFlow')
    })
  }, 60_000)

  const screens = [
    { name: 'phone', width: 390, height: 844 },
    { name: 'desk', width: 1280, height: 900 },
  ]
  it('fits a phone and a desk, light and dark, and axe finds nothing', async () => {
    await open({}, async (page) => {
      await train(page, captures)
      await page.getByLabel('Captures to judge').setInputFiles(scan)
      await page.getByRole('img', { name: 'Map of' }).waitFor()
      await page.evaluate(axe.source)
      for (const { name, ...viewport } of screens) {
        await page.setViewportSize(viewport)
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(viewport.width)
          const violations = await page.evaluate(async () => {
            const { axe: inPage } = window as unknown as {
              axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
            }
            const found = (await inPage.run()).violations
            return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
          })
          expect(violations, `${name}, ${colorScheme}`).toEqual([])
          const shots = process.env.ODDFLOW_SCREENSHOTS
          if (shots !== undefined) {
            await page.screenshot({ path: join(shots, `page-${name}-${colorScheme}.png`), fullPage: true })
          }
        }
      }
    })
  }, 60_000)
})

describe.skipIf(executablePath === null || process.env.ODDFLOW_TESTS !== 'all')('a capture of 100 MB', () => {
  it('is read, learned and judged while the page never waits for 100 ms', async () => {
    const path = join(folder, 'large.pcap')
    writeFileSync(path, repeated(readFileSync(lab('normal-1.pcap').path), 100_000_000))
    await open({}, async (page) => {
      await page.evaluate(() => {
        const kept = window as unknown as { longest: number }
        kept.longest = 0
        new PerformanceObserver((list) => {
          for (const { duration } of list.getEntries()) kept.longest = Math.max(kept.longest, duration)
        }).observe({ entryTypes: ['longtask'] })
      })
      const start = performance.now()
      await train(page, [path])
      const trained = performance.now()
      await page.getByLabel('Captures to judge').setInputFiles(path)
      await page.locator('.verdict').waitFor()
      const judged = performance.now()
      const longest = await page.evaluate(() => (window as unknown as { longest: number }).longest)
      console.log(
        `read and trained in ${Math.round(trained - start)} ms, judged in ${Math.round(judged - trained)} ms; longest task of the page ${longest} ms; peak memory of page and worker ${await peakMemory()} MB`,
      )
      expect(longest).toBeLessThan(100)
    })
  }, 300_000)
})

/** Of the largest process of pages (Linux). */
async function peakMemory(): Promise<number> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const peaks = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))![1]))
  return Math.round(Math.max(...peaks) / 1000)
}

/** A pcap over and over, each time a little later than the last ended, until it is that large. */
function repeated(capture: Buffer, sizeBytes: number): Buffer {
  const records = capture.subarray(24)
  const secondsOf = (at: number): number => records.readUInt32LE(at)
  let last = 0
  for (let at = 0; at < records.length; at += 16 + records.readUInt32LE(at + 8)) last = at
  const spanSeconds = secondsOf(last) - secondsOf(0) + 600
  const parts = [capture.subarray(0, 24)]
  for (let turn = 0; parts.length * records.length < sizeBytes; turn++) {
    const copy = Buffer.from(records)
    for (let at = 0; at < copy.length; at += 16 + copy.readUInt32LE(at + 8)) {
      copy.writeUInt32LE(secondsOf(at) + turn * spanSeconds, at)
    }
    parts.push(copy)
  }
  return Buffer.concat(parts)
}
