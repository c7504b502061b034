/**
 * FlowEviction: which flow ends when there is no room for another, or for another packet.
 *
 * A closed one that was given out already, if room for a flow is wanted: it loses nothing but its key. Else an idle
 * one, if there is one, else one that is closing. Else, while more than a quarter of
 * the open flows are half-open (one packet so far, or TCP with nothing but bare SYNs), the least recently active
 * of those: a flood ends its own flows. Else, of the sixteen least recently active others the one whose row has
 * most packets: it loses least, it gives most room, and the flows that have just begun live to have a row. (To
 * end half-open ones whatever their share starves them once the others fill the table: each new flow ends the
 * one before it, which never sees its second packet.)
 */
import { CLOSED, CLOSING, ESTABLISHED, HALF_OPEN } from './activity-log.js'
import type { PacketCounts } from './flow-counters.js'
import type { EndReason } from './flow-record.js'
import type { FlowSink } from './flow-sink.js'
import type { FlowTable } from './flow-table.js'

/** What `evict` is given where room is wanted for a new flow. */
export const NO_FLOW = -1
/** Half-open flows may hold one in so many of the open ones before they are ended for others. */
const HALF_OPEN_SHARE = 4
/** Least recently active flows that are compared. */
const COMPARED_FLOWS = 16

export class FlowEviction {
  readonly #table: FlowTable
  readonly #sink: FlowSink
  readonly #counts: PacketCounts
  readonly #isIdle: (flow: number) => boolean
  readonly #remove: (flow: number, reason: EndReason) => void

  constructor(
    table: FlowTable,
    sink: FlowSink,
    counts: PacketCounts,
    isIdle: (flow: number) => boolean,
    remove: (flow: number, reason: EndReason) => void,
  ) {
    this.#table = table
    this.#sink = sink
    this.#counts = counts
    this.#isIdle = isIdle
    this.#remove = remove
  }

  /** Ends a flow other than `current`, for a packet of that or, where it is NO_FLOW, for a new flow. */
  evict(current: number): void {
    const counts = this.#counts
    const table = this.#table
    const closed = current === NO_FLOW ? table.activity.oldest(CLOSED) : NO_FLOW
    if (closed >= 0) {
      table.remove(closed)
      return
    }
    this.#sink.outOfMemory()
    const halfOpen = this.#oldestBut(HALF_OPEN, current)
    const established = this.#oldestBut(ESTABLISHED, current)
    const closing = this.#oldestBut(CLOSING, current)
    const isShareUsed = HALF_OPEN_SHARE * table.activity.count(HALF_OPEN) > table.count
    if (halfOpen >= 0 && this.#isIdle(halfOpen)) this.#evictIdle(halfOpen)
    else if (established >= 0 && this.#isIdle(established)) this.#evictIdle(established)
    else if (closing >= 0) this.#remove(closing, 'closed')
    else if (halfOpen >= 0 && (isShareUsed || established < 0)) {
      counts.evictedHalfOpenFlows++
      this.#remove(halfOpen, 'evicted')
    } else {
      counts.evictedActiveFlows++
      this.#remove(this.#ripestFrom(established, current), 'evicted')
    }
  }

  /** Of the COMPARED_FLOWS from `flow` on, the first of those whose end loses least. */
  #ripestFrom(flow: number, current: number): number {
    let ripest = flow
    let most = -1
    for (let k = 0; k < COMPARED_FLOWS && flow >= 0; k++) {
      const ripeness = flow === current ? -1 : (this.#sink.ripeness?.(flow, current !== NO_FLOW) ?? 0)
      if (ripeness > most) {
        ripest = flow
        most = ripeness
      }
      flow = this.#table.activity.newer(flow)
    }
    return ripest
  }

  #evictIdle(flow: number): void {
    this.#counts.evictedIdleFlows++
    this.#remove(flow, 'idle-timeout')
  }

  #oldestBut(kind: number, current: number): number {
    const { activity } = this.#table
    const flow = activity.oldest(kind)
    return flow >= 0 && flow === current ? activity.newer(flow) : flow
  }
}
