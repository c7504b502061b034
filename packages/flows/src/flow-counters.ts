/**
 * FlowCounters: where every packet went.
 *
 * packets = packetsInFlows + heldPackets + the sum of `dropped`, and packetsInFlows = the sum of `packets` over all
 * records, exactly, once the last flow has ended.
 */
import { PACKET_STATUS_NAMES, type PacketOrderCounts, type PacketStatusName } from '@oddflow/capture'

/**
 * A packet's status, no time, IPv6 under a contract whose flow key is of IPv4 alone, a flow that was not let in
 * (`admitsFlow`), one without data that came after its TCP flow closed, or a transport that makes no flows by name ("protocol-47" without one).
 */
export type DropReason =
  | Exclude<PacketStatusName, 'ok'>
  | 'no-timestamp'
  | 'not-ipv4'
  | 'not-admitted'
  | 'after-close'
  | `protocol-${string}`

/** What became of packets that did not come in the order of their times: those of PacketOrder, and one more. */
export interface TimeCounters extends Omit<PacketOrderCounts, 'backwardPackets'> {
  /** Packets with a time before that of the packet before them, beyond what was sorted; they count as simultaneous. */
  timestampBackwards: number
}

export interface FlowCounters extends TimeCounters {
  /** Packets given to the table. */
  packets: number
  /** Those that wait for their turn (PacketOrder of the capture package); 0 at the end. */
  heldPackets: number
  packetsInFlows: number
  /** Packets by the reason that they are in no flow; only reasons that occurred. */
  dropped: Partial<Record<DropReason, number>>
  /** Flows begun. */
  flows: number
  /** Flows that had to end for lack of memory, though they were not idle: the sum of the next two. */
  evictedFlows: number
  /** Those that were half-open: one packet, or TCP with nothing but bare SYNs. */
  evictedHalfOpenFlows: number
  /** Those that were not. */
  evictedActiveFlows: number
  /** Idle flows that ended to make room; they count as timed out. */
  evictedIdleFlows: number
  /** Records of all kinds. */
  records: number
  /** Records with a row. */
  rows: number
  /** Records without one, by reason; records = rows + these four. */
  onePacketFlows: number
  shortRecords: number
  remainders: number
  /** Last pieces of cut flows, under idle-gap rules. */
  lastPieces: number
  /** Packets in those remainders. */
  remainderPackets: number
}

/** Names of IANA protocol numbers that turn up. */
const PROTOCOL_NAMES: Readonly<Record<number, string>> = {
  1: 'icmp',
  2: 'igmp',
  4: 'ipv4',
  6: 'tcp',
  17: 'udp',
  41: 'ipv6',
  47: 'gre',
  50: 'esp',
  51: 'ah',
  58: 'icmpv6',
  89: 'ospf',
  103: 'pim',
  112: 'vrrp',
  132: 'sctp',
}

export function protocolDropReason(protocol: number): DropReason {
  return `protocol-${PROTOCOL_NAMES[protocol] ?? protocol}`
}

/** What the tracker counts per packet. */
export class PacketCounts {
  packets = 0
  packetsInFlows = 0
  noTimestamp = 0
  timestampBackwards = 0
  flows = 0
  evictedIdleFlows = 0
  evictedHalfOpenFlows = 0
  evictedActiveFlows = 0
  notIpv4 = 0
  notAdmitted = 0
  afterClose = 0
  readonly byStatus = new Float64Array(256)
  readonly byProtocol = new Float64Array(256)

  dropped(): Partial<Record<DropReason, number>> {
    const dropped: Partial<Record<DropReason, number>> = {}
    for (const [code, name] of PACKET_STATUS_NAMES.entries()) {
      if (name !== 'ok' && this.byStatus[code] > 0) dropped[name] = this.byStatus[code]
    }
    if (this.noTimestamp > 0) dropped['no-timestamp'] = this.noTimestamp
    if (this.notIpv4 > 0) dropped['not-ipv4'] = this.notIpv4
    if (this.notAdmitted > 0) dropped['not-admitted'] = this.notAdmitted
    if (this.afterClose > 0) dropped['after-close'] = this.afterClose
    for (let protocol = 0; protocol < 256; protocol++) {
      if (this.byProtocol[protocol] > 0) dropped[protocolDropReason(protocol)] = this.byProtocol[protocol]
    }
    return dropped
  }
}
