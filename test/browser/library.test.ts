/// <reference lib="dom" />
/**
 * The library in a real browser, from the file that the package gives to browsers: the same model, scores and flows as in
 * Node, gzip by DecompressionStream; and how large it is.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as inNode from '../../apps/trainer/dist/index.js'
import { root } from '../../tools/workspace/layout.mjs'
import { lab } from '../e2e/support/oddflow.js'
import { chromiumFlags, findChromium } from './chromium.js'

const executablePath = findChromium()
if (executablePath === null)
  console.warn('SKIPPED: the library was not tried in a browser: no chromium or google-chrome on the PATH.')

const script = readFileSync(join(root, 'apps/trainer/dist/browser.js'))
const capture = readFileSync(lab('normal-2.pcapng').path)
const files: Record<string, Uint8Array | string> = {
  '/': '<!doctype html><title>t</title>',
  '/oddflow.js': script,
  '/capture.pcapng': capture,
  '/capture.pcapng.gz': gzipSync(capture),
  '/cut.pcapng.gz': gzipSync(capture).subarray(0, 30_000),
}
const server = createServer((request, response) => {
  const body = files[request.url ?? '']
  response.writeHead(body === undefined ? 404 : 200, {
    'content-type':
      request.url === '/'
        ? 'text/html'
        : request.url === '/oddflow.js'
          ? 'text/javascript'
          : 'application/octet-stream',
    // nothing but what it was given, and nothing made from text
    'content-security-policy': "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'",
  })
  response.end(body)
})

const rows = Array.from({ length: 120 }, (_, i) => [i % 11, (i * i) % 13, (i * 7) % 5])

let browser: Browser
let page: Page
beforeAll(async () => {
  if (executablePath === null) return
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  browser = await chromium.launch({ executablePath, args: chromiumFlags })
  page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
})
afterAll(async () => {
  await browser?.close()
  server.close()
})

type Library = typeof import('../../apps/trainer/dist/browser.js')
/** Runs in the page with the library. */
async function inPage<T, A>(work: (library: Library, argument: A) => Promise<T>, argument: A): Promise<T> {
  const source = `(async () => (${work.toString()})(await import('/oddflow.js'), ${JSON.stringify(argument)}))()`
  return (await page.evaluate(source)) as T
}

describe.runIf(executablePath !== null)('in a browser', () => {
  it.each(['gmm', 'ensemble', 'oc-kjl-qs'] as const)('%s is fitted to the same bytes', async (detector) => {
    const model = inNode.fit(rows, { detector })
    const found = await inPage(
      async (library, given) => {
        const made = library.fit(given.rows, { detector: given.detector })
        const loaded = await library.loadModel(new Blob([made.toBytes()]))
        return { bytes: [...made.toBytes()], scores: [...loaded.score(given.rows)] }
      },
      { rows, detector },
    )
    expect(Buffer.from(found.bytes).equals(model.toBytes())).toBe(true)
    expect(found.scores).toEqual([...model.score(rows)])
  })

  it.each(['/capture.pcapng', '/capture.pcapng.gz'])(
    '%s gives the same flows, fetched or as a Blob',
    async (url) => {
      const expected: string[] = []
      for await (const flow of inNode.readFlows(capture)) expected.push(JSON.stringify(flow))
      const found = await inPage(async ({ readFlows }, from) => {
        const blob = await (await fetch(from)).blob()
        const lists: string[][] = []
        for (const source of [from, new URL(from, location.href), blob, blob.stream()]) {
          const list: string[] = []
          for await (const flow of readFlows(source)) list.push(JSON.stringify(flow))
          lists.push(list)
        }
        return lists
      }, url)
      for (const list of found) expect(list).toEqual(expected)
    },
  )

  it('trains on flows and judges them, as Node does', async () => {
    const flows = await inNode.readFlows(capture).toArray()
    const found = await inPage(async (library, from) => {
      return [...library.fit(await library.readFlows(from).toArray()).toBytes()]
    }, '/capture.pcapng.gz')
    expect(Buffer.from(found).equals(inNode.fit(flows).toBytes())).toBe(true)
  })

  it('warns of gzip that is cut short, and refuses what is no capture and what is not there', async () => {
    const found = await inPage(async ({ readFlows, loadModel, OddFlowError }) => {
      const warnings: string[] = []
      let flows = 0
      for await (const _ of readFlows('/cut.pcapng.gz', { onWarning: (text) => warnings.push(text) })) flows++
      const errors: string[] = []
      const calls = [
        async () => {
          for await (const _ of readFlows('/nowhere.pcap'));
        },
        async () => {
          for await (const _ of readFlows('/'));
        },
        () => loadModel('/nowhere.oddflow'),
        () => loadModel('/capture.pcapng'),
        async () => readFlows(3 as never),
        () => loadModel(undefined as never),
      ]
      for (const call of calls) {
        await call().catch((error) => errors.push(`${error instanceof OddFlowError} ${error.message}`))
      }
      return { warnings, flows, errors }
    }, null)
    expect(found.warnings).toEqual([
      expect.stringMatching(/^\/cut\.pcapng\.gz: gzip: damaged or cut short: .*packets before it were used$/),
    ])
    expect(found.flows).toBeGreaterThan(10)
    expect(found.errors).toEqual([
      'true /nowhere.pcap: HTTP status 404',
      expect.stringMatching(/^true capture: /),
      'true /nowhere.oddflow: HTTP status 404',
      expect.stringMatching(/^true safetensors: /),
      'true source: expected a URL, bytes, a Blob or a stream, found 3',
      'true source: expected a URL, bytes or a Blob, found undefined',
    ])
  })

  it('offers a model as a download', async () => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      inPage(
        async (library, given) =>
          library.saveModel(library.fit(given, { detector: 'gmm' }), 'camera.oddflow'),
        rows,
      ),
    ])
    expect(download.suggestedFilename()).toBe('camera.oddflow')
    const expected = inNode.fit(rows, { detector: 'gmm' }).toBytes()
    expect(readFileSync(await download.path()).equals(expected)).toBe(true)
  })
})
