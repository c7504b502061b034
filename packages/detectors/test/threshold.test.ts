import { ArgumentError, createRng, DataError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anomalyScore,
  calibrateThreshold,
  checkThreshold,
  decisionFunction,
  isNovel,
  nextDown,
  predict,
} from '../src/calibration/threshold.js'

const rates = fc.double({ min: 1e-6, max: 0.999, noNaN: true })
/** Scores with many ties, as repeated traffic has them, and without. */
const scoreLists = fc
  .oneof(
    fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 300 }),
    fc.array(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e308 }), {
      minLength: 1,
      maxLength: 300,
    }),
  )
  .map((list) => Float64Array.from(list))

describe('calibrateThreshold', () => {
  it('is the conformal p-value rule: novel iff (1 + calibration scores ≤ s) / (n + 1) ≤ fpr', () => {
    // the definition in Bates et al. (2023), counted out, against the single number that we keep
    fc.assert(
      fc.property(scoreLists, rates, fc.array(fc.integer({ min: -4, max: 4 })), (scores, rate, more) => {
        const threshold = calibrateThreshold(scores, rate)
        fc.pre(threshold.calibration.guaranteed)
        for (const s of [...scores, ...more]) {
          const below = scores.filter((c) => c <= s).length
          expect(isNovel(s, threshold)).toBe((1 + below) / (scores.length + 1) <= rate)
        }
      }),
      { numRuns: sampleCount(500) },
    )
  })

  it('never flags more of its own rows than the tolerance, ties or not', () => {
    fc.assert(
      fc.property(scoreLists, rates, (scores, rate) => {
        const threshold = calibrateThreshold(scores, rate)
        const flagged = scores.filter((s) => isNovel(s, threshold)).length
        expect(flagged / scores.length).toBeLessThanOrEqual(rate)
        expect(flagged).toBeLessThan(threshold.calibration.rank)
      }),
    )
  })

  it('depends on the scores as a multiset and leaves them as they are', () => {
    const scores = Float64Array.of(3, 1, 2, 10, 9)
    const threshold = calibrateThreshold(scores, 0.4)
    expect([...scores]).toEqual([3, 1, 2, 10, 9])
    expect(threshold).toEqual(calibrateThreshold(Float64Array.of(1, 2, 3, 9, 10), 0.4))
    expect(threshold).toEqual({
      value: nextDown(2),
      falsePositiveRate: 0.4,
      calibration: {
        method: 'split-conformal',
        rows: 5,
        rank: 2,
        bound: 2 / 6,
        guaranteed: true,
        rowsNeeded: 2,
      },
    })
  })

  it('keeps ranks that rounding would lose: every r/100 with 99 rows', () => {
    const scores = Float64Array.from({ length: 99 }, (_, i) => i)
    for (let r = 1; r < 100; r++) {
      expect(calibrateThreshold(scores, r / 100).calibration).toMatchObject({ rank: r, guaranteed: true })
    }
  })

  it('says when there are too few rows, and how many it takes', () => {
    for (const [rate, needed] of [
      [0.01, 99],
      [0.05, 19],
      [0.5, 1],
      [0.3, 3],
      [1e-3, 999],
      [1 / 49, 48],
    ] as const) {
      const at = (rows: number) => calibrateThreshold(new Float64Array(rows), rate).calibration
      expect(at(needed)).toMatchObject({ guaranteed: true, rowsNeeded: needed })
      if (needed > 1) {
        expect(at(needed - 1)).toMatchObject({ guaranteed: false, rowsNeeded: needed, rank: 1 })
      }
    }
    const few = calibrateThreshold(Float64Array.of(5, 4), 0.01)
    expect(few.value).toBe(nextDown(4))
    expect(few.calibration.bound).toBeCloseTo(1 / 3, 15)
  })

  it.each([
    ['normal scores', (z: number) => z],
    ['heavy ties', (z: number) => Math.round(z)],
    ['one score only', () => 7],
  ])('holds its promise on fresh rows: %s', (_, shape) => {
    // 20,000 calibrations with 60 rows and one fresh row each; bound 3/61 for fpr 0.05, plus 5 standard errors
    const rng = createRng(5)
    const trials = 20_000
    let alarms = 0
    const scores = new Float64Array(60)
    for (let t = 0; t < trials; t++) {
      for (let i = 0; i < 60; i++) scores[i] = shape(rng.nextNormal())
      if (isNovel(shape(rng.nextNormal()), calibrateThreshold(scores, 0.05))) alarms++
    }
    const bound = 3 / 61
    expect(alarms / trials).toBeLessThan(bound + 5 * Math.sqrt((bound * (1 - bound)) / trials))
    if (shape(0.25) === 0.25) {
      // without ties it is exact, so it must not fall far below either
      expect(alarms / trials).toBeGreaterThan(bound - 5 * Math.sqrt((bound * (1 - bound)) / trials))
    }
  })

  it.each([0, 1, -0.1, 1.5, Number.NaN, 1e-12])('refuses the rate %d', (rate) => {
    expect(() => calibrateThreshold(Float64Array.of(1), rate)).toThrow(ArgumentError)
  })

  it.each([[[]], [[1, Number.NaN]], [[Number.NEGATIVE_INFINITY]], [[-Number.MAX_VALUE]]])(
    'refuses the scores %j',
    (scores) => {
      expect(() => calibrateThreshold(Float64Array.from(scores), 0.1)).toThrow(DataError)
    },
  )
})

describe('verdicts', () => {
  const threshold = calibrateThreshold(Float64Array.of(1, 2, 3), 0.5)

  it('agree with one another: novel iff decision ≤ 0', () => {
    fc.assert(
      fc.property(fc.oneof(fc.double({ noNaN: true }), fc.constantFrom(2, nextDown(2))), (score) => {
        const novel = decisionFunction(score, threshold) <= 0
        expect(isNovel(score, threshold)).toBe(novel)
        expect(predict(score, threshold)).toBe(novel ? -1 : 1)
        expect(anomalyScore(score)).toBe(-score)
      }),
    )
    expect(isNovel(2, threshold)).toBe(false)
    expect(isNovel(threshold.value, threshold)).toBe(true)
  })

  it('call a score that is no number novel', () => {
    expect(isNovel(Number.NaN, threshold)).toBe(true)
    expect(predict(Number.NaN, threshold)).toBe(-1)
  })
})

/** Number of float64 values between 0 and x, signed. */
function place(x: number): bigint {
  const bits = new BigInt64Array(Float64Array.of(x).buffer)[0]!
  return bits >= 0n ? bits : -(bits & 0x7fffffffffffffffn)
}

it('nextDown is the float64 just below', () => {
  expect(nextDown(1)).toBe(1 - 2 ** -53)
  expect(nextDown(-1)).toBe(-1 - 2 ** -52)
  expect(nextDown(0)).toBe(-Number.MIN_VALUE)
  expect(nextDown(-0)).toBe(-Number.MIN_VALUE)
  expect(nextDown(Number.MIN_VALUE)).toBe(0)
  expect(nextDown(-Number.MAX_VALUE)).toBe(Number.NEGATIVE_INFINITY)
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e308 }), (x) => {
      const y = nextDown(x)
      expect(y).toBeLessThan(x)
      expect(place(x) - place(y)).toBe(1n)
    }),
  )
})

describe('checkThreshold', () => {
  it('takes every threshold through JSON', () => {
    fc.assert(
      fc.property(scoreLists, rates, (scores, rate) => {
        const threshold = calibrateThreshold(scores, rate)
        expect(checkThreshold(JSON.parse(JSON.stringify(threshold)))).toEqual(threshold)
      }),
    )
  })

  const good = calibrateThreshold(
    Float64Array.from({ length: 200 }, (_, i) => i),
    0.02,
  )
  const calibration = (change: object) => ({ ...good, calibration: { ...good.calibration, ...change } })
  it.each<[string, unknown]>([
    ['threshold', null],
    ['threshold', [1]],
    ['threshold.value', { ...good, value: null }],
    ['threshold.falsePositiveRate', { ...good, falsePositiveRate: 0 }],
    ['threshold.falsePositiveRate', { ...good, falsePositiveRate: '0.1' }],
    ['threshold.more', { ...good, more: 1 }],
    ['threshold.calibration', { ...good, calibration: 3 }],
    ['threshold.calibration.method', calibration({ method: 'x' })],
    ['threshold.calibration.rows', calibration({ rows: 0 })],
    ['threshold.calibration.rank', calibration({ rank: 9 })],
    ['threshold.calibration.rank', calibration({ rows: 100 })],
    ['threshold.calibration.bound', calibration({ bound: 0.001 })],
    ['threshold.calibration.guaranteed', calibration({ guaranteed: false })],
    ['threshold.calibration.rowsNeeded', calibration({ rowsNeeded: 1 })],
    ['threshold.calibration.more', calibration({ more: 1 })],
  ])('names %s', (field, value) => {
    expect(() => checkThreshold(value)).toThrow(ArgumentError)
    expect(() => checkThreshold(value)).toThrow(`${field}: `)
  })
})
