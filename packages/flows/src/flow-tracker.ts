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
 * When there is no room, a flow is ended for it: flow-eviction.ts says which.
 *
 * Left out: TCP state. A connection on the same ports within the timeout continues the flow, FIN or not.
 */
import { PACKET_OK, type PacketBatch } from '@oddflow/capture'
import { DEFAULT_FLOW_PROTOCOLS, type FlowProtocol, type SizeMeasure } from '@oddflow/core'
import { ESTABLISHED, HALF_OPEN } from './activity-log.js'
import { PacketCounts } from './flow-counters.js'
import { FlowEviction, NO_FLOW } from './flow-eviction.js'
import { KIND, LAST_MICROS, LINE_DOUBLES, LINE_WORDS, SWAPPED } from './flow-lines.js'
import { flowProtocolTable } from './flow-protocols.js'
import type { EndReason } from './flow-record.js'
import type { FlowSink } from './flow-sink.js'
import { FlowTable, flowTableBytes, PREPARED_PACKETS } from './flow-table.js'
import type { MemoryBudget } from './memory-budget.js'
import {
  createPacketFields,
  IP_BYTES,
  META,
  NUMBER,
  type PacketFields,
  packetMeta,
  SIZE,
  TIME,
} from './packet-fields.js'
import type { PacketPass } from './packet-pass.js'
import { HEAP } from './space.js'

export interface FlowTrackerOptions {
  readonly idleTimeoutMicros: number
  readonly sizeMeasure: SizeMeasure
  readonly hashSeed: number
  /** A flow for each direction, IPv4 alone. Default false. */
  readonly directional?: boolean
  /** Default TCP and UDP. */
  readonly protocols?: readonly FlowProtocol[]
  /** Flows that there is room for at first. */
  readonly initialFlows?: number
  /** Asked for a packet that would begin a flow of no open key; false: it is in no flow. */
  readonly admitsFlow?: ((batch: PacketBatch, i: number) => boolean) | undefined
  /** Takes runs of ordinary packets; the columns of table and sink are in its space. */
  readonly pass?: PacketPass | null
}

const SYN = 2
const SYN_ACK = 18
const INITIAL_FLOWS = 64

/** Bytes of tracker, table and sink for so many flows. */
export function trackerBytes(flows: number, bytesPerFlow: number): number {
  return flowTableBytes(flows) + flows * bytesPerFlow
}

export class FlowTracker {
  readonly counts = new PacketCounts()
  readonly table: FlowTable
  readonly #options: FlowTrackerOptions
  readonly #budget: MemoryBudget
  readonly #sink: FlowSink
  readonly #eviction: FlowEviction
  readonly #packet: PacketFields = createPacketFields()
  /** Made once: each new flow of a full table asks for it. */
  readonly #bytesOf = (flows: number): number => trackerBytes(flows, this.#sink.bytesPerFlow)
  /** One number: the latest time in the capture, of any packet. Tells at the end which flows had been idle. */
  readonly clockMicros: Float64Array
  /** A byte for each protocol: whether it makes flows. */
  readonly makesFlows: Uint8Array
  readonly #pass: PacketPass | null
  #captureIndex = 0

  constructor(options: FlowTrackerOptions, budget: MemoryBudget, sink: FlowSink) {
    this.#options = options
    this.#budget = budget
    this.#sink = sink
    this.#pass = options.pass ?? null
    const space = this.#pass?.space ?? HEAP
    this.clockMicros = space.float64(1).fill(Number.NEGATIVE_INFINITY)
    this.makesFlows = space.uint8(256)
    this.makesFlows.set(flowProtocolTable(options.protocols ?? DEFAULT_FLOW_PROTOCOLS))
    const flows = options.initialFlows ?? INITIAL_FLOWS
    this.table = new FlowTable(flows, options.hashSeed, options.directional, space)
    this.#eviction = new FlowEviction(
      this.table,
      sink,
      this.counts,
      (flow) => this.#isIdle(flow),
      (flow, reason) => this.#remove(flow, reason),
    )
    sink.resize(flows)
    budget.usedBytes += trackerBytes(flows, sink.bytesPerFlow)
  }

  add(batch: PacketBatch): void {
    if (this.#pass === null) this.#addEach(batch, 0, batch.count)
    else this.#addRuns(batch, this.#pass)
  }

  /** Gives runs of ordinary packets to the pass, and takes what stops it. */
  #addRuns(batch: PacketBatch, pass: PacketPass): void {
    const { counts } = this
    const sizes = sizesOf(batch, this.#options.sizeMeasure)
    const most = pass.loads(batch)
    for (let start = 0; start < batch.count; start += most) {
      const count = Math.min(most, batch.count - start)
      pass.load(batch, sizes, start, count)
      // Where nothing is ordinary (a scan), more and more packets are taken at a time.
      let together = 1
      for (let at = 0; at < count; ) {
        const reached = pass.run(this.table, at, count)
        counts.packets += reached - at
        counts.packetsInFlows += reached - at
        if (reached === count) break
        together = reached === at ? Math.min(PREPARED_PACKETS, 2 * together) : 1
        at = Math.min(count, reached + together)
        this.#addEach(batch, start + reached, start + at)
      }
    }
  }

  #addEach(batch: PacketBatch, from: number, to: number): void {
    const { counts, table } = this
    const { activity, lines } = table
    const sink = this.#sink
    const packet = this.#packet
    const clock = this.clockMicros
    const idle = this.#options.idleTimeoutMicros
    const directional = this.#options.directional === true
    const makesFlows = this.makesFlows
    const { admitsFlow } = this.#options
    const sizes = sizesOf(batch, this.#options.sizeMeasure)
    const { status, protocol, timestampMicros, ipVersion, ipBytes, tcpFlags, hopLimit } = batch
    for (let i = from; i < to; i++) {
      const prepared = (i - from) % PREPARED_PACKETS
      if (prepared === 0) {
        const count = Math.min(PREPARED_PACKETS, to - i)
        table.prepare(batch, i, count)
        sink.warm?.(table.preparedFlow, count)
      }
      counts.packets++
      let time = timestampMicros[i]
      if (time > clock[0] && time < Number.POSITIVE_INFINITY) clock[0] = time
      if (status[i] !== PACKET_OK) {
        counts.byStatus[status[i]]++
        continue
      }
      if (makesFlows[protocol[i]] === 0) {
        counts.byProtocol[protocol[i]]++
        continue
      }
      if (directional && ipVersion[i] !== 4) {
        counts.notIpv4++
        continue
      }
      // NaN and infinities alike.
      if (time - time !== 0) {
        counts.noTimestamp++
        continue
      }
      let flow = table.findPrepared(batch, i, prepared)
      if (flow < 0 && admitsFlow?.(batch, i) === false) {
        counts.notAdmitted++
        continue
      }
      counts.packetsInFlows++
      packet[NUMBER] = batch.firstFrame + i
      packet[TIME] = time
      packet[SIZE] = sizes[i]
      packet[IP_BYTES] = ipBytes[i]
      if (flow < 0) {
        if (table.full) this.#growOrEvict()
        flow = table.insert()
        this.#begin(flow, batch, i)
        continue
      }
      const last = lines.times[LINE_DOUBLES * flow + LAST_MICROS]
      const words = lines.words
      if (time - last > idle) {
        sink.end(flow, 'idle-timeout')
        activity.remove(flow)
        activity.add(flow)
        this.#begin(flow, batch, i)
        continue
      }
      // Bare SYNs keep a TCP flow half-open; anything else after the first packet makes it established.
      const flags = tcpFlags[i]
      if ((flags & SYN_ACK) === SYN && words[LINE_WORDS * flow + KIND] === HALF_OPEN)
        activity.touch(flow, HALF_OPEN)
      else activity.touch(flow, ESTABLISHED)
      if (time < last) {
        counts.timestampBackwards++
        // Directional flows are sorted when they are whole.
        if (!directional) time = last
        packet[TIME] = time
      }
      packet[META] = packetMeta(
        flags,
        hopLimit[i],
        table.lastSwapped !== (words[LINE_WORDS * flow + SWAPPED] === 1),
      )
      while (!sink.makeRoom()) this.#eviction.evict(flow)
      lines.times[LINE_DOUBLES * flow + LAST_MICROS] = time
      sink.append(flow, packet)
    }
  }

  /** Ends the flows that are idle at `nowMicros`. */
  expire(nowMicros: number): void {
    if (nowMicros > this.clockMicros[0]) this.clockMicros[0] = nowMicros
    for (let kind = HALF_OPEN; kind <= ESTABLISHED; kind++) {
      for (;;) {
        const flow = this.table.activity.oldest(kind)
        if (flow < 0 || !(nowMicros - this.#lastMicros(flow) > this.#options.idleTimeoutMicros)) break
        this.#remove(flow, 'idle-timeout')
      }
    }
  }

  /** Ends all flows, the longest silent first; what comes next is another capture. */
  endCapture(): void {
    this.endOldest(Number.POSITIVE_INFINITY)
    this.clockMicros[0] = Number.NEGATIVE_INFINITY
    this.#captureIndex++
  }

  /** Ends at most `limit` flows, the longest silent first, as endCapture will; true if some are left. */
  endOldest(limit: number): boolean {
    const { activity } = this.table
    for (let ended = 0; ; ended++) {
      const halfOpen = activity.oldest(HALF_OPEN)
      const established = activity.oldest(ESTABLISHED)
      if (halfOpen < 0 && established < 0) return false
      if (ended >= limit) return true
      const flow =
        established < 0 || (halfOpen >= 0 && this.#lastMicros(halfOpen) <= this.#lastMicros(established))
          ? halfOpen
          : established
      this.#remove(flow, this.#isIdle(flow) ? 'idle-timeout' : 'end-of-capture')
    }
  }

  #begin(flow: number, batch: PacketBatch, i: number): void {
    const { lines, identity, lastSwapped } = this.table
    const packet = this.#packet
    identity.swapped[flow] = lastSwapped ? 1 : 0
    identity.captureIndex[flow] = this.#captureIndex
    identity.firstPacketNumber[flow] = packet[NUMBER]
    const at = 12 * flow
    for (let b = 0; b < 6; b++) {
      identity.macs[at + b] = batch.sourceMac[6 * i + b]
      identity.macs[at + 6 + b] = batch.destinationMac[6 * i + b]
    }
    packet[META] = packetMeta(batch.tcpFlags[i], batch.hopLimit[i], false)
    lines.times[LINE_DOUBLES * flow + LAST_MICROS] = packet[TIME]
    lines.words[LINE_WORDS * flow + SWAPPED] = lastSwapped ? 1 : 0
    while (!this.#sink.makeRoom()) this.#eviction.evict(flow)
    this.counts.flows++
    this.#sink.begin(flow, packet)
  }

  #lastMicros(flow: number): number {
    return this.table.lines.times[LINE_DOUBLES * flow + LAST_MICROS]
  }

  #isIdle(flow: number): boolean {
    return this.clockMicros[0] - this.#lastMicros(flow) > this.#options.idleTimeoutMicros
  }

  #remove(flow: number, reason: EndReason): void {
    this.#sink.end(flow, reason)
    this.table.remove(flow)
  }

  #growOrEvict(): void {
    const capacity = this.#budget.reserveMore(this.table.capacity, this.#bytesOf)
    if (capacity === this.table.capacity) {
      this.#eviction.evict(NO_FLOW)
      return
    }
    this.table.grow(capacity)
    this.#sink.resize(capacity)
  }
}

function sizesOf(batch: PacketBatch, measure: SizeMeasure): Uint32Array {
  if (measure === 'ip') return batch.ipBytes
  return measure === 'captured' ? batch.capturedBytes : batch.frameBytes
}
