/**
 * createPacketDecoder: decodePackets with a view (outer or inner) and with fragments joined to their flow.
 *
 * - `outer` (the default): the first IP header is the packet's, and tunnels are flows of their own.
 * - `inner`: tunnels are opened (tunnels.ts), at most MAXIMUM_TUNNELS inside each other, and the innermost header with
 *   ports (TCP, UDP, SCTP) is the packet's. A packet without such a header (ICMP in GTP-U, OSPF in GRE, a damaged header, an
 *   inner fragment) keeps the tunnel's. Frame length, time and MAC addresses are the frame's in either view.
 * - `joinFragments`: a later fragment gets the key of its datagram's first fragment if that came before it; otherwise it
 *   stays `ip-later-fragment`, counted. Fragments inside a tunnel are not joined.
 *
 * Nothing is allocated per packet.
 */
import { ArgumentError, halfSipHash13 } from '@oddflow/core'
import { clearHeaders } from './ethernet.js'
import {
  type FrameCursor,
  fragmentHeaderAt,
  int32,
  PROTOCOL_SCTP,
  PROTOCOL_TCP,
  PROTOCOL_UDP,
  tcpHeaderBytes,
  UDP_BYTES,
  uint16,
} from './ip.js'
import { decodeLinkLayer } from './link-layer.js'
import {
  createPacketBatch,
  type FrameBatch,
  IP_LATER_FRAGMENT,
  PACKET_OK,
  type PacketBatch,
} from './packet-batch.js'
import { copyHeaders, looksLikeTunnel, openTunnel } from './tunnels.js'

/**
 * FragmentTable: the key of a datagram's first fragment under (source, destination, identification, protocol; RFC 791,
 * 3.2; RFC 8200, 4.5), in sets of four. A full set evicts its oldest, counted. Entries older than sixty seconds are
 * not used, because identifications come again.
 */

const DEFAULT_MAXIMUM_FRAGMENTED_DATAGRAMS = 4096
const FRAGMENT_LIFETIME_MICROS = 60_000_000

const WAYS = 4
const KEY_WORDS = 10
const VALUE_WORDS = 10
const MORE_FRAGMENTS = 0x20

class FragmentTable {
  /** Datagrams evicted while they could still have been used. */
  evicted = 0
  readonly #setMask: number
  readonly #key0: number
  readonly #key1: number
  readonly #keys: Uint32Array
  readonly #values: Uint32Array
  readonly #storedMicros: Float64Array
  /** When an entry was stored, as a count; 0 for an empty one. */
  readonly #order: Float64Array
  /** The selected datagram's key. */
  readonly #probe = new Uint32Array(KEY_WORDS)
  #clock = 0

  /** @param maximumDatagrams - rounded up to a power of two. @param hashSeed - see createFlowKeySet */
  constructor(maximumDatagrams = DEFAULT_MAXIMUM_FRAGMENTED_DATAGRAMS, hashSeed = 0) {
    if (!Number.isInteger(maximumDatagrams) || maximumDatagrams < WAYS || maximumDatagrams > 2 ** 20) {
      throw new ArgumentError(
        `maximumFragmentedDatagrams: expected a whole number from ${WAYS} to 2^20, found ${maximumDatagrams}`,
        'maximumFragmentedDatagrams',
      )
    }
    let capacity = WAYS
    while (capacity < maximumDatagrams) capacity *= 2
    this.#setMask = capacity / WAYS - 1
    this.#key0 = hashSeed | 0
    this.#key1 = Math.floor(hashSeed / 4294967296) | 0
    this.#keys = new Uint32Array(KEY_WORDS * capacity)
    this.#values = new Uint32Array(VALUE_WORDS * capacity)
    this.#storedMicros = new Float64Array(capacity)
    this.#order = new Float64Array(capacity)
  }

  /** Reads the datagram's key from packet i, for `find` and `store`; false if it is no fragment. */
  select(data: Uint8Array, end: number, packets: PacketBatch, i: number): boolean {
    const probe = this.#probe
    const at = packets.ipOffset[i]!
    if (packets.ipVersion[i] === 4) {
      if ((data[at + 6]! & (MORE_FRAGMENTS | 0x1f)) === 0 && data[at + 7] === 0) return false
      probe[8] = uint16(data, at + 4)
      probe[9] = 0x400 | data[at + 9]!
    } else if (packets.ipVersion[i] === 6) {
      const header = fragmentHeaderAt(data, at, end)
      // an atomic fragment (RFC 6946) is whole
      if (header < 0 || (uint16(data, header + 2) & 0xfff9) === 0) return false
      probe[8] = int32(data, header + 4)
      probe[9] = 0x600
    } else return false
    for (let w = 0; w < 4; w++) {
      probe[w] = packets.sourceAddress[4 * i + w]!
      probe[4 + w] = packets.destinationAddress[4 * i + w]!
    }
    return true
  }

  /** Gives packet i the addresses, ports and protocol of its first fragment; false if that is not known. */
  find(packets: PacketBatch, i: number): boolean {
    const first = this.#firstWay()
    const micros = packets.timestampMicros[i]!
    let entry = first
    while (entry < first + WAYS && (!this.#isSelected(entry) || this.#isExpired(entry, micros))) entry++
    if (entry === first + WAYS) return false
    const values = this.#values
    const at = VALUE_WORDS * entry
    for (let w = 0; w < 4; w++) {
      packets.sourceAddress[4 * i + w] = values[at + w]!
      packets.destinationAddress[4 * i + w] = values[at + 4 + w]!
    }
    packets.sourcePort[i] = values[at + 8]! >>> 16
    packets.destinationPort[i] = values[at + 8]! & 0xffff
    packets.ipVersion[i] = values[at + 9]! >>> 8
    packets.protocol[i] = values[at + 9]! & 0xff
    packets.payloadBytes[i] = Math.max(0, packets.ipBytes[i]! - (packets.ipVersion[i] === 4 ? 20 : 48))
    return true
  }

  /** Remembers packet i, as it is keyed now, as the selected datagram's first fragment. */
  store(packets: PacketBatch, i: number): void {
    const order = this.#order
    const first = this.#firstWay()
    const micros = packets.timestampMicros[i]!
    let target = first
    for (let entry = first; entry < first + WAYS; entry++) {
      if (this.#isSelected(entry)) {
        target = entry
        break
      }
      if (order[entry]! < order[target]!) target = entry
    }
    if (order[target] !== 0 && !this.#isSelected(target) && !this.#isExpired(target, micros)) this.evicted++
    this.#keys.set(this.#probe, KEY_WORDS * target)
    const values = this.#values
    const at = VALUE_WORDS * target
    for (let w = 0; w < 4; w++) {
      values[at + w] = packets.sourceAddress[4 * i + w]!
      values[at + 4 + w] = packets.destinationAddress[4 * i + w]!
    }
    values[at + 8] = (packets.sourcePort[i]! << 16) | packets.destinationPort[i]!
    values[at + 9] = (packets.ipVersion[i]! << 8) | packets.protocol[i]!
    this.#storedMicros[target] = micros
    order[target] = ++this.#clock
  }

  #firstWay(): number {
    return WAYS * (halfSipHash13(this.#probe, 0, KEY_WORDS, this.#key0, this.#key1) & this.#setMask)
  }

  /** Whether the entry is in use and the selected datagram's. */
  #isSelected(entry: number): boolean {
    if (this.#order[entry] === 0) return false
    const at = KEY_WORDS * entry
    for (let w = 0; w < KEY_WORDS; w++) if (this.#keys[at + w] !== this.#probe[w]) return false
    return true
  }

  #isExpired(entry: number, micros: number): boolean {
    return Math.abs(micros - this.#storedMicros[entry]!) > FRAGMENT_LIFETIME_MICROS
  }
}

/**
 * All columns of an ordinary packet at once: nine in ten are TCP or UDP in IPv4 without options or IPv6 without
 * extension headers, in Ethernet with at most one VLAN tag. Returns false for all others, and has written nothing. The
 * columns equal those of decodeLinkLayer.
 */

const ETHERNET_BYTES = 14
const IPV4_BYTES = 20
const IPV6_BYTES = 40
const PORT_BYTES = 4
/** To the end of the flags. */
const TCP_BYTES = 14

/** @param at, end - where the frame's captured bytes are in `data` */
export function decodePlainPacket(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): boolean {
  if (end - at < ETHERNET_BYTES + IPV4_BYTES + PORT_BYTES) return false
  let type = (data[at + 12]! << 8) | data[at + 13]!
  let ip = at + ETHERNET_BYTES
  let vlan = 0
  let tags = 0
  if (type === 0x8100) {
    vlan = ((data[at + 14]! & 0x0f) << 8) | data[at + 15]!
    tags = (1 << 24) | vlan
    type = (data[at + 16]! << 8) | data[at + 17]!
    ip += 4
  }
  let transport: number
  let ipBytes: number
  let protocol: number
  if (type === 0x0800) {
    transport = ip + IPV4_BYTES
    if (end - transport < PORT_BYTES || data[ip]! !== 0x45) return false
    if ((((data[ip + 6]! << 8) | data[ip + 7]!) & 0x1fff) !== 0) return false
    ipBytes = (data[ip + 2]! << 8) | data[ip + 3]!
    protocol = data[ip + 9]!
  } else if (type === 0x86dd) {
    transport = ip + IPV6_BYTES
    if (end - transport < PORT_BYTES || data[ip]! >>> 4 !== 6) return false
    ipBytes = IPV6_BYTES + ((data[ip + 4]! << 8) | data[ip + 5]!)
    protocol = data[ip + 6]!
  } else return false
  const room = Math.min(end, ip + ipBytes) - transport
  let flags = 0
  let headerBytes = UDP_BYTES
  if (protocol === PROTOCOL_TCP) {
    if (room < TCP_BYTES) return false
    flags = data[transport + 13]!
    headerBytes = tcpHeaderBytes(data[transport + 12]!)
  } else if (protocol !== PROTOCOL_UDP || room < PORT_BYTES) return false

  const { sourceAddress, destinationAddress, sourceMac, destinationMac } = packets
  const address = 4 * i
  if (type === 0x0800) {
    packets.ipVersion[i] = 4
    packets.hopLimit[i] = data[ip + 8]!
    sourceAddress[address] = 0
    sourceAddress[address + 1] = 0
    sourceAddress[address + 2] = 0
    sourceAddress[address + 3] =
      (data[ip + 12]! << 24) | (data[ip + 13]! << 16) | (data[ip + 14]! << 8) | data[ip + 15]!
    destinationAddress[address] = 0
    destinationAddress[address + 1] = 0
    destinationAddress[address + 2] = 0
    destinationAddress[address + 3] =
      (data[ip + 16]! << 24) | (data[ip + 17]! << 16) | (data[ip + 18]! << 8) | data[ip + 19]!
  } else {
    packets.ipVersion[i] = 6
    packets.hopLimit[i] = data[ip + 7]!
    for (let w = 0; w < 4; w++) {
      const s = ip + 8 + 4 * w
      const d = s + 16
      sourceAddress[address + w] =
        (data[s]! << 24) | (data[s + 1]! << 16) | (data[s + 2]! << 8) | data[s + 3]!
      destinationAddress[address + w] =
        (data[d]! << 24) | (data[d + 1]! << 16) | (data[d + 2]! << 8) | data[d + 3]!
    }
  }
  packets.protocol[i] = protocol
  packets.ipBytes[i] = ipBytes
  packets.sourcePort[i] = (data[transport]! << 8) | data[transport + 1]!
  packets.destinationPort[i] = (data[transport + 2]! << 8) | data[transport + 3]!
  packets.tcpFlags[i] = flags
  packets.payloadBytes[i] = Math.max(0, ip + ipBytes - transport - headerBytes)
  packets.vlan[i] = vlan
  packets.vlanTags[i] = tags
  packets.ipOffset[i] = ip
  packets.transportOffset[i] = transport
  // unrolled: as a loop it was a third of the cost of a packet
  const mac = 6 * i
  destinationMac[mac] = data[at]!
  destinationMac[mac + 1] = data[at + 1]!
  destinationMac[mac + 2] = data[at + 2]!
  destinationMac[mac + 3] = data[at + 3]!
  destinationMac[mac + 4] = data[at + 4]!
  destinationMac[mac + 5] = data[at + 5]!
  sourceMac[mac] = data[at + 6]!
  sourceMac[mac + 1] = data[at + 7]!
  sourceMac[mac + 2] = data[at + 8]!
  sourceMac[mac + 3] = data[at + 9]!
  sourceMac[mac + 4] = data[at + 10]!
  sourceMac[mac + 5] = data[at + 11]!
  return true
}

const LINKTYPE_ETHERNET = 1

/**
 * Reads the outer headers of `frames` into `packets`. A packet without a key still has all columns that could be read (a
 * later fragment has addresses and protocol, an ARP request its two IPv4 addresses), for filters and counts.
 * Throws ArgumentError if `packets` holds fewer than `frames.count`.
 */
export function decodePackets(frames: FrameBatch, packets: PacketBatch): void {
  const count = frames.count
  if (packets.status.length < count) {
    throw new ArgumentError(
      `packets: expected room for ${count} packets, found ${packets.status.length}`,
      'packets',
    )
  }
  packets.count = count
  packets.firstFrame = frames.firstFrame
  const { data, offset, capturedBytes, wireBytes, timestampMicros, linkType } = frames
  packets.timestampMicros.set(timestampMicros.subarray(0, count))
  packets.frameBytes.set(wireBytes.subarray(0, count))
  packets.capturedBytes.set(capturedBytes.subarray(0, count))
  const { status, sourceMac, destinationMac } = packets
  const frame: FrameCursor = { data, start: 0, end: 0, packets, i: 0, depth: 0 }
  for (let i = 0; i < count; i++) {
    const at = offset[i]!
    const end = at + capturedBytes[i]!
    if (linkType[i]! === LINKTYPE_ETHERNET && decodePlainPacket(data, at, end, packets, i)) {
      status[i] = PACKET_OK
      continue
    }
    clearHeaders(packets, i)
    packets.vlan[i] = 0
    packets.vlanTags[i] = 0
    for (let b = 6 * i; b < 6 * i + 6; b++) {
      sourceMac[b] = 0
      destinationMac[b] = 0
    }
    frame.start = at
    frame.end = end
    frame.i = i
    frame.depth = 0
    status[i] = decodeLinkLayer(frame, linkType[i]!, at)
  }
}

/** Maximum of tunnels inside each other that are opened. */
export const MAXIMUM_TUNNELS = 8

/** Whose headers key the packets inside tunnels: the tunnel's, or their own. */
const DECAPSULATIONS = ['outer', 'inner'] as const
/** One of DECAPSULATIONS. */
export type Decapsulation = (typeof DECAPSULATIONS)[number]

/** Options of `createPacketDecoder`. */
export interface PacketDecoderOptions {
  /** Default `outer`. */
  readonly decapsulate?: Decapsulation
  readonly joinFragments?: boolean
  /** Datagrams whose later fragments are expected, 4 … 2^20, about 100 bytes each. Default 4,096. */
  readonly maximumFragmentedDatagrams?: number
  /** See createFlowKeySet. */
  readonly hashSeed?: number
}

/** What a PacketDecoder has done beyond plain headers. */
export interface PacketDecoderCounters {
  /** Packets keyed by a header inside a tunnel. */
  decapsulatedPackets: number
  /** Packets with more than MAXIMUM_TUNNELS tunnels, keyed by the headers read before. */
  nestingExceededPackets: number
  /** Later fragments that got their flow. */
  joinedFragments: number
  /** Later fragments whose first one came later, never, or was forgotten. */
  unjoinedFragments: number
  /** Datagrams forgotten because the table was full. */
  evictedDatagrams: number
}

/** Decodes the headers of frames, batch by batch, with memory for fragments. */
export interface PacketDecoder {
  /** Fills `packets` from `frames`; batches must come in the order of the capture. Errors as decodePackets. */
  decode(frames: FrameBatch, packets: PacketBatch): void
  /** Counts since the decoder was made. */
  readonly counters: Readonly<PacketDecoderCounters>
}

/** Makes a decoder of link, IP and transport headers. Throws ArgumentError for an option out of range. */
export function createPacketDecoder(options: PacketDecoderOptions = {}): PacketDecoder {
  const view = options.decapsulate ?? 'outer'
  if (!DECAPSULATIONS.includes(view)) {
    throw new ArgumentError(
      `decapsulate: expected one of ${DECAPSULATIONS.join(', ')}, found ${view}`,
      'decapsulate',
    )
  }
  const isInner = view === 'inner'
  const fragments =
    options.joinFragments === true
      ? new FragmentTable(options.maximumFragmentedDatagrams, options.hashSeed)
      : null
  const inner = createPacketBatch(1)
  const innerFrame: FrameCursor = { data: inner.status, start: 0, end: 0, packets: inner, i: 0, depth: 0 }
  const counters: PacketDecoderCounters = {
    decapsulatedPackets: 0,
    nestingExceededPackets: 0,
    joinedFragments: 0,
    unjoinedFragments: 0,
    evictedDatagrams: 0,
  }

  const openAll = (data: Uint8Array, end: number, packets: PacketBatch, i: number): void => {
    let from = packets
    let k = i
    let found = false
    for (let depth = 0; looksLikeTunnel(from, k); depth++) {
      if (depth === MAXIMUM_TUNNELS) {
        counters.nestingExceededPackets++
        break
      }
      if (openTunnel(data, end, from, k, innerFrame) !== PACKET_OK) break
      from = inner
      k = 0
      if (hasPorts(inner.protocol[0]!)) {
        copyHeaders(inner, 0, packets, i)
        found = true
      }
    }
    if (found) counters.decapsulatedPackets++
  }

  return {
    counters,
    decode(frames, packets) {
      decodePackets(frames, packets)
      if (!isInner && fragments === null) return
      const { data, offset, capturedBytes } = frames
      const { status } = packets
      for (let i = 0; i < packets.count; i++) {
        const end = offset[i]! + capturedBytes[i]!
        if (status[i] === PACKET_OK) {
          const isFirst = fragments?.select(data, end, packets, i) ?? false
          if (isInner) openAll(data, end, packets, i)
          if (isFirst) fragments?.store(packets, i)
        } else if (status[i] === IP_LATER_FRAGMENT && fragments?.select(data, end, packets, i) === true) {
          if (fragments.find(packets, i)) {
            status[i] = PACKET_OK
            counters.joinedFragments++
          } else {
            counters.unjoinedFragments++
          }
        }
      }
      if (fragments !== null) counters.evictedDatagrams = fragments.evicted
    },
  }
}

function hasPorts(protocol: number): boolean {
  return protocol === PROTOCOL_TCP || protocol === PROTOCOL_UDP || protocol === PROTOCOL_SCTP
}
