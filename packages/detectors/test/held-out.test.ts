import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkSurpriseCurve,
  dealFolds,
  findOddRows,
  fitSurpriseCurve,
  foldRows,
  MAXIMUM_KNOTS,
  quantileOf,
  rowNumbers,
  surpriseOf,
  TAIL_SURPRISE,
} from '../src/calibration/held-out.js'
import { checkThreshold, isNovel, thresholdOfHeldOut } from '../src/calibration/threshold.js'
import { createHistogramViews, fitHistograms, histogramView, takeTables } from '../src/detectors/hbos.js'
import { checkParameters, fitDetector } from '../src/index.js'

const values = fc
  .array(
    fc.oneof(
      fc.double({ min: -1e3, max: 1e3, noNaN: true }),
      fc.integer({ min: 0, max: 3 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    ),
    { minLength: 1, maxLength: 200 },
  )
  .map((list) => Float64Array.from(list))

const WHOLE = { body: 1, tail: 1 }

describe('a surprise curve', () => {
  it('is −log of the empirical tail probability at held-out values, within a step where there are many', () => {
    fc.assert(
      fc.property(values, (held) => {
        const curve = fitSurpriseCurve(held)
        expect(checkSurpriseCurve(curve, 'curve')).toEqual(curve)
        expect(curve.body.rows).toBeLessThanOrEqual(MAXIMUM_KNOTS)
        const sorted = held.slice().sort()
        const start = quantileOf(sorted, 0.9)
        const step = new Set(held).size < MAXIMUM_KNOTS ? 1e-12 : TAIL_SURPRISE / 60
        for (const value of held) {
          if (value > start) continue
          const p = (1 + held.filter((c) => c >= value).length) / (held.length + 1)
          expect(Math.abs(surpriseOf(curve, value, WHOLE) + Math.log(p))).toBeLessThan(step)
        }
      }),
    )
  })

  it('rises with the value, from 0 to 30, and half as fast in the body where that counts half', () => {
    fc.assert(
      fc.property(values, fc.array(fc.double({ noNaN: true, noDefaultInfinity: true })), (held, others) => {
        const curve = fitSurpriseCurve(held)
        const asked = [...held, ...others].sort((a, b) => a - b)
        let before = 0
        for (const value of asked) {
          const surprise = surpriseOf(curve, value, WHOLE)
          expect(surprise).toBeGreaterThanOrEqual(before)
          expect(surprise).toBeLessThanOrEqual(30)
          const half = Math.min(surprise, TAIL_SURPRISE) / 2 + Math.max(surprise - TAIL_SURPRISE, 0)
          expect(surpriseOf(curve, value, { body: 0.5, tail: 1 })).toBeCloseTo(half, 12)
          before = surprise
        }
        expect(surpriseOf(curve, Number.MAX_VALUE, WHOLE)).toBeLessThanOrEqual(30)
      }),
    )
  })

  it('goes on as an exponential tail beyond the 0.9-quantile', () => {
    const curve = fitSurpriseCurve(Float64Array.from({ length: 101 }, (_, i) => i))
    // u = 90, and 91 … 100 exceed it by 5.5 in the mean
    expect(surpriseOf(curve, 90 + 5.5, WHOLE)).toBeCloseTo(TAIL_SURPRISE + 1, 6)
    expect(surpriseOf(curve, 1e6, WHOLE)).toBe(30)
  })
})

describe('folds', () => {
  it('hold whole inputs out, at most ten at a time, and rows of one input by fours', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(25), { minLength: 40, maxLength: 200 }), (list) => {
        const inputs = Uint32Array.from(list)
        const folds = dealFolds(inputs)
        const distinct = new Set(inputs).size
        const odd = new Uint8Array(inputs.length)
        odd[3] = 1
        let held = 0
        for (let fold = 0; fold < folds.count; fold++) {
          const rows = foldRows(folds, fold, odd)
          if (rows === null) continue
          held += rows.held.length
          expect(rows.fit).not.toContain(3)
          expect([...rows.fit].filter((i) => rows.held.includes(i))).toEqual([])
          if (distinct > 1 && folds.leastFitRows > 1) {
            const out = new Set([...rows.held].map((i) => inputs[i]))
            expect([...rows.fit].some((i) => out.has(inputs[i]))).toBe(false)
          }
        }
        if (folds.leastFitRows === 1) expect(held).toBe(inputs.length)
        expect(folds.count).toBeLessThanOrEqual(10)
      }),
    )
    expect(dealFolds(new Uint32Array(9)).count).toBe(4)
    expect(dealFolds(new Uint32Array(2)).count).toBe(2)
    // one input of nearly all rows leaves too few to hold it against
    expect(dealFolds(Uint32Array.from({ length: 14 }, (_, i) => (i < 7 ? 0 : 1))).count).toBe(4)
  })
})

describe('odd rows', () => {
  const sums = (...high: number[]) =>
    Float64Array.from([...high, ...Array.from({ length: 300 }, (_, i) => i / 50)])
  const marked = (of: Float64Array) => findOddRows(of).reduce((sum, isOdd) => sum + isOdd, 0)

  it('stand out by 6 nats and above 12, one at least and 1 % at most', () => {
    expect(marked(sums())).toBe(0)
    expect(marked(sums(11.9))).toBe(0)
    expect(marked(sums(12.1))).toBe(1)
    expect(marked(sums(60, 60, 13))).toBe(3)
    expect(marked(sums(60, 60, 60, 60, 60))).toBe(0)
    expect(marked(Float64Array.of(60, 1))).toBe(1)
    // no gap of 6 nats below them
    expect(marked(sums(14, 10))).toBe(0)
  })
})

describe('a threshold from held-out inputs', () => {
  const scoreLists = fc
    .array(
      fc.tuple(
        fc.oneof(fc.double({ min: -80, max: 0, noNaN: true }), fc.integer({ min: -3, max: 0 })),
        fc.nat(4),
      ),
      {
        minLength: 1,
        maxLength: 300,
      },
    )
    .map((rows) => ({
      scores: Float64Array.from(rows, ([score]) => score),
      inputs: Uint32Array.from(rows, ([, input]) => input),
      odd: new Uint8Array(rows.length),
    }))

  it('flags no more held-out rows than the rate, says how many, and is read as it was written', () => {
    fc.assert(
      fc.property(scoreLists, fc.double({ min: 0.001, max: 0.9, noNaN: true }), (heldOut, rate) => {
        const threshold = thresholdOfHeldOut(heldOut, rate)
        expect(checkThreshold(JSON.parse(JSON.stringify(threshold)))).toEqual(threshold)
        const { calibration } = threshold
        const flagged = heldOut.scores.filter((s) => isNovel(s, threshold)).length
        expect(calibration).toMatchObject({
          flaggedRows: flagged,
          rows: heldOut.scores.length,
          inputs: new Set(heldOut.inputs).size,
          oddRows: 0,
          bound: (flagged + 1) / (heldOut.scores.length + 1),
        })
        if (heldOut.scores.length >= calibration.rowsNeeded) expect(calibration.guaranteed).toBe(true)
        expect(calibration.guaranteed).toBe(calibration.bound <= rate)
      }),
    )
  })

  it('does not count odd rows, and stands no higher than the tail says', () => {
    const scores = Float64Array.from({ length: 200 }, (_, i) => -i / 20)
    const inputs = Uint32Array.from({ length: 200 }, (_, i) => i % 4)
    const odd = new Uint8Array(200)
    const value = thresholdOfHeldOut({ scores, inputs, odd }, 0.001).value
    // u = 8.955, which the highest twenty exceed by 0.52 in the mean
    expect(value).toBeCloseTo(-(8.955 + 0.52 * Math.log(100)), 9)
    scores[0] = -59
    odd[0] = 1
    const without = thresholdOfHeldOut({ scores, inputs, odd }, 0.001)
    expect(without.value).toBeCloseTo(value, 1)
    expect(without.calibration).toMatchObject({ rows: 199, oddRows: 1 })
  })

  it('is refused by field where its figures cannot be', () => {
    const good = thresholdOfHeldOut(
      { scores: Float64Array.of(-1, -2, -9), inputs: Uint32Array.of(0, 1, 1), odd: new Uint8Array(3) },
      0.4,
    )
    const forged = (change: object) => ({ ...good, calibration: { ...good.calibration, ...change } })
    for (const [field, change] of [
      ['rows', { rows: 0 }],
      ['inputs', { inputs: 4 }],
      ['oddRows', { oddRows: -1 }],
      ['flaggedRows', { flaggedRows: 4 }],
      ['bound', { bound: 0 }],
      ['guaranteed', { guaranteed: !good.calibration.guaranteed }],
      ['worstInputRate', { worstInputRate: 2 }],
      ['worstInputRate', { worstInputRate: 'x' }],
      ['rank', { rank: 1 }],
      ['method', { method: 'split-conformal' }],
    ] as const) {
      const wanted =
        field === 'method'
          ? /threshold\.calibration\./
          : new RegExp(`threshold\\.calibration\\.${field}|calibration.${field}`)
      expect(() => checkThreshold(forged(change)), field).toThrow(wanted)
    }
  })
})

describe('column histograms', () => {
  it('have the surprise of the definition, to 1/2048 of a nat a column', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: -5, max: 5 }), fc.double({ min: -50, max: 50, noNaN: true })), {
          minLength: 1,
          maxLength: 120,
        }),
        fc.integer({ min: 1, max: 20 }),
        fc.constantFrom(0, 0.1),
        fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { maxLength: 20 }),
        (column, bins, leastWidth, others) => {
          const n = column.length
          const rows: Matrix = matrixOf(n, 1, Float64Array.from(column))
          // one table of all, of rows in three parts
          const parts = [0, 1, 2].map((part) =>
            rowNumbers(n, (i) => (i * 7) % 5 === part || (part === 2 && (i * 7) % 5 > 2)),
          )
          const made = fitHistograms(rows, parts, [[1], [0, 1, 2]], bins, leastWidth)
          const views = createHistogramViews(takeTables(made, 1, 2), leastWidth)
          expect(made.rows).toEqual(Uint32Array.of(parts[1]!.length, n))
          const sorted = [...column].sort((a, b) => a - b)
          const low = sorted[Math.floor((n - 1) / 100)]!
          const high = sorted[n - 1 - Math.floor((n - 1) / 100)]!
          const width = Math.max((high - low) / bins, leastWidth)
          const binOf = (x: number) => {
            if (x < low) return -1
            const bin = width > 0 ? Math.floor((x - low) / width) : x > low ? bins : 0
            return Math.min(bin, x <= high ? bins - 1 : bins)
          }
          for (const x of [...column, ...others]) {
            const count = column.filter((y) => binOf(y) === binOf(x)).length
            const surprise = histogramView(views, 0, Float64Array.of(x), 0)
            expect(Math.abs(surprise + Math.log((count + 0.5) / (n + 0.5)))).toBeLessThan(1 / 2000)
          }
        },
      ),
    )
  })

  it.each([
    [60, {}, 20],
    [1157, {}, 20],
    [1158, {}, 21],
    [2000, {}, 25],
    [100_000, {}, 64],
    [2000, { bins: 10 }, 10],
  ])('of a member, of %i rows, given %o, have %i bins', (n, given, bins) => {
    const rng = createRng(1)
    const rows: Matrix = matrixOf(
      n,
      1,
      Float64Array.from({ length: n }, () => rng.nextFloat()),
    )
    const model = fitDetector(
      rows,
      checkParameters({ detector: 'ensemble', members: ['hbos'], ...given }),
      createRng(1),
    )
    const member = model.kind === 'ensemble' ? model.ensemble.members[0] : undefined
    expect(member?.name === 'hbos' && member.histograms.bins).toBe(bins)
  })
})
