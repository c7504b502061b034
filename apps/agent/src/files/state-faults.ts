/**
 * StateFaults: damage that is found in the state folder while the agent starts: a line of the log each, and, once alerts can
 * go out, a notice to every output.
 */
import type { Notice } from '../alerts/notice.js'
import type { Log } from '../log.js'

export interface StateFaults extends Pick<Log, 'warn'> {
  /** The outputs are told of what was found and, at once, of what is found from now on. */
  tellBy(tell: (notice: Notice) => void): void
  /** For /healthz: how many there were, none where there were none. */
  reasons(): string[]
}

/** A disk that gives back nothing has thousands of them; beyond so many, one notice says how many more there are. */
const MAXIMUM_TOLD = 16

export function createStateFaults(log: Pick<Log, 'warn'>, wallMicros: () => number): StateFaults {
  const seen = new Set<string>()
  const waiting: string[] = []
  let count = 0
  let tell: ((notice: Notice) => void) | null = null
  const give = (summary: string): void => tell?.({ rule: 'state-damaged', atMicros: wallMicros(), summary })
  return {
    warn(message) {
      // what is looked at twice is damaged once
      if (seen.has(message)) return
      if (seen.size < MAXIMUM_TOLD) seen.add(message)
      count++
      log.warn(message)
      if (count > MAXIMUM_TOLD) return
      if (tell === null) waiting.push(message)
      else give(message)
    },
    tellBy(to) {
      tell = to
      for (const message of waiting.splice(0)) give(message)
      const more = count - MAXIMUM_TOLD
      if (more > 0) give(`${more} more files of the state folder are damaged; see the log`)
    },
    reasons() {
      if (count === 0) return []
      const what =
        count === 1 ? 'one file of the state folder was' : `${count} files of the state folder were`
      return [`${what} damaged; see the log`]
    },
  }
}
