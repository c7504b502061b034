/**
 * Flow summary: one row of fixed size a record, of one packet too, from running sums in constant memory.
 *
 * Columns, sizes being payload bytes of a packet, log1p(x) = ln(1 + x):
 *
 *     0–4     the initiator's log1p of bytes, packets, maximum, mean and standard deviation of sizes
 *     5–9     the responder's
 *     10–13   log10(duration + 1e-4), and log10(x + 1e-5) of the mean, largest and first interarrival time, seconds
 *     14, 15  log1p(first size that is not 0), of the initiator and of the responder
 *     16      transport: 3 TCP, 0 UDP, -3 ICMP and ICMPv6, 6 SCTP
 *     17      3 if the responder is a multicast or broadcast address, else 0
 *     18      3 if the initiator sent a SYN and no SYN came back, else 0
 *     19      the service: 100,000 × protocol + 50,000 if multicast + responder's port; all ports from 32,768 on
 *             count as 32,768; ICMP has the type of its first message for a port. Only ever compared: equal or not
 *
 * What is not there is 0: the sizes of an end that sent nothing, and the times of a single packet. There are no
 * addresses and no ports but in the service. Logarithms are core's, so a row has the same bits on every machine.
 */
import { type FlowContract, log } from '@oddflow/core'
import { ICMP, ICMPV6, SCTP, TCP } from '../flow-counters.js'
import type { FlowRecord } from '../flow-record.js'
import { FROM_RESPONDER, IAT, META, type PacketFields, SIZE } from '../packet-pass.js'
import type { FeatureExtractor } from './feature-extractor.js'

/** Running sums of a record: SUMS_STRIDE doubles, one cache line. The responder's stand behind the initiator's. */
const MAXIMUM = 0
const SQUARES = 2
const FIRST_SIZE = 4
const MAXIMUM_IAT = 6
const FIRST_IAT = 7
export const SUMS_STRIDE = 8

const SYN = 2
const DYNAMIC_PORT = 32_768

/** Begins the sums at `at` with a record's first packet. */
export function openSums(sums: Float64Array, at: number, packet: PacketFields): void {
  const size = packet[SIZE]
  const end = packet[META] < FROM_RESPONDER ? 0 : 1
  for (let k = 0; k < SUMS_STRIDE; k++) sums[at + k] = 0
  sums[at + MAXIMUM + end] = size
  sums[at + SQUARES + end] = size * size
  sums[at + FIRST_SIZE + end] = size
}

/** Adds a later packet. @param isSecond - of the record. */
export function addToSums(sums: Float64Array, at: number, packet: PacketFields, isSecond: boolean): void {
  const size = packet[SIZE]
  const end = packet[META] < FROM_RESPONDER ? 0 : 1
  if (size > sums[at + MAXIMUM + end]) sums[at + MAXIMUM + end] = size
  sums[at + SQUARES + end] += size * size
  if (sums[at + FIRST_SIZE + end] === 0) sums[at + FIRST_SIZE + end] = size
  if (packet[IAT] > sums[at + MAXIMUM_IAT]) sums[at + MAXIMUM_IAT] = packet[IAT]
  if (isSecond) sums[at + FIRST_IAT] = packet[IAT]
}

export function createFlowSummaryRows({ dimension }: FlowContract): FeatureExtractor {
  return {
    dimension,
    entryFloats: 0,
    entryWords: 0,
    maximumEntries: 0,
    keepsSums: true,
    keeps: () => false,
    write: () => {},
    settled: () => false,
    fill: (sums, _words, _entries, record, row) => {
      writeSizes(row, 0, record.initiatorPackets, record.initiatorBytes, sums, 0)
      writeSizes(row, 5, record.responderPackets, record.responderBytes, sums, 1)
      const { durationMicros } = record
      row[10] = logSeconds(durationMicros, 1e-4)
      row[11] = logSeconds(record.packets > 1 ? durationMicros / (record.packets - 1) : 0, 1e-5)
      row[12] = logSeconds(sums[MAXIMUM_IAT], 1e-5)
      row[13] = logSeconds(sums[FIRST_IAT], 1e-5)
      row[14] = log1p(sums[FIRST_SIZE])
      row[15] = log1p(sums[FIRST_SIZE + 1])
      row[16] = transportNumber(record.protocol)
      const multicast = isMulticast(record.responderAddress, record.ipVersion)
      row[17] = multicast ? 3 : 0
      const asked = (record.initiatorTcpFlags & SYN) !== 0
      row[18] = asked && (record.responderTcpFlags & SYN) === 0 ? 3 : 0
      row[dimension - 1] = serviceCode(record, multicast)
    },
  }
}

function writeSizes(
  row: Float64Array,
  at: number,
  packets: number,
  bytes: number,
  sums: Float64Array,
  end: number,
): void {
  row[at] = log1p(bytes)
  row[at + 1] = log1p(packets)
  row[at + 2] = log1p(sums[MAXIMUM + end])
  row[at + 3] = packets === 0 ? 0 : log1p(bytes / packets)
  row[at + 4] = packets === 0 ? 0 : log1p(standardDeviation(packets, bytes, sums[SQUARES + end]))
}

/** Of the population. n Σx² − (Σx)² is exact: equal sizes have exactly 0, however many. */
function standardDeviation(count: number, sum: number, squares: number): number {
  const product = count * squares
  const difference =
    product <= Number.MAX_SAFE_INTEGER
      ? product - sum * sum
      : Number(BigInt(count) * BigInt(squares) - BigInt(sum) * BigInt(sum))
  return Math.sqrt(Math.max(0, difference)) / count
}

function log1p(x: number): number {
  return log(1 + x)
}

function logSeconds(micros: number, least: number): number {
  return log(micros / 1_000_000 + least) * Math.LOG10E
}

function transportNumber(protocol: number): number {
  if (protocol === TCP) return 3
  if (protocol === SCTP) return 6
  return protocol === ICMP || protocol === ICMPV6 ? -3 : 0
}

/** IPv4 224.0.0.0/4 and 255.255.255.255, IPv6 ff00::/8. */
function isMulticast(address: Uint32Array, ipVersion: number): boolean {
  if (ipVersion !== 4) return address[0] >>> 24 === 0xff
  return address[3] >>> 28 === 0xe || address[3] === 0xffffffff
}

function serviceCode({ protocol, initiatorPort, responderPort }: FlowRecord, multicast: boolean): number {
  const port = protocol === ICMP || protocol === ICMPV6 ? initiatorPort : responderPort
  return 100_000 * protocol + (multicast ? 50_000 : 0) + Math.min(port, DYNAMIC_PORT)
}
