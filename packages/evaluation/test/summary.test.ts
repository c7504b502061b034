import { describe, expect, it } from 'vitest'
import { spread, timeRuns } from '../src/index.js'

describe('timeRuns', () => {
  it('warms up, then times each run by the clock that it is given', () => {
    let now = 0
    let runs = 0
    const times = timeRuns(
      () => {
        runs++
        now += runs <= 3 ? 100 : runs
      },
      { clock: () => now, runs: 4, warmUps: 3 },
    )
    expect([...times]).toEqual([4, 5, 6, 7])
    expect(runs).toBe(7)
  })

  it('refuses a clock that runs back, and counts out of range', () => {
    let now = 0
    expect(() => timeRuns(() => {}, { clock: () => now-- })).toThrow(/clock/)
    expect(() => timeRuns(() => {}, { clock: () => 0, runs: 0 })).toThrow(/runs/)
    expect(() => timeRuns(() => {}, { clock: () => 0, warmUps: -1 })).toThrow(/warmUps/)
  })
})

it('spread: the sample standard deviation, none for one value', () => {
  expect(spread([2, 4, 4, 4, 5, 5, 7, 9])).toEqual({ mean: 5, sd: Math.sqrt(32 / 7), n: 8 })
  expect(spread([3])).toEqual({ mean: 3, sd: null, n: 1 })
  expect(spread([])).toBeNull()
})
