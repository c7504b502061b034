/**
 * FlowTracker: which packets belong together, and when a flow is over.
 *
 * The one place where flows are made, for training and for scoring, for files and for live traffic. A sink
 * hears of each flow's packets in order: begin, append, …, end.
 *
 * A flow is the packets of one key, up to a gap longer than the idle timeout. Whether there is such a gap is
 * seen from the flow's own packets alone: looking for idle flows (`expire`), batch sizes and other traffic
 * change nothing in what a flow holds. Time runs within a flow and never backwards: a packet stamped earlier
 * than the one before it in its flow counts as simultaneous with it, is counted, and ends nothing.
 *
 * Left out: TCP state. A connection on the same ports within the timeout continues the flow, FIN or not.
 */
import { PACKET_OK, type PacketBatch } from '@oddflow/capture'
import type { SizeMeasure } from '@oddflow/core'
import { PacketCounts } from './flow-counters.js'
import { grown } from './flow-identity.js'
import type { EndReason } from './flow-record.js'
import { FlowTable, flowTableBytes } from './flow-table.js'
import type { MemoryBudget } from './memory-budget.js'

/** Receives the flows of a tracker. `flow` is a small number below `capacity`, reused after `end`. */
export interface FlowSink {
  /** Bytes of its columns for one flow. */
  readonly bytesPerFlow: number
  /** Makes room for flows below `capacity`. */
  resize(capacity: number): void
  /** Makes sure that one packet more can be kept; false if the budget forbids. */
  makeRoom(): boolean
  /** Called when there is no room for another flow or packet; throws, or lets the oldest flow be ended. */
  outOfMemory(): void
  begin(flow: number, packetNumber: number, timeMicros: number, sizeBytes: number): void
  append(flow: number, packetNumber: number, timeMicros: number, sizeBytes: number): void
  end(flow: number, reason: EndReason): void
}

export interface FlowTrackerOptions {
  readonly idleTimeoutMicros: number
  readonly sizeMeasure: SizeMeasure
  readonly hashSeed: number
}

const TCP = 6
const UDP = 17
const INITIAL_FLOWS = 64

export class FlowTracker {
  readonly counts = new PacketCounts()
  readonly table: FlowTable
  readonly #options: FlowTrackerOptions
  readonly #budget: MemoryBudget
  readonly #sink: FlowSink
  /** Time of each flow's last packet. */
  #lastMicros: Float64Array
  /** Latest time in the capture, of any packet: tells at the end which flows had been idle. */
  #clockMicros = Number.NEGATIVE_INFINITY
  #captureIndex = 0

  constructor(options: FlowTrackerOptions, budget: MemoryBudget, sink: FlowSink) {
    this.#options = options
    this.#budget = budget
    this.#sink = sink
    this.table = new FlowTable(INITIAL_FLOWS, options.hashSeed)
    this.#lastMicros = new Float64Array(INITIAL_FLOWS)
    sink.resize(INITIAL_FLOWS)
    budget.usedBytes += this.#bytesOf(INITIAL_FLOWS)
  }

  add(batch: PacketBatch): void {
    const { counts, table } = this
    const sink = this.#sink
    const idle = this.#options.idleTimeoutMicros
    const sizes = this.#options.sizeMeasure === 'ip' ? batch.ipBytes : batch.frameBytes
    const { status, protocol, timestampMicros } = batch
    for (let i = 0; i < batch.count; i++) {
      counts.packets++
      let time = timestampMicros[i]
      if (time > this.#clockMicros && time < Number.POSITIVE_INFINITY) this.#clockMicros = time
      if (status[i] !== PACKET_OK) {
        counts.byStatus[status[i]]++
        continue
      }
      if (protocol[i] !== TCP && protocol[i] !== UDP) {
        counts.byProtocol[protocol[i]]++
        continue
      }
      // NaN and infinities alike.
      if (time - time !== 0) {
        counts.noTimestamp++
        continue
      }
      counts.packetsInFlows++
      let flow = table.find(batch, i)
      if (flow < 0) {
        if (table.full) this.#growOrEvict()
        flow = table.insert()
        this.#begin(flow, batch, i, time, sizes[i])
        continue
      }
      table.touch(flow)
      const last = this.#lastMicros[flow]
      if (time - last > idle) {
        sink.end(flow, 'idle-timeout')
        this.#begin(flow, batch, i, time, sizes[i])
        continue
      }
      if (time < last) {
        counts.timestampBackwards++
        time = last
      }
      while (!sink.makeRoom()) this.#evict()
      this.#lastMicros[flow] = time
      sink.append(flow, batch.firstFrame + i, time, sizes[i])
    }
  }

  /** Ends the flows that are idle at `nowMicros`, the longest silent first. */
  expire(nowMicros: number): void {
    if (nowMicros > this.#clockMicros) this.#clockMicros = nowMicros
    for (;;) {
      const flow = this.table.oldest
      if (flow < 0 || !(nowMicros - this.#lastMicros[flow] > this.#options.idleTimeoutMicros)) return
      this.#remove(flow, 'idle-timeout')
    }
  }

  /** Ends all flows, the longest silent first; what comes next is another capture. */
  endCapture(): void {
    for (let flow = this.table.oldest; flow >= 0; flow = this.table.oldest) {
      this.#remove(flow, this.#isIdle(flow) ? 'idle-timeout' : 'end-of-capture')
    }
    this.#clockMicros = Number.NEGATIVE_INFINITY
    this.#captureIndex++
  }

  #begin(flow: number, batch: PacketBatch, i: number, time: number, size: number): void {
    const { identity, lastSwapped } = this.table
    identity.swapped[flow] = lastSwapped ? 1 : 0
    identity.captureIndex[flow] = this.#captureIndex
    identity.firstPacketNumber[flow] = batch.firstFrame + i
    const at = 12 * flow
    for (let b = 0; b < 6; b++) {
      identity.macs[at + b] = batch.sourceMac[6 * i + b]
      identity.macs[at + 6 + b] = batch.destinationMac[6 * i + b]
    }
    this.#lastMicros[flow] = time
    while (!this.#sink.makeRoom()) this.#evict()
    this.counts.flows++
    this.#sink.begin(flow, batch.firstFrame + i, time, size)
  }

  #isIdle(flow: number): boolean {
    return this.#clockMicros - this.#lastMicros[flow] > this.#options.idleTimeoutMicros
  }

  #remove(flow: number, reason: EndReason): void {
    this.#sink.end(flow, reason)
    this.table.remove(flow)
  }

  /** Ends the least recently active flow; the current one is the most recent. */
  #evict(): void {
    this.#sink.outOfMemory()
    const flow = this.table.oldest
    const idle = this.#isIdle(flow)
    if (!idle) this.counts.evictedFlows++
    this.#remove(flow, idle ? 'idle-timeout' : 'evicted')
  }

  #growOrEvict(): void {
    const capacity = this.#budget.reserveMore(this.table.capacity, (flows) => this.#bytesOf(flows))
    if (capacity === this.table.capacity) {
      this.#evict()
      return
    }
    this.table.grow(capacity)
    this.#lastMicros = grown(this.#lastMicros, new Float64Array(capacity))
    this.#sink.resize(capacity)
  }

  #bytesOf(flows: number): number {
    return flowTableBytes(flows) + flows * (8 + this.#sink.bytesPerFlow)
  }
}
