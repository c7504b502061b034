import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { normalQuantile } from '../src/auc.js'
import { averagePrecision, delongInterval, partialAuc, rocCurve } from '../src/index.js'

interface Golden {
  readonly cases: readonly {
    readonly name: string
    readonly scores: number[]
    readonly isNovel: number[]
    readonly averagePrecision: number
    readonly standardisedPartialAuc: Readonly<Record<string, number>>
    readonly delongVariance: number
  }[]
  readonly normalQuantiles: readonly [number, number][]
}

/** tools/golden-generators/evaluation_measures.py */
const golden = JSON.parse(readFileSync(new URL('./golden-measures.json', import.meta.url), 'utf8')) as Golden

describe.each(golden.cases)('$name', ({ scores, isNovel, ...expected }) => {
  it("has scikit-learn's average precision", () => {
    expect(averagePrecision(scores, isNovel).value).toBeCloseTo(expected.averagePrecision, 13)
  })

  it("has scikit-learn's standardised partial AUC", () => {
    for (const [limit, value] of Object.entries(expected.standardisedPartialAuc)) {
      const found = partialAuc(rocCurve(scores, isNovel), Number(limit)).standardised
      expect(found, limit).toBeCloseTo(value, 12)
    }
  })

  it("has DeLong's variance, computed from the table of all pairs", () => {
    const found = delongInterval(scores, isNovel)
    if (found.value === null) throw new Error(found.reason)
    expect(found.variance).toBeCloseTo(expected.delongVariance, 15)
  })
})

it("has scipy's normal quantiles", () => {
  for (const [p, z] of golden.normalQuantiles) {
    expect(Math.abs(normalQuantile(p) - z), `p = ${p}`).toBeLessThanOrEqual(4e-15 * Math.max(1, Math.abs(z)))
  }
})
