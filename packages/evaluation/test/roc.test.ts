import { ArgumentError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ratesAtThreshold, rocCurve, tprAtFpr } from '../src/index.js'
import { hasBoth, scored } from './arbitrary.js'

describe('rocCurve', () => {
  it('rises from (0, 0) to (1, 1), one point a score, each what its threshold really gives', () => {
    fc.assert(
      fc.property(scored.filter(hasBoth), ({ scores, isNovel }) => {
        const curve = rocCurve(scores, isNovel)
        const points = curve.thresholds.length
        expect(points).toBe(new Set(scores.map((s) => s + 0)).size + 1)
        expect([curve.falsePositiveRates[0], curve.truePositiveRates[0]]).toEqual([0, 0])
        expect([curve.falsePositiveRates[points - 1], curve.truePositiveRates[points - 1]]).toEqual([1, 1])
        for (let i = 1; i < points; i++) {
          expect(curve.falsePositiveRates[i]).toBeGreaterThanOrEqual(curve.falsePositiveRates[i - 1]!)
          expect(curve.truePositiveRates[i]).toBeGreaterThanOrEqual(curve.truePositiveRates[i - 1]!)
          const rates = ratesAtThreshold(scores, isNovel, curve.thresholds[i]!)
          expect(rates.falsePositiveRate).toBe(curve.falsePositiveRates[i])
          expect(rates.truePositiveRate).toBe(curve.truePositiveRates[i])
        }
      }),
    )
  })

  it('is, by hand', () => {
    // two novel rows below, one tied with a normal row, one normal row above
    const curve = rocCurve(Float64Array.of(5, 1, 3, 3, 1), [0, 1, 1, 0, 1])
    expect(curve).toEqual({
      thresholds: Float64Array.of(Number.NEGATIVE_INFINITY, 1, 3, 5),
      falsePositiveRates: Float64Array.of(0, 0, 1 / 2, 1),
      truePositiveRates: Float64Array.of(0, 2 / 3, 1, 1),
      novel: 3,
      normal: 2,
    })
  })

  it('has no rate for a class that is missing', () => {
    const curve = rocCurve([1, 2], [0, 0])
    expect(curve.truePositiveRates.every(Number.isNaN)).toBe(true)
    expect([...curve.falsePositiveRates]).toEqual([0, 0.5, 1])
  })

  it('refuses NaN', () => {
    expect(() => rocCurve([Number.NaN], [0])).toThrow(ArgumentError)
  })
})

describe('tprAtFpr', () => {
  it('is the best of all thresholds within the limit, tried one by one', () => {
    fc.assert(
      fc.property(scored.filter(hasBoth), fc.double({ min: 0, max: 1, noNaN: true }), (rows, limit) => {
        const { scores, isNovel } = rows
        let best = 0
        let alarms = 0
        for (const threshold of scores) {
          const { truePositiveRate, falsePositiveRate } = ratesAtThreshold(scores, isNovel, threshold)
          if (falsePositiveRate! > limit) continue
          if (truePositiveRate! > best || (truePositiveRate === best && falsePositiveRate! < alarms)) {
            best = truePositiveRate!
            alarms = falsePositiveRate!
          }
        }
        const point = tprAtFpr(rocCurve(scores, isNovel), limit)
        expect(point).toMatchObject({ value: best, falsePositiveRate: best === 0 ? 0 : alarms })
        if (point.value === null) throw new Error('both classes are there')
        // and its threshold does what it says
        const rates = ratesAtThreshold(scores, isNovel, point.threshold)
        if (point.threshold !== Number.NEGATIVE_INFINITY) expect(rates.truePositiveRate).toBe(point.value)
      }),
    )
  })

  it('steps: with 10 normal rows, 5 % allows no false alarm at all', () => {
    const scores = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 0.5, 20]
    const isNovel = scores.map((_, i) => i >= 10)
    expect(tprAtFpr(rocCurve(scores, isNovel), 0.05)).toEqual({
      value: 1 / 3,
      falsePositiveRate: 0,
      threshold: -1,
    })
    expect(tprAtFpr(rocCurve(scores, isNovel), 0.1)).toEqual({
      value: 2 / 3,
      falsePositiveRate: 0.1,
      threshold: 0.5,
    })
  })

  it('does not interpolate over a tie', () => {
    const curve = rocCurve([1, 1, 1, 1], [1, 1, 0, 0])
    expect(tprAtFpr(curve, 0.5)).toEqual({
      value: 0,
      falsePositiveRate: 0,
      threshold: Number.NEGATIVE_INFINITY,
    })
  })

  it('says why there is none and refuses other limits', () => {
    expect(tprAtFpr(rocCurve([1], [1]), 0.1)).toEqual({ value: null, reason: 'there are no normal rows' })
    for (const limit of [-0.1, 1.1, Number.NaN]) {
      expect(() => tprAtFpr(rocCurve([1], [1]), limit)).toThrow(ArgumentError)
    }
  })
})

describe('ratesAtThreshold', () => {
  it('counts, a score at the threshold being novel', () => {
    expect(ratesAtThreshold([1, 2, 3, 4], [true, false, true, false], 2)).toEqual({
      truePositives: 1,
      falsePositives: 1,
      trueNegatives: 1,
      falseNegatives: 1,
      truePositiveRate: 0.5,
      falsePositiveRate: 0.5,
      precision: 0.5,
    })
  })

  it('has no share of nothing', () => {
    expect(ratesAtThreshold([1], [0], 0)).toMatchObject({
      truePositiveRate: null,
      falsePositiveRate: 0,
      precision: null,
    })
    expect(ratesAtThreshold([1], [1], 1)).toMatchObject({
      truePositiveRate: 1,
      falsePositiveRate: null,
      precision: 1,
    })
    expect(() => ratesAtThreshold([1], [1], Number.NaN)).toThrow(ArgumentError)
  })
})
