/**
 * SIZE: size1, …, size(p) in bytes, zero-padded. Entry: [], [size].
 */
import type { PacketContract } from '@oddflow/core'
import { SIZE } from '../packet-pass.js'
import type { FeatureExtractor } from './feature-extractor.js'

export function createSizeRows(contract: PacketContract): FeatureExtractor {
  const maximumEntries = contract.packetsPerFlow
  return {
    dimension: contract.dimension,
    entryFloats: 0,
    entryWords: 1,
    maximumEntries,
    keepsFirstPackets: true,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.words[at] = packet[SIZE]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (_floats, size, entries, _record, row) => {
      for (let j = 0; j < entries; j++) row[j] = size[j]
      row.fill(0, entries)
    },
  }
}
