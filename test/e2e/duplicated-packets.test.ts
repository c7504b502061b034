/** A capture in which every packet stands twice, as mirror ports and the interface `any` make them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { createCaptureReader, encodePcap, type PcapFrame } from '../../packages/capture/src/index.js'
import { agent, agentOnce, readEve } from './support/agent.js'
import { jsonLines, lab, succeeds, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'lab.oddflow')
const once = lab('novel-bruteforce.pcap.gz')
const twice = join(folder, 'twice.pcap')

function framesOf(capture: Uint8Array): PcapFrame[] {
  const reader = createCaptureReader()
  const frames: PcapFrame[] = []
  reader.push(capture)
  for (let batch = reader.read(); batch !== null; batch = reader.read()) {
    for (let i = 0; i < batch.count; i++) {
      const at = batch.offset[i]!
      frames.push({
        timestampMicros: batch.timestampMicros[i]!,
        bytes: batch.data.slice(at, at + batch.capturedBytes[i]!),
      })
    }
  }
  return frames
}

interface Info {
  packets: number
  keyedPackets: number
  flows: object
  skipped: Record<string, number>
  check: { ipPackets: number; duplicatePackets: number; droppedDuplicates: number }
}

beforeAll(async () => {
  const copies = framesOf(gunzipSync(readFileSync(once.path))).flatMap((frame) => [
    frame,
    { ...frame, timestampMicros: frame.timestampMicros + 2 },
  ])
  copies.sort((a, b) => a.timestampMicros - b.timestampMicros)
  writeFileSync(twice, encodePcap(copies))
  await trainLabModel(model)
})

const verdictsOf = async (file: string, ...options: string[]) => {
  const run = await succeeds(['score', model, file, '--format', 'json', ...options])
  const verdicts = jsonLines<{ capture: string }>(run).map(({ capture: _, ...verdict }) => verdict)
  return { verdicts, said: run.stderr }
}

describe('info', () => {
  it('counts copies, says what to do, and drops them where it is asked to', async () => {
    const [alone] = jsonLines<Info>(await succeeds(['info', once.path, '--format', 'json']))
    const run = await succeeds(['info', twice, '--format', 'json'])
    const [info] = jsonLines<Info>(run)
    const { check } = info!
    expect(alone!.check.duplicatePackets).toBe(0)
    expect(check).toMatchObject({ ipPackets: 2 * alone!.check.ipPackets, droppedDuplicates: 0 })
    expect(check.duplicatePackets).toBe(alone!.check.ipPackets)
    expect(run.stderr).toMatch(/\(50\.0 %\) are copies: .* drop copies with --drop-duplicates/)

    const dropping = await succeeds(['info', twice, '--format', 'json', '--drop-duplicates'])
    const [dropped] = jsonLines<Info>(dropping)
    expect(dropping.stderr).toBe('')
    expect(dropped).toMatchObject({
      packets: 2 * once.packets,
      keyedPackets: alone!.keyedPackets,
      flows: alone!.flows,
    })
    expect(dropped!.skipped.duplicate).toBe(check.duplicatePackets)
    const all = Object.values(dropped!.skipped).reduce((sum, count) => sum + count, dropped!.keyedPackets)
    expect(all).toBe(dropped!.packets)
  })
})

describe('score', () => {
  it('warns of copies, and without them gives the verdicts of the packets that there were', async () => {
    const expected = await verdictsOf(once.path)
    expect(expected.said).not.toMatch(/copies/)
    const doubled = await verdictsOf(twice)
    expect(doubled.said).toMatch(/are copies: .*--drop-duplicates/)
    expect(doubled.verdicts).not.toEqual(expected.verdicts)
    const dropped = await verdictsOf(twice, '--drop-duplicates')
    expect(dropped.said).not.toMatch(/are copies: /)
    expect(dropped.said).toMatch(/\d+ duplicate/)
    expect(dropped.verdicts).toEqual(expected.verdicts)
  })
})

describe('train and extract', () => {
  it('make of the copies what they make of the packets', async () => {
    const rows = async (file: string, ...options: string[]) =>
      (await succeeds(['extract', file, '-o', '-', '--model', model, ...options])).stdout
    expect(await rows(twice, '--drop-duplicates')).toBe(await rows(once.path))
    const flows = async (file: string, ...options: string[]) =>
      (await succeeds(['extract', '--flows', file, '-o', '-', ...options])).stdout.replaceAll(
        /"uid":"\w+",/g,
        '',
      )
    expect(await flows(twice, '--drop-duplicates')).toBe(await flows(once.path))
    const trained = async (name: string, ...args: string[]) => {
      const path = join(folder, name)
      await succeeds(['train', ...args, '-o', path])
      return readFileSync(path)
    }
    const second = await trained('twice.oddflow', twice, '--drop-duplicates', '--detector', 'nearest')
    expect(second.equals(await trained('once.oddflow', once.path, '--detector', 'nearest'))).toBe(true)
  })
})

describe('the agent', () => {
  const alertsOf = (eve: string) => readEve(eve).map(({ oddflow: { score, flow } }) => ({ score, flow }))
  const options = (file: string, name: string) => {
    const eve = join(folder, name)
    return { eve, args: ['--read', file, '--model', model, '--eve', eve, '--no-fold'] }
  }

  it('warns once, counts copies, and drops them by its setting', async () => {
    const plain = options(once.path, 'once.json')
    await agentOnce(plain.args)
    const doubled = options(twice, 'twice.json')
    const run = await agent(['run', '--once', ...doubled.args])
    expect(run.stderr.match(/are copies: /g)).toHaveLength(1)
    expect(run.stderr).toMatch(/--drop-duplicates/)

    const dropping = options(twice, 'dropped.json')
    const config = join(folder, 'agent.yaml')
    writeFileSync(config, `dropDuplicates: true\nevidence: { directory: ${join(folder, 'evidence')} }\n`)
    for (const asked of [['--drop-duplicates'], ['--config', config]]) {
      const counters = await agentOnce([...dropping.args, ...asked])
      expect(counters.captured).toBe(2 * once.packets)
      expect(counters.droppedDuplicates).toBe(counters.check.duplicatePackets)
      expect(2 * counters.droppedDuplicates).toBe(counters.check.ipPackets)
      expect(counters.notInFlows.duplicate).toBeUndefined()
    }
    const kept = readEve(dropping.eve).flatMap(({ oddflow }) => oddflow.evidencePackets ?? [])
    expect(kept.length).toBeGreaterThan(10)
    for (const packets of kept) expect(packets.kept).toBeLessThanOrEqual(packets.of)
    expect(alertsOf(dropping.eve).slice(0, alertsOf(plain.eve).length)).toEqual(alertsOf(plain.eve))
  })
})
