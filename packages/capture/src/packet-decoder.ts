/**
 * createPacketDecoder: decodePackets with a view (outer or inner) and with fragments joined to their flow.
 *
 * - `outer` (the default): the first IP header is the packet's, tunnels are flows of their own.
 * - `inner`: tunnels are opened (tunnels.ts), at most MAXIMUM_TUNNELS within each other, and the innermost
 *   header that has ports (TCP, UDP, SCTP) is the packet's. What carries none (ICMP in GTP-U, OSPF in GRE, a
 *   damaged inner header, an inner fragment) stays with the tunnel, so no packet is lost by looking inside.
 *   Frame length, time and MAC addresses are the frame's in either view.
 * - `joinFragments`: a later fragment has the key of its datagram's first fragment (fragment-table.ts) when
 *   that came before it; otherwise it stays `ip-later-fragment`, counted. In the inner view the fragments of a
 *   tunnel's packet follow its inner key; fragments within a tunnel are not joined.
 *
 * The default view costs what decodePackets costs; nothing is allocated per packet in any.
 */
import { ArgumentError } from '@oddflow/core'
import { decodePackets } from './decode-packets.js'
import { createFragmentTable } from './fragment-table.js'
import type { FrameBatch } from './frame-batch.js'
import { createPacketBatch, type PacketBatch } from './packet-batch.js'
import { PACKET_OK } from './packet-status.js'
import { IP_LATER_FRAGMENT } from './status-codes.js'
import { PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from './transport.js'
import { copyHeaders, looksLikeTunnel, openTunnel } from './tunnels.js'

/** Most tunnels within one another that are opened. */
export const MAXIMUM_TUNNELS = 8

export const DECAPSULATIONS = ['outer', 'inner'] as const
export type Decapsulation = (typeof DECAPSULATIONS)[number]

export interface PacketDecoderOptions {
  /** `outer` where it is left out. */
  readonly decapsulate?: Decapsulation
  readonly joinFragments?: boolean
  /** Datagrams whose later fragments are waited for, 4 … 2^20; 4,096 where it is left out (about 100 bytes each). */
  readonly maximumFragmentedDatagrams?: number
  /** See createFlowKeySet. */
  readonly hashSeed?: number
}

export interface PacketDecoderCounters {
  /** Packets keyed by a header within a tunnel. */
  decapsulatedPackets: number
  /** Packets with more than MAXIMUM_TUNNELS tunnels; keyed by what was read before the bound. */
  nestingExceededPackets: number
  /** Later fragments that were given their flow. */
  joinedFragments: number
  /** Later fragments that came before their first one, or whose first one was never seen or forgotten. */
  unjoinedFragments: number
  /** Datagrams forgotten because the table was full. */
  evictedDatagrams: number
}

export interface PacketDecoder {
  /** Fills `packets` from `frames`; batches must come in the order of the capture. Errors as decodePackets. */
  decode(frames: FrameBatch, packets: PacketBatch): void
  /** Counts since the decoder was made. */
  readonly counters: Readonly<PacketDecoderCounters>
}

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
      ? createFragmentTable(options.maximumFragmentedDatagrams, options.hashSeed)
      : null
  const inner = createPacketBatch(1)
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
      if (openTunnel(data, end, from, k, inner) !== PACKET_OK) break
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
