import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { readPeerReadings } from '../src/peers/run-peers.js'
import { readSpeedReadings } from '../src/peers/speed.js'
import { renderPeersPage, renderPeersSpeedPage } from '../src/tables/peers-pages.js'
import { runBench } from './support/run-bench.js'
import { writeSmallData } from './support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-peers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const { data, manifests } = writeSmallData(folder, ['blue'], 1)
const out = join(folder, 'peers.jsonl')
const command = [
  'peers',
  'svm',
  '--data',
  data,
  '--manifests',
  manifests,
  '--out',
  folder,
  '--test-runs',
  '2',
]

it('scores the same rows as scikit-learn, once', async (context) => {
  if (spawnSync('/usr/bin/python3', ['-c', 'import sklearn']).status !== 0) context.skip('no python3-sklearn')
  const first = await runBench(command)
  expect(first.code).toBe(0)
  const readings = readPeerReadings(out)
  const own = readings.find(({ peer }) => peer === 'scikit-learn')!
  expect(Math.abs(own.ours.auc - own.theirs.auc)).toBeLessThan(0.01)
  expect(own.ours.supportVectors).toBe(own.theirs.supportVectors)
  expect(renderPeersPage(readings)).toContain('| blue, repeat 0 | none, 0.25 | scikit-learn ')
  const before = readFileSync(out)
  expect((await runBench(command)).stdout).toBe('')
  expect(readFileSync(out).equals(before)).toBe(true)
  writeFileSync(out, before.toString().replace('"format":2', '"format":3'))
  expect(() => readPeerReadings(out)).toThrow(/peers\.jsonl: peers: line 1: peer: format: /)
  writeFileSync(out, before)
})

it('compares what is tuned at the bandwidth of its trial, and refuses a trial that does not come again', async (context) => {
  if (spawnSync('/usr/bin/python3', ['-c', 'import sklearn']).status !== 0) context.skip('no python3-sklearn')
  const trials = join(folder, 'trials.jsonl')
  const tuned = [...command, '--tuning', 'minimal', '--trials', trials]
  const before = await runBench(tuned)
  expect(before).toMatchObject({ code: 0, stdout: '' })
  expect(before.stderr).toContain('no ocsvm trial for 1 tuned repeats, which are left out')
  const ran = ['reproduce', '--data', data, '--manifests', manifests, '--trials', trials, '--test-runs', '2']
  await runBench([...ran, '--detectors', 'ocsvm', '--tuning', 'minimal'])
  const line = readFileSync(trials, 'utf8')
  writeFileSync(trials, line.replace(/"auc":[0-9.e-]+/, '"auc":0.123'))
  const refused = await runBench(tuned)
  expect(refused.code).toBe(1)
  expect(refused.stderr).toMatch(
    /blue, tuning minimal, repeat 0: the trial has AUC 0\.123, this program gives /,
  )
  writeFileSync(trials, line)
  expect(await runBench(tuned)).toMatchObject({ code: 0 })
  const own = readPeerReadings(out).find((r) => r.tuning === 'minimal' && r.peer === 'scikit-learn')!
  expect(own.bandwidthQuantile).toBe(JSON.parse(line).parameters.bandwidthQuantile)
  expect(Math.abs(own.ours.auc - own.theirs.auc)).toBeLessThan(0.01)
})

it('times scores and fits in turns, and says what is absent', async () => {
  const wide = writeSmallData(join(folder, 'wide'), ['blue'], 1, 1000)
  const run = await runBench(
    ['peers', 'speed', '--data', wide.data, '--manifests', wide.manifests, '--out', folder].concat(
      '--dataset',
      'blue',
      '--rounds',
      '1',
    ),
  )
  expect(run).toMatchObject({ code: 0 })
  const readings = readSpeedReadings(join(folder, 'peers-speed.jsonl'))
  const has = (what: string, side: string): boolean =>
    readings.some((r) => r.what === what && r.side === side && r.nanos > 0)
  for (const what of ['oc-kjl', 'ocsvm', 'ocsvm fit', 'oc-kjl-qs fit'])
    expect(has(what, 'OddFlow')).toBe(true)
  const { absent } = readings[0]!
  expect(has('ocsvm', 'numpy')).toBe(!absent.some((name) => name.startsWith('numpy')))
  expect(has('ocsvm', 'C, plain')).toBe(!absent.some((name) => name.startsWith('C ')))
  expect(renderPeersSpeedPage(readings)).toContain('| OC-KJL score, batches of 100 |')
  const alone = readings
    .filter(({ side }) => side === 'OddFlow')
    .map((reading) => ({ ...reading, absent: ['numpy and scikit-learn (Python)', 'C (no cc)'] }))
  const page = renderPeersSpeedPage(alone)
  expect(page).toContain('Absent: numpy and scikit-learn (Python), C (no cc).')
  expect(page).toContain('absent (numpy)')
}, 300_000)
