/**
 * Condition: whether the agent watches as it should, cause by cause.
 *
 * A cause that begins is told once to the log and to every output, and once more when it is over; /healthz and the
 * dashboard have its reason meanwhile.
 */
import type { Notice } from '../alerts/notice.js'
import type { Clock } from '../clock.js'
import type { Log } from '../log.js'

/**
 * Watched devices that no model judges; that the state folder is the agent's alone; the recorder of the interface; that
 * packets come at all; made attacks that the agent sends itself.
 */
export type Cause = 'unjudged' | 'folder' | 'recorder' | 'silence' | 'self-test'

export interface ConditionOptions {
  readonly clock: Pick<Clock, 'wallMicros' | 'monotonicMillis'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly tell: (notice: Notice) => void
}

export interface Condition {
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
