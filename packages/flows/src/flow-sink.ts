/**
 * FlowSink: what hears of a tracker's flows: the cutter of records when scoring, the collector when training.
 */
import type { EndReason } from './flow-record.js'
import type { PacketFields } from './packet-fields.js'

/** Receives the flows of a tracker. `flow` is a small number below `capacity`, reused after `end`. */
export interface FlowSink {
  /** Bytes of its columns for one flow. */
  readonly bytesPerFlow: number
  /** Makes room for flows below `capacity`. */
  resize(capacity: number): void
  /** Makes sure that one packet more can be kept; false if the budget forbids. */
  makeRoom(): boolean
  /**
   * How little is lost when this flow ends now to make room, for flows or for packets: 0 where it has no row, else
   * more the more packets its row has. Only asked of a sink whose outOfMemory returns.
   */
  ripeness?(flow: number, forPackets: boolean): number
  /** Called when there is no room for another flow or packet; throws, or lets another flow be ended. */
  outOfMemory(): void
  /** The packet's first five fields are filled in; the array is used again for the next packet. */
  begin(flow: number, packet: PacketFields): void
  append(flow: number, packet: PacketFields): void
  /** Reads in advance what it keeps of these flows; -1 is none. */
  warm?(flows: Int32Array, count: number): void
  end(flow: number, reason: EndReason): void
}
