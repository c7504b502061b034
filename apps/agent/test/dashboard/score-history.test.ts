import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createScoreHistory } from '../../src/web/alerts.js'

describe('the score history', () => {
  it('counts every verdict of the window once, whatever the order, and bounds what it keeps', () => {
    const verdict = fc.record({ second: fc.integer({ min: 0, max: 7000 }), decision: fc.integer() })
    fc.assert(
      fc.property(fc.array(verdict, { minLength: 1, maxLength: 400 }), (verdicts) => {
        const history = createScoreHistory()
        for (const { second, decision } of verdicts) history.note(second * 1_000_000, decision <= 0, decision)
        const minutes = history.minutes()
        expect(minutes.length).toBeLessThanOrEqual(120)
        expect(minutes.reduce((sum, { flows }) => sum + flows, 0)).toBe(verdicts.length)
        expect(minutes.reduce((sum, { novel }) => sum + novel, 0)).toBe(
          verdicts.filter(({ decision }) => decision <= 0).length,
        )
        expect(Math.min(...minutes.map(({ lowest }) => lowest ?? 0))).toBe(
          Math.min(...verdicts.map(({ decision }) => decision)),
        )
        const starts = minutes.map(({ atMicros }) => atMicros)
        expect(starts).toEqual([...new Set(starts)].sort((a, b) => a - b))
      }),
    )
  })

  it('lets go what is older than two hours, and samples a busy minute over its whole length', () => {
    const history = createScoreHistory()
    history.note(0, true, -1)
    for (let i = 0; i < 10_000; i++) history.note(7_980_000_000 + 5000 * i, false, i)
    history.note(7_980_000_000, false, null)
    const [minute, ...others] = history.minutes()
    expect(others).toEqual([])
    expect(minute).toMatchObject({ flows: 10_001, novel: 0, lowest: 0 })
    expect(minute!.median).toBeGreaterThan(3500)
    expect(minute!.median).toBeLessThan(6500)
  })
})
