/**
 * Overload: when packets arrive faster than they can be judged, drops flows by a fixed rule and counts their packets.
 *
 * New flows go first, because starting and judging a flow is most of the work: one in two stays, then one in four and so on, by a keyed
 * hash of the flow's ends. At one in 2^STEPS_OF_NEW, open flows go by the same hash too. A dropped flow stays dropped.
 *
 * It starts with as many steps as the measured rates need, adds one with each window under pressure, and removes one after a calm
 * second. After a step back that was too early it waits twice as long.
 */

const SPAN_SECONDS = 0.04

/** Frames a second by their timestamps, over SPAN_SECONDS to twice that: a recorder's burst of a few milliseconds is no flood. */
export class FrameRate {
  #earlier = { frames: 0, seconds: 0 }
  #current = { frames: 0, seconds: 0 }
  #newest = Number.NaN

  /** @returns frames a second; 0 where too little was seen. */
  note(frames: number, newestSeconds: number): number {
    const passed = newestSeconds - this.#newest
    this.#newest = newestSeconds
    if (!(passed >= 0)) return 0
    if (this.#current.seconds >= SPAN_SECONDS) {
      this.#earlier = this.#current
      this.#current = { frames: 0, seconds: 0 }
    }
    this.#current.frames += frames
    this.#current.seconds += passed
    const seconds = this.#earlier.seconds + this.#current.seconds
    return seconds < SPAN_SECONDS ? 0 : (this.#earlier.frames + this.#current.frames) / seconds
  }
}

interface Filling {
  readonly framesPerSecond: number
  readonly why: string
}

interface WindowPressure {
  readonly level: 'high' | 'some' | 'none'
  readonly why: string
  readonly of: 'packets' | 'memory'
}

const LAG_SECONDS = 0.5
const LATE_SECONDS = 1
const CALM_LAG_SECONDS = 0.1
const FILLING_SHARE = 0.5
/** A greater age fills no buffer: that is a clock that was set. */
const CLOCK_SECONDS = 5
const MEMORY_SHARE = 0.97
const CALM_MEMORY_SHARE = 0.95

/**
 * Whether packets come faster than they are judged, or memory runs out. The kernel's buffer holds about the age of a batch's latest
 * frame times the frame rate: FILLING_SHARE of it is pressure. So are batches that are all late for LATE_SECONDS; one late batch is
 * garbage collection or another program's turn.
 */
class Pressure {
  readonly #options: Pick<OverloadOptions, 'memoryLimitBytes' | 'bufferFrames' | 'residentBytes'>
  readonly #rate = new FrameRate()
  #leastLag = Number.POSITIVE_INFINITY
  #mostLag = 0
  /** When the batches that come late now began to. */
  #lateSince: number | null = null
  #latestSeconds = 0

  constructor(options: OverloadOptions) {
    this.#options = options
  }

  /** @returns how fast frames come if the buffer fills; else null */
  note(frames: number, lagSeconds: number | null, newestSeconds: number, nowSeconds: number): Filling | null {
    if (lagSeconds === null) return null
    this.#leastLag = Math.min(this.#leastLag, lagSeconds)
    this.#mostLag = Math.max(this.#mostLag, lagSeconds)
    this.#latestSeconds = nowSeconds
    if (lagSeconds < LAG_SECONDS) this.#lateSince = null
    else this.#lateSince ??= nowSeconds
    const framesPerSecond = this.#rate.note(frames, newestSeconds)
    const filled = (lagSeconds * framesPerSecond) / this.#options.bufferFrames
    if (filled < FILLING_SHARE || lagSeconds > CLOCK_SECONDS) return null
    return {
      framesPerSecond,
      why: `the kernel's buffer is ${Math.min(100, Math.round(100 * filled))} % full`,
    }
  }

  /** The pressure of the past window; starts the next one. @param isOverloaded - a single late window is enough then */
  ofWindow(isOverloaded: boolean): WindowPressure {
    const leastLag = this.#leastLag
    const residentShare = this.#options.residentBytes() / this.#options.memoryLimitBytes
    const isLate = leastLag >= LAG_SECONDS && leastLag !== Number.POSITIVE_INFINITY
    if (!isLate) this.#lateSince = null
    const lateSeconds = this.#lateSince === null ? 0 : this.#latestSeconds - this.#lateSince
    const isCalm = this.#mostLag < CALM_LAG_SECONDS && residentShare < CALM_MEMORY_SHARE
    this.#startWindow()
    if (isOverloaded ? isLate : lateSeconds >= LATE_SECONDS)
      return { level: 'high', why: `packets wait for ${leastLag.toFixed(1)} s`, of: 'packets' }
    return {
      level: residentShare >= MEMORY_SHARE ? 'high' : isCalm ? 'none' : 'some',
      why: `resident memory is ${Math.round(100 * residentShare)} % of its ceiling`,
      of: 'memory',
    }
  }

  resume(): void {
    this.#startWindow()
    this.#lateSince = null
  }

  #startWindow(): void {
    this.#leastLag = Number.POSITIVE_INFINITY
    this.#mostLag = 0
  }
}

const PLACES = 65_536
const SILENT_SECONDS = 60
const LONGEST_SECONDS = 600

/**
 * Dropped flows, until they were silent for SILENT_SECONDS, at most for LONGEST_SECONDS: let in later, a flow would be judged by its
 * middle and cause a false alarm. One place for each hash: a later flow replaces an earlier one.
 */
export class ShedFlows {
  readonly #hashes = new Int32Array(PLACES)
  readonly #first = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  readonly #last = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  #latest = Number.NEGATIVE_INFINITY

  /** @param hash - 32 bits, the same for both directions */
  add(hash: number, nowSeconds: number): void {
    if (this.holds(hash, nowSeconds)) return
    const at = hash & (PLACES - 1)
    this.#hashes[at] = hash
    this.#first[at] = nowSeconds
    this.#last[at] = nowSeconds
    this.#latest = nowSeconds
  }

  /** Whether the flow was dropped and still has packets; call it for each packet. */
  holds(hash: number, nowSeconds: number): boolean {
    const at = hash & (PLACES - 1)
    const goesOn =
      this.#hashes[at] === (hash | 0) &&
      nowSeconds - this.#last[at] <= SILENT_SECONDS &&
      nowSeconds - this.#first[at] <= LONGEST_SECONDS
    if (!goesOn) return false
    this.#last[at] = nowSeconds
    this.#latest = nowSeconds
    return true
  }

  /** Whether there can be any. */
  any(nowSeconds: number): boolean {
    return nowSeconds - this.#latest <= SILENT_SECONDS
  }
}

interface OverloadOptions {
  readonly memoryLimitBytes: number
  /** Frames that the kernel keeps for us. */
  readonly bufferFrames: number
  readonly seed: number
  readonly monotonicMillis: () => number
  readonly residentBytes: () => number
  /** Packets dropped so far, including packets that were held. */
  readonly shedPackets: () => number
  readonly onEntered: (message: string) => void
  /** @param packets - that were left out */
  readonly onLeft: (message: string, packets: number) => void
}

const WINDOW_MILLIS = 250
/** Between two answers to a filling buffer: the first one has had its effect by then. */
const FILLING_SECONDS = 0.1
/** The buffer empties if frames arrive at less than this share of the rate of work. */
const DRAINED_SHARE = 0.9
const LEAST_PATIENCE_SECONDS = 1
const MOST_PATIENCE_SECONDS = 16
const LAST_CALM_SECONDS = 3
/** Pressure this soon after a step back is caused by it. */
const TRIED_MILLIS = 2000
/** With a smaller share of new flows, dropping them does not help. */
const FEW_FLOWS_SHARE = 0.05
/** At least one new flow in 64 stays, then one in 64 of all flows; for lack of memory, which may not come back, one in 4. */
const STEPS_OF_NEW = 6
const MOST_STEPS = 12
const MOST_STEPS_FOR_MEMORY = 2

const nothingDone = () => ({ judged: 0, shed: 0, flows: 0, workMillis: 0 })

export class Overload {
  readonly #options: OverloadOptions
  readonly #pressure: Pressure
  readonly #shed = new ShedFlows()
  #nowSeconds = 0
  #steps = 0
  #times = 0
  /** null while there is no overload. */
  #entered: { readonly millis: number; readonly shedBefore: number } | null = null
  #calmSeconds = 0
  #beganMillis: number
  #arrivedMillis: number
  #since = nothingDone()
  #before = nothingDone()
  #loweredMillis = Number.NEGATIVE_INFINITY
  #patienceSeconds = LEAST_PATIENCE_SECONDS
  #hasEnded = false

  constructor(options: OverloadOptions) {
    this.#options = options
    this.#pressure = new Pressure(options)
    this.#beganMillis = options.monotonicMillis()
    this.#arrivedMillis = this.#beganMillis
  }

  get isOverloaded(): boolean {
    return this.#entered !== null
  }

  /** Overloads so far. */
  get times(): number {
    return this.#times
  }

  /** Every flow may start: `admits` need not be called. */
  get admitsAll(): boolean {
    return this.#steps === 0 && !this.#shed.any(this.#nowSeconds)
  }

  /** Open flows are dropped too. */
  get shedsOpenFlows(): boolean {
    return this.#steps > STEPS_OF_NEW
  }

  /** Whether a flow between these ends may start; the same for both directions. */
  admits(sourceHash: number, destinationHash: number): boolean {
    const mask = (1 << Math.min(this.#steps, STEPS_OF_NEW)) - 1
    const hash = this.#hashOf(sourceHash, destinationHash)
    if ((hash & mask) === 0) return !this.#shed.holds(hash, this.#nowSeconds)
    this.#shed.add(hash, this.#nowSeconds)
    return false
  }

  /** Whether all packets between these ends are dropped. */
  sheds(sourceHash: number, destinationHash: number): boolean {
    const mask = (1 << Math.max(0, this.#steps - STEPS_OF_NEW)) - 1
    return ((this.#hashOf(sourceHash, destinationHash) >>> STEPS_OF_NEW) & mask) !== 0
  }

  #hashOf(sourceHash: number, destinationHash: number): number {
    const sum = (sourceHash + destinationHash + this.#options.seed) | 0
    const mixed = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
    return mixed ^ (mixed >>> 13)
  }

  /** A batch is about to be judged. @param lagSeconds - age of its latest frame; null if unknown @param newestSeconds - time of that frame */
  arrived(frames: number, lagSeconds: number | null, newestSeconds: number): void {
    this.#arrivedMillis = this.#options.monotonicMillis()
    this.#nowSeconds = this.#arrivedMillis / 1000
    const filling = this.#pressure.note(frames, lagSeconds, newestSeconds, this.#nowSeconds)
    if (filling !== null) this.#answerFilling(filling, this.#arrivedMillis)
  }

  /** Counts judged work: frames, dropped packets, and started flows. */
  judged(frames: number, shed: number, flows: number): void {
    this.#since.judged += frames - shed
    this.#since.shed += shed
    this.#since.flows += flows
    this.#since.workMillis += this.#options.monotonicMillis() - this.#arrivedMillis
    this.tick()
  }

  /** To be called about every second, packets or none. */
  tick(): void {
    const now = this.#options.monotonicMillis()
    if (this.#hasEnded || now - this.#beganMillis < WINDOW_MILLIS) return
    const { level, why, of } = this.#pressure.ofWindow(this.isOverloaded)
    if (level === 'high') this.#raise(1, why, of === 'memory' ? MOST_STEPS_FOR_MEMORY : MOST_STEPS)
    else if (level !== 'none' || !this.isOverloaded) this.#calmSeconds = 0
    else this.#noteCalm((now - this.#beganMillis) / 1000)
    this.#startWindow(now)
  }

  /** The process did not run for a while: measurements of that time say nothing about its load. */
  resume(): void {
    this.#pressure.resume()
    this.#startWindow(this.#options.monotonicMillis())
  }

  /** No more packets come: an overload is over, and none begins while the last alerts are delivered. */
  end(): void {
    this.#hasEnded = true
    if (this.isOverloaded) this.#leave('ended by the end of the run')
  }

  #startWindow(now: number): void {
    this.#beganMillis = now
    this.#before = this.#since
    this.#since = nothingDone()
  }

  #raise(by: number, why: string, most: number): void {
    const now = this.#options.monotonicMillis()
    if (this.#entered === null) {
      this.#times++
      this.#entered = { millis: now, shedBefore: this.#options.shedPackets() }
      this.#patienceSeconds = LEAST_PATIENCE_SECONDS
      this.#options.onEntered(
        `overload entered: ${why}; the agent skips flows and counts their packets as dropped`,
      )
    }
    this.#steps = Math.max(this.#steps, Math.min(most, this.#steps + by))
    this.#calmSeconds = 0
    if (now - this.#loweredMillis < TRIED_MILLIS)
      this.#patienceSeconds = Math.min(MOST_PATIENCE_SECONDS, 2 * this.#patienceSeconds)
    this.#loweredMillis = Number.NEGATIVE_INFINITY
  }

  #leave(how: string): void {
    const { millis, shedBefore } = this.#entered ?? { millis: 0, shedBefore: 0 }
    this.#entered = null
    const seconds = Math.round((this.#options.monotonicMillis() - millis) / 1000)
    const packets = this.#options.shedPackets() - shedBefore
    this.#options.onLeft(`overload ${how} after ${seconds} s: ${packets} packets were dropped`, packets)
  }

  #noteCalm(seconds: number): void {
    this.#calmSeconds += seconds
    if (this.#calmSeconds < (this.#steps === 0 ? LAST_CALM_SECONDS : this.#patienceSeconds)) return
    this.#calmSeconds = 0
    if (this.#steps === 0) {
      this.#leave('left')
      return
    }
    // the step before did no harm
    if (this.#loweredMillis !== Number.NEGATIVE_INFINITY)
      this.#patienceSeconds = Math.max(LEAST_PATIENCE_SECONDS, this.#patienceSeconds / 2)
    this.#loweredMillis = this.#options.monotonicMillis()
    this.#steps--
  }

  /** As many steps at once as the rates need: one at a time would be too late. None if the buffer empties by itself or fewer flows would not help. */
  #answerFilling({ framesPerSecond, why }: Filling, now: number): void {
    if (this.#steps === 0) {
      const judged = this.#before.judged + this.#since.judged
      const flows = this.#before.flows + this.#since.flows
      const perSecond = judged / ((this.#before.workMillis + this.#since.workMillis) / 1000)
      if (!(flows > FEW_FLOWS_SHARE * judged && framesPerSecond > perSecond)) return
      this.#raise(stepsBetween(framesPerSecond, perSecond), why, STEPS_OF_NEW)
    } else {
      const seconds = (now - this.#beganMillis) / 1000
      const done = (this.#since.judged + this.#since.shed) / seconds
      if (seconds < FILLING_SECONDS || !(framesPerSecond > DRAINED_SHARE * done)) return
      this.#raise(stepsBetween(framesPerSecond, done), why, MOST_STEPS)
    }
    this.#startWindow(now)
  }
}

/** Halvings after which `coming` is no more than `done`. */
function stepsBetween(coming: number, done: number): number {
  return Math.max(1, Math.ceil(Math.log2(coming / done)))
}
