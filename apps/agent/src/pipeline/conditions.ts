/** Whether the agent watches as it should: silence, lost packets, doubtful packets, and the causes for which it does not. */

import { type PacketCheckCounts, packetCheckWarnings } from '@oddflow/capture'
import type { Notice } from '../alerts/eve.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'

const LEAST_SECONDS = 600
const TIMES = 3

/**
 * How long no packet has come, and whether that is longer than this network is ever silent: LEAST_SECONDS at first, then three
 * times the longest silence that has ended. Seconds are ticks, so the time in which the agent is stopped or suspended is none.
 */
export function createSilence() {
  let seconds = 0
  let longest = 0
  let haveOthersCome = false
  return {
    /** IP packets have come. */
    end() {
      longest = Math.max(longest, seconds)
      seconds = 0
      haveOthersCome = false
    },
    /** Packets have come that may or may not be IP: of another protocol, or in an encapsulation that is not read. */
    others() {
      haveOthersCome = true
    },
    /** To be called every second. Why it has been silent for too long; null where it has not. */
    tick(): string | null {
      seconds++
      const limit = Math.max(LEAST_SECONDS, TIMES * longest)
      if (seconds <= limit) return null
      const minutes = Math.floor(seconds / 60)
      return haveOthersCome
        ? `packets arrive, but no readable IP packet for ${minutes} minutes; check the mirror port, its encapsulation and the filter`
        : `no packet for ${minutes} minutes; check the cable, the mirror port and the filter`
    },
  }
}

const CHECKPOINTS = 256

export type LossHistory = ReturnType<typeof createLossHistory>

/**
 * How many packets were lost since a time, so that an alert can say what its flow may miss. A loss may have been earlier than
 * its checkpoint, since the kernel's count is asked for now and then. Checkpoints that are forgotten are added to the oldest:
 * a window that begins before it has too many losses rather than too few.
 */
export function createLossHistory() {
  /** The packets' times at which the count was seen to have grown. */
  const checkpoints: { atMicros: number; before: number }[] = []
  let total = 0
  return {
    /** Losses up to now, as of the packets' time. */
    note(atMicros: number, lostPackets: number): void {
      if (lostPackets <= total) return
      checkpoints.push({ atMicros, before: total })
      if (checkpoints.length > CHECKPOINTS) {
        const [oldest] = checkpoints.splice(0, 1)
        checkpoints[0].before = oldest.before
      }
      total = lostPackets
    },
    /** Packets lost from a time to now. */
    since(startMicros: number): number {
      const first = checkpoints.find(({ atMicros }) => atMicros >= startMicros)
      return first === undefined ? 0 : total - first.before
    },
    clockSet(byMicros: number): void {
      for (const checkpoint of checkpoints) checkpoint.atMicros += byMicros
    },
  }
}

/**
 * Warnings of copied packets and wrong checksums, each problem once, from the packets since the last look: a mirror port may
 * be set up later. @returns a look at the counts, if at least `least` packets have come since the last one.
 */
export function createPacketWarnings(
  counts: Readonly<PacketCheckCounts>,
  warn: (line: string) => void,
): (least: number) => void {
  let last = { ...counts }
  const warned = new Set<string>()
  return (least) => {
    if (counts.ipPackets - last.ipPackets < least) return
    const recent = { ...counts }
    for (const name of Object.keys(recent) as (keyof PacketCheckCounts)[]) recent[name] -= last[name]
    last = { ...counts }
    for (const { problem, text } of packetCheckWarnings(recent, '--drop-duplicates')) {
      if (warned.has(problem)) continue
      warned.add(problem)
      warn(text)
    }
  }
}

/**
 * Watched devices that no model judges; that the state folder is the agent's alone; the recorder of the interface; that
 * packets come at all; synthetic attacks that the agent sends itself.
 */
type Cause = 'unjudged' | 'folder' | 'recorder' | 'silence' | 'self-test'

interface ConditionOptions {
  readonly clock: Pick<Clock, 'wallMicros' | 'monotonicMillis'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly tell: (notice: Notice) => void
}

/**
 * Why the agent does not watch as it should, cause by cause. One that begins is reported once to the log and to every output,
 * and once more when it is over.
 */
export function createCondition({ clock, log, tell }: ConditionOptions) {
  const causes = new Map<Cause, { reason: string; readonly sinceMillis: number }>()
  return {
    /** @param reason - a sentence; null: the cause is over, or was none. */
    set(cause: Cause, reason: string | null): void {
      const before = causes.get(cause)
      if (reason !== null) {
        if (before !== undefined) {
          before.reason = reason
          return
        }
        causes.set(cause, { reason, sinceMillis: clock.monotonicMillis() })
        log.warn(`degraded: ${reason}`)
        tell({ rule: 'degraded', atMicros: clock.wallMicros(), summary: reason })
        return
      }
      if (before === undefined) return
      causes.delete(cause)
      const seconds = Math.round((clock.monotonicMillis() - before.sinceMillis) / 1000)
      const summary = `over after ${seconds} s: ${before.reason}`
      log.info(`recovered: ${summary}`)
      tell({ rule: 'recovered', atMicros: clock.wallMicros(), summary, numbers: { seconds } })
    },
    /** The earliest first. */
    get reasons(): readonly string[] {
      return [...causes.values()].map(({ reason }) => reason)
    },
  }
}
