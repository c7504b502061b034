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
import { createFrameRate } from './frame-rate.js'

export interface PressureOptions {
  readonly memoryLimitBytes: number
  readonly bufferFrames: number
  readonly residentBytes: () => number
}

export interface Pressure {
  /**
   * A batch has come.
   * @param newestSeconds - time of its latest frame
   * @returns that the buffer fills, and how fast frames come; null where it does not
   */
  note(frames: number, lagSeconds: number | null, newestSeconds: number): Filling | null
  /** What a window that is over was, and starts the next. @param isOverloaded - a single window is enough then */
  ofWindow(seconds: number, isOverloaded: boolean): WindowPressure
  /** Begins anew: the process did not run for a while. */
  resume(): void
}

export interface Filling {
  readonly framesPerSecond: number
  readonly why: string
}

export interface WindowPressure {
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

export function createPressure(options: PressureOptions): Pressure {
  const { bufferFrames, memoryLimitBytes } = options
  let leastLag = Number.POSITIVE_INFINITY
  let mostLag = 0
  let lateSeconds = 0
  const rate = createFrameRate()

  return {
    note(frames, lagSeconds, newestSeconds) {
      if (lagSeconds === null) return null
      leastLag = Math.min(leastLag, lagSeconds)
      mostLag = Math.max(mostLag, lagSeconds)
      const framesPerSecond = rate.note(frames, newestSeconds)
      const waiting = lagSeconds * framesPerSecond
      if (waiting < FILLING_SHARE * bufferFrames || lagSeconds > CLOCK_SECONDS) return null
      const share = Math.min(100, Math.round((100 * waiting) / bufferFrames))
      return { framesPerSecond, why: `the kernel's buffer is ${share} % full` }
    },
    ofWindow(seconds, isOverloaded) {
      const residentShare = options.residentBytes() / memoryLimitBytes
      const isLate = leastLag >= LAG_SECONDS && leastLag !== Number.POSITIVE_INFINITY
      lateSeconds = isLate ? lateSeconds + seconds : 0
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
      lateSeconds = 0
    },
  }
}
