/**
 * Where a capture was taken changes nothing in rows of IP lengths: the same packets in other link layers, with a VLAN
 * tag, with a frame check sequence, padded, or with the IP length of 0 that segmentation offload leaves.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { encodePcap } from '@oddflow/capture'
import { describe, expect, it } from 'vitest'
import { type FlowRecord, flowSummaryContract } from '../src/index.js'
import { CAPTURE_POINTS, ipFrames } from './support/capture-points.js'
import { contractOf, extract, inOrder } from './support/packets.js'
import { readPacketsOf } from './support/shared.js'

const lab = join(import.meta.dirname, '../../../test/fixtures/lab/normal-4.pcap.gz')
const frames = ipFrames(gunzipSync(readFileSync(lab)))

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

/** All that is said of a record but what its link layer says: MAC addresses and VLAN. */
function withoutLink(records: readonly FlowRecord[]) {
  return records.map(({ initiatorMac: _, responderMac: __, vlan: ___, ...rest }) => rest)
}

describe.each(Object.entries(contracts))('%s', (_, contract) => {
  it.each(CAPTURE_POINTS)('is the same with %s', async (__, linkType, rewrite) => {
    const expected = await recordsOf(1, (bytes) => bytes, contract)
    expect(expected.filter(({ row }) => row !== null).length).toBeGreaterThan(500)
    expect(withoutLink(await recordsOf(linkType, rewrite, contract))).toEqual(withoutLink(expected))
  })
})
