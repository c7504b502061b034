/**
 * Condition: whether the agent watches as it should, cause by cause.
 *
 * A cause that begins is told once to the log and to every output, and once more when it is over; /healthz and the
 * dashboard have its reason meanwhile.
 */

import { type PacketCheckCounts, packetCheckWarnings } from '@oddflow/capture'
import type { Notice } from '../alerts/notice.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'

/**
 * Silence: how long no packet has come, and whether that is longer than this network is ever silent.
 *
 * Nothing says how silent a network may be: a filter may leave one packet an hour. So the limit is LEAST_SECONDS at first, and
 * from then on three times the longest silence that has ended. Seconds are ticks of the running agent: the time in which it is
 * stopped or suspended is none.
 */
interface Silence {
  /** IP packets have come. */
  end(): void
  /** Packets have come that may or may not be IP: of another protocol, or in an encapsulation that is not read. */
  others(): void
  /** To be called every second. Why it has been silent for too long; null where it has not. */
  tick(): string | null
}

const LEAST_SECONDS = 600
const TIMES = 3

export function createSilence(): Silence {
  let seconds = 0
  let longest = 0
  let haveOthersCome = false
  return {
    end() {
      longest = Math.max(longest, seconds)
      seconds = 0
      haveOthersCome = false
    },
    others() {
      haveOthersCome = true
    },
    tick() {
      seconds++
      const limit = Math.max(LEAST_SECONDS, TIMES * longest)
      if (seconds <= limit) return null
      const minutes = Math.floor(seconds / 60)
      return haveOthersCome
        ? `packets come, and no IP packet that can be read for ${minutes} minutes: are the mirror port, its encapsulation and the filter right?`
        : `no packet has come for ${minutes} minutes: is the cable, the mirror port or the filter right?`
    },
  }
}

/**
 * LossHistory: how many packets were lost since a time, so that an alert can say what its flow may miss.
 *
 * A checkpoint is the packets' time at which the count of losses was seen to have grown. As the kernel's count is
 * asked for now and then, a loss may have been earlier than its checkpoint, and never later: what is told of a
 * window is what was learnt of since it began. The last CHECKPOINTS are kept; those before are added to the oldest,
 * so that a window that begins before it is told of too many rather than too few.
 */
const CHECKPOINTS = 256

export interface LossHistory {
  /** Losses up to now, as of the packets' time. */
  note(atMicros: number, lostPackets: number): void
  /** Packets lost from a time to now. */
  since(startMicros: number): number
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
}

export function createLossHistory(): LossHistory {
  const checkpoints: { atMicros: number; before: number }[] = []
  let total = 0
  return {
    note(atMicros, lostPackets) {
      if (lostPackets <= total) return
      checkpoints.push({ atMicros, before: total })
      if (checkpoints.length > CHECKPOINTS) {
        const [oldest] = checkpoints.splice(0, 1)
        checkpoints[0].before = oldest.before
      }
      total = lostPackets
    },
    since(startMicros) {
      const first = checkpoints.find(({ atMicros }) => atMicros >= startMicros)
      return first === undefined ? 0 : total - first.before
    },
    clockSet(byMicros) {
      for (const checkpoint of checkpoints) checkpoint.atMicros += byMicros
    },
  }
}

/**
 * Warnings of copied packets and wrong checksums, each problem once. Judged are the packets since the last look, so that a
 * mirror port that is set up later is noticed too.
 */

/** @returns a look at the counts, if at least `least` packets have come since the last one. */
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
 * packets come at all; made attacks that the agent sends itself.
 */
type Cause = 'unjudged' | 'folder' | 'recorder' | 'silence' | 'self-test'

interface ConditionOptions {
  readonly clock: Pick<Clock, 'wallMicros' | 'monotonicMillis'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly tell: (notice: Notice) => void
}

interface Condition {
  /** @param reason - a sentence; null: the cause is over, or was none. */
  set(cause: Cause, reason: string | null): void
  /** Of the causes that there are, the earliest first. */
  readonly reasons: readonly string[]
}

export function createCondition({ clock, log, tell }: ConditionOptions): Condition {
  const causes = new Map<Cause, { reason: string; readonly sinceMillis: number }>()
  return {
    set(cause, reason) {
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
    get reasons() {
      return [...causes.values()].map(({ reason }) => reason)
    },
  }
}
