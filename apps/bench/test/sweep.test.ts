import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkParameters } from '@oddflow/detectors'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { SWEEP_NAMES, sweepSettings, sweepTrialKey } from '../src/commands/sweep.js'
import { readTrials } from '../src/run/trials-file.js'
import { renderPages } from '../src/tables/report.js'
import { parameterOf, paretoFront } from '../src/tables/sweep-pages.js'
import { runBench } from './support/run-bench.js'
import { writeSmallData } from './support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-sweep-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
// as many rows as the most landmarks of a sweep
const { data, manifests } = writeSmallData(folder, ['blue'], 2, 200)
const results = join(folder, 'results')
mkdirSync(results)

const command = (name: string, detectors: string, ...more: string[]): string[] => [
  ...['sweep', name, '--data', data, '--manifests', manifests, '--datasets', 'blue', '--test-runs', '1'],
  ...['--trials', join(results, `sweep-${name}.jsonl`), '--detectors', detectors, '--repeats', '2', ...more],
]

describe('sweeps', () => {
  it.each(SWEEP_NAMES)('%s: every setting is one that the detector takes, and none stands twice', (name) => {
    const keys = sweepSettings(name).map(({ options, trainRows }) =>
      JSON.stringify([checkParameters(options), trainRows]),
    )
    expect(keys.length).toBeGreaterThan(50)
    expect(new Set(keys).size).toBe(keys.length)
  })

  it('nu: continues where it was stopped, keeps every setting once, and has pages', async () => {
    const path = join(results, 'sweep-nu.jsonl')
    const killed = await runBench(command('nu', 'ocsvm,oc-kjl'), (child) => {
      setTimeout(() => child.kill('SIGKILL'), 1500)
    })
    expect(killed.signal === 'SIGKILL' || killed.code === 0).toBe(true)
    expect(await runBench(command('nu', 'ocsvm,oc-kjl'))).toMatchObject({ code: 0, stdout: '' })
    const trials = readTrials(path, (trial) => sweepTrialKey('nu', trial))
    // (8 of nu + 4 · 3 · 3) × 2 repeats
    expect(trials.length).toBe(88)
    expect(new Set(trials.map((trial) => parameterOf(trial, 'nu'))).size).toBe(9)
    const again = await runBench(command('nu', 'ocsvm,oc-kjl'))
    expect(again.stderr).toContain('88 trials requested, 88 already there, 0 new')
    const pages = await renderPages(results)
    expect([...pages.keys()]).toEqual(['sweep-nu.md', 'sweep-nu-time.svg', 'sweep-nu-space.svg'])
    expect(pages.get('sweep-nu.md')).toContain('## blue')
    expect(pages.get('sweep-nu-space.svg')).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" /)
    expect(pages).toEqual(await renderPages(results))
  }, 120_000)

  it('rows: refuses more training rows than there are, by name', async () => {
    const outcome = await runBench(command('rows', 'nearest', '--repeats', '1'))
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toContain('blue: expected 500 training rows, found 200')
  }, 60_000)

  it('scaler: a table and a picture of every scaler and quantile', async () => {
    expect(await runBench(command('scaler', 'nearest,kde', '--repeats', '1'))).toMatchObject({ code: 0 })
    const page = (await renderPages(results)).get('sweep-scaler.md')!
    expect(page.split('\n').filter((line) => /^\| (kde|nearest)/.test(line)).length).toBe(6)
    expect(page).not.toContain('not run')
    expect(readFileSync(join(results, 'sweep-scaler.jsonl'), 'utf8').split('\n').length - 1).toBe(30)
  }, 60_000)

  it('takes no sweep that there is not', async () => {
    const outcome = await runBench(['sweep', 'seeds'])
    expect(outcome).toMatchObject({ code: 2, stdout: '' })
    expect(outcome.stderr).toContain('nu, scaler, rows')
  })
})

it('a Pareto front is what nothing beats', () => {
  const point = fc.record({ cost: fc.integer({ min: 0, max: 9 }), worth: fc.integer({ min: 0, max: 9 }) })
  fc.assert(
    fc.property(fc.array(point), (points) => {
      const front = paretoFront(
        points,
        (p) => p.cost,
        (p) => p.worth,
      )
      const beats = (a: (typeof points)[number], b: (typeof points)[number]): boolean =>
        a.cost <= b.cost && a.worth >= b.worth && (a.cost < b.cost || a.worth > b.worth)
      for (const p of points) {
        const equal = front.some((f) => f.cost === p.cost && f.worth === p.worth)
        expect(equal).toBe(!points.some((other) => beats(other, p)))
      }
    }),
  )
})
