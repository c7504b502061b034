/**
 * Overload: drops flows by a fixed rule, and counts their packets, when packets arrive faster than they can be judged.
 *
 * First packets that would begin a flow go: one in two, in four and so on by a keyed hash of the flow's ends, since to begin
 * and judge a flow is most of the work in a flood. Open flows continue. Only when one new flow in 2^STEPS_OF_NEW is let in and
 * packets still wait, whole open flows are left out by the same hash. A flow that was left out stays out as long as it goes
 * on. Every packet is counted as dropped by the agent.
 *
 * It starts as far as what was measured asks for, and goes a step further with each window under pressure. It ends a step at
 * a time, when nothing has waited for a second; after a step that was too much, for twice as long as before.
 */

const SPAN_SECONDS = 0.04

/**
 * How fast frames came, by their own time stamps, over the last SPAN_SECONDS to twice as many: a recorder hands over bursts
 * of a few milliseconds in one batch, which are no flood. The pause before a batch belongs to it.
 */
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
 * Whether packets come faster than they are judged, or memory runs out.
 *
 * Frames that wait in the kernel's buffer are about the age of a batch's latest frame times their rate; FILLING_SHARE of the
 * buffer is pressure. So are batches that are all LAG_SECONDS old for LATE_SECONDS, however few frames wait: one alone is a
 * collection of garbage or another program's turn.
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

  /** A batch has come. @returns that the buffer fills, and how fast frames come; null where it does not */
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

  /** What a window that is over was, and starts the next. @param isOverloaded - a single window is enough then */
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
 * Flows that were left out, until they have been silent for SILENT_SECONDS, or for LONGEST_SECONDS at most. Let in later, such
 * a flow would be judged by packets from its midst: a false alarm for each that an attack has outlasted. A place for each
 * hash: a later flow takes the place of an earlier one.
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
/** From one answer to a filling buffer to the next: what was left out shows by then. */
const FILLING_SECONDS = 0.1
/** What comes is so much less than what is done where the buffer empties. A buffer that is full gives as many as are taken. */
const DRAINED_SHARE = 0.9
const LEAST_PATIENCE_SECONDS = 1
const MOST_PATIENCE_SECONDS = 16
const LAST_CALM_SECONDS = 3
/** Pressure that comes so soon after a step back comes of it. */
const TRIED_MILLIS = 2000
/** So few new flows beside packets of open ones cost nothing that matters: to leave them out does not help. */
const FEW_FLOWS_SHARE = 0.05
/** One new flow in 64 is let in at least, then of all flows as many; for want of memory, which may not come back, one in 4. */
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
  /** Since it was entered; null where it is not. */
  #entered: { readonly millis: number; readonly shedBefore: number } | null = null
  #calmSeconds = 0
  #beganMillis: number
  #arrivedMillis: number
  #since = nothingDone()
  #before = nothingDone()
  #loweredMillis = Number.NEGATIVE_INFINITY
  #patienceSeconds = LEAST_PATIENCE_SECONDS

  constructor(options: OverloadOptions) {
    this.#options = options
    this.#pressure = new Pressure(options)
    this.#beganMillis = options.monotonicMillis()
    this.#arrivedMillis = this.#beganMillis
  }

  get isOverloaded(): boolean {
    return this.#entered !== null
  }

  /** Times that it was entered. */
  get times(): number {
    return this.#times
  }

  /** Any flow may begin: `admits` need not be asked. */
  get admitsAll(): boolean {
    return this.#steps === 0 && !this.#shed.any(this.#nowSeconds)
  }

  /** So far that open flows are left out, too. */
  get shedsOpenFlows(): boolean {
    return this.#steps > STEPS_OF_NEW
  }

  /** Whether a flow between these ends may begin; the same for both directions. */
  admits(sourceHash: number, destinationHash: number): boolean {
    const mask = (1 << Math.min(this.#steps, STEPS_OF_NEW)) - 1
    const hash = this.#hashOf(sourceHash, destinationHash)
    if ((hash & mask) === 0) return !this.#shed.holds(hash, this.#nowSeconds)
    this.#shed.add(hash, this.#nowSeconds)
    return false
  }

  /** Whether packets between these ends are left out whatever they belong to. */
  sheds(sourceHash: number, destinationHash: number): boolean {
    const mask = (1 << Math.max(0, this.#steps - STEPS_OF_NEW)) - 1
    return ((this.#hashOf(sourceHash, destinationHash) >>> STEPS_OF_NEW) & mask) !== 0
  }

  #hashOf(sourceHash: number, destinationHash: number): number {
    const sum = (sourceHash + destinationHash + this.#options.seed) | 0
    const mixed = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
    return mixed ^ (mixed >>> 13)
  }

  /**
   * A batch has come, and is about to be judged.
   * @param lagSeconds - age of its latest frame now; null where that says nothing
   * @param newestSeconds - time of its latest frame
   */
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
  readonly tick = (): void => {
    const now = this.#options.monotonicMillis()
    if (now - this.#beganMillis < WINDOW_MILLIS) return
    const { level, why, of } = this.#pressure.ofWindow(this.isOverloaded)
    if (level === 'high') this.#raise(1, why, of === 'memory' ? MOST_STEPS_FOR_MEMORY : MOST_STEPS)
    else if (level !== 'none' || !this.isOverloaded) this.#calmSeconds = 0
    else this.#noteCalm((now - this.#beganMillis) / 1000)
    this.#startWindow(now)
  }

  /** The process did not run for a while: what was measured over that says nothing of its load. */
  resume(): void {
    this.#pressure.resume()
    this.#startWindow(this.#options.monotonicMillis())
  }

  /** No more packets come. */
  end(): void {
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

  /**
   * So many steps at once that no more comes than can be done, since a step at a time would come too late. None where what
   * waits is worked off anyhow, or where to let in fewer flows would not help.
   */
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
