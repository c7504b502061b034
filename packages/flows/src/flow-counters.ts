/**
 * FlowCounters: accounts for every packet.
 *
 * packets = packetsInFlows + heldPackets + the sum of `dropped`, and packetsInFlows = the sum of `packets` over all
 * records, exactly, once the last flow has ended.
 */
import { PACKET_STATUS_NAMES, type PacketOrderCounts, type PacketStatusName } from '@oddflow/capture'
import { ArgumentError, DEFAULT_FLOW_PROTOCOLS, FLOW_PROTOCOLS, type FlowProtocol } from '@oddflow/core'
import type { EndReason, RecordCounts } from './flow-record.js'
import type { PacketFields } from './packet-pass.js'

/**
 * Transports with flows. ICMP and ICMPv6 use type and code as ports, with the same number for request and reply (ip.ts
 * of the capture package), so all pings between two hosts are one flow.
 */

export const TCP = 6
export const UDP = 17
export const ICMP = 1
export const ICMPV6 = 58
export const SCTP = 132

const NUMBERS: Readonly<Record<FlowProtocol, readonly number[]>> = {
  tcp: [TCP],
  udp: [UDP],
  icmp: [ICMP, ICMPV6],
  sctp: [SCTP],
}

const NAMES: Readonly<Record<number, string>> = {
  [TCP]: 'tcp',
  [UDP]: 'udp',
  [ICMP]: 'icmp',
  [ICMPV6]: 'icmpv6',
  [SCTP]: 'sctp',
}

/** "tcp", "udp", "icmp", "icmpv6", "sctp"; the number of any other. */
export function protocolName(protocol: number): string {
  return NAMES[protocol] ?? String(protocol)
}

/** In the order of FLOW_PROTOCOLS, each once. Throws ArgumentError. */
export function checkFlowProtocols(
  protocols: readonly FlowProtocol[] = DEFAULT_FLOW_PROTOCOLS,
): readonly FlowProtocol[] {
  const unknown = protocols.find((name) => !FLOW_PROTOCOLS.includes(name))
  if (unknown !== undefined || protocols.length === 0) {
    throw new ArgumentError(
      `protocols: expected some of ${FLOW_PROTOCOLS.join(', ')}, found ${unknown ?? 'none'}`,
      'protocols',
    )
  }
  return FLOW_PROTOCOLS.filter((name) => protocols.includes(name))
}

/** For each protocol number, 1 where its packets make flows. */
export function flowProtocolTable(protocols: readonly FlowProtocol[]): Uint8Array {
  const table = new Uint8Array(256)
  for (const name of protocols) for (const number of NUMBERS[name]) table[number] = 1
  return table
}

/**
 * Receives the flows of a tracker: the record cutter when scoring, the collector when training. `flow` is a small number
 * below `capacity`, reused after `end`.
 */
export interface FlowSink {
  /** Bytes of its columns for one flow. */
  readonly bytesPerFlow: number
  /** Makes room for flows below `capacity`. */
  resize(capacity: number): void
  /** Reserves room for one more packet; false if the budget forbids it. */
  makeRoom(): boolean
  /**
   * The loss if this flow ended now to make room for flows or packets: 0 without a row, otherwise more with more
   * packets in its row. Only called for a sink whose outOfMemory returns.
   */
  ripeness?(flow: number, forPackets: boolean): number
  /** Called without room for another flow or packet. Throws, or returns to let another flow be ended. */
  outOfMemory(): void
  /** The packet's first five fields are filled in; the array is reused for the next packet. */
  begin(flow: number, packet: PacketFields): void
  append(flow: number, packet: PacketFields): void
  /** Reads in advance what it keeps of these flows; -1 is none. */
  warm?(flows: Int32Array, count: number): void
  end(flow: number, reason: EndReason): void
}

/**
 * The reason for a packet outside all flows: its decoding status, no time, IPv6 where the flow key is IPv4 only, a flow
 * that was not admitted (`admitsFlow`), a packet after its TCP flow closed (no data, FIN or RST), or the name of a
 * transport without flows ("protocol-47" if unnamed).
 */
export type DropReason =
  | Exclude<PacketStatusName, 'ok'>
  | 'no-timestamp'
  | 'not-ipv4'
  | 'not-admitted'
  | 'after-close'
  | `protocol-${string}`

/** Counts of packets out of time order: those of PacketOrder, and one more. */
export interface TimeCounters extends Omit<PacketOrderCounts, 'backwardPackets'> {
  /** Packets with a time before the previous packet's, later than sorting allows; they count as simultaneous. */
  timestampBackwards: number
}

/** What became of packets, flows and records, as counts. */
export interface FlowCounters extends TimeCounters, RecordCounts {
  /** Packets given to the table. */
  packets: number
  /** Packets waiting to be sorted (PacketOrder of the capture package); 0 at the end. */
  heldPackets: number
  packetsInFlows: number
  /** Packets by the reason for being in no flow; only reasons that occurred. */
  dropped: Partial<Record<DropReason, number>>
  /** Flows started. */
  flows: number
  /** Flows ended for lack of memory, though not idle: the sum of the next two. */
  evictedFlows: number
  /** Half-open flows: one packet, or TCP with only bare SYNs. */
  evictedHalfOpenFlows: number
  /** Those that were not. */
  evictedActiveFlows: number
  /** Idle flows that ended to make room; they count as timed out. */
  evictedIdleFlows: number
}

/** Names of IANA protocol numbers that turn up. */
const PROTOCOL_NAMES: Readonly<Record<number, string>> = {
  ...NAMES,
  2: 'igmp',
  4: 'ipv4',
  41: 'ipv6',
  47: 'gre',
  50: 'esp',
  51: 'ah',
  89: 'ospf',
  103: 'pim',
  112: 'vrrp',
}

function protocolDropReason(protocol: number): DropReason {
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
