/**
 * STATS+HEADER (the paper's appendix): counts of the TCP flags FIN, SYN, RST, PSH, ACK, URG, ECE, CWR; the TTL or hop limit
 * of the first p packets, zero-padded; and ten statistics: duration, packets and bytes per time (0 if the duration is 0),
 * mean, population standard deviation, three quartiles, minimum and maximum of the sizes, in the authors' order.
 *
 * Quartiles need all sizes. To bound memory, counts, statistics and duration are those of the record's first `packetsKept`
 * packets.
 * Entry: [time since the record's start], [size, meta].
 */
import {
  FLOW_STATISTICS,
  HEADER_BITS_PER_PACKET,
  HEADER_FLAG_COUNTS,
  type PacketContract,
  type StatsHeaderContract,
} from '@oddflow/core'
import { quantileOfSorted } from '../numbers.js'
import { FROM_RESPONDER, IP_BYTES, META, SIZE, START, TIME } from '../packet-pass.js'
import type { FeatureExtractor, LearnedFlows } from './feature-extractor.js'

/**
 * Writes mean, standard deviation, q1, q2, q3, minimum and maximum of the first `count` sizes to `row[at …]`, with numpy's
 * bits: squared differences are summed in numpy's pairwise order (blocks of 128, each in eight lanes).
 * @param sizes - sorted when the call returns.
 * @param scratch - at least `count` numbers, overwritten.
 */
function writeSizeStatistics(
  sizes: Float64Array,
  count: number,
  scratch: Float64Array,
  row: Float64Array,
  at: number,
): void {
  let sum = 0
  for (let j = 0; j < count; j++) sum += sizes[j]
  const mean = sum / count
  for (let j = 0; j < count; j++) scratch[j] = (sizes[j] - mean) * (sizes[j] - mean)
  const deviation = Math.sqrt(pairwiseSum(scratch, 0, count) / count)
  sortFirst(sizes, count)
  row[at] = mean
  row[at + 1] = deviation
  row[at + 2] = quantileOfSorted(sizes, count, 0.25)
  row[at + 3] = quantileOfSorted(sizes, count, 0.5)
  row[at + 4] = quantileOfSorted(sizes, count, 0.75)
  row[at + 5] = sizes[0]
  row[at + 6] = sizes[count - 1]
}

/** Few values by insertion, which costs less than the call of a sort. */
function sortFirst(values: Float64Array, count: number): void {
  if (count > 32) {
    values.subarray(0, count).sort()
    return
  }
  for (let j = 1; j < count; j++) {
    const value = values[j]
    let k = j - 1
    for (; k >= 0 && values[k] > value; k--) values[k + 1] = values[k]
    values[k + 1] = value
  }
}

/** Sum of `count` values from `at` on, in the order of numpy's pairwise summation. */
function pairwiseSum(values: Float64Array, at: number, count: number): number {
  if (count < 8) {
    let sum = 0
    for (let j = 0; j < count; j++) sum += values[at + j]
    return sum
  }
  if (count > 128) {
    let half = count >> 1
    half -= half % 8
    return pairwiseSum(values, at, half) + pairwiseSum(values, at + half, count - half)
  }
  const whole = at + count - (count % 8)
  let [a, b, c, d, e, f, g, h] = [0, 0, 0, 0, 0, 0, 0, 0]
  for (let j = at; j < whole; j += 8) {
    a += values[j]
    b += values[j + 1]
    c += values[j + 2]
    d += values[j + 3]
    e += values[j + 4]
    f += values[j + 5]
    g += values[j + 6]
    h += values[j + 7]
  }
  let sum = a + b + (c + d) + (e + f + (g + h))
  for (let j = whole; j < at + count; j++) sum += values[j]
  return sum
}

/**
 * Header bits of the first p packets, as in nPrint (Holland et al., CCS 2021): each bit of a header field is a column, 1 or
 * 0, and −1 if the packet or the field does not exist.
 *
 * Columns of a packet, each field with its most significant bit first:
 *
 *     0       1  direction, 1 = the responder sent it
 *     1–4     4  IP version
 *     5–20   16  length of the IP packet (IPv4 total length; IPv6 40 + payload length; 65,535 if more)
 *     21–28   8  TTL or hop limit
 *     29–36   8  protocol (after IPv6 extension headers)
 *     37–52  16  source port
 *     53–68  16  destination port
 *     69–76   8  TCP flags CWR, ECE, URG, ACK, PSH, RST, SYN, FIN; −1 for UDP
 *
 * Left out: addresses and MACs, which name hosts; checksums, identification, TCP sequence numbers, window and options, which
 * the packet batch does not carry; payload. Entry: [], [IP length, meta].
 */

const TCP = 6

export function createHeaderBitsRows(contract: PacketContract): FeatureExtractor {
  const maximumEntries = contract.packetsPerFlow
  const { dimension } = contract
  return {
    dimension,
    entryFloats: 0,
    entryWords: 2,
    maximumEntries,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.words[2 * at] = packet[IP_BYTES]
      pool.words[2 * at + 1] = packet[META]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (_floats, words, entries, record, row) => {
      let at = 0
      const put = (value: number, bits: number): void => {
        for (let bit = bits - 1; bit >= 0; bit--) row[at++] = (value >>> bit) & 1
      }
      for (let j = 0; j < entries; j++) {
        const meta = words[2 * j + 1]
        const back = (meta & FROM_RESPONDER) !== 0
        put(back ? 1 : 0, 1)
        put(record.ipVersion, 4)
        put(Math.min(words[2 * j], 0xffff), 16)
        put((meta >>> 8) & 0xff, 8)
        put(record.protocol, 8)
        put(back ? record.responderPort : record.initiatorPort, 16)
        put(back ? record.initiatorPort : record.responderPort, 16)
        if (record.protocol === TCP) put(meta & 0xff, 8)
        else {
          row.fill(-1, at, at + 8)
          at += 8
        }
      }
      row.fill(-1, HEADER_BITS_PER_PACKET * entries, dimension)
    },
  }
}

export function createStatsHeaderRows(contract: PacketContract, timeUnit: number): FeatureExtractor {
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

const DEFAULT_PACKETS_KEPT = 65_536

export function learnStatsHeader({
  iatUnit,
  packetsPerFlow,
  packetsKept = DEFAULT_PACKETS_KEPT,
}: LearnedFlows): object {
  return { iatUnit, packetsKept: Math.max(packetsPerFlow, packetsKept) }
}
