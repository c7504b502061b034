/**
 * What a user's bundler keeps of the library: without the fits where a program only loads a model and scores, and with
 * all of them where it fits.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { afterAll, describe, expect, it } from 'vitest'
import * as library from '../apps/trainer/dist/index.js'
import { DETECTOR_NAMES } from '../packages/detectors/dist/index.js'
import { root } from '../tools/workspace/layout.mjs'

const BUDGET_BYTES = 55_000
const rows = Array.from({ length: 60 }, (_, i) => [i % 11, (i * i) % 13, (i * 7) % 5])

/** An ES module that a user might ship. */
async function bundled(code: string, platform: 'browser' | 'node'): Promise<Uint8Array> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: join(root, 'apps/trainer') },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    platform,
    write: false,
    logLevel: 'error',
  })
  return outputFiles[0]!.contents
}

const folder = mkdtempSync(join(tmpdir(), 'oddflow-library-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(['browser', 'node'] as const)('bundled for %s', (platform) => {
  const run = async (code: string) => {
    const bytes = await bundled(code, platform)
    const file = join(folder, `${platform}-${bytes.length}.mjs`)
    writeFileSync(file, bytes)
    return { bytes, module: await import(file) }
  }

  it('loads and scores every detector in 55 kB of gzip', async () => {
    const { bytes, module } = await run(
      `import { loadModel } from 'oddflow'
       export const judge = async (model, rows) => {
         const loaded = await loadModel(model)
         return { score: loaded.score(rows), predict: loaded.predict(rows) }
       }`,
    )
    expect(gzipSync(bytes, { level: 9 }).length).toBeLessThanOrEqual(BUDGET_BYTES)
    for (const detector of DETECTOR_NAMES) {
      const model = library.fit(rows, { detector, ...(detector.startsWith('oc-') ? { m: 10, d: 3 } : {}) })
      expect(await module.judge(model.toBytes(), rows), detector).toEqual({
        score: model.score(rows),
        predict: model.predict(rows),
      })
    }
  })

  it('fits with the parts that it leaves out elsewhere', async () => {
    const { module } = await run(`export { fit } from 'oddflow'`)
    const options = { detector: 'oc-nystrom-qs', m: 10, d: 3 } as const
    expect(module.fit(rows, options).toBytes()).toEqual(library.fit(rows, options).toBytes())
  })
})
