/**
 * Where a capture was taken changes nothing in rows of IP lengths: the same packets in other link layers, with a VLAN
 * tag, with a frame check sequence, padded, or with the IP length of 0 that segmentation offload leaves.
 */
import { join } from 'node:path'
import { encodePcap, type FrameBatch, type PcapFrame } from '@oddflow/capture'
import { readCapture } from '@oddflow/capture/node'
import { beforeAll, describe, expect, it } from 'vitest'
import { type FlowRecord, flowSummaryContract } from '../src/index.js'
import { contractOf, extract, inOrder } from './support/packets.js'
import { readPacketsOf } from './support/shared.js'

const lab = join(import.meta.dirname, '../../../test/fixtures/lab/normal-4.pcap.gz')

/** The IP packets of the lab's capture, as Ethernet frames without padding. */
const frames: PcapFrame[] = []

beforeAll(async () => {
  await readCapture(lab, (batch: FrameBatch) => {
    for (let i = 0; i < batch.count; i++) {
      const at = batch.offset[i]
      const bytes = batch.data.slice(at, at + batch.capturedBytes[i])
      const type = (bytes[12] << 8) | bytes[13]
      if (type !== 0x0800 && type !== 0x86dd) continue
      const ip = type === 0x0800 ? (bytes[16] << 8) | bytes[17] : 40 + ((bytes[18] << 8) | bytes[19])
      frames.push({ timestampMicros: batch.timestampMicros[i], bytes: bytes.subarray(0, 14 + ip) })
    }
  })
})

const bytesOf = (...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => [...part]))
const ipOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(14)
const typeOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(12, 14)

/** IP length 0, as in front of a card that segments; what is shorter than a frame is not segmented. */
function beforeSegmentation(bytes: Uint8Array): Uint8Array {
  const isTcp4 = bytes[12] === 8 && bytes[13] === 0 && bytes[23] === 6
  const out = bytes.slice()
  if (isTcp4) out.fill(0, 16, 18)
  return out
}

const ways: [string, number, (bytes: Uint8Array) => Uint8Array][] = [
  ['Linux cooked', 113, (b) => bytesOf([0, 0, 0, 1, 0, 6], b.subarray(6, 12), [0, 0], typeOf(b), ipOf(b))],
  [
    'Linux cooked, version 2',
    276,
    (b) => bytesOf(typeOf(b), [0, 0, 0, 0, 0, 2, 0, 1, 0, 6], b.subarray(6, 12), [0, 0], ipOf(b)),
  ],
  ['a VLAN tag', 1, (b) => bytesOf(b.subarray(0, 12), [0x81, 0, 0, 10], b.subarray(12))],
  [
    'two VLAN tags',
    1,
    (b) => bytesOf(b.subarray(0, 12), [0x88, 0xa8, 0, 20, 0x81, 0, 0, 10], b.subarray(12)),
  ],
  ['no link layer', 101, ipOf],
  ['a frame check sequence', 1, (b) => bytesOf(b, [1, 2, 3, 4])],
  ['padding', 1, (b) => bytesOf(b, new Array(Math.max(0, 60 - b.length)).fill(0))],
  [
    'padding and a frame check sequence',
    1,
    (b) => bytesOf(b, new Array(Math.max(0, 60 - b.length) + 4).fill(0)),
  ],
  ['lengths not yet filled in', 1, beforeSegmentation],
]

const contracts = {
  'iat-size': contractOf({ packetsPerFlow: 8, dimension: 15, sizeMeasure: 'ip' }),
  'flow-summary': flowSummaryContract({ idleTimeoutMicros: 600_000_000, activeTimeoutMicros: null }),
}

async function recordsOf(
  linkType: number,
  rewrite: (bytes: Uint8Array) => Uint8Array,
  contract: (typeof contracts)[keyof typeof contracts],
): Promise<FlowRecord[]> {
  const rewritten = frames.map((frame) => ({ ...frame, bytes: rewrite(frame.bytes) }))
  return inOrder(extract(await readPacketsOf(encodePcap(rewritten, { linkType })), contract).records)
}

/** All that is said of a record but its MAC addresses. */
function withoutMacs(records: readonly FlowRecord[]) {
  return records.map(({ initiatorMac: _, responderMac: __, ...rest }) => rest)
}

describe.each(Object.entries(contracts))('%s', (_, contract) => {
  it.each(ways)('is the same with %s', async (__, linkType, rewrite) => {
    const expected = await recordsOf(1, (bytes) => bytes, contract)
    expect(expected.filter(({ row }) => row !== null).length).toBeGreaterThan(500)
    expect(withoutMacs(await recordsOf(linkType, rewrite, contract))).toEqual(withoutMacs(expected))
  })
})
