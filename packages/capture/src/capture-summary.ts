/**
 * CaptureSummary: what a capture holds. Times are those of the first and last packet with a time in file order, as in
 * tshark. Flows are distinct unordered pairs of ends with protocol and IP version, of outer headers, without timeouts.
 */

import { ArgumentError, halfSipHash13 } from '@oddflow/core'
import type { CaptureDrops, CaptureEnd } from './capture-notes.js'
import { PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from './ip.js'
import { linkTypeName } from './link-layer.js'
import { type FrameBatch, PACKET_OK, PACKET_STATUS_NAMES, type PacketBatch } from './packet-batch.js'
import { PacketCheck, type PacketCheckCounts } from './packet-check.js'
import { PacketOrder, type PacketOrderCounts } from './packet-order.js'

/** The contents of a capture: packets, bytes, times, link types, flows, and packets left out by reason. */
export interface CaptureSummary {
  /** Packets counted: packets that the filter kept, if there is one. */
  readonly packets: number
  /** All packets of the capture. */
  readonly readPackets: number
  /** Of these, the ones that belong to a flow. */
  readonly keyedPackets: number
  readonly wireBytes: number
  /** null if no packet has a time. */
  readonly firstTimestampMicros: number | null
  readonly lastTimestampMicros: number | null
  /** Packets by LINKTYPE_ name. */
  readonly linkTypes: Readonly<Record<string, number>>
  readonly flows: Readonly<FlowCounts>
  /** Packets whose flow was not counted because the flow set was full; 0 means that `flows` is exact. */
  readonly flowOverflowPackets: number
  /** How far the packets came in the order of their times. */
  readonly order: Readonly<PacketOrderCounts>
  /** Copies, wrong checksums, and hop limits that end. */
  readonly check: Readonly<PacketCheckCounts>
  /** Packets that belong to no flow, by reason. */
  readonly skipped: Readonly<Record<string, number>>
  readonly truncated: boolean
  readonly error: string | null
  /** One line on an ending that is not clean. */
  readonly detail: string | null
  readonly warnings: readonly string[]
  /** Comments in the capture. */
  readonly comments: number
  /** What the recorder says it lost; null if it says nothing. */
  readonly drops: CaptureDrops
}

/** Counts the packets of a capture, batch by batch, for a CaptureSummary. */
export interface CaptureSummariser {
  /** Adds a batch and its decoded packets; with `keep`, only the packets for which it is true. */
  add(frames: FrameBatch, packets: PacketBatch, keep?: (packets: PacketBatch, i: number) => boolean): void
  finish(
    end: Pick<CaptureEnd, 'truncated' | 'detail' | 'warnings' | 'commentCount' | 'drops'> & {
      error: Error | null
    },
  ): CaptureSummary
}

/**
 * The first two parameters are those of createFlowKeySet.
 * @param dropDuplicates - whether copies of a packet are in no flow, and counted in `skipped`
 */
export function createCaptureSummariser(
  maximumFlowKeys?: number,
  hashSeed?: number,
  dropDuplicates = false,
): CaptureSummariser {
  const keys = createFlowKeySet(maximumFlowKeys, hashSeed)
  const byStatus = new Float64Array(PACKET_STATUS_NAMES.length)
  const byLinkType = new Map<number, number>()
  const order = new PacketOrder(() => {})
  const check = new PacketCheck({ dropDuplicates, hashSeed: hashSeed ?? 0 })
  let packetCount = 0
  let readPackets = 0
  let wireBytes = 0
  let first = Number.NaN
  let last = Number.NaN
  return {
    add(frames, packets, keep) {
      let runType = -1
      let run = 0
      readPackets += packets.count
      order.add(packets)
      for (let i = 0; i < packets.count; i++) {
        if (keep !== undefined && !keep(packets, i)) continue
        check.look(frames, packets, i)
        packetCount++
        wireBytes += packets.frameBytes[i]!
        const time = packets.timestampMicros[i]!
        if (!Number.isNaN(time)) {
          if (Number.isNaN(first)) first = time
          last = time
        }
        const status = packets.status[i]!
        byStatus[status]!++
        if (status === PACKET_OK) keys.add(packets, i)
        const linkType = frames.linkType[i]!
        if (linkType !== runType) {
          if (run > 0) byLinkType.set(runType, (byLinkType.get(runType) ?? 0) + run)
          runType = linkType
          run = 0
        }
        run++
      }
      if (run > 0) byLinkType.set(runType, (byLinkType.get(runType) ?? 0) + run)
    },
    finish(end) {
      order.finish()
      const skipped: Record<string, number> = {}
      PACKET_STATUS_NAMES.forEach((name, code) => {
        if (code !== PACKET_OK && byStatus[code]! > 0) skipped[name] = byStatus[code]!
      })
      const linkTypes: Record<string, number> = {}
      for (const [type, count] of byLinkType) linkTypes[linkTypeName(type)] = count
      return {
        packets: packetCount,
        readPackets,
        keyedPackets: byStatus[PACKET_OK]!,
        wireBytes,
        firstTimestampMicros: Number.isNaN(first) ? null : first,
        lastTimestampMicros: Number.isNaN(last) ? null : last,
        linkTypes,
        flows: { ...keys.counts },
        order: { ...order.counts },
        check: { ...check.counts },
        flowOverflowPackets: keys.overflow,
        skipped,
        truncated: end.truncated,
        error: end.error === null ? null : end.error.message,
        detail: end.detail,
        warnings: end.warnings,
        comments: end.commentCount,
        drops: { ...end.drops },
      }
    },
  }
}

/**
 * FlowKeySet: counts distinct flows exactly, by open addressing with a keyed hash over ten words (addresses, ports,
 * protocol, IP version; the ends in a fixed order). Beyond `maximumKeys` (100 MB by default) new keys are only counted
 * as `overflow`.
 */

/** Most different flows that a FlowKeySet counts unless the caller says otherwise. */
const DEFAULT_MAXIMUM_FLOW_KEYS = 2_097_152
const WORDS = 10

/** Numbers of different flows by transport. */
export interface FlowCounts {
  tcp: number
  udp: number
  /** ICMP over IPv4 and ICMPv6 over IPv6, by pair of addresses. */
  icmp: number
  sctp: number
  /** All other protocols, by pair of addresses. */
  other: number
}

/** Counts different flows (unordered pairs of ends with a protocol) in bounded memory. */
export interface FlowKeySet {
  readonly counts: Readonly<FlowCounts>
  /** Packets whose key was new when the set was full. */
  readonly overflow: number
  add(packets: PacketBatch, i: number): void
}

/**
 * @param hashSeed - for untrusted packets a number that their senders cannot predict, so that they cannot choose keys
 * that all fall on one slot. The counts do not depend on it.
 */
export function createFlowKeySet(maximumKeys: number = DEFAULT_MAXIMUM_FLOW_KEYS, hashSeed = 0): FlowKeySet {
  if (!Number.isSafeInteger(maximumKeys) || maximumKeys < 1 || maximumKeys > 2 ** 26) {
    throw new ArgumentError(
      `maximumKeys: expected a whole number from 1 to 2^26, found ${maximumKeys}`,
      'maximumKeys',
    )
  }
  const key0 = hashSeed | 0
  const key1 = Math.floor(hashSeed / 4294967296) | 0
  const hash = (words: Uint32Array, at: number): number => halfSipHash13(words, at, WORDS, key0, key1)
  const counts: FlowCounts = { tcp: 0, udp: 0, icmp: 0, sctp: 0, other: 0 }
  let size = 0
  let overflow = 0
  let keys = new Uint32Array(WORDS * 512)
  let table = new Uint32Array(1024) // key number + 1
  const probe = new Uint32Array(WORDS)

  const grow = (): void => {
    const larger = new Uint32Array(2 * keys.length)
    larger.set(keys)
    keys = larger
    table = new Uint32Array(2 * table.length)
    const mask = table.length - 1
    for (let key = 0; key < size; key++) {
      let slot = hash(keys, WORDS * key) & mask
      while (table[slot] !== 0) slot = (slot + 1) & mask
      table[slot] = key + 1
    }
  }

  return {
    counts,
    get overflow() {
      return overflow
    },
    add(packets, i) {
      fillKey(probe, packets, i)
      const mask = table.length - 1
      let slot = hash(probe, 0) & mask
      for (let held = table[slot]!; held !== 0; held = table[slot]!) {
        if (equal(keys, WORDS * (held - 1), probe)) return
        slot = (slot + 1) & mask
      }
      if (size >= maximumKeys) {
        overflow++
        return
      }
      keys.set(probe, WORDS * size)
      table[slot] = ++size
      countProtocol(counts, packets.protocol[i]!)
      if (2 * size >= table.length) grow()
    },
  }
}

function countProtocol(counts: FlowCounts, protocol: number): void {
  if (protocol === PROTOCOL_TCP) counts.tcp++
  else if (protocol === PROTOCOL_UDP) counts.udp++
  else if (protocol === PROTOCOL_ICMP || protocol === PROTOCOL_ICMPV6) counts.icmp++
  else if (protocol === PROTOCOL_SCTP) counts.sctp++
  else counts.other++
}

function fillKey(key: Uint32Array, packets: PacketBatch, i: number): void {
  const { sourceAddress, destinationAddress } = packets
  const protocol = packets.protocol[i]!
  const isIcmp = protocol === PROTOCOL_ICMP || protocol === PROTOCOL_ICMPV6
  const sourcePort = isIcmp ? 0 : packets.sourcePort[i]!
  const destinationPort = isIcmp ? 0 : packets.destinationPort[i]!
  let order = 0
  for (let k = 0; k < 4 && order === 0; k++)
    order = sourceAddress[4 * i + k]! - destinationAddress[4 * i + k]!
  if (order === 0) order = sourcePort - destinationPort
  const low = order <= 0 ? sourceAddress : destinationAddress
  const high = order <= 0 ? destinationAddress : sourceAddress
  for (let k = 0; k < 4; k++) {
    key[k] = low[4 * i + k]!
    key[4 + k] = high[4 * i + k]!
  }
  key[8] = order <= 0 ? (sourcePort << 16) | destinationPort : (destinationPort << 16) | sourcePort
  key[9] = (packets.ipVersion[i]! << 8) | protocol
}

function equal(keys: Uint32Array, at: number, probe: Uint32Array): boolean {
  for (let k = 0; k < WORDS; k++) if (keys[at + k] !== probe[k]) return false
  return true
}
