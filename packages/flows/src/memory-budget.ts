import type { FeatureExtractor } from './feature-sets/feature-extractor.js'
import { SUMS_STRIDE } from './feature-sets/flow-summary.js'
import type { FlowRecord } from './flow-record.js'
import { ENTRIES_PER_CHUNK, type EntryLayout, packetPoolBytes } from './flow-table.js'
import { trackerBytes } from './flow-tracker.js'
import { FROM_RESPONDER, IP_BYTES, META, type PacketFields, SIZE } from './packet-pass.js'

/**
 * The state of an open record: STRIDE doubles a flow, two cache lines, in one Float64Array.
 *
 * The first eight places are needed by every packet; times have the unit of packet-pass.ts.
 */

/** Places in a flow's state: times, counts, and the first and last chunk of its entries. */
export const START = 0
export const LAST = 1
export const PACKETS = 2
export const ROW_PACKETS = 3
export const BYTES = 4
export const IP = 5
export const ENTRIES = 6
export const TAIL = 7
export const HEAD = 8
export const FIRST = 9
/** Capture time of the first packet; START and LAST are on the flow clock. */
export const START_STAMP = 10
export const INITIATOR_PACKETS = 11
export const INITIATOR_BYTES = 12
export const INITIATOR_IP = 13
/** The initiator's flags, and the responder's from bit 8 on. */
export const FLAGS = 14
/** Number of the record within the flow, from 1 on; negative once the row was delivered. */
export const PIECE = 15
export const STRIDE = 16

/** Adds a packet to the totals of the record at `at`. */
export function addTotals(state: Float64Array, at: number, packet: PacketFields): void {
  const meta = packet[META]
  state[at + BYTES] += packet[SIZE]
  state[at + IP] += packet[IP_BYTES]
  if (meta < FROM_RESPONDER) {
    state[at + INITIATOR_PACKETS]++
    state[at + INITIATOR_BYTES] += packet[SIZE]
    state[at + INITIATOR_IP] += packet[IP_BYTES]
    state[at + FLAGS] |= meta & 0xff
  } else state[at + FLAGS] |= (meta & 0xff) << 8
}

/** Fills in what the state says of the record at `at`. */
export function describeState(state: Float64Array, at: number, record: FlowRecord): void {
  record.firstPacketNumber = state[at + FIRST]
  record.pieceIndex = Math.abs(state[at + PIECE]) - 1
  record.startMicros = state[at + START_STAMP]
  record.durationMicros = state[at + LAST] - state[at + START]
  record.packets = state[at + PACKETS]
  record.bytes = state[at + BYTES]
  record.initiatorPackets = state[at + INITIATOR_PACKETS]
  record.initiatorBytes = state[at + INITIATOR_BYTES]
  record.initiatorIpBytes = state[at + INITIATOR_IP]
  record.responderPackets = record.packets - record.initiatorPackets
  record.responderBytes = record.bytes - record.initiatorBytes
  record.responderIpBytes = state[at + IP] - record.initiatorIpBytes
  record.initiatorTcpFlags = state[at + FLAGS] & 0xff
  record.responderTcpFlags = state[at + FLAGS] >>> 8
  record.rowPackets = state[at + ROW_PACKETS]
}

/**
 * Memory of a record cutter: a state for each flow, and chunks of entries, with enough for one whole row in addition,
 * so ending other flows always makes room for it.
 */

/** Bytes of a cutter for one flow. */
export function cutterBytesPerFlow(maker: FeatureExtractor): number {
  return 8 * (STRIDE + (maker.keepsSums === true ? SUMS_STRIDE : 0))
}

/** Default number of chunks in addition to those of one whole row. */
export const SPARE_CHUNKS = 64

/** Chunks that the longest record takes. */
export function longestRecordChunks(maker: Pick<FeatureExtractor, 'maximumEntries'>): number {
  return Math.ceil(maker.maximumEntries / ENTRIES_PER_CHUNK)
}

/** Bytes of a pool of this many chunks, besides one whole row. */
export function cutterPoolBytes(
  maker: EntryLayout & Pick<FeatureExtractor, 'maximumEntries'>,
  chunks: number,
): number {
  return packetPoolBytes(maker, chunks + longestRecordChunks(maker))
}

/**
 * Divides bytes between open flows and the entries of their rows: half as many chunks a flow as its longest record
 * takes, from two to eight, and enough for one longest record. Both have their full length from the start, so the
 * bytes are a bound at every moment; unused parts take no memory.
 */

const MINIMUM_CHUNKS_PER_FLOW = 2
const MAXIMUM_CHUNKS_PER_FLOW = 8
/** The smallest table. */
const MINIMUM_FLOWS = 64
const MAXIMUM_FLOWS = 16_777_216
/** One part in this many is reserved for code, batch and buffers. */
const BESIDE_COLUMNS = 32

export interface ExtractorMemory {
  readonly flows: number
  readonly chunks: number
  readonly bytes: number
}

/** The largest number of flows that fit into `memoryBytes`; at least MINIMUM_FLOWS, in which case `bytes` is larger. */
export function extractorMemory(
  maker: FeatureExtractor,
  memoryBytes: number,
  endOnClose: boolean,
): ExtractorMemory {
  const columnBytes = memoryBytes - memoryBytes / BESIDE_COLUMNS
  let low = MINIMUM_FLOWS
  let high = MAXIMUM_FLOWS
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (bytesOf(maker, middle, endOnClose) <= columnBytes) low = middle
    else high = middle - 1
  }
  return { flows: low, chunks: chunksPerFlow(maker) * low, bytes: bytesOf(maker, low, endOnClose) }
}

function bytesOf(maker: FeatureExtractor, flows: number, endOnClose: boolean): number {
  const columns = trackerBytes(flows, cutterBytesPerFlow(maker), endOnClose)
  return columns + cutterPoolBytes(maker, chunksPerFlow(maker) * flows)
}

function chunksPerFlow(maker: FeatureExtractor): number {
  if (maker.maximumEntries === 0) return 0
  const half = Math.ceil(longestRecordChunks(maker) / 2)
  return Math.max(MINIMUM_CHUNKS_PER_FLOW, Math.min(MAXIMUM_CHUNKS_PER_FLOW, half))
}

/**
 * MemoryBudget: columns grow by doubling while the budget allows it, then by an eighth, then not at all: then a flow
 * ends (scoring) or training stops. While a column grows, its old half still exists: the peak is up to half as much
 * again.
 */
export class MemoryBudget {
  readonly limitBytes: number
  usedBytes = 0

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes
  }

  /**
   * The larger of 2 and 9/8 times `count` units whose bytes fit, now reserved; `count` itself if neither fits.
   * @param bytesOf - bytes of that many units.
   */
  reserveMore(count: number, bytesOf: (count: number) => number): number {
    const before = bytesOf(count)
    for (const next of [2 * count, count + (count >> 3)]) {
      const more = bytesOf(next) - before
      if (next > count && next <= MAXIMUM_UNITS && this.usedBytes + more <= this.limitBytes) {
        this.usedBytes += more
        return next
      }
    }
    return count
  }
}

/** Flows or chunks: ten key words of each must fit into one typed array. */
const MAXIMUM_UNITS = 100_000_000
