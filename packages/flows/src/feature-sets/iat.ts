/**
 * IAT: iat1, …, iat(p−1), the first interarrival times alone, zero-padded. Entry: [interarrival time], [].
 */
import type { PacketContract } from '@oddflow/core'
import { IAT } from '../packet-pass.js'
import type { FeatureExtractor } from './feature-extractor.js'

export function createIatRows(contract: PacketContract, timeUnit: number): FeatureExtractor {
  const maximumEntries = contract.packetsPerFlow
  return {
    dimension: contract.dimension,
    entryFloats: 1,
    entryWords: 0,
    maximumEntries,
    keepsFirstPackets: true,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.floats[at] = packet[IAT]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (iat, _words, entries, _record, row) => {
      for (let j = 1; j < entries; j++) row[j - 1] = iat[j] / timeUnit
      row.fill(0, entries - 1)
    },
  }
}
