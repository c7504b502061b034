/**
 * Silence: how long no packet has come, and whether that is longer than this network is ever silent.
 *
 * Nothing says how silent a network may be: a filter may leave one packet an hour. So the limit is LEAST_SECONDS at first, and
 * from then on three times the longest silence that has ended. Seconds are ticks of the running agent: the time in which it is
 * stopped or suspended is none.
 */
export interface Silence {
  /** Packets have come. */
  end(): void
  /** To be called every second. Why it has been silent for too long; null where it has not. */
  tick(): string | null
}

const LEAST_SECONDS = 600
const TIMES = 3

export function createSilence(): Silence {
  let seconds = 0
  let longest = 0
  return {
    end() {
      longest = Math.max(longest, seconds)
      seconds = 0
    },
    tick() {
      seconds++
      const limit = Math.max(LEAST_SECONDS, TIMES * longest)
      return seconds <= limit
        ? null
        : `no packet has come for ${Math.floor(seconds / 60)} minutes: is the cable, the mirror port or the filter right?`
    },
  }
}
