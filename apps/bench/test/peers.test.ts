import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { readPeerReadings } from '../src/peers/peer-reading.js'
import { renderPeersPage } from '../src/tables/peers-page.js'
import { runBench } from './support/run-bench.js'
import { writeSmallData } from './support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-peers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const { data, manifests } = writeSmallData(folder, ['blue'], 1)
const out = join(folder, 'peers.jsonl')
const command = ['peers', '--data', data, '--manifests', manifests, '--out', out, '--test-runs', '2']

it('scores the same rows as scikit-learn, once', async (context) => {
  if (spawnSync('/usr/bin/python3', ['-c', 'import sklearn']).status !== 0) context.skip('no python3-sklearn')
  const first = await runBench(command)
  expect(first.code).toBe(0)
  const readings = readPeerReadings(out)
  const own = readings.find(({ peer }) => peer === 'scikit-learn')!
  expect(Math.abs(own.ours.auc - own.theirs.auc)).toBeLessThan(0.01)
  expect(own.ours.supportVectors).toBe(own.theirs.supportVectors)
  expect(renderPeersPage(readings)).toContain('| blue, repeat 0 | scikit-learn ')
  const before = readFileSync(out)
  expect((await runBench(command)).stdout).toBe('')
  expect(readFileSync(out).equals(before)).toBe(true)
  writeFileSync(out, before.toString().replace('"format":1', '"format":2'))
  expect(() => readPeerReadings(out)).toThrow(/peers\.jsonl: peers: line 1: peer: format: /)
}, 60_000)
