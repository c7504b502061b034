/// <reference lib="dom" />
/**
 * The report in a real browser: on a phone and a desk, light and dark. What the parser-level tests of
 * apps/trainer cannot see is seen here: layout, colours, requests, and whether a hostile name ever runs.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { renderReport, renderRocSvg } from '../../apps/trainer/src/report/index.js'
import { hostileReport } from '../../apps/trainer/test/report/hostile-report.js'
import { hostilePieces } from '../../apps/trainer/test/report/hostile-text.js'
import { sampleReport } from '../../apps/trainer/test/report/sample-report.js'
import { chromiumFlags, findChromium } from './chromium.js'
import { contrastOf } from './contrast.js'

const executablePath = findChromium()
if (executablePath === null)
  console.warn('SKIPPED: the report was not opened in a browser: no chromium or google-chrome on the PATH.')

const screens = [
  { name: 'phone', width: 360, height: 740 },
  { name: 'desk', width: 1280, height: 900 },
] as const
const widths = [320, 360, 600, 800, 1000, 1280]
const schemes = ['light', 'dark'] as const

describe.skipIf(executablePath === null)('report in a browser', () => {
  let browser: Browser
  let folder: string

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath!, args: chromiumFlags })
    folder = mkdtempSync(join(tmpdir(), 'oddflow-report-'))
    writeFileSync(join(folder, 'sample.html'), renderReport(sampleReport()))
    writeFileSync(join(folder, 'many.html'), renderReport(sampleReport({ normal: 8000, novel: 2000 })))
    writeFileSync(join(folder, 'roc.svg'), renderRocSvg(sampleReport().roc!))
    writeFileSync(
      join(folder, 'hostile.html'),
      renderReport(hostileReport(hostilePieces.join(' '), hostilePieces)),
    )
    writeFileSync(join(folder, 'long.html'), renderReport(hostileReport('a'.repeat(3000))))
  }, 60_000)

  afterAll(async () => {
    await browser?.close()
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  })

  /** Opens a file, runs `check`, and holds that nothing was complained of and nothing else was asked for. */
  async function open(file: string, options: BrowserContextOptions, check: (page: Page) => Promise<void>) {
    const context = await browser.newContext(options)
    try {
      const page = await context.newPage()
      const complaints: string[] = []
      const requests: string[] = []
      page.on('console', (message) => complaints.push(message.text()))
      page.on('pageerror', (error) => complaints.push(error.message))
      page.on('dialog', (dialog) => complaints.push(`dialog: ${dialog.message()}`))
      page.on('request', (request) => requests.push(request.url()))
      const url = pathToFileURL(join(folder, file)).href
      await page.goto(url, { waitUntil: 'load' })
      await check(page)
      expect(complaints).toEqual([])
      expect(requests).toEqual([url])
    } finally {
      await context.close()
    }
  }

  for (const { name, ...viewport } of screens)
    for (const colorScheme of schemes)
      it(`reads well on a ${name} in ${colorScheme} mode`, async () => {
        await open('sample.html', { viewport, colorScheme }, async (page) => {
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(
            viewport.width,
          )
          expect(await page.locator('h1').count()).toBe(1)
          expect(await page.locator('h2').allTextContents()).toContain('Flows flagged as new')

          const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
          expect(dark).toBe(colorScheme === 'dark' ? 'rgb(20, 23, 26)' : 'rgb(251, 250, 247)')
          for (const selector of [
            '.verdict',
            'h1',
            '.figures dt',
            '.figures .detail',
            'figcaption',
            '.tag.novel',
            '.tag.normal',
            'footer',
            '.chart[role=img] text',
            '.chart .axis-name text',
            '.chart .name-normal text',
            '.chart .name-novel text',
            '.chart .threshold-name text',
          ])
            expect(
              await page.evaluate(contrastOf, selector),
              `contrast of ${selector}`,
            ).toBeGreaterThanOrEqual(4.5)

          for (const selector of [
            '.roc-line path',
            '.bar-normal rect',
            '.bar-novel rect',
            '.threshold line',
            '.roc-own path',
          ])
            expect(await size(page, selector), selector).toBeGreaterThan(0)
          expect(await page.locator('.ellipse-1 path').count()).toBe(4)
          expect(await size(page, '.ellipse-1 path')).toBeGreaterThan(50)
          expect(await size(page, '.ellipse-2 path')).toBeGreaterThan(100)
        })
      }, 30_000)

  for (const { name, ...viewport } of screens)
    it(`keeps chart text legible, apart and inside its panel on a ${name}`, async () => {
      await open('sample.html', { viewport }, async (page) => {
        const texts = await page.evaluate(chartTexts)
        expect(texts.length).toBeGreaterThan(25)
        for (const text of texts) {
          // The height of a line of text is about 1.2 of its size: 10.5 px and up.
          expect(text.bottom - text.top, `height of "${text.label}"`).toBeGreaterThanOrEqual(12)
          expect(text.left, `"${text.label}" left`).toBeGreaterThanOrEqual(text.panel.left)
          expect(text.right, `"${text.label}" right`).toBeLessThanOrEqual(text.panel.right)
        }
        for (const [i, a] of texts.entries())
          for (const b of texts.slice(i + 1)) {
            const apart =
              a.right <= b.left || b.right <= a.left || a.bottom - 3 <= b.top || b.bottom - 3 <= a.top
            expect(apart || a.chart !== b.chart, `"${a.label}" overlaps "${b.label}"`).toBe(true)
          }
      })
    }, 30_000)

  it('shows 10,000 flows without sideways scrolling at any width', async () => {
    await open('many.html', {}, async (page) => {
      for (const width of widths) {
        await page.setViewportSize({ width, height: 900 })
        expect(await page.evaluate(() => document.documentElement.scrollWidth), `at ${width}`).toBe(width)
      }
      expect(await page.locator('section[aria-labelledby=h-flagged] tbody tr').count()).toBe(200)
    })
  }, 30_000)

  for (const file of ['hostile.html', 'long.html'])
    it(`neither runs nor is widened by the names in ${file}`, async () => {
      // The content security policy is lifted here, so that it is the escaping alone that is tested.
      await open(file, { bypassCSP: true }, async (page) => {
        expect(await page.evaluate(() => '__pwned' in window)).toBe(false)
        const intruders = 'script, img, body style, [onload], [onerror], [onmouseover]'
        expect(await page.locator(intruders).count()).toBe(0)
        expect(await page.locator('tbody tr').count()).toBeGreaterThan(30)
        expect(await page.locator('footer').count()).toBe(1)
        await page.locator('tbody tr').last().hover()
        for (const width of widths) {
          await page.setViewportSize({ width, height: 900 })
          expect(await page.evaluate(() => document.documentElement.scrollWidth), `at ${width}`).toBe(width)
        }
        expect(await page.evaluate(() => '__pwned' in window)).toBe(false)
      })
    }, 30_000)

  it('opens the ROC as an image of its own, dark on request', async () => {
    await open('roc.svg', { colorScheme: 'dark' }, async (page) => {
      expect(await page.evaluate(() => document.documentElement.nodeName)).toBe('svg')
      expect(await page.evaluate(() => getComputedStyle(document.querySelector('.paper')!).fill)).toBe(
        'rgb(27, 31, 36)',
      )
      expect(await size(page, '.roc-line path')).toBeGreaterThan(1000)
    })
  }, 30_000)
})

/** Area of the first match on the screen, a line counted as one pixel wide. */
async function size(page: Page, selector: string): Promise<number> {
  const box = await page.locator(selector).first().boundingBox()
  return box === null ? 0 : Math.max(box.width, 1) * Math.max(box.height, 1)
}

/** Every text of the charts with its box and its panel's; runs in the page. */
function chartTexts() {
  return Array.from(document.querySelectorAll('.chart[role=img]')).flatMap((chart, index) => {
    const panel = chart.closest('figure')!.getBoundingClientRect()
    return Array.from(chart.querySelectorAll('text'), (text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect()
      const label = text.textContent ?? ''
      return {
        chart: index,
        label,
        left,
        right,
        top,
        bottom,
        panel: { left: panel.left, right: panel.right },
      }
    })
  })
}
