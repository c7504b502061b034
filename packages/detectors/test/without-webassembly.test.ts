/** Where there is no WebAssembly at all, the built package fits and scores with the same bits. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const dist = fileURLToPath(new URL('../dist/index.js', import.meta.url))
const core = import.meta.resolve('@oddflow/core')
const linalg = import.meta.resolve('@oddflow/linalg')

/** Prints whether there are kernels, and the bits of fits and scores in base64. */
const program = `
import { createRng } from ${JSON.stringify(core)}
import { simdKernels } from ${JSON.stringify(linalg)}
import { checkParameters, createScoreWorkspace, fitDetector, scoreSamples } from ${JSON.stringify(dist)}
const rng = createRng(3)
const rows = { rows: 90, cols: 4, data: Float64Array.from({ length: 360 }, () => rng.nextNormal()) }
const scores = [{ detector: 'oc-kjl-qs' }, { detector: 'oc-kjl', precision: 'f32' }, { detector: 'ocsvm' }].map((options) => {
  const model = fitDetector(rows, checkParameters(options), createRng(1))
  const out = scoreSamples(model, rows, new Float64Array(90), createScoreWorkspace(model))
  return Buffer.from(out.buffer).toString('base64')
})
console.log(JSON.stringify({ kernels: simdKernels() !== null, scores }))
`

function run(...flags: string[]): { kernels: boolean; scores: string[] } {
  const args = [...flags, '--input-type=module', '--eval', program]
  return JSON.parse(
    execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  )
}

describe('without WebAssembly', () => {
  it('fits and scores are the same, bit for bit', { timeout: 120_000 }, () => {
    const usual = run()
    const without = run('--jitless')
    expect([usual.kernels, without.kernels]).toEqual([true, false])
    expect(without.scores).toEqual(usual.scores)
  })
})
