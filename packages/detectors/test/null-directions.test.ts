/**
 * Landmarks that repeat: their gram matrix has null directions, which are dropped, and the model says how many.
 */
import { createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import { gaussianKernel } from '@oddflow/linalg'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { effectiveRank, nystromProjection } from '../src/embedding/embedding.js'
import {
  checkModel,
  checkParameters,
  createScoreWorkspace,
  DETECTOR_NAMES,
  DETECTORS,
  fitDetector,
  modelEmbedding,
  scoreSamples,
} from '../src/index.js'
import { clusteredRows, novelRows } from './rows.js'

const COLUMNS = 4

/** n rows, of which `distinct` differ. */
function repeated(n: number, distinct: number): Matrix {
  const source = clusteredRows(distinct, COLUMNS)
  return matrixOf(
    n,
    COLUMNS,
    Float64Array.from({ length: n * COLUMNS }, (_, at) => {
      const row = Math.floor(at / COLUMNS) % distinct
      return source.data[row * COLUMNS + (at % COLUMNS)]!
    }),
  )
}

const embedding = DETECTOR_NAMES.filter((name) => DETECTORS[name].embedding !== undefined)

describe.each(embedding)('%s over landmarks that repeat', (detector) => {
  const learn = (rows: Matrix, options = {}) => {
    const model = fitDetector(
      rows,
      checkParameters({ detector, bandwidthQuantile: 1, ...options }),
      createRng(3),
    )
    expect(checkModel(model)).toEqual(model)
    for (const probe of [rows, novelRows(9, COLUMNS)]) {
      const scores = scoreSamples(model, probe, new Float64Array(probe.rows), createScoreWorkspace(model))
      for (const score of scores) expect(Number.isFinite(score)).toBe(true)
    }
    return { d: modelEmbedding(model)?.dimensions, notes: model.fitReport.notes.join('; ') }
  }

  it.each([2, 3, 4])(
    '%i different rows are as many dimensions, of the default and of a stated d',
    (distinct) => {
      const rows = repeated(60, distinct)
      for (const d of [5, 20]) {
        const { d: kept, notes } = learn(rows, { m: 60, ...(d === 5 ? {} : { d }) })
        expect(kept).toBe(distinct)
        expect(notes).toContain(
          `d lowered from ${d} to ${distinct}: the gram matrix of the 60 landmarks has effective rank ${distinct}, and ${d - distinct} null directions were dropped`,
        )
      }
    },
  )

  it('says nothing where the rank is enough', () => {
    for (const distinct of [5, 8]) {
      const { d, notes } = learn(repeated(60, distinct), { m: 60, supportGuard: false })
      expect(d).toBe(5)
      expect(notes).not.toContain('null directions')
    }
  })

  it('refuses rows that are all equal', () => {
    expect(() => learn(repeated(60, 1))).toThrow(DataError)
    expect(() => learn(repeated(60, 1))).toThrow(/all training rows are equal/)
  })
})

describe('effectiveRank', () => {
  it('is the number of different landmarks, and of eigenvalues that Nyström keeps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 12 }),
        (values, enough) => {
          const rows = matrixOf(values.length, 1, Float64Array.from(values))
          const gram = gaussianKernel(rows, rows, 1)
          const distinct = Math.min(enough, new Set(values).size)
          expect(effectiveRank(gram, enough)).toBe(distinct)
          expect(nystromProjection(gram, enough).rows).toBe(distinct)
        },
      ),
    )
  })

  it('does not count landmarks that the kernel cannot tell apart', () => {
    const rows = matrixOf(4, 1, Float64Array.of(0, 1e-9, 2e-9, 3))
    expect(effectiveRank(gaussianKernel(rows, rows, 1), 4)).toBe(2)
    expect(effectiveRank(gaussianKernel(rows, rows, 1), 1)).toBe(1)
  })
})
