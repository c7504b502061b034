/**
 * Counts copies, wrong IPv4 header checksums, and hop limits that end at the next router (docs/flows.md). A copy is
 * the same IP packet, byte for byte, within DUPLICATE_WINDOW_MICROS. To drop copies, all captured bytes are compared,
 * as two hashes, one of them keyed; to count them, headers and the transport's checksum suffice. Memory: 64 KiB; with
 * more than 4096 packets in the window some copies are missed.
 */
import { halfSipHash13, plural } from '@oddflow/core'
import { PROTOCOL_TCP, PROTOCOL_UDP, UDP_BYTES } from './ip.js'
import { type FrameBatch, type PacketBatch, packetStatusCode } from './packet-batch.js'

/** Measured: docs/flows.md. */
export const DUPLICATE_WINDOW_MICROS = 1000

/** What a PacketCheck has counted so far, in packets. */
export interface PacketCheckCounts {
  /** Packets with an IP header and a time; only these can be copies. */
  ipPackets: number
  /** Copies among them. */
  duplicatePackets: number
  /** Of these, the ones that were dropped: all or none. */
  droppedDuplicates: number
  /** IPv4 headers that are captured whole. */
  checkedHeaders: number
  /** Of these, the ones with a wrong checksum. */
  wrongChecksums: number
  /** Of these, the ones with 0 in its place, as a card that is to fill it in gets them. */
  zeroChecksums: number
  /** Packets with a TTL or hop limit of 0, or of 1 to an address of a single host. */
  lastHopPackets: number
}

/** Options of a PacketCheck. */
export interface PacketCheckOptions {
  /** Whether copies get the status `duplicate`, so that they are in no flow. */
  readonly dropDuplicates?: boolean
  /** As in createFlowKeySet. */
  readonly hashSeed?: number
}

const DUPLICATE = packetStatusCode('duplicate')
const WAYS = 4
const SETS = 1024
const SET_MASK = SETS - 1
const IPV6_BYTES = 40
/** As far as TCP's checksum, which covers the payload, and beyond UDP's. */
const TRANSPORT_BYTES = 20
/** Of packets without one: as far as the checksum of a packet in a tunnel. */
const HEAD_BYTES = 160

/** Looks at packets one by one for copies and wrong checksums, and counts them; see `packetCheckWarnings`. */
export class PacketCheck {
  readonly counts: PacketCheckCounts = {
    ipPackets: 0,
    duplicatePackets: 0,
    droppedDuplicates: 0,
    checkedHeaders: 0,
    wrongChecksums: 0,
    zeroChecksums: 0,
    lastHopPackets: 0,
  }
  readonly #drops: boolean
  readonly #key0: number
  readonly #key1: number
  /** Packets by set: hash of the headers, hash of all bytes, time, and which of the set is the next to give way. */
  readonly #heads = new Uint32Array(SETS * WAYS)
  readonly #bodies = new Uint32Array(SETS * WAYS)
  readonly #times = new Float64Array(SETS * WAYS).fill(Number.NEGATIVE_INFINITY)
  readonly #next = new Uint8Array(SETS)
  #viewed: Uint8Array = new Uint8Array(0)
  #view: DataView = new DataView(this.#viewed.buffer)
  /** The words of the packet that is looked at. */
  #words = new Uint32Array(16)

  constructor({ dropDuplicates = false, hashSeed = 0 }: PacketCheckOptions = {}) {
    this.#drops = dropDuplicates
    this.#key0 = hashSeed | 0
    this.#key1 = Math.floor(hashSeed / 4294967296) | 0
  }

  /** Looks at packet i, whose frame is frame i; true if it is a copy that was dropped. */
  look(frames: FrameBatch, packets: PacketBatch, i: number): boolean {
    const version = packets.ipVersion[i]!
    if (version === 0) return false
    const { counts } = this
    const { data } = frames
    const hopLimit = packets.hopLimit[i]!
    if (hopLimit <= 1 && (hopLimit === 0 || isUnicast(packets, i, version))) counts.lastHopPackets++
    const start = packets.ipOffset[i]!
    const end = Math.min(frames.offset[i]! + frames.capturedBytes[i]!, start + packets.ipBytes[i]!)
    const headerEnd = start + (version === 4 ? (data[start]! & 15) << 2 : IPV6_BYTES)
    const headEnd = Math.min(
      end,
      hasChecksum(data, end, packets, i) ? packets.transportOffset[i]! + TRANSPORT_BYTES : start + HEAD_BYTES,
    )
    let hash = Math.imul(packets.ipBytes[i]!, 0x85ebca6b)
    let sum = 0
    const view = this.#viewOf(data)
    let at = start
    for (; at + 4 <= headEnd; at += 4) {
      const word = view.getInt32(at)
      if (at < headerEnd) sum += (word >>> 16) + (word & 0xffff)
      hash = Math.imul(hash ^ word, 0x9e3779b1)
      hash ^= hash >>> 15
    }
    for (; at < headEnd; at++) hash = Math.imul(hash ^ data[at]!, 0x9e3779b1)
    if (version === 4 && headerEnd <= end) this.#countChecksum(sum, data, start)
    const time = packets.timestampMicros[i]!
    if (time - time !== 0) return false
    counts.ipPackets++
    hash = Math.imul(hash ^ (hash >>> 13), 0x85ebca6b)
    hash = (hash ^ (hash >>> 16)) >>> 0
    if (!this.#isCopy(hash, this.#drops ? this.#hashAll(data, start, end) : 0, time)) return false
    counts.duplicatePackets++
    if (!this.#drops) return false
    counts.droppedDuplicates++
    packets.status[i] = DUPLICATE
    return true
  }

  /** Copies are not kept, so a host that repeats the same packet loses only the repetitions within the window. */
  #isCopy(head: number, body: number, time: number): boolean {
    const set = head & SET_MASK
    const first = WAYS * set
    for (let k = first; k < first + WAYS; k++) {
      if (this.#heads[k] !== head || this.#bodies[k] !== body) continue
      if (Math.abs(time - this.#times[k]!) <= DUPLICATE_WINDOW_MICROS) return true
    }
    const next = this.#next[set]!
    const k = first + next
    this.#heads[k] = head
    this.#bodies[k] = body
    this.#times[k] = time
    this.#next[set] = (next + 1) % WAYS
    return false
  }

  /** A view reads a word in one go; the next batch mostly lies in the same block. */
  #viewOf(data: Uint8Array): DataView {
    if (data !== this.#viewed) {
      this.#viewed = data
      this.#view = new DataView(data.buffer, data.byteOffset, data.byteLength)
    }
    return this.#view
  }

  #hashAll(data: Uint8Array, start: number, end: number): number {
    const count = (end - start + 3) >>> 2
    if (count > this.#words.length) this.#words = new Uint32Array(2 * count)
    const words = this.#words
    const view = this.#viewOf(data)
    let at = start
    let n = 0
    for (; at + 4 <= end; at += 4) {
      words[n++] = view.getInt32(at)
    }
    if (at < end) {
      let rest = 0
      for (; at < end; at++) rest = (rest << 8) | data[at]!
      words[n++] = rest
    }
    return halfSipHash13(words, 0, n, this.#key0, this.#key1) >>> 0
  }

  /** @param sum - of the header's 16-bit words: 0xffff where the checksum among them is right (RFC 1071). */
  #countChecksum(sum: number, data: Uint8Array, start: number): void {
    const { counts } = this
    counts.checkedHeaders++
    const once = (sum & 0xffff) + (sum >>> 16)
    if ((once & 0xffff) + (once >>> 16) === 0xffff) return
    counts.wrongChecksums++
    if (data[start + 10] === 0 && data[start + 11] === 0) counts.zeroChecksums++
  }
}

/** Whether the transport's header, which is captured, has a checksum of the payload. */
function hasChecksum(data: Uint8Array, end: number, packets: PacketBatch, i: number): boolean {
  const at = packets.transportOffset[i]!
  if (at === 0) return false
  const protocol = packets.protocol[i]!
  if (protocol === PROTOCOL_TCP) return true
  return protocol === PROTOCOL_UDP && at + UDP_BYTES <= end && (data[at + 6]! | data[at + 7]!) !== 0
}

function isUnicast({ destinationAddress }: PacketBatch, i: number, version: number): boolean {
  return version === 4
    ? destinationAddress[4 * i + 3]! >>> 28 < 0xe
    : destinationAddress[4 * i]! >>> 24 !== 0xff
}

/** No warning for fewer copies or wrong checksums than this share of the packets, */
const DOUBTFUL_SHARE = 0.01
/** nor for fewer than this. */
const DOUBTFUL_PACKETS = 10

/** A line for each kind that was found. */
export function describePacketCheck(counts: Readonly<PacketCheckCounts>): string[] {
  const { ipPackets, duplicatePackets, droppedDuplicates } = counts
  const { checkedHeaders, wrongChecksums, zeroChecksums, lastHopPackets } = counts
  const lines = []
  if (duplicatePackets > 0) {
    const dropped = droppedDuplicates > 0 ? ', dropped' : ''
    lines.push(
      `${duplicatePackets} of ${plural(ipPackets, 'IP packet')} (${percent(duplicatePackets, ipPackets)}) are copies of a packet within ${DUPLICATE_WINDOW_MICROS / 1000} ms before${dropped}`,
    )
  }
  if (wrongChecksums > 0) {
    lines.push(
      `${wrongChecksums} of ${plural(checkedHeaders, 'IPv4 header')} (${percent(wrongChecksums, checkedHeaders)}) have a wrong checksum, ${zeroChecksums} of them 0`,
    )
  }
  if (lastHopPackets > 0)
    lines.push(`${plural(lastHopPackets, 'packet')} with a TTL of 0 or 1, which no router forwards`)
  return lines
}

/** A doubt about a capture, with its text for people. */
export interface PacketCheckWarning {
  readonly problem: 'duplicates' | 'checksums'
  readonly text: string
}

/**
 * Findings that make verdicts doubtful, with what to do; none if little was found.
 * @param dropOption - with which the caller's user drops copies
 */
export function packetCheckWarnings(
  counts: Readonly<PacketCheckCounts>,
  dropOption: string,
): PacketCheckWarning[] {
  const { ipPackets, duplicatePackets, droppedDuplicates } = counts
  const { checkedHeaders, wrongChecksums, zeroChecksums } = counts
  const warnings: PacketCheckWarning[] = []
  if (droppedDuplicates === 0 && isDoubtful(duplicatePackets, ipPackets)) {
    warnings.push({
      problem: 'duplicates',
      text: `${duplicatePackets} of ${plural(ipPackets, 'IP packet')} (${percent(duplicatePackets, ipPackets)}) are copies: a mirror port that copies both directions, or the interface any, records packets twice; record one direction or one interface, or drop copies with ${dropOption}`,
    })
  }
  if (isDoubtful(wrongChecksums, checkedHeaders)) {
    const cause =
      2 * zeroChecksums > wrongChecksums
        ? 'most are 0, as on packets that this machine sent itself and its network card completes (checksum offload)'
        : 'most are not 0, so checksum offload does not explain them; receivers discard such packets'
    warnings.push({
      problem: 'checksums',
      text: `${wrongChecksums} of ${plural(checkedHeaders, 'IPv4 header')} (${percent(wrongChecksums, checkedHeaders)}) have a wrong checksum: ${cause}; the packets stay in their flows`,
    })
  }
  return warnings
}

function isDoubtful(found: number, all: number): boolean {
  return found >= DOUBTFUL_PACKETS && found >= DOUBTFUL_SHARE * all
}

function percent(part: number, all: number): string {
  return `${((100 * part) / all).toFixed(1)} %`
}
