/**
 * CollectedFlows: whole flows with all their packets, as plain columns, in order of their first packets.
 *
 * Made by a FlowCollector while the contract is not yet known: duration and length are learned from them, and
 * then they are cut into records. Packets of flow f are `packetOffset[f]` up to `packetOffset[f + 1]`.
 * Directional flows come in the order of the authors' code instead: by the first packet of their key, the flows
 * of one key one behind the other.
 */
import type { FlowKeyRule, FlowProtocol, SizeMeasure } from '@oddflow/core'
import type { FlowCounters, TimeCounters } from './flow-counters.js'
import type { FlowIdentity } from './flow-identity.js'

export interface CollectedFlows {
  readonly count: number
  readonly identity: FlowIdentity
  /** Index in END_REASONS. */
  readonly endReason: Uint8Array
  /** count + 1 of them. */
  readonly packetOffset: Float64Array
  /** Microseconds of the flow clock (directional flows: the capture's own); they never decrease within a flow. */
  readonly packetMicros: Float64Array
  /** Flow clock minus the capture's time of each packet; null where that is 0 throughout. */
  readonly packetShiftMicros: Float64Array | null
  /** By sizeMeasure. */
  readonly packetBytes: Uint32Array
  /** Lengths in the IP headers. */
  readonly packetIpBytes: Uint32Array
  /** TCP flags in bits 0–7, TTL or hop limit in bits 8–15, bit 16 where the responder sent the packet. */
  readonly packetMeta: Uint32Array
  /** Number of the packet in its capture. */
  readonly packetNumber: Float64Array
  readonly sizeMeasure: SizeMeasure
  readonly flowKey: FlowKeyRule
  /** Transports that made flows, in the order of FLOW_PROTOCOLS. */
  readonly protocols: readonly FlowProtocol[]
  readonly idleTimeoutMicros: number
  /** TCP flows ended when they closed. */
  readonly endOnClose: boolean
  /** The VLAN was part of the key. */
  readonly vlanKey: boolean
  /** What became of the packets. */
  readonly counters: Pick<
    FlowCounters,
    'packets' | 'packetsInFlows' | 'dropped' | 'flows' | keyof TimeCounters
  >
}
