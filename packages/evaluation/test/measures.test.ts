import { ArgumentError, createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  auc,
  averagePrecision,
  delongInterval,
  partialAuc,
  precisionRecallCurve,
  ratesAtThreshold,
  rocCurve,
} from '../src/index.js'
import { hasBoth, scored } from './arbitrary.js'

const isPair = ({ isNovel }: { isNovel: boolean[] }): boolean =>
  isNovel.filter((novel) => novel).length > 1 && isNovel.filter((novel) => !novel).length > 1

describe('partialAuc', () => {
  it('is the AUC at 1, and adds up over the curve', () => {
    fc.assert(
      fc.property(
        scored.filter(hasBoth),
        fc.double({ min: 0.01, max: 0.99, noNaN: true }),
        ({ scores, isNovel }, limit) => {
          const curve = rocCurve(scores, isNovel)
          const area = auc(scores, isNovel).value!
          expect(partialAuc(curve, 1).value).toBeCloseTo(area, 12)
          expect(partialAuc(curve, 1).standardised).toBeCloseTo(area, 12)
          // the rest of the area, seen from the other side: classes and order turned round
          const turned = rocCurve(
            scores.map((s) => -s),
            isNovel,
          )
          const rest = partialAuc(turned, 1 - limit).value!
          // turning round maps (x, y) to (1 − x, 1 − y), so what is under becomes what is over
          expect(partialAuc(curve, limit).value! + (1 - limit - rest)).toBeCloseTo(area, 10)
        },
      ),
    )
  })

  it('gives ½ to guessing and 1 to a perfect detector, at every limit', () => {
    const guessing = rocCurve([0, 0, 0, 0], [0, 1, 0, 1])
    const perfect = rocCurve([1, 2, 3, 4], [1, 1, 0, 0])
    for (const limit of [0.01, 0.3, 1]) {
      expect(partialAuc(guessing, limit).standardised).toBeCloseTo(0.5, 14)
      expect(partialAuc(perfect, limit)).toEqual({ value: limit, standardised: 1 })
    }
  })

  it('says why there is none, and refuses odd limits', () => {
    expect(partialAuc(rocCurve([1], [0]), 0.1)).toEqual({
      value: null,
      standardised: null,
      reason: 'there are no novel rows',
    })
    for (const limit of [0, 1.1, Number.NaN]) {
      expect(() => partialAuc(rocCurve([1, 2], [0, 1]), limit)).toThrow(ArgumentError)
    }
  })
})

describe('precision and recall', () => {
  it('are the rates at each threshold', () => {
    fc.assert(
      fc.property(scored.filter(hasBoth), ({ scores, isNovel }) => {
        const curve = precisionRecallCurve(scores, isNovel)
        curve.thresholds.forEach((threshold, i) => {
          const rates = ratesAtThreshold(scores, isNovel, threshold)
          expect(curve.precisions[i]).toBe(rates.precision)
          expect(curve.recalls[i]).toBe(rates.truePositiveRate)
        })
      }),
    )
  })

  it('give the share of novel rows when all scores are equal, and 1 when all novel rows come first', () => {
    expect(averagePrecision([5, 5, 5, 5], [1, 0, 0, 0])).toEqual({ value: 0.25, guessing: 0.25 })
    expect(averagePrecision([1, 2, 3], [1, 1, 0]).value).toBe(1)
    expect(averagePrecision([1, 2], [1, 1]).value).toBe(1)
    expect(averagePrecision([1], [0])).toEqual({ value: null, reason: 'there are no novel rows' })
  })

  it('do not depend on the order of rows', () => {
    fc.assert(
      fc.property(scored.filter(hasBoth), ({ scores, isNovel }) => {
        const { value } = averagePrecision(scores, isNovel)
        expect(averagePrecision([...scores].reverse(), [...isNovel].reverse()).value).toBe(value)
      }),
    )
  })
})

describe('delongInterval', () => {
  it('holds the AUC, widens with the level, and does not care which way round scores are', () => {
    fc.assert(
      fc.property(scored.filter(isPair), ({ scores, isNovel }) => {
        const wide = delongInterval(scores, isNovel, { level: 0.99 })
        const narrow = delongInterval(scores, isNovel, { level: 0.5 })
        const turned = delongInterval(
          scores.map((s) => -s),
          isNovel,
        )
        if (wide.value === null || narrow.value === null || turned.value === null) throw new Error('none')
        expect(wide.value).toBe(auc(scores, isNovel).value)
        expect(wide.low).toBeLessThanOrEqual(narrow.low)
        expect(wide.high).toBeGreaterThanOrEqual(narrow.high)
        expect(narrow.low).toBeLessThanOrEqual(wide.value)
        expect(narrow.high).toBeGreaterThanOrEqual(wide.value)
        expect(turned.variance).toBeCloseTo(wide.variance, 12)
      }),
    )
  })

  it('holds the true AUC about as often as it says', () => {
    const truth = 0.7602499389065233 // Φ(1/√2): normal scores one standard deviation apart
    let held = 0
    for (let seed = 0; seed < 500; seed++) {
      const rng = createRng(seed)
      const isNovel = Array.from({ length: 200 }, (_, i) => i % 2 === 1)
      const found = delongInterval(
        isNovel.map((novel) => rng.nextNormal() - (novel ? 1 : 0)),
        isNovel,
        { level: 0.9 },
      )
      if (found.value !== null && found.low <= truth && truth <= found.high) held++
    }
    // 450 expected; 4 standard errors
    expect(Math.abs(held - 450)).toBeLessThan(4 * Math.sqrt(500 * 0.9 * 0.1))
  })

  it('says why there is none', () => {
    expect(delongInterval([1, 2, 3], [1, 0, 0])).toEqual({
      value: null,
      reason: 'there is one novel row, and a variance needs two',
    })
    expect(delongInterval([1], [1])).toEqual({ value: null, reason: 'there are no normal rows' })
    expect(() => delongInterval([1, 2], [0, 1], { level: 0 })).toThrow(ArgumentError)
  })
})
