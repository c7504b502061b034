/**
 * The studies of oddflow-bench go through the packages in one process. They must measure what the command line does: the
 * same model bytes and the same verdicts.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { labAttacks, labNormal } from '../../apps/bench/src/studies/attacks.js'
import { collectFlows, judgeFlows, trainOn, wholeCapture } from '../../apps/bench/src/studies/flows.js'
import { DEFAULT_VARIANT, variantNamed } from '../../apps/bench/src/studies/variants.js'
import { encodeModelFile } from '../../packages/detectors/src/index.js'
import { jsonLines, succeeds, temporaryFolder } from './support/oddflow.js'

interface Verdict {
  readonly score: number | null
  readonly novel: boolean
  readonly rule: string
}

const folder = temporaryFolder()

it.each([
  [DEFAULT_VARIANT, []],
  ['nearest', ['--features', 'flow-summary', '--detector', 'nearest', '--scaler', 'standard']],
] as const)('the studies have the models and verdicts of the command line: %s', async (variant, options) => {
  const recipe = variantNamed(variant)
  const training = labNormal().slice(0, 3)
  const path = join(folder, `${variant}.oddflow`)
  await succeeds(['train', ...training.map((capture) => capture.path), '-o', path, ...options])
  const model = await trainOn(training, recipe, 1)
  expect(Buffer.compare(encodeModelFile(model), readFileSync(path))).toBe(0)
  for (const { path: capture } of [labNormal()[3]!, ...labAttacks().map(({ attack }) => attack)]) {
    const run = await succeeds(['score', path, capture, '--format', 'json'])
    const verdicts = jsonLines<Verdict>(run).filter(({ rule }) => rule !== 'not-judged')
    const own = judgeFlows(model, await collectFlows([wholeCapture(capture)], recipe))
    expect(own.judged).toBe(verdicts.length)
    expect(own.flagged).toBe(verdicts.filter(({ novel }) => novel).length)
    const scores = verdicts.flatMap(({ score }) => score ?? [])
    expect([...own.scores].sort()).toEqual(scores.sort())
  }
})
