import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ArgumentError, createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { auc, aucInterval, rocCurve } from '../src/index.js'
import { hasBoth, scored } from './arbitrary.js'

const shared = process.env.ODDFLOW_SHARED ?? fileURLToPath(new URL('../../../../shared', import.meta.url))
const golden = join(shared, 'golden/07_auc.json')
const hasGolden = existsSync(golden)
if (!hasGolden) console.warn('ODDFLOW_SHARED is absent: the golden AUCs are skipped')

describe('auc', () => {
  it("is Mann and Whitney's count, pair by pair", () => {
    fc.assert(
      fc.property(scored, ({ scores, isNovel }) => {
        let halves = 0
        let pairs = 0
        scores.forEach((novel, i) => {
          if (!isNovel[i]) return
          scores.forEach((normal, j) => {
            if (isNovel[j]) return
            pairs++
            halves += novel < normal ? 2 : novel === normal ? 1 : 0
          })
        })
        const { value } = auc(scores, isNovel)
        if (pairs === 0) expect(value).toBeNull()
        else expect(value).toBe(halves / (2 * pairs))
      }),
      { numRuns: sampleCount(500) },
    )
  })

  it('does not change under increasing maps, and turns round under decreasing ones', () => {
    const few = fc.array(fc.tuple(fc.integer({ min: -20, max: 20 }), fc.boolean()), {
      minLength: 1,
      maxLength: 80,
    })
    fc.assert(
      fc.property(few, (rows) => {
        const scores = rows.map(([score]) => score)
        const isNovel = rows.map(([, novel]) => novel)
        const { value } = auc(scores, isNovel)
        const cubed = scores.map((s) => s ** 3 * 1e200 - 7)
        expect(auc(cubed, isNovel).value).toBe(value)
        const turned = auc(
          scores.map((s) => -s),
          isNovel,
        ).value
        if (value !== null && turned !== null) expect(turned).toBeCloseTo(1 - value, 12)
      }),
    )
  })

  it('is the trapezoid area under the curve', () => {
    fc.assert(
      fc.property(scored.filter(hasBoth), ({ scores, isNovel }) => {
        const { falsePositiveRates: x, truePositiveRates: y } = rocCurve(scores, isNovel)
        let area = 0
        for (let i = 1; i < x.length; i++) area += ((x[i]! - x[i - 1]!) * (y[i]! + y[i - 1]!)) / 2
        expect(auc(scores, isNovel).value).toBeCloseTo(area, 12)
      }),
    )
  })

  it('says why it is undefined', () => {
    expect(auc([1, 2], [false, false])).toEqual({
      value: null,
      reason: 'there are no novel rows',
      novel: 0,
      normal: 2,
    })
    expect(auc([1, 2], [1, 1])).toMatchObject({ value: null, reason: 'there are no normal rows' })
    expect(auc([], [])).toMatchObject({ value: null, reason: 'there are no rows' })
  })

  it.each<[string, number[], (boolean | number)[], RegExp]>([
    ['NaN', [1, Number.NaN], [0, 1], /scores\[1\]/],
    ['another label', [1, 2], [0, -1], /isNovel\[1\]/],
    ['unequal lengths', [1], [0, 1], /expected 1 labels/],
  ])('refuses %s', (_, scores, isNovel, message) => {
    expect(() => auc(scores, isNovel)).toThrow(ArgumentError)
    expect(() => auc(scores, isNovel)).toThrow(message)
  })

  it('takes a million rows in seconds of processor time', () => {
    const rng = createRng(1)
    const scores = Float64Array.from({ length: 1_000_000 }, () => rng.nextFloat())
    const isNovel = Uint8Array.from(scores, () => rng.nextBelow(2))
    const before = process.cpuUsage()
    expect(auc(scores, isNovel).value).toBeCloseTo(0.5, 2)
    expect(process.cpuUsage(before).user).toBeLessThan(10e6)
  })

  it.skipIf(!hasGolden)("equals scikit-learn's (golden file 07, whose scores point the other way)", () => {
    const { cases } = JSON.parse(readFileSync(golden, 'utf8')) as {
      cases: { name: string; y: number[]; score: number[]; auc: number | null }[]
    }
    expect(cases.length).toBeGreaterThan(5)
    for (const { name, y, score, auc: expected } of cases) {
      const found = auc(
        score.map((s) => -s),
        y,
      ).value
      if (expected === null) expect(found, name).toBeNull()
      else expect(found, name).toBeCloseTo(expected, 14)
    }
  })
})

describe('aucInterval', () => {
  const draw = (seed: number, n: number) => {
    const rng = createRng(seed)
    const isNovel = Array.from({ length: 2 * n }, (_, i) => i % 2 === 1)
    return { isNovel, scores: isNovel.map((novel) => rng.nextNormal() - (novel ? 1 : 0)) }
  }
  /** Normal scores one standard deviation apart: AUC = Φ(1/√2). */
  const truth = 0.7602499389065233

  it('holds the true AUC about as often as it says', () => {
    let held = 0
    for (let seed = 0; seed < 200; seed++) {
      const { scores, isNovel } = draw(seed, 100)
      const interval = aucInterval(scores, isNovel, createRng(seed), { level: 0.9, resamples: 200 })
      if (interval.low === null) throw new Error('both classes are there')
      if (interval.low <= truth && truth <= interval.high) held++
    }
    // 180 expected; 4 standard errors and the known optimism of the percentile method
    expect(held).toBeGreaterThan(158)
    expect(held).toBeLessThan(198)
  })

  it('is the same for the same seed, holds the estimate, narrows with rows, widens with the level', () => {
    const { scores, isNovel } = draw(1, 100)
    const at = (level: number, n = 100) => {
      const rows = n === 100 ? { scores, isNovel } : draw(1, n)
      const interval = aucInterval(rows.scores, rows.isNovel, createRng(7), { level })
      if (interval.low === null) throw new Error('both classes are there')
      return interval
    }
    expect(at(0.95)).toEqual(at(0.95))
    const estimate = auc(scores, isNovel).value!
    expect(at(0.95).low).toBeLessThan(estimate)
    expect(at(0.95).high).toBeGreaterThan(estimate)
    const width = ({ low, high }: { low: number; high: number }): number => high - low
    expect(width(at(0.99))).toBeGreaterThan(width(at(0.8)))
    expect(width(at(0.95, 1000))).toBeLessThan(width(at(0.95)) / 2)
  })

  it('says why there is none, and refuses odd options', () => {
    expect(aucInterval([1], [0], createRng(1))).toEqual({
      low: null,
      high: null,
      reason: 'there are no novel rows',
    })
    expect(() => aucInterval([1, 2], [0, 1], createRng(1), { level: 1 })).toThrow(ArgumentError)
    expect(() => aucInterval([1, 2], [0, 1], createRng(1), { resamples: 10 })).toThrow(ArgumentError)
  })
})
