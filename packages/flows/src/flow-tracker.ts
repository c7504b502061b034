/**
 * FlowTracker: assigns packets to flows and decides when a flow ends.
 *
 * All flows are made here, for training and scoring, for files and live traffic. A sink receives each flow's packets in
 * order: begin, append, …, end.
 *
 * A flow is the packets of one key up to a gap longer than the idle timeout. Only the flow's own packets decide about
 * gaps: looking for idle flows (`expire`), batch sizes and other traffic do not change a flow. Packets come in the
 * order of the flow clock (PacketOrder of the capture package), which has no steps. A packet that was too late to be
 * sorted counts as simultaneous with the previous one of its flow, is counted, and ends nothing.
 *
 * Without room, another flow is ended: flow-table.ts chooses it.
 *
 * With `endOnClose`, a TCP flow closes at an RST, or once each end that has sent packets has sent a FIN. It accepts
 * packets for LINGER_MICROS more and is then delivered. Its key is kept for the idle timeout: packets without data,
 * with FIN or with RST belong to no flow and are counted; others begin another flow. A SYN after one FIN does too.
 * Without `endOnClose` a connection on the same ports within the timeout continues the flow, FIN or not.
 */
import { HEAP_COLUMNS, PACKET_OK, type PacketBatch, PacketOrder } from '@oddflow/capture'
import { DEFAULT_FLOW_PROTOCOLS, type FlowProtocol, type SizeMeasure } from '@oddflow/core'
import { CLOSED, CLOSING, ESTABLISHED, HALF_OPEN } from './activity-log.js'
import { type FlowSink, flowProtocolTable, PacketCounts, type TimeCounters } from './flow-counters.js'
import {
  ENDS,
  type EndReason,
  grown,
  KIND,
  LAST_MICROS,
  LINE_DOUBLES,
  LINE_WORDS,
  SENT,
  SENT_FIN,
  SWAPPED,
} from './flow-record.js'
import { FlowEviction, FlowTable, flowTableBytes, NO_FLOW, PREPARED_PACKETS } from './flow-table.js'
import type { MemoryBudget } from './memory-budget.js'
import {
  createPacketFields,
  FROM_RESPONDER,
  IP_BYTES,
  META,
  NUMBER,
  type PacketFields,
  type PacketPass,
  packetMeta,
  SIZE,
  STAMP,
  TIME,
} from './packet-pass.js'

interface FlowTrackerOptions {
  readonly idleTimeoutMicros: number
  readonly sizeMeasure: SizeMeasure
  readonly hashSeed: number
  /** A flow for each direction, IPv4 alone. Default false. */
  readonly directional?: boolean
  /** Default TCP and UDP. */
  readonly protocols?: readonly FlowProtocol[]
  /** TCP flows end when they close. Default false. */
  readonly endOnClose?: boolean
  /** The VLAN is part of the key. Default false. */
  readonly vlanKey?: boolean
  /** Flows that there is room for at first. */
  readonly initialFlows?: number
  /** Called for a packet that would begin a flow; false: it belongs to no flow. */
  readonly admitsFlow?: ((batch: PacketBatch, i: number) => boolean) | undefined
  /** As of PacketOrder. */
  readonly onClockStep?: ((byMicros: number, packetNumber: number) => void) | undefined
  /** Processes runs of ordinary packets; the columns of table and sink are in its space. */
  readonly pass?: PacketPass | null
}

const FIN = 1
const SYN = 2
const RST = 4
const SYN_ACK = 18
const FIN_SYN_RST_ACK = 23
const INITIAL_FLOWS = 64

/** A closed flow accepts packets for this long: few come later, and the verdict waits for it. */
const LINGER_MICROS = 500_000

/** What becomes of a packet whose key is in the table. */
const CONTINUES = 0
const BEGINS = 1
const AFTER_CLOSE = 2

/** Bytes of tracker, table and sink for this many flows. */
export function trackerBytes(flows: number, bytesPerFlow: number, endOnClose: boolean): number {
  return flowTableBytes(flows, endOnClose) + flows * (bytesPerFlow + (endOnClose ? 8 : 0))
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
  readonly #bytesOf = (flows: number): number =>
    trackerBytes(flows, this.#sink.bytesPerFlow, this.endsOnClose)
  /** TCP flows end when they close. */
  readonly endsOnClose: boolean
  /** One number: a packet after this time finds a closed flow to deliver. Infinity without one. */
  readonly closeDeadline: Float64Array
  /** When a flow closed; empty where flows do not end on close. */
  closedMicros: Float64Array
  /** One number: the latest time of the flow clock. Decides at the end which flows had been idle. */
  readonly clockMicros: Float64Array
  /** A byte for each protocol: whether it makes flows. */
  readonly makesFlows: Uint8Array
  readonly #order: PacketOrder
  #captureIndex = 0

  constructor(options: FlowTrackerOptions, budget: MemoryBudget, sink: FlowSink) {
    this.#options = options
    this.#budget = budget
    this.#sink = sink
    const space = options.pass?.space ?? HEAP_COLUMNS
    const { pass = null } = options
    this.#order = new PacketOrder(
      (batch, from, to, numbers, stamps) => {
        if (pass === null) this.#addEach(batch, from, to, numbers, stamps)
        else this.#addRuns(batch, from, to, numbers, stamps, pass)
      },
      space,
      options.onClockStep,
    )
    this.clockMicros = space.float64(1).fill(Number.NEGATIVE_INFINITY)
    this.makesFlows = space.uint8(256)
    this.makesFlows.set(flowProtocolTable(options.protocols ?? DEFAULT_FLOW_PROTOCOLS))
    const flows = options.initialFlows ?? INITIAL_FLOWS
    this.endsOnClose = options.endOnClose === true
    const { directional = false, vlanKey = false } = options
    const table = { directional, vlanKey, closes: this.endsOnClose, space }
    this.table = new FlowTable(flows, options.hashSeed, table)
    this.closeDeadline = space.float64(1).fill(Number.POSITIVE_INFINITY)
    this.closedMicros = space.float64(this.endsOnClose ? flows : 0)
    this.#eviction = new FlowEviction(
      this.table,
      sink,
      this.counts,
      (flow) => this.#isIdle(flow),
      (flow, reason) => this.#remove(flow, reason),
    )
    sink.resize(flows)
    budget.usedBytes += this.#bytesOf(flows)
  }

  add(batch: PacketBatch): void {
    // Directional flows are sorted when complete, by capture time.
    if (this.#options.directional === true) this.#addEach(batch, 0, batch.count, null, batch.timestampMicros)
    else this.#order.add(batch)
  }

  clockSet(byMicros: number): void {
    this.#order.clockSet(byMicros)
  }

  /** The capture's time up to which packets have come. */
  get latestMicros(): number {
    return this.#order.latestMicros
  }

  get heldPackets(): number {
    return this.#order.heldPackets
  }

  times(): TimeCounters {
    const { reorderedPackets, latePackets, backwardPackets, clockSteps, futurePackets } = this.#order.counts
    const timestampBackwards = backwardPackets + this.counts.timestampBackwards
    return { reorderedPackets, timestampBackwards, latePackets, clockSteps, futurePackets }
  }

  /** Gives runs of ordinary packets to the pass, and takes what stops it. */
  #addRuns(
    batch: PacketBatch,
    from: number,
    to: number,
    numbers: Float64Array | null,
    stamps: Float64Array,
    pass: PacketPass,
  ): void {
    if (!pass.load(batch, sizesOf(batch, this.#options.sizeMeasure))) {
      this.#addEach(batch, from, to, numbers, stamps)
      return
    }
    const { counts } = this
    // When no packet is ordinary (a scan), more and more packets are taken at a time.
    let together = 1
    for (let at = from; at < to; ) {
      const reached = pass.run(this.table, at, to)
      counts.packets += reached - at
      counts.packetsInFlows += reached - at
      if (reached === to) break
      together = reached === at ? Math.min(PREPARED_PACKETS, 2 * together) : 1
      at = Math.min(to, reached + together)
      this.#addEach(batch, reached, at, numbers, stamps)
    }
  }

  #addEach(
    batch: PacketBatch,
    from: number,
    to: number,
    numbers: Float64Array | null,
    stamps: Float64Array,
  ): void {
    const { counts, table, makesFlows } = this
    const sink = this.#sink
    const packet = this.#packet
    const clock = this.clockMicros
    const deadline = this.closeDeadline
    const directional = this.#options.directional === true
    const { admitsFlow } = this.#options
    const sizes = sizesOf(batch, this.#options.sizeMeasure)
    const { status, protocol, timestampMicros, ipVersion, ipBytes } = batch
    for (let i = from; i < to; i++) {
      const prepared = (i - from) % PREPARED_PACKETS
      if (prepared === 0) {
        const count = Math.min(PREPARED_PACKETS, to - i)
        table.prepare(batch, i, count)
        sink.warm?.(table.preparedFlow, count)
      }
      counts.packets++
      const time = timestampMicros[i]
      if (time > clock[0] && time < Number.POSITIVE_INFINITY) clock[0] = time
      if (time > deadline[0] && time < Number.POSITIVE_INFINITY) this.#giveOutClosed(time)
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
      // This covers NaN and infinities.
      if (time - time !== 0) {
        counts.noTimestamp++
        continue
      }
      const flow = table.findPrepared(batch, i, prepared)
      const fate = this.endsOnClose && flow >= 0 ? this.#fateOf(flow, time, batch, i) : CONTINUES
      if (fate === AFTER_CLOSE) {
        if (table.lines.words[LINE_WORDS * flow + KIND] === CLOSING) this.#giveOut(flow)
        counts.afterClose++
        continue
      }
      if ((flow < 0 || fate === BEGINS) && admitsFlow?.(batch, i) === false) {
        counts.notAdmitted++
        continue
      }
      counts.packetsInFlows++
      packet[NUMBER] = numbers === null ? batch.firstFrame + i : numbers[i]
      packet[TIME] = time
      packet[STAMP] = stamps[i]
      packet[SIZE] = sizes[i]
      packet[IP_BYTES] = ipBytes[i]
      if (flow < 0) this.#insert(batch, i)
      else this.#continueFlow(flow, fate === BEGINS, batch, i)
    }
  }

  #insert(batch: PacketBatch, i: number): void {
    if (this.table.full) this.#growOrEvict()
    this.#begin(this.table.insert(), batch, i)
  }

  /** Adds packet i to a flow of its key, or begins another flow in its place. */
  #continueFlow(flow: number, begins: boolean, batch: PacketBatch, i: number): void {
    const { activity, lines } = this.table
    const { words } = lines
    const packet = this.#packet
    const time = packet[TIME]
    const last = lines.times[LINE_DOUBLES * flow + LAST_MICROS]
    const kind = words[LINE_WORDS * flow + KIND]
    if (begins || time - last > this.#options.idleTimeoutMicros) {
      if (kind !== CLOSED) this.#sink.end(flow, begins ? 'closed' : 'idle-timeout')
      activity.remove(flow)
      activity.add(flow)
      this.#begin(flow, batch, i)
      return
    }
    // Bare SYNs keep a TCP flow half-open; any other packet after the first establishes it.
    const flags = batch.tcpFlags[i]
    if ((flags & SYN_ACK) === SYN && kind === HALF_OPEN) activity.touch(flow, HALF_OPEN)
    else if (kind < CLOSING) activity.touch(flow, ESTABLISHED)
    if (time < last) {
      this.counts.timestampBackwards++
      // Directional flows are sorted when they are whole.
      if (this.#options.directional !== true) packet[TIME] = last
    }
    const isSwapped = (words[LINE_WORDS * flow + ENDS] & SWAPPED) !== 0
    packet[META] = packetMeta(flags, batch.hopLimit[i], this.table.lastSwapped !== isSwapped)
    while (!this.#sink.makeRoom()) this.#eviction.evict(flow)
    // The tables may have grown.
    this.table.lines.times[LINE_DOUBLES * flow + LAST_MICROS] = packet[TIME]
    this.#sink.append(flow, packet)
    if (this.endsOnClose) this.#noteEnds(flow, packet)
  }

  /** Ends the flows that are idle or closed at `nowMicros` (capture time); returns that time on the flow clock. */
  expire(nowMicros: number): number {
    const clockMicros = this.#order.advance(nowMicros)
    if (clockMicros > this.clockMicros[0]) this.clockMicros[0] = clockMicros
    for (let kind = HALF_OPEN; kind <= ESTABLISHED; kind++) {
      for (;;) {
        const flow = this.table.activity.oldest(kind)
        if (flow < 0 || !(clockMicros - this.#lastMicros(flow) > this.#options.idleTimeoutMicros)) break
        this.#remove(flow, 'idle-timeout')
      }
    }
    this.#giveOutClosed(clockMicros)
    return clockMicros
  }

  /** Ends all flows, the longest silent first; the next packet belongs to another capture. */
  endCapture(): void {
    this.endOldest(Number.POSITIVE_INFINITY)
    this.clockMicros[0] = Number.NEGATIVE_INFINITY
    this.closeDeadline[0] = Number.POSITIVE_INFINITY
    this.#captureIndex++
  }

  /** Ends at most `limit` flows, the longest silent first, as endCapture will; true if more are left. */
  endOldest(limit: number): boolean {
    this.#order.finish()
    const { activity, lines } = this.table
    for (let ended = 0; ; ended++) {
      const flow = this.#longestSilent()
      if (flow < 0) {
        for (let k = activity.oldest(CLOSED); k >= 0; k = activity.oldest(CLOSED)) this.table.remove(k)
        return false
      }
      if (ended >= limit) return true
      const isClosing = lines.words[LINE_WORDS * flow + KIND] === CLOSING
      this.#remove(flow, isClosing ? 'closed' : this.#isIdle(flow) ? 'idle-timeout' : 'end-of-capture')
    }
  }

  /** Of the flows that are not given out yet; -1 if there is none. */
  #longestSilent(): number {
    let flow = NO_FLOW
    for (let kind = HALF_OPEN; kind <= CLOSING; kind++) {
      const oldest = this.table.activity.oldest(kind)
      if (oldest >= 0 && (flow < 0 || this.#lastMicros(oldest) < this.#lastMicros(flow))) flow = oldest
    }
    return flow
  }

  /** Handles packet i, whose key has `flow`, if TCP flows end when they close. */
  #fateOf(flow: number, time: number, batch: PacketBatch, i: number): number {
    const { words } = this.table.lines
    const { idleTimeoutMicros } = this.#options
    const kind = words[LINE_WORDS * flow + KIND]
    const isSyn = (batch.tcpFlags[i] & SYN_ACK) === SYN
    if (kind < CLOSING) {
      const hasFin = (words[LINE_WORDS * flow + ENDS] & (SENT_FIN | (SENT_FIN << 1))) !== 0
      const isIdle = time - this.#lastMicros(flow) > idleTimeoutMicros
      return isSyn && hasFin && !isIdle ? BEGINS : CONTINUES
    }
    if (isSyn) return BEGINS
    const since = time - this.closedMicros[flow]
    if (kind === CLOSING && since <= LINGER_MICROS) return CONTINUES
    if (since > idleTimeoutMicros) return BEGINS
    // A last segment sent again has FIN, and often data.
    return batch.payloadBytes[i] > 0 && (batch.tcpFlags[i] & (FIN | RST)) === 0 ? BEGINS : AFTER_CLOSE
  }

  /** Records which end has sent a packet and a FIN, and closes the flow at the last FIN or an RST. */
  #noteEnds(flow: number, packet: PacketFields): void {
    const { words } = this.table.lines
    const meta = packet[META]
    const end = (meta & FROM_RESPONDER) === 0 ? 0 : 1
    let ends = words[LINE_WORDS * flow + ENDS] | (SENT << end)
    if ((meta & FIN) !== 0) ends |= SENT_FIN << end
    words[LINE_WORDS * flow + ENDS] = ends
    if (words[LINE_WORDS * flow + KIND] >= CLOSING) return
    const sent = ends & (SENT | (SENT << 1))
    const fins = ends & (SENT_FIN | (SENT_FIN << 1))
    if ((meta & RST) !== 0 || fins === sent * (SENT_FIN / SENT)) this.#close(flow, packet[TIME])
  }

  #close(flow: number, time: number): void {
    const { activity } = this.table
    const closedMicros = this.closedMicros
    // Where time went back, flows that closed before would be waited for.
    let oldest = activity.oldest(CLOSING)
    for (; oldest >= 0 && closedMicros[oldest] - time > LINGER_MICROS; oldest = activity.oldest(CLOSING)) {
      this.#giveOut(oldest)
    }
    closedMicros[flow] = time
    activity.touch(flow, CLOSING)
    this.closeDeadline[0] = (oldest < 0 ? time : closedMicros[oldest]) + LINGER_MICROS
  }

  /** Delivers the flows that closed long enough before `time`, and forgets idle keys. */
  #giveOutClosed(time: number): void {
    const { activity } = this.table
    const closedMicros = this.closedMicros
    let flow = activity.oldest(CLOSING)
    for (; flow >= 0 && time - closedMicros[flow] > LINGER_MICROS; flow = activity.oldest(CLOSING)) {
      this.#giveOut(flow)
    }
    this.closeDeadline[0] = flow < 0 ? Number.POSITIVE_INFINITY : closedMicros[flow] + LINGER_MICROS
    for (;;) {
      const closed = activity.oldest(CLOSED)
      if (closed < 0 || !(time - closedMicros[closed] > this.#options.idleTimeoutMicros)) return
      this.table.remove(closed)
    }
  }

  #giveOut(flow: number): void {
    this.#sink.end(flow, 'closed')
    this.table.activity.touch(flow, CLOSED)
  }

  #begin(flow: number, batch: PacketBatch, i: number): void {
    const { lines, identity } = this.table
    const packet = this.#packet
    // A SYN-ACK comes from the responder, also where the SYN is missing.
    const isReply = (batch.tcpFlags[i] & FIN_SYN_RST_ACK) === SYN_ACK && this.#options.directional !== true
    const isSwapped = this.table.lastSwapped !== isReply
    identity.swapped[flow] = isSwapped ? 1 : 0
    identity.captureIndex[flow] = this.#captureIndex
    identity.firstPacketNumber[flow] = packet[NUMBER]
    identity.startMicros[flow] = packet[STAMP]
    identity.vlan[flow] = batch.vlan[i]
    const initiatorMac = isReply ? batch.destinationMac : batch.sourceMac
    const responderMac = isReply ? batch.sourceMac : batch.destinationMac
    const at = 12 * flow
    for (let b = 0; b < 6; b++) {
      identity.macs[at + b] = initiatorMac[6 * i + b]
      identity.macs[at + 6 + b] = responderMac[6 * i + b]
    }
    packet[META] = packetMeta(batch.tcpFlags[i], batch.hopLimit[i], isReply)
    lines.times[LINE_DOUBLES * flow + LAST_MICROS] = packet[TIME]
    lines.words[LINE_WORDS * flow + ENDS] = isSwapped ? SWAPPED : 0
    while (!this.#sink.makeRoom()) this.#eviction.evict(flow)
    this.counts.flows++
    this.#sink.begin(flow, packet)
    if (this.endsOnClose) this.#noteEnds(flow, packet)
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
    if (this.endsOnClose) this.closedMicros = grown(this.closedMicros, new Float64Array(capacity))
    this.#sink.resize(capacity)
  }
}

function sizesOf(batch: PacketBatch, measure: SizeMeasure): Uint32Array {
  if (measure === 'ip') return batch.ipBytes
  if (measure === 'payload') return batch.payloadBytes
  return measure === 'captured' ? batch.capturedBytes : batch.frameBytes
}
