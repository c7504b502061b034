/**
 * Overload: what is left out when packets come faster than they can be judged, by rule and counted.
 *
 * *What goes* are first packets that would begin a flow: flows that are open go on, and get their verdict. Of new ones
 * one in two by a keyed hash of their ends and ports is let in, then one in four and so on. To begin a flow, judge it and tell of it is most of the work in a
 * flood; a packet of an open flow costs little beside that. Only when nearly none is let in and packets still wait, open flows are left
 * out as well, whole ones by the same hash. Nobody without the key can choose to be left out, every packet is
 * counted as dropped by the agent, and alerts tell of it. A flow that was left out stays out as long as it goes on.
 *
 * *How far* follows from what was measured where it is entered, and goes a step further with every window in which
 * pressure goes on.
 *
 * *It ends* a step at a time, tried when nothing has waited for a second; after a step that was too much, for twice as long as
 * before, and after one that did no harm half as long. It is over when all are let in and nothing has waited for LAST_CALM_SECONDS: a flood that goes on is one overload
 * and not many.
 */

/**
 * FrameRate: how fast frames came, by their own time stamps, over the last SPAN_SECONDS to twice as many.
 *
 * A single batch says little: a recorder hands over a thousand frames that lay together in a burst of a few milliseconds, and such
 * a burst is no flood. The pause before a batch belongs to it. There is no rate before SPAN_SECONDS of frames have been
 * seen, and time never runs backwards.
 */
const SPAN_SECONDS = 0.04

interface FrameRate {
  /** @returns frames a second; 0 where too little was seen. */
  note(frames: number, newestSeconds: number): number
}

export function createFrameRate(): FrameRate {
  let earlier = { frames: 0, seconds: 0 }
  let current = { frames: 0, seconds: 0 }
  let newest = Number.NaN
  return {
    note(frames, newestSeconds) {
      const passed = newestSeconds - newest
      newest = newestSeconds
      if (!(passed >= 0)) return 0
      if (current.seconds >= SPAN_SECONDS) {
        earlier = current
        current = { frames: 0, seconds: 0 }
      }
      current.frames += frames
      current.seconds += passed
      const seconds = earlier.seconds + current.seconds
      return seconds < SPAN_SECONDS ? 0 : (earlier.frames + current.frames) / seconds
    },
  }
}

/**
 * Pressure: whether packets come faster than they are judged, or memory runs out.
 *
 * Two signs of packets. *The kernel's buffer fills*: frames that wait are about the age of a batch's latest frame times
 * the rate at which its frames came. With FILLING_SHARE of the buffer taken there is still time; when it is full,
 * it is chance what is lost. *Packets are late*: for LATE_SECONDS every batch was LAG_SECONDS old or older as it was read,
 * however few wait. One late batch is none (a collection of garbage, another program's turn); and an age of more than
 * CLOCK_SECONDS fills no buffer: that is a clock that was set. Silence is none, and a file or a pipe waits by itself.
 *
 * Memory is under pressure from MEMORY_SHARE of its ceiling on.
 */

interface PressureOptions {
  readonly memoryLimitBytes: number
  readonly bufferFrames: number
  readonly residentBytes: () => number
}

interface Pressure {
  /**
   * A batch has come.
   * @param newestSeconds - time of its latest frame
   * @returns that the buffer fills, and how fast frames come; null where it does not
   */
  note(frames: number, lagSeconds: number | null, newestSeconds: number, nowSeconds: number): Filling | null
  /** What a window that is over was, and starts the next. @param isOverloaded - a single window is enough then */
  ofWindow(isOverloaded: boolean): WindowPressure
  /** Begins anew: the process did not run for a while. */
  resume(): void
}

interface Filling {
  readonly framesPerSecond: number
  readonly why: string
}

interface WindowPressure {
  readonly level: 'high' | 'some' | 'none'
  readonly why: string
  /** What presses. */
  readonly of: 'packets' | 'memory'
}

const LAG_SECONDS = 0.5
const LATE_SECONDS = 1
const CALM_LAG_SECONDS = 0.1
const FILLING_SHARE = 0.5
const CLOCK_SECONDS = 5
const MEMORY_SHARE = 0.97
const CALM_MEMORY_SHARE = 0.95

function createPressure(options: PressureOptions): Pressure {
  const { bufferFrames, memoryLimitBytes } = options
  let leastLag = Number.POSITIVE_INFINITY
  let mostLag = 0
  /** When the batches that come late now began to. */
  let lateSince: number | null = null
  let latestSeconds = 0
  const rate = createFrameRate()

  return {
    note(frames, lagSeconds, newestSeconds, nowSeconds) {
      if (lagSeconds === null) return null
      leastLag = Math.min(leastLag, lagSeconds)
      mostLag = Math.max(mostLag, lagSeconds)
      latestSeconds = nowSeconds
      if (lagSeconds < LAG_SECONDS) lateSince = null
      else lateSince ??= nowSeconds
      const framesPerSecond = rate.note(frames, newestSeconds)
      const waiting = lagSeconds * framesPerSecond
      if (waiting < FILLING_SHARE * bufferFrames || lagSeconds > CLOCK_SECONDS) return null
      const share = Math.min(100, Math.round((100 * waiting) / bufferFrames))
      return { framesPerSecond, why: `the kernel's buffer is ${share} % full` }
    },
    ofWindow(isOverloaded) {
      const residentShare = options.residentBytes() / memoryLimitBytes
      const isLate = leastLag >= LAG_SECONDS && leastLag !== Number.POSITIVE_INFINITY
      if (!isLate) lateSince = null
      const lateSeconds = lateSince === null ? 0 : latestSeconds - lateSince
      const presses = isOverloaded ? isLate : lateSeconds >= LATE_SECONDS
      const isCalm = mostLag < CALM_LAG_SECONDS && residentShare < CALM_MEMORY_SHARE
      const result: WindowPressure = presses
        ? { level: 'high', why: `packets wait for ${leastLag.toFixed(1)} s`, of: 'packets' }
        : {
            level: residentShare >= MEMORY_SHARE ? 'high' : isCalm ? 'none' : 'some',
            why: `resident memory is ${Math.round(100 * residentShare)} % of its ceiling`,
            of: 'memory',
          }
      leastLag = Number.POSITIVE_INFINITY
      mostLag = 0
      return result
    },
    resume() {
      leastLag = Number.POSITIVE_INFINITY
      mostLag = 0
      lateSince = null
    },
  }
}

/**
 * RefusedFlows: flows that were left out stay out as long as they go on.
 *
 * Let in later, such a flow would be judged by packets from its midst as if they were its first: a false alarm for each that an
 * attack has outlasted. So a refused flow is remembered until it has been silent for SILENT_SECONDS, but for
 * LONGEST_SECONDS at most, since some (multicast on fixed ports) never are.
 *
 * A table of fixed size, a place for each hash: a later flow takes the place of an earlier one. In a flood that goes on quickly, but every
 * packet of a flow that is still refused takes its place anew, and after the flood nobody else wants it.
 */
const PLACES = 65_536
const SILENT_SECONDS = 60
const LONGEST_SECONDS = 600

interface RefusedFlows {
  /** @param hash - 32 bits, the same for both directions */
  refuse(hash: number, nowSeconds: number): void
  /** Whether it was refused and goes on; a packet of it has come now. */
  holds(hash: number, nowSeconds: number): boolean
  /** Whether there can be any. */
  any(nowSeconds: number): boolean
}

export function createRefusedFlows(): RefusedFlows {
  const hashes = new Int32Array(PLACES)
  const first = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  const last = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  let latest = Number.NEGATIVE_INFINITY
  const goesOn = (at: number, hash: number, now: number): boolean =>
    hashes[at] === (hash | 0) && now - last[at] <= SILENT_SECONDS && now - first[at] <= LONGEST_SECONDS
  return {
    refuse(hash, now) {
      const at = hash & (PLACES - 1)
      if (!goesOn(at, hash, now)) {
        hashes[at] = hash
        first[at] = now
      }
      last[at] = now
      latest = now
    },
    holds(hash, now) {
      const at = hash & (PLACES - 1)
      if (!goesOn(at, hash, now)) return false
      last[at] = now
      latest = now
      return true
    },
    any: (now) => now - latest <= SILENT_SECONDS,
  }
}

interface OverloadOptions {
  readonly memoryLimitBytes: number
  /** Frames that the kernel keeps for us. */
  readonly bufferFrames: number
  readonly seed: number
  readonly monotonicMillis: () => number
  readonly residentBytes: () => number
  /** Packets that were left out up to now, also those that were held when they came. */
  readonly shedPackets: () => number
  readonly onEntered: (message: string) => void
  /** @param packets - that were left out */
  readonly onLeft: (message: string, packets: number) => void
}

export interface Overload {
  /**
   * A batch has come, and is about to be judged.
   * @param lagSeconds - age of its latest frame now; null where that says nothing
   * @param newestSeconds - time of its latest frame
   */
  arrived(frames: number, lagSeconds: number | null, newestSeconds: number): void
  /** It was judged: packets that were left out, and flows that were begun. */
  judged(frames: number, shed: number, flows: number): void
  /** To be called about every second, packets or none. */
  tick(): void
  /** The process did not run for a while: what was measured over that says nothing of its load. */
  resume(): void
  /** No more packets come: one that goes on is over. */
  end(): void
  /** Any flow may begin: `admits` need not be asked. */
  readonly admitsAll: boolean
  /** Whether a flow between these ends may begin; the same for both directions. */
  admits(sourceHash: number, destinationHash: number): boolean
  /** Whether packets between these ends are left out whatever they belong to. */
  sheds(sourceHash: number, destinationHash: number): boolean
  readonly isOverloaded: boolean
  /** So far that open flows are left out, too. */
  readonly shedsOpenFlows: boolean
  /** Times that it was entered. */
  readonly times: number
}

const WINDOW_MILLIS = 250
/** From one answer to a filling buffer to the next: what was left out shows by then. */
const FILLING_SECONDS = 0.1
/** What comes is so much less than what is done where the buffer empties. */
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

interface Done {
  judged: number
  shed: number
  flows: number
  workMillis: number
}

function nothingDone(): Done {
  return { judged: 0, shed: 0, flows: 0, workMillis: 0 }
}

export function createOverload(options: OverloadOptions): Overload {
  const { monotonicMillis } = options
  const pressure = createPressure(options)
  const refused = createRefusedFlows()
  let nowSeconds = 0
  let isOverloaded = false
  let steps = 0
  let times = 0
  let enteredMillis = 0
  let shedBefore = 0
  let calmSeconds = 0
  let beganMillis = monotonicMillis()
  let arrivedMillis = beganMillis
  let since = nothingDone()
  let before = nothingDone()
  let loweredMillis = Number.NEGATIVE_INFINITY
  let patienceSeconds = LEAST_PATIENCE_SECONDS

  const startWindow = (now: number): void => {
    beganMillis = now
    before = since
    since = nothingDone()
  }
  const raise = (by: number, why: string, most: number): void => {
    if (!isOverloaded) {
      isOverloaded = true
      times++
      enteredMillis = monotonicMillis()
      shedBefore = options.shedPackets()
      patienceSeconds = LEAST_PATIENCE_SECONDS
      options.onEntered(
        `overload entered: ${why}; flows are left out, and their packets counted as dropped by the agent`,
      )
    }
    steps = Math.max(steps, Math.min(most, steps + by))
    calmSeconds = 0
    if (monotonicMillis() - loweredMillis < TRIED_MILLIS) {
      patienceSeconds = Math.min(MOST_PATIENCE_SECONDS, 2 * patienceSeconds)
    }
    loweredMillis = Number.NEGATIVE_INFINITY
  }
  const leave = (how: string): void => {
    isOverloaded = false
    const lasted = Math.round((monotonicMillis() - enteredMillis) / 1000)
    const packets = options.shedPackets() - shedBefore
    options.onLeft(`overload ${how} after ${lasted} s: ${packets} packets were left out`, packets)
  }
  const noteCalm = (seconds: number): void => {
    calmSeconds += seconds
    if (calmSeconds < (steps === 0 ? LAST_CALM_SECONDS : patienceSeconds)) return
    calmSeconds = 0
    if (steps > 0) {
      // the step before did no harm
      if (loweredMillis !== Number.NEGATIVE_INFINITY) {
        patienceSeconds = Math.max(LEAST_PATIENCE_SECONDS, patienceSeconds / 2)
      }
      loweredMillis = monotonicMillis()
      steps--
      return
    }
    leave('left')
  }
  /**
   * The buffer fills: so many steps at once that no more comes than can be done, since a step at a time would come too late. None
   * where what waits is worked off anyhow, or where to let in fewer flows would not help.
   */
  const answerFilling = ({ framesPerSecond, why }: Filling, now: number): void => {
    if (steps === 0) {
      const judged = before.judged + since.judged
      const flows = before.flows + since.flows
      const seconds = (before.workMillis + since.workMillis) / 1000
      const isOfFlows = flows > FEW_FLOWS_SHARE * judged
      if (!isOfFlows || !(framesPerSecond > judged / seconds)) return
      raise(stepsBetween(framesPerSecond, judged / seconds), why, STEPS_OF_NEW)
    } else {
      const seconds = (now - beganMillis) / 1000
      const done = (since.judged + since.shed) / seconds
      // a buffer that is full gives as many as are taken out of it
      if (seconds < FILLING_SECONDS || !(framesPerSecond > DRAINED_SHARE * done)) return
      raise(stepsBetween(framesPerSecond, done), why, MOST_STEPS)
    }
    startWindow(now)
  }
  const tick = (): void => {
    const now = monotonicMillis()
    if (now - beganMillis < WINDOW_MILLIS) return
    const seconds = (now - beganMillis) / 1000
    const { level, why, of } = pressure.ofWindow(isOverloaded)
    if (level === 'high') {
      raise(1, why, of === 'memory' ? MOST_STEPS_FOR_MEMORY : MOST_STEPS)
      startWindow(now)
      return
    }
    if (!isOverloaded || level !== 'none') calmSeconds = 0
    else noteCalm(seconds)
    startWindow(now)
  }
  const hashOf = (sourceHash: number, destinationHash: number): number => {
    const sum = (sourceHash + destinationHash + options.seed) | 0
    const mixed = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
    return mixed ^ (mixed >>> 13)
  }
  return {
    arrived(frames, lagSeconds, newestSeconds) {
      arrivedMillis = monotonicMillis()
      nowSeconds = arrivedMillis / 1000
      const filling = pressure.note(frames, lagSeconds, newestSeconds, nowSeconds)
      if (filling !== null) answerFilling(filling, arrivedMillis)
    },
    judged(frames, shed, flows) {
      since.judged += frames - shed
      since.shed += shed
      since.flows += flows
      since.workMillis += monotonicMillis() - arrivedMillis
      tick()
    },
    tick,
    resume() {
      pressure.resume()
      startWindow(monotonicMillis())
    },
    end() {
      if (isOverloaded) leave('ended by the end of the run')
    },
    get admitsAll() {
      return steps === 0 && !refused.any(nowSeconds)
    },
    admits(sourceHash, destinationHash) {
      const mask = (1 << Math.min(steps, STEPS_OF_NEW)) - 1
      const hash = hashOf(sourceHash, destinationHash)
      if ((hash & mask) === 0) return !refused.holds(hash, nowSeconds)
      refused.refuse(hash, nowSeconds)
      return false
    },
    sheds(sourceHash, destinationHash) {
      const mask = (1 << Math.max(0, steps - STEPS_OF_NEW)) - 1
      return ((hashOf(sourceHash, destinationHash) >>> STEPS_OF_NEW) & mask) !== 0
    },
    get isOverloaded() {
      return isOverloaded
    },
    get shedsOpenFlows() {
      return steps > STEPS_OF_NEW
    },
    get times() {
      return times
    },
  }
}

/** Halvings after which `coming` is no more than `done`. */
function stepsBetween(coming: number, done: number): number {
  return Math.max(1, Math.ceil(Math.log2(coming / done)))
}
