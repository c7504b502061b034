/** What the support guard promises, and what a score is made of. */
import { matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import { createScoreParts, createScoreWorkspace, hasScoreParts, scoreParts } from '../../src/index.js'
import { clusteredRows, novelRows } from '../rows.js'
import { COLUMNS, type ConformanceChecks, score, takes, train, variantsFor } from './fixtures.js'
export const GUARD_CHECKS: ConformanceChecks = {
  'with the guard, rows ever further from the training rows score ever lower': (detector) => {
    if (!takes(detector, 'supportGuard')) return
    const model = train(detector, clusteredRows(300, COLUMNS))
    const rows = matrixOf(
      40,
      COLUMNS,
      Float64Array.from({ length: 40 * COLUMNS }, (_, at) => -100 * 2 ** Math.floor(at / COLUMNS)),
    )
    const scores = score(model, rows)
    for (let i = 1; i < 40; i++) expect(scores[i]!).toBeLessThan(scores[i - 1]!)
    const lowest = Math.min(...score(model, clusteredRows(300, COLUMNS)))
    expect(scores[0]!).toBeLessThan(lowest)
  },

  'the parts of a score add up to it, and without a guard to what is scored then': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(90, COLUMNS), options)
      const workspace = createScoreWorkspace(model)
      const rows = matrixOf(
        40,
        COLUMNS,
        Float64Array.of(...clusteredRows(20, COLUMNS, 9).data, ...novelRows(20, COLUMNS).data),
      )
      const parts = createScoreParts(40)
      if (!hasScoreParts(model)) {
        expect(() => scoreParts(model, rows, parts, workspace)).toThrow(/has no parts/)
        continue
      }
      expect(scoreParts(model, rows, parts, workspace)).toBe(parts)
      const scores = score(model, rows)
      for (let i = 0; i < 40; i++) {
        expect(parts.densityTerm[i]! + parts.supportTerm[i]!).toBe(scores[i])
        expect(parts.support[i]!).toBeLessThanOrEqual(0)
        if (options.supportGuard === false) expect(scores[i]).toBe(parts.unguarded[i])
        else expect(scores[i]!).toBeLessThan(0)
      }
      expect(() => scoreParts(model, rows, createScoreParts(39), workspace)).toThrow(/out: expected/)
    }
  },
}
