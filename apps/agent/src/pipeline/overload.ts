/**
 * Overload: what is left out when packets come faster than they can be judged, by rule and counted.
 *
 * *Pressure* is measured a second at a time. Frames of an interface that were waiting LAG_SECONDS or longer when
 * they were read, all of a second's, are pressure: soon the kernel's buffer is full, and then it is chance what is lost. So is
 * resident memory at MEMORY_SHARE of its ceiling. Silence is none, and a file or a pipe waits by itself.
 *
 * *What goes* is whole flows: one in two by a keyed hash of their ends and ports, then three in four and so on, a
 * step for every second of pressure. Flows that are kept stay whole, and nobody without the key can choose to
 * be left out. Every packet that is left out is counted as dropped by the agent, and alerts tell of it.
 *
 * *It ends* a step at a time, when for CALM_SECONDS nothing waited and the traffic of the step before would be
 * within CAPACITY_SHARE of what was judged in a second under pressure: a flood that goes on is one overload and not
 * many. Packets of flows with a verdict are not told apart: to find their flow is most of the work.
 */
export interface OverloadOptions {
  readonly memoryLimitBytes: number
  readonly seed: number
  readonly monotonicMillis: () => number
  readonly residentBytes: () => number
  readonly info: (message: string) => void
  readonly warn: (message: string) => void
}

export interface Overload {
  /** A batch was judged. @param lagSeconds - age of its latest packet when it was read; null where that says nothing. */
  note(packets: number, shed: number, lagSeconds: number | null): void
  /** To be called about every second, packets or none. */
  tick(): void
  /** Whether packets between these ends are left out; the same for both directions. */
  sheds(sourceHash: number, destinationHash: number): boolean
  readonly isOverloaded: boolean
  /** Times that it was entered. */
  readonly times: number
}

const LAG_SECONDS = 0.5
const CALM_LAG_SECONDS = 0.1
const CALM_SECONDS = 3
const CAPACITY_SHARE = 0.8
const MEMORY_SHARE = 0.97
const CALM_MEMORY_SHARE = 0.95
/** One flow in 64 is kept at least; for want of memory, which may not come back, one in 4. */
const MOST_STEPS = 6
const MOST_STEPS_FOR_MEMORY = 2
const SECOND_MILLIS = 1000

export function createOverload(options: OverloadOptions): Overload {
  const { memoryLimitBytes, monotonicMillis } = options
  let steps = 0
  let times = 0
  let enteredMillis = 0
  let leftOut = 0
  let calmSeconds = 0
  /** Packets that were judged in a second under pressure. */
  let capacity = 0
  let beganMillis = monotonicMillis()
  let offered = 0
  let shedPackets = 0
  let leastLag = Number.POSITIVE_INFINITY
  let mostLag = 0

  const enter = (why: string): void => {
    times++
    enteredMillis = monotonicMillis()
    leftOut = 0
    options.warn(
      `overload entered: ${why}; flows are left out, and their packets counted as dropped by the agent`,
    )
  }
  const leave = (): void => {
    const seconds = Math.round((monotonicMillis() - enteredMillis) / 1000)
    options.info(`overload left after ${seconds} s: ${leftOut} packets were left out`)
  }
  const closeSecond = (seconds: number): void => {
    const residentShare = options.residentBytes() / memoryLimitBytes
    const lags = leastLag >= LAG_SECONDS && leastLag !== Number.POSITIVE_INFINITY
    const most = lags ? MOST_STEPS : MOST_STEPS_FOR_MEMORY
    leftOut += shedPackets
    if (lags || residentShare >= MEMORY_SHARE) {
      if (steps === 0) {
        enter(
          lags
            ? `packets wait for ${leastLag.toFixed(1)} s`
            : `resident memory is ${Math.round(100 * residentShare)} % of its ceiling`,
        )
      }
      capacity = (offered - shedPackets) / seconds
      if (steps < most) steps++
      calmSeconds = 0
    } else if (steps > 0) {
      const before = offered / seconds / 2 ** (steps - 1)
      const isCalm =
        mostLag < CALM_LAG_SECONDS && residentShare < CALM_MEMORY_SHARE && before <= CAPACITY_SHARE * capacity
      calmSeconds = isCalm ? calmSeconds + seconds : 0
      if (calmSeconds >= CALM_SECONDS) {
        calmSeconds = 0
        steps--
        if (steps === 0) leave()
      }
    }
    offered = 0
    shedPackets = 0
    leastLag = Number.POSITIVE_INFINITY
    mostLag = 0
  }
  const tick = (): void => {
    const now = monotonicMillis()
    if (now - beganMillis < SECOND_MILLIS) return
    const seconds = (now - beganMillis) / 1000
    beganMillis = now
    closeSecond(seconds)
  }
  return {
    note(packets, shed, lagSeconds) {
      offered += packets
      shedPackets += shed
      if (lagSeconds !== null) {
        leastLag = Math.min(leastLag, lagSeconds)
        mostLag = Math.max(mostLag, lagSeconds)
      }
      tick()
    },
    tick,
    sheds(sourceHash, destinationHash) {
      if (steps === 0) return false
      const sum = (sourceHash + destinationHash + options.seed) | 0
      const mixed = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
      return ((mixed ^ (mixed >>> 13)) & ((1 << steps) - 1)) !== 0
    },
    get isOverloaded() {
      return steps > 0
    },
    get times() {
      return times
    },
  }
}
