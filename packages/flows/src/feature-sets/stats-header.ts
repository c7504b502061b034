/**
 * STATS+HEADER (the paper's appendix): counts of the TCP flags FIN, SYN, RST, PSH, ACK, URG, ECE, CWR; the TTL
 * or hop limit of the first p packets, zero-padded; and ten statistics: duration, packets per time, bytes per
 * time, then mean, population standard deviation, three quartiles, minimum and maximum of the sizes. The
 * order is that of the authors' code, header in front. Rates are 0 where the duration is 0.
 *
 * Quartiles need all sizes. So that memory is bounded, counts and statistics are those of the record's first
 * `packetsKept` packets, its duration up to the last of them included; TTLs are of the first p.
 * Entry: [time since the record's start], [size, meta].
 */
import {
  FLOW_STATISTICS,
  HEADER_FLAG_COUNTS,
  type PacketContract,
  type StatsHeaderContract,
} from '@oddflow/core'
import { META, SIZE, START, TIME } from '../packet-fields.js'
import type { RowMaker } from './row-maker.js'
import { writeSizeStatistics } from './size-statistics.js'

export function createStatsHeaderRows(contract: PacketContract, timeUnit: number): RowMaker {
  const maximumEntries = (contract as StatsHeaderContract).packetsKept
  const { dimension, packetsPerFlow } = contract
  const statistics = dimension - FLOW_STATISTICS
  let sizes = new Float64Array(64)
  let scratch = new Float64Array(64)
  return {
    dimension,
    entryFloats: 1,
    entryWords: 2,
    maximumEntries,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.floats[at] = packet[TIME] - packet[START]
      pool.words[2 * at] = packet[SIZE]
      pool.words[2 * at + 1] = packet[META]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (times, words, entries, _record, row) => {
      row.fill(0, 0, statistics)
      if (sizes.length < entries) {
        sizes = new Float64Array(2 * entries)
        scratch = new Float64Array(2 * entries)
      }
      let bytes = 0
      for (let j = 0; j < entries; j++) {
        const meta = words[2 * j + 1]
        sizes[j] = words[2 * j]
        bytes += sizes[j]
        for (let flag = 0; flag < HEADER_FLAG_COUNTS; flag++) row[flag] += (meta >>> flag) & 1
        if (j < packetsPerFlow) row[HEADER_FLAG_COUNTS + j] = (meta >>> 8) & 0xff
      }
      const duration = times[entries - 1] / timeUnit
      row[statistics] = duration
      row[statistics + 1] = duration === 0 ? 0 : entries / duration
      row[statistics + 2] = duration === 0 ? 0 : bytes / duration
      writeSizeStatistics(sizes, entries, scratch, row, statistics + 3)
    },
  }
}
