import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePcap } from '@oddflow/capture'
import { DataError, type FlowContract } from '@oddflow/core'
import { createProgress } from '@oddflow/program/progress'
import { afterAll, describe, expect, it } from 'vitest'
import { recipeNamed } from '../../src/flags.js'
import { gatheringFrom } from '../../src/pipeline/flow-plan.js'
import { captureInputs } from '../../src/pipeline/read-packets.js'
import { checkRowsFit, collectFlows, sumCounters } from '../../src/pipeline/score-inputs.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-collect-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const options = {
  filter: null,
  view: { decapsulation: 'outer', joinFragments: false },
  progress: createProgress(),
} as const

/** UDP packets of one flow each. */
function writeFlows(name: string, count: number): string {
  const file = join(folder, name)
  const frames = Array.from({ length: count }, (_, i) => {
    const bytes = new Uint8Array(42)
    bytes.set([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17])
    bytes.set([192, 0, 2, 1, 198, 51, 100, 1, (i + 1024) >> 8, (i + 1024) & 255, 0, 53, 0, 8], 26)
    return { timestampMicros: 1e15 + i, bytes }
  })
  writeFileSync(file, encodePcap(frames))
  return file
}

describe('collecting a capture', () => {
  it.each(['default', 'authors'])('under %s stops at its bound, and says what to do', async (recipe) => {
    const file = writeFlows('large.pcap', 40_000)
    const gathering = { ...gatheringFrom({}, recipeNamed(recipe)), memoryBytes: 4 * 1024 * 1024 }
    const collecting = collectFlows(captureInputs([file], false), gathering, options)
    await expect(collecting).rejects.toThrow(DataError)
    await expect(collecting).rejects.toThrow(
      /large\.pcap: the capture does not fit into 4194304 bytes \(\d+ packets in \d+ flows do\): take fewer or shorter captures, filter packets \(--filter, --flow-memory\)$/,
    )
  })

  it('holds rows up to a bound that is checked before they are made', () => {
    const contract = { dimension: 770, featureSet: 'header-bits' } as FlowContract
    expect(() => checkRowsFit(174_000, contract)).not.toThrow()
    expect(() => checkRowsFit(175_000, contract)).toThrow(
      /^175000 rows of 770 numbers \(header-bits\) exceed/,
    )
  })

  it('adds up the counters of several captures', async () => {
    const files = [writeFlows('a.pcap', 3), writeFlows('b.pcap', 5)]
    const parts = await Promise.all(
      files.map(async (file) => {
        const gathering = gatheringFrom({ protocols: ['tcp'] }, recipeNamed('default'))
        const { flows } = await collectFlows(captureInputs([file], false), gathering, options)
        const none = { records: 1, rows: 1, onePacketFlows: 0, shortRecords: 0, remainders: 0 }
        const evicted = {
          heldPackets: 0,
          evictedFlows: 0,
          evictedHalfOpenFlows: 0,
          evictedActiveFlows: 0,
          evictedIdleFlows: 0,
        }
        return { ...flows.counters, ...none, remainderPackets: 0, lastPieces: 0, ...evicted }
      }),
    )
    expect(sumCounters(parts)).toMatchObject({
      packets: 8,
      packetsInFlows: 0,
      records: 2,
      dropped: { 'protocol-udp': 8 },
    })
  })
})
