/**
 * The packets of a capture in the order of their times, on a clock without steps (capture time plus an offset).
 *
 * A packet leaves once one more than REORDER_WINDOW_MICROS later has come, or REORDER_PACKETS newer ones are held.
 * - A packet before that window shows that the clock was set back: it counts as simultaneous with the latest one. If the
 *   times return after a step of less than LATE_MICROS, there was none, and the packets in between came late.
 * - A packet more than FUTURE_MICROS ahead is from the future if the next one is not, and takes the time before it.
 * - A gap of more than WRONG_TIME_MICROS is a step forward. A smaller step looks like a silence; a caller with another
 *   clock can report it (`clockSet`): then the next gap of that length is the step.
 */
import { plural } from '@oddflow/core'
import { WRONG_TIME_MICROS } from './capture-notes.js'
import {
  type Column,
  type ColumnSource,
  columnsOf,
  copyPacket,
  copyPackets,
  createPacketBatch,
  HEAP_COLUMNS,
  type PacketBatch,
} from './packet-batch.js'

/** Packets that are late by no more than this are sorted. */
const REORDER_WINDOW_MICROS = 10_000
/** Most packets held. */
export const REORDER_PACKETS = 256
const FUTURE_MICROS = 60_000_000
/** Packets are never later than this: a larger step back is a clock. */
const LATE_MICROS = 1_000_000
/** Clocks are not set back by less than this: ntpd and chrony slew them. */
const SET_MICROS = 100_000
/** A gap may be this much shorter than its step: two clocks are read one after the other. */
const STEP_TOLERANCE_MICROS = 100_000
/** A reported step that no packet shows within this time of the capture shows in none. */
const STEP_WAIT_MICROS = 60_000_000
/** Packets of a sorted batch. */
const OUT_PACKETS = 256
/** Largest batch whose shifted times are in the same memory as the other columns. */
const MAXIMUM_SHIFTED = 4096
/** Room for held packets, so that they are seldom moved to the front. */
const HELD_ROOM = 4 * REORDER_PACKETS

/** What a PacketOrder corrected or could not correct. */
export interface PacketOrderCounts {
  /** Packets given out before one that came before them. */
  reorderedPackets: number
  /** Packets later than the window, given out where they stand. */
  latePackets: number
  /** Packets with a time before that of the packet before them, beyond what was sorted. */
  backwardPackets: number
  /** Times that the clock was set back, or forward by more than a week. */
  clockSteps: number
  /** Packets with a time far ahead of those around them. */
  futurePackets: number
}

/** A line for each kind of disorder in the times of a capture. */
export function describeOrder(counts: Omit<PacketOrderCounts, 'backwardPackets'>): string[] {
  const { reorderedPackets, latePackets, clockSteps, futurePackets } = counts
  const lines = []
  if (reorderedPackets > 0) lines.push(`${plural(reorderedPackets, 'packet')} reordered by time`)
  if (latePackets > 0) {
    const late = `${REORDER_WINDOW_MICROS / 1000} ms`
    lines.push(
      `${plural(latePackets, 'packet')} more than ${late} late (taken as simultaneous with the packet before them)`,
    )
  }
  if (clockSteps > 0) lines.push(`the clock was set ${plural(clockSteps, 'time')} (open flows continue)`)
  if (futurePackets > 0) {
    lines.push(
      `${plural(futurePackets, 'packet')} from the future (given the time of the packet before them)`,
    )
  }
  return lines
}

/**
 * Gets packets `from` to `to` of a batch, whose timestampMicros are the flow clock's. Packet i has number `numbers[i]`
 * in its capture (firstFrame + i if that is null) and the capture's time `stamps[i]`. All of it is borrowed; ipOffset and
 * transportOffset are not set.
 */
export type TakePackets = (
  batch: PacketBatch,
  from: number,
  to: number,
  numbers: Float64Array | null,
  stamps: Float64Array,
) => void

/** Packets kept by copy. */
class Held {
  readonly batch: PacketBatch
  readonly numbers: Float64Array
  readonly stamps: Float64Array

  readonly columns: readonly Column[]

  constructor(capacity: number, columns: ColumnSource) {
    this.batch = createPacketBatch(capacity, columns)
    this.columns = columnsOf(this.batch)
    this.numbers = new Float64Array(capacity)
    this.stamps = new Float64Array(capacity)
  }
}

/** Bytes of the columns of a PacketOrder. */
export const PACKET_ORDER_BYTES = (2 * HELD_ROOM + OUT_PACKETS) * 160 + 8 * MAXIMUM_SHIFTED

/** Puts packets that came a little late in the order of time, and follows steps of the capture's clock. */
export class PacketOrder {
  readonly counts: PacketOrderCounts = {
    reorderedPackets: 0,
    latePackets: 0,
    backwardPackets: 0,
    clockSteps: 0,
    futurePackets: 0,
  }
  readonly #take: TakePackets
  readonly #onStep: ((byMicros: number, packetNumber: number) => void) | undefined
  /** The offset last reported by #onStep. */
  #steppedOffset = 0
  /** The packet that changed the offset. */
  #stepNumber = 0
  /** Packets in order, from #head up to #end. */
  #held: Held
  #spare: Held
  readonly #out: Held
  /** The memory of all columns, if they share one. */
  readonly #memory: Uint8Array
  /** The batch that came last, and its columns. */
  #batch: PacketBatch | null = null
  #columns: readonly Column[] = []
  #outCount = 0
  #head = 0
  #end = 0
  /** The latest time in the capture, since the last step. */
  #latest = Number.NEGATIVE_INFINITY
  /** Flow clock minus capture time. */
  #offset = 0
  /** The offset before the last step, while the step may still prove false; otherwise NaN. */
  #offsetBefore = Number.NaN
  #stepClock = 0
  #packetsSinceStep = 0
  /** A reported step forward that no packet has shown yet; 0 for none. */
  #toldStep = 0
  /** The latest time when it was reported. */
  #toldAt = 0
  /** The held packet that is far ahead of those before it and followed by none; -1 for none. */
  #ahead = -1
  #aheadLatest = 0
  #aheadOffset = 0
  /** Of #addSorted: packets by turn, and the flow clock's time of each. */
  #turns = new Int32Array(0)
  #clocks = new Float64Array(0)
  #shifted: Float64Array

  /**
   * @param columns - source of the delivered batches, except the ones that were added.
   * @param onStep - called when the capture's clock was set, before the later packets are delivered, with the number of
   * the first of them; again with the opposite value if the step proves false.
   */
  constructor(
    take: TakePackets,
    columns: ColumnSource = HEAP_COLUMNS,
    onStep?: (byMicros: number, packetNumber: number) => void,
  ) {
    this.#take = take
    this.#onStep = onStep
    this.#held = new Held(HELD_ROOM, columns)
    this.#spare = new Held(HELD_ROOM, columns)
    this.#out = new Held(OUT_PACKETS, columns)
    this.#shifted = columns.float64(MAXIMUM_SHIFTED)
    this.#memory = new Uint8Array(this.#held.batch.status.buffer)
  }

  /** The capture's time up to which packets have come, without one from the future; −Infinity before the first. */
  get latestMicros(): number {
    return this.#ahead >= 0 ? this.#aheadLatest : this.#latest
  }

  get heldPackets(): number {
    return this.#end - this.#head
  }

  /** The clock that stamps packets was set by this much, forward or back; packets on their way may not show it yet. */
  clockSet(byMicros: number): void {
    // a step back shows by itself
    this.#toldStep = Math.max(0, this.#toldStep + byMicros)
    this.#toldAt = this.#latest
  }

  /** Takes a batch, which may be reused afterwards; delivers packets in order. */
  add(batch: PacketBatch): void {
    if (batch.count === 0) return
    if (this.#isInOrder(batch)) this.#addInOrder(batch)
    else this.#addSorted(batch)
  }

  /** No packet older than `nowMicros` (capture time) will come: delivers those up to then. Returns the flow clock's time. */
  advance(nowMicros: number): number {
    const isAhead = this.#ahead >= 0
    const clock = nowMicros + (isAhead ? this.#aheadOffset : this.#offset)
    const times = this.#held.batch.timestampMicros
    // Time has passed for it too: it is not from the future.
    if (isAhead && this.#aheadOffset === this.#offset && nowMicros >= this.#latest) this.#ahead = -1
    const limit = this.#ahead >= 0 ? this.#ahead : this.#end
    this.#giveHeld(firstAfter(times, this.#head, limit, clock))
    return clock
  }

  /** Delivers all held packets; the next ones are of another capture. */
  finish(): void {
    if (this.#ahead >= 0 && this.#aheadOffset !== this.#offset) {
      this.counts.futurePackets++
      this.counts.clockSteps--
    }
    this.#giveHeld(this.#end)
    this.#latest = Number.NEGATIVE_INFINITY
    this.#offset = 0
    this.#steppedOffset = 0
    this.#toldStep = 0
    this.#offsetBefore = Number.NaN
    this.#ahead = -1
  }

  /** Whether the batch continues the last one, with nothing to sort and no step. Untimed packets may be anywhere. */
  #isInOrder({ count, timestampMicros }: PacketBatch): boolean {
    if (this.#toldStep > 0 || !Number.isNaN(this.#offsetBefore)) return false
    return goOn(timestampMicros, count, this.#latest)
  }

  #addInOrder(batch: PacketBatch): void {
    const { count, timestampMicros } = batch
    const last = lastTimed(timestampMicros, count)
    let isAhead = false
    if (last >= 0) {
      const before = lastTimed(timestampMicros, last)
      const previous = before >= 0 ? timestampMicros[before]! : this.#latest
      this.#latest = timestampMicros[last]!
      this.#ahead = -1
      this.#tellStep()
      isAhead = this.#latest - previous > FUTURE_MICROS && previous !== Number.NEGATIVE_INFINITY
      this.#aheadLatest = previous
      this.#aheadOffset = this.#offset
    }
    const from = this.#latest - REORDER_WINDOW_MICROS
    const least = Math.max(0, count - REORDER_PACKETS)
    // Packets without a time wait for their predecessors.
    const isBehind = last < 0 && this.#end > this.#head
    const kept = isBehind ? least : firstAfter(timestampMicros, least, count, from)
    const view = this.#offset === 0 ? batch : this.#shift(batch)
    if (kept > 0) {
      this.#giveHeld(this.#end)
      this.#take(view, 0, kept, null, timestampMicros)
    } else {
      const held = this.#held.batch.timestampMicros
      const clock = from + this.#offset
      const least = Math.max(this.#head, this.#end + count - REORDER_PACKETS)
      this.#giveHeld(firstAfter(held, least, this.#end, clock))
      if (this.#end + count > HELD_ROOM) this.#moveToFront()
    }
    if (isAhead && last >= kept) this.#ahead = this.#end + last - kept
    this.#hold(view, kept, count, timestampMicros)
  }

  /** The batch with the flow clock's times. */
  #shift(batch: PacketBatch): PacketBatch {
    const { count, timestampMicros } = batch
    const shifted = count <= MAXIMUM_SHIFTED ? this.#shifted : new Float64Array(count)
    for (let i = 0; i < count; i++) shifted[i] = timestampMicros[i]! + this.#offset
    return { ...batch, timestampMicros: shifted }
  }

  #hold(view: PacketBatch, from: number, to: number, stamps: Float64Array): void {
    const held = this.#held
    const at = this.#end
    if (view !== this.#batch) {
      this.#batch = view
      this.#columns = columnsOf(view)
    }
    copyPackets(this.#columns, from, to, held.columns, at, this.#memory)
    number(held.numbers, at, to - from, view.firstFrame + from)
    held.stamps.set(stamps.subarray(from, to), at)
    this.#end += to - from
  }

  #giveHeld(to: number): void {
    const { batch, numbers, stamps } = this.#held
    const from = this.#head
    this.#head = to
    if (to > this.#ahead) this.#ahead = -1
    if (to > from) {
      batch.count = to
      this.#take(batch, from, to, numbers, stamps)
    }
    if (this.#head === this.#end) {
      this.#head = 0
      this.#end = 0
    }
  }

  #moveToFront(): void {
    const { columns, numbers, stamps } = this.#held
    copyPackets(columns, this.#head, this.#end, columns, 0, this.#memory)
    numbers.copyWithin(0, this.#head, this.#end)
    stamps.copyWithin(0, this.#head, this.#end)
    if (this.#ahead >= 0) this.#ahead -= this.#head
    this.#end -= this.#head
    this.#head = 0
  }

  /** Held packets have the numbers from 0 on, and those of the batch follow; only numbers are sorted. */
  #addSorted(batch: PacketBatch): void {
    const held = this.#held
    const before = this.#end - this.#head
    const total = before + batch.count
    if (this.#turns.length < total) {
      this.#turns = new Int32Array(total)
      this.#clocks = new Float64Array(total)
    }
    const turns = this.#turns
    const clocks = this.#clocks
    let clock = Number.NEGATIVE_INFINITY
    for (let k = 0; k < before; k++) {
      turns[k] = k
      const time = held.batch.timestampMicros[this.#head + k]!
      if (time - time === 0) clock = time
      clocks[k] = clock
    }
    if (this.#ahead >= 0) this.#ahead -= this.#head
    let first = 0
    for (let k = before; k < total; k++) {
      const time = batch.timestampMicros[k - before]!
      // A packet without a time has its turn after the one before it.
      const offset = this.#offset
      clocks[k] = time - time === 0 ? this.#clockOf(time, k) : this.#latest + this.#offset
      if (this.#offset !== offset) this.#stepNumber = batch.firstFrame + k - before
      this.#tellStep()
      let place = k
      while (place > first && clocks[turns[place - 1]!]! > clocks[k]!) place--
      if (place < k) turns.copyWithin(place + 1, place, k)
      turns[place] = k
      const from = this.#latest + this.#offset - REORDER_WINDOW_MICROS
      while (first <= k && (clocks[turns[first]!]! <= from || k + 1 - first > REORDER_PACKETS)) {
        this.#giveOne(batch, before, turns[first++]!)
      }
    }
    this.#giveOut()
    const rest = this.#spare
    let ahead = -1
    for (let k = first; k < total; k++) {
      if (turns[k] === this.#ahead) ahead = k - first
      this.#copyOne(batch, before, turns[k]!, rest, k - first)
    }
    this.#ahead = ahead
    this.#spare = held
    this.#held = rest
    this.#head = 0
    this.#end = total - first
  }

  #giveOne(batch: PacketBatch, before: number, k: number): void {
    if (k === this.#ahead) this.#ahead = -1
    this.#copyOne(batch, before, k, this.#out, this.#outCount++)
    if (this.#outCount === OUT_PACKETS) this.#giveOut()
  }

  #giveOut(): void {
    const { batch, numbers, stamps } = this.#out
    const count = this.#outCount
    this.#outCount = 0
    batch.count = count
    if (count > 0) this.#take(batch, 0, count, numbers, stamps)
  }

  #copyOne(batch: PacketBatch, before: number, k: number, to: Held, at: number): void {
    const isHeld = k < before
    const from = isHeld ? this.#held.batch : batch
    const i = isHeld ? this.#head + k : k - before
    copyPacket(from, i, to.batch, at)
    to.numbers[at] = isHeld ? this.#held.numbers[i]! : batch.firstFrame + i
    const stamp = isHeld ? this.#held.stamps[i]! : batch.timestampMicros[i]!
    to.stamps[at] = stamp
    to.batch.timestampMicros[at] = stamp - stamp === 0 ? this.#clocks[k]! : stamp
  }

  /** The flow clock at packet k, which has a time. */
  #clockOf(time: number, k: number): number {
    const latest = this.#latest
    if (latest === Number.NEGATIVE_INFINITY) {
      this.#latest = time
      return time + this.#offset
    }
    const gap = time - latest
    if (gap < -REORDER_WINDOW_MICROS) {
      if (this.#ahead >= 0 && time >= this.#aheadLatest - REORDER_WINDOW_MICROS) {
        this.#leaveFuture()
        return this.#clockOf(time, k)
      }
      this.counts.backwardPackets++
    }
    this.#ahead = -1
    if (this.#toldStep > 0 && this.#isToldStep(gap)) {
      this.counts.clockSteps++
      this.#offsetBefore = Number.NaN
      this.#offset -= Math.min(gap, this.#toldStep)
      this.#toldStep = 0
      this.#latest = time
      return time + this.#offset
    }
    if (this.#isBack(time)) {
      // As if the packets since the step had come late.
      this.counts.clockSteps--
      this.counts.latePackets += this.#packetsSinceStep
      this.#latest = latest + this.#offset - this.#offsetBefore
      this.#offset = this.#offsetBefore
      this.#offsetBefore = Number.NaN
      if (time > this.#latest) this.#latest = time
      return time + this.#offset
    }
    this.#packetsSinceStep++
    if (gap > FUTURE_MICROS) {
      this.#ahead = k
      this.#aheadLatest = latest
      this.#aheadOffset = this.#offset
    }
    if (gap < -REORDER_WINDOW_MICROS || gap > WRONG_TIME_MICROS) {
      this.counts.clockSteps++
      this.#offsetBefore = gap < 0 && gap > -LATE_MICROS ? this.#offset : Number.NaN
      this.#stepClock = latest + this.#offset
      this.#packetsSinceStep = 1
      this.#offset -= gap
      this.#latest = time
    } else if (gap >= 0) {
      this.#latest = time
      if (time + this.#offset - this.#stepClock > LATE_MICROS) this.#offsetBefore = Number.NaN
    } else this.counts.reorderedPackets++
    return time + this.#offset
  }

  /** Whether the reported step is in this gap. */
  #isToldStep(gap: number): boolean {
    if (gap >= this.#toldStep - STEP_TOLERANCE_MICROS) return true
    if (this.#latest + gap - this.#toldAt > STEP_WAIT_MICROS) this.#toldStep = 0
    return false
  }

  /** Reports how the offset changed since the last report. */
  #tellStep(): void {
    if (this.#ahead >= 0 || this.#offset === this.#steppedOffset) return
    const byMicros = this.#steppedOffset - this.#offset
    this.#steppedOffset = this.#offset
    this.#onStep?.(byMicros, this.#stepNumber)
  }

  /** Whether `time` fits the clock before the last step, which was then none. */
  #isBack(time: number): boolean {
    const step = this.#offset - this.#offsetBefore
    const gap = time - this.#latest
    const most = step < SET_MICROS ? FUTURE_MICROS : step + REORDER_WINDOW_MICROS
    return gap > REORDER_WINDOW_MICROS && gap >= step - REORDER_WINDOW_MICROS && gap <= most
  }

  /** The packet that was ahead is from the future: it takes the time of the packet before it. */
  #leaveFuture(): void {
    this.counts.futurePackets++
    if (this.#offset !== this.#aheadOffset) this.counts.clockSteps--
    this.#latest = this.#aheadLatest
    this.#offset = this.#aheadOffset
    this.#clocks[this.#ahead] = this.#latest + this.#offset
    this.#ahead = -1
  }
}

/** Whether times ascend from `latest`, by no more than a silence; NaN may be anywhere. */
function goOn(times: Float64Array, count: number, latest: number): boolean {
  for (let i = 0; i < count; i++) {
    const time = times[i]!
    const gap = time - latest
    if (gap >= 0 && gap <= WRONG_TIME_MICROS) latest = time
    else if (time - time !== 0) continue
    else if (latest === Number.NEGATIVE_INFINITY) latest = time
    else return false
  }
  return true
}

/** The first of ascending times from `start` to `end` that is above `limit`. */
function firstAfter(times: Float64Array, start: number, end: number, limit: number): number {
  let at = start
  while (at < end && !(times[at]! > limit)) at++
  return at
}

function number(numbers: Float64Array, at: number, count: number, first: number): void {
  for (let i = 0; i < count; i++) numbers[at + i] = first + i
}

/** The last packet with a time among the first `count`; -1 for none. */
function lastTimed(times: Float64Array, count: number): number {
  let i = count - 1
  while (i >= 0 && times[i]! - times[i]! !== 0) i--
  return i
}
