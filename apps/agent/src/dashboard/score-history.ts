/**
 * ScoreHistory: how far from the threshold the flows of the last two hours were, minute by minute.
 *
 * A minute (of the packets' time) keeps its verdicts' number, how many were novel, the lowest decision (score −
 * threshold), and a sample of SAMPLE decisions for their median: the first ones, then every second, every fourth and so on,
 * so that it spreads over the minute without chance. What is older than the window goes.
 */
import type { ScoreMinute } from '../page/api.js'

export interface ScoreHistory {
  /** @param decision - score − threshold; null where another rule decided. */
  note(atMicros: number, novel: boolean, decision: number | null): void
  minutes(): ScoreMinute[]
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
}

const MINUTE_MICROS = 60_000_000
const MINUTES = 120
const SAMPLE = 32

interface Minute {
  number: number
  flows: number
  novel: number
  lowest: number
  scored: number
  stride: number
  sample: number[]
}

export function createScoreHistory(): ScoreHistory {
  /** Ascending; a late packet's minute may be missing, and then counts with the next. */
  const minutes: Minute[] = []

  const minuteOf = (number: number): Minute => {
    const last = minutes.at(-1)
    if (last !== undefined && number <= last.number) {
      return minutes.find((minute) => minute.number >= number) ?? last
    }
    const minute = { number, flows: 0, novel: 0, lowest: Infinity, scored: 0, stride: 1, sample: [] }
    minutes.push(minute)
    while (minutes.length > MINUTES || minutes[0].number <= number - MINUTES) minutes.shift()
    return minute
  }
  return {
    note(atMicros, novel, decision) {
      const minute = minuteOf(Math.floor(atMicros / MINUTE_MICROS))
      minute.flows++
      if (novel) minute.novel++
      if (decision === null) return
      if (decision < minute.lowest) minute.lowest = decision
      if (minute.scored++ % minute.stride !== 0) return
      minute.sample.push(decision)
      if (minute.sample.length <= SAMPLE) return
      minute.sample = minute.sample.filter((_, i) => i % 2 === 0)
      minute.stride *= 2
    },
    clockSet(byMicros) {
      const byMinutes = Math.round(byMicros / MINUTE_MICROS)
      for (const minute of minutes) minute.number += byMinutes
    },
    minutes: () =>
      minutes.map(({ number, flows, novel, lowest, sample }) => ({
        atMicros: number * MINUTE_MICROS,
        flows,
        novel,
        lowest: sample.length === 0 ? null : lowest,
        median: sample.length === 0 ? null : [...sample].sort((a, b) => a - b)[sample.length >> 1],
      })),
  }
}
