/**
 * The studies of oddflow-bench go through the packages in one process. They must measure what the command line does: the
 * same model bytes and the same verdicts. Some run the agent's program.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { labAttacks, labNormal } from '../../apps/bench/src/studies/attacks.js'
import {
  collectFlows,
  DEFAULT_VARIANT,
  judgeFlows,
  trainOn,
  variantNamed,
  wholeCapture,
} from '../../apps/bench/src/studies/flows.js'
import { encodeModelFile } from '../../packages/detectors/src/index.js'
import { root } from '../../tools/workspace/layout.mjs'
import { jsonLines, runToEnd, succeeds, temporaryFolder } from './support/oddflow.js'

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

const bench = (...args: string[]) =>
  runToEnd(process.execPath, [join(root, 'apps/bench/dist/main.js'), ...args])

it('the agent reads a week in the studies that ask for it', async () => {
  const house = join(folder, 'data', 'week', 'house')
  mkdirSync(house, { recursive: true })
  const days = [
    labNormal()[0]!,
    ...labAttacks()
      .slice(0, 1)
      .map(({ attack }) => attack),
  ]
  for (const [i, { path }] of days.entries()) copyFileSync(path, join(house, `day${i + 1}.pcap`))
  const where = ['--data', join(folder, 'data')]
  const week = await bench('agent-week', ...where, '--out', folder)
  expect(week.stderr).not.toContain('fault')
  expect(week.code).toBe(0)
  const { figures } = JSON.parse(readFileSync(join(folder, 'agent-week.json'), 'utf8')) as {
    figures: { alone: { devices: { key: string; flows: number }[] }[] }
  }
  expect(figures.alone[0]!.devices.find(({ key }) => key === '02:50:00:00:00:17')!.flows).toBeGreaterThan(0)
  expect(readFileSync(join(folder, 'agent-week.md'), 'utf8')).toContain('| house | 02:50:00:00:00:17 | ')
  const incidents = await bench('incidents', 'week', ...where)
  expect(incidents.stdout).toMatch(
    /^\n## house\n.* opened medium scan \(evidence \d+, 0 flows\): 192\.168\.50\.\d+ was contacted/,
  )
  expect(incidents.code).toBe(0)
})

it('an agent that fails ends the study with its message', async () => {
  const agent = join(folder, 'agent.mjs')
  writeFileSync(agent, "process.stderr.write('no such option')\nprocess.exitCode = 3")
  const run = await bench('incidents', 'week', '--data', join(folder, 'data'), '--agent', agent)
  expect(run).toMatchObject({ code: 1, stderr: `oddflow-bench: ${agent}: ended with 3: no such option\n` })
})
