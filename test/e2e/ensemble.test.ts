/** Flow summaries under the ensemble: attacks of the lab, and odd flows among the training's. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { jsonLines, lab, succeeds, temporaryFolder } from './support/oddflow.js'
import { cases, NO_EVIDENCE } from './support/shared.js'

const folder = temporaryFolder()
const OPTIONS = ['--features', 'flow-summary', '--detector', 'ensemble']

async function novelShare(model: string, capture: string): Promise<number> {
  const flows = jsonLines<{ novel: boolean }>(await succeeds(['score', model, capture, '--format', 'json']))
  return flows.filter(({ novel }) => novel).length / flows.length
}

describe('an ensemble of the lab', () => {
  const model = join(folder, 'lab.oddflow')
  let said = ''
  beforeAll(async () => {
    const inputs = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => lab(name).path)
    said = (await succeeds(['train', ...inputs, ...OPTIONS, '-o', model])).stdout
  })

  it('holds each input out in turn, and is small', () => {
    expect(said).toMatch(/calibrated by +all \d+ rows: 3 inputs held out in turn/)
    expect(Number(/: (\d+) bytes/.exec(said)?.[1])).toBeLessThan(40_000)
  })

  it('finds attacks, and little in a capture of normal traffic to come', async () => {
    expect(await novelShare(model, lab('normal-4.pcap.gz').path)).toBeLessThan(0.03)
    for (const name of ['novel-scan.pcap', 'novel-bruteforce.pcap.gz', 'novel-dnstunnel.pcap.gz']) {
      // these captures have normal traffic beside the attack
      expect(await novelShare(model, lab(name).path), name).toBeGreaterThan(0.05)
    }
  })
})

it('one odd flow among 400 hides nothing', async (context) => {
  const capture = (name: string) => cases(`${name}.pcap.gz`)
  if (!existsSync(capture('cam-ok'))) return context.skip(NO_EVIDENCE)
  for (const training of ['cam-ok', 'cam-big']) {
    for (const seed of ['1', '2']) {
      const model = join(folder, `${training}-${seed}.oddflow`)
      await succeeds(['train', capture(training), ...OPTIONS, '--seed', seed, '-o', model])
      expect(await novelShare(model, capture('cam-test'))).toBeLessThanOrEqual(0.03)
      for (const kind of ['cam-abn1', 'cam-abn2', 'cam-abn3']) {
        expect(await novelShare(model, capture(kind)), `${training}, ${kind}`).toBe(1)
      }
    }
  }
})
