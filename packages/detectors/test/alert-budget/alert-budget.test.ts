import { ArgumentError, createRng, type Rng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { budgetRate, createBudgetCalibration, MAXIMUM_RATE } from '../../src/calibration/alert-budget.js'
import { createTailScoreCollector } from '../../src/calibration/tail-scores.js'
import { calibrateThreshold } from '../../src/calibration/threshold.js'

function calibrationOf(scores: Iterable<number>, capacity?: number) {
  const collector = createTailScoreCollector(capacity)
  for (const score of scores) collector.add(score)
  return createBudgetCalibration(collector.snapshot())
}

/** Distributions of scores (low is novel), and the exact share at or below a value. */
const DISTRIBUTIONS: Record<string, { draw: (rng: Rng) => number; below: (v: number) => number }> = {
  exponential: {
    draw: (rng) => Math.log(1 - rng.nextFloat()),
    below: (v) => Math.exp(Math.min(0, v)),
  },
  'heavy, ξ = 0.5': {
    draw: (rng) => -((1 - rng.nextFloat()) ** -0.5),
    below: (v) => Math.min(1, (-v) ** -2),
  },
  'very heavy, ξ = 1': {
    draw: (rng) => -1 / (1 - rng.nextFloat()),
    below: (v) => Math.min(1, -1 / v),
  },
  'with an end, ξ = −0.5': {
    draw: (rng) => Math.sqrt(1 - rng.nextFloat()),
    below: (v) => Math.min(1, Math.max(0, v) ** 2),
  },
  logistic: {
    draw: (rng) => {
      const u = 1 - rng.nextFloat()
      return Math.log(u / (1 - u + Number.MIN_VALUE))
    },
    below: (v) => 1 / (1 + Math.exp(-v)),
  },
}

describe('where the flows are enough', () => {
  it('the threshold is the conformal one, whatever is kept of the scores', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.double({ min: -1e6, max: 1e6, noNaN: true })), {
          minLength: 20,
          maxLength: 300,
        }),
        fc.double({ min: 0.05, max: MAXIMUM_RATE, noNaN: true }),
        (scores, rate) => {
          const { value, calibration } = calibrateThreshold(Float64Array.from(scores), rate)
          const decision = calibrationOf(scores).at(rate)
          if (calibration.guaranteed) {
            expect(decision).toMatchObject({
              method: 'conformal',
              value,
              rate,
              expectedRate: calibration.bound,
            })
          } else expect(decision).toMatchObject({ method: 'refused', rowsNeeded: calibration.rowsNeeded })
          const few = calibrationOf(scores, 5).at(rate)
          if (few.method === 'conformal') {
            expect(few.value).toBeLessThanOrEqual(value)
            expect(few.expectedRate).toBeLessThanOrEqual(rate)
          } else expect(few.method).toBe(decision.method)
        },
      ),
    )
  })

  it('covers: over many calibrations the rate is kept on average, and the intervals hold 95 % of the rates', () => {
    const rng = createRng(3)
    for (const { draw, below } of Object.values(DISTRIBUTIONS)) {
      let sum = 0
      let inside = 0
      const runs = 400
      for (let run = 0; run < runs; run++) {
        const decision = calibrationOf(Array.from({ length: 400 }, () => draw(rng))).at(0.01)
        if (decision.method !== 'conformal') throw new Error('expected to be conformal')
        const rate = below(decision.value)
        sum += rate
        if (rate >= decision.interval.low && rate <= decision.interval.high) inside++
      }
      // r = 4: the rate's standard deviation is about 0.005, of the mean of 400 a twentieth of that
      expect(sum / runs).toBeLessThan(0.01 + 4 * 0.00025)
      expect(sum / runs).toBeGreaterThan(0.01 - 4 * 0.00025)
      expect(inside / runs).toBeGreaterThan(0.91)
      expect(inside / runs).toBeLessThan(0.99)
    }
  })
})

describe('where the flows are too few, but not far too few', () => {
  const ROWS = 1500
  const RATE = 1 / 6000

  it.each(sampleOf(Object.entries(DISTRIBUTIONS), 0.4))('a tail is fitted: %s', (_, { draw, below }) => {
    const rng = createRng(11)
    const rates: number[] = []
    let refused = 0
    let inside = 0
    for (let run = 0; run < 20; run++) {
      const decision = calibrationOf(Array.from({ length: ROWS }, () => draw(rng))).at(RATE)
      if (decision.method === 'refused') {
        refused++
        continue
      }
      expect(decision.method).toBe('tail')
      const rate = below(decision.value)
      rates.push(rate)
      if (rate <= decision.interval.high) inside++
    }
    // the test of the fit refuses 5 % of tails that are of the family
    expect(refused).toBeLessThan(6)
    const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length
    const deviation = Math.sqrt(rates.reduce((sum, rate) => sum + (rate - mean) ** 2, 0) / rates.length)
    expect(mean).toBeLessThan(RATE + (3 * deviation) / Math.sqrt(rates.length))
    // and is of use: the threshold is not put so far out that nothing is ever flagged
    expect(mean).toBeGreaterThan(RATE / 4)
    expect(inside / rates.length).toBeGreaterThan(0.85)
  })

  it('is refused where the test sees another tail, and where scores are mostly equal', () => {
    const rng = createRng(5)
    // two kinds of flows far apart, the far one rare: nothing to continue
    const mixed = Array.from({ length: ROWS }, (_, i) =>
      i % 60 === 0 ? -1000 - rng.nextFloat() : rng.nextFloat(),
    )
    expect(calibrationOf(mixed).at(RATE)).toMatchObject({
      method: 'refused',
      rowsNeeded: 5999,
      tailRowsNeeded: null,
    })
    const steps = Array.from({ length: ROWS }, (_, i) => Math.floor(i / 150))
    const equal = Array.from({ length: ROWS }, (_, i) => Math.max(400, i))
    for (const [scores, reason] of [
      [mixed, 'continued'],
      [steps, 'continued'],
      [equal, 'equal'],
    ] as const) {
      expect(calibrationOf(scores).at(RATE)).toMatchObject({
        method: 'refused',
        reason: expect.stringContaining(reason),
      })
    }
  })

  it('gives the same for the same scores in another order', () => {
    const rng = createRng(8)
    const scores = Array.from({ length: ROWS }, () => rng.nextNormal())
    const decision = calibrationOf(scores).at(RATE)
    expect(decision.method).toBe('tail')
    expect(calibrationOf(scores.reverse()).at(RATE)).toEqual(decision)
  })
})

describe('where they are far too few', () => {
  it('the budget is refused with the numbers that it needs', () => {
    const scores = Array.from({ length: 499 }, (_, i) => i)
    expect(calibrationOf(scores).at(1e-4)).toEqual({
      method: 'refused',
      rate: 1e-4,
      reason: 'there are too few flows',
      rowsNeeded: 9999,
      tailRowsNeeded: 999,
    })
    expect(calibrationOf(scores).at(1e-3)).toMatchObject({ rowsNeeded: 999, tailRowsNeeded: 500 })
    expect(calibrationOf([]).at(0.1)).toMatchObject({ rowsNeeded: 9, tailRowsNeeded: 500 })
  })
})

describe('budgetRate', () => {
  it('is alerts over flows, within what makes sense', () => {
    expect(budgetRate(1, 10_000)).toBe(1e-4)
    expect(budgetRate(1, 2)).toBe(MAXIMUM_RATE)
    for (const bad of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => budgetRate(bad, 1)).toThrow(ArgumentError)
      expect(() => budgetRate(1, bad)).toThrow(ArgumentError)
    }
  })
})
