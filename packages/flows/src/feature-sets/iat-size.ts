/**
 * IAT+SIZE, the paper's features: iat1, size1, …, iat(n−1), size(n−1), size(n), zero-padded or cut to 2p − 1.
 *
 * A record of more than p packets has iat(p) in the last column, where one of p packets has size(p), and in a
 * shorter one the last size stands in an interarrival column; the authors' rows are made so. Hence p + 1
 * packets are kept. Entry: [interarrival time], [size].
 */
import type { PacketContract } from '@oddflow/core'
import { IAT, SIZE } from '../packet-pass.js'
import type { FeatureExtractor } from './feature-extractor.js'

export function createIatSizeRows(contract: PacketContract, timeUnit: number): FeatureExtractor {
  const maximumEntries = contract.packetsPerFlow + 1
  const { dimension } = contract
  return {
    dimension,
    entryFloats: 1,
    entryWords: 1,
    maximumEntries,
    keepsFirstPackets: true,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.floats[at] = packet[IAT]
      pool.words[at] = packet[SIZE]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (iat, size, entries, _record, row) => {
      for (let j = 0; j < entries; j++) {
        // The time before packet j + 1 stands in front of packet j's size.
        if (j > 0) row[2 * j - 2] = iat[j] / timeUnit
        const column = j === entries - 1 ? 2 * j : 2 * j + 1
        if (column < dimension) row[column] = size[j]
      }
      row.fill(0, 2 * entries - 1)
    },
  }
}
