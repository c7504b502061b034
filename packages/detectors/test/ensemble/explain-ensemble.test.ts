/** What an ensemble's score is made of, against plain counting. */
import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkParameters,
  createExplainer,
  createScoreWorkspace,
  type DetectorModel,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '../../src/index.js'

const [COLS, NAMES] = [5, 4]

/** Four numbers, spread by category, and the category last: 0 … categories − 1, the lower the more frequent. */
function namedRows(n: number, categories: number): Matrix {
  const rng = createRng(8)
  const data = new Float64Array(n * COLS)
  for (let i = 0; i < n; i++) {
    const category = Math.min(i % categories, (i * 7) % categories)
    for (let j = 0; j < NAMES; j++) data[i * COLS + j] = 10 * category + rng.nextNormal()
    data[i * COLS + NAMES] = category
  }
  return matrixOf(n, COLS, data)
}

function fitted(rows: Matrix, options: DetectorOptions = {}): DetectorModel {
  return fitDetector(rows, checkParameters({ ...options, detector: 'ensemble' }), createRng(1), {
    categoryColumn: NAMES,
  })
}

function explained(model: DetectorModel, row: Float64Array) {
  const rows = matrixOf(1, COLS, row)
  const score = scoreSamples(model, rows, new Float64Array(1), createScoreWorkspace(model))[0]!
  return { score, columns: createExplainer(model)!.explain(row, score, 0).columns! }
}

describe('columns of an explanation', () => {
  const rows = namedRows(400, 4)
  const model = fitted(rows)

  it('make nats that add up to the score, most of them where the row is out', () => {
    for (const [column, value] of [
      [0, 90],
      [2, -70],
      [3, 5.5],
    ] as const) {
      const row = rows.data.slice(0, COLS)
      row[column] = value
      const { score, columns } = explained(model, row)
      const sum = columns.nats.reduce((total, nats) => total + nats, 0)
      expect(sum).toBeCloseTo(-score, 9)
      expect(columns.nats.indexOf(Math.max(...columns.nats))).toBe(column)
      expect(columns.nats[NAMES]).toBe(0)
    }
  })

  it('have the range of the rows of the same category, their lowest and highest 1 % aside', () => {
    for (const category of [0, 1, 2]) {
      const row = rows.data.slice(0, COLS)
      row[NAMES] = category
      const { usual } = explained(model, row).columns
      for (let j = 0; j < NAMES; j++) {
        const own = Array.from({ length: rows.rows }, (_, i) => i)
          .filter((i) => rows.data[i * COLS + NAMES] === category)
          .map((i) => rows.data[i * COLS + j]!)
          .sort((a, b) => a - b)
        const tail = Math.floor((own.length - 1) / 100)
        expect(usual!.low[j]).toBeCloseTo(own[tail]!, 9)
        expect(usual!.high[j]).toBeCloseTo(own[own.length - 1 - tail]!, 9)
      }
    }
  })

  it('count what an unknown category adds to the distance, and know it from a known one', () => {
    const row = rows.data.slice(0, COLS)
    expect(explained(model, row).columns.category).toBe('known')
    row[NAMES] = 77
    const { score, columns } = explained(model, row)
    expect(columns.category).toBe('new')
    expect(columns.nats[NAMES]).toBeGreaterThan(0)
    expect(columns.nats.reduce((total, nats) => total + nats, 0)).toBeCloseTo(-score, 9)
    expect(columns.usual).not.toBeNull()
  })

  it('do not call a category new that the landmarks had no room for', () => {
    const many = namedRows(400, 30)
    const few = fitted(many, { m: 10 })
    const row = many.data.slice(0, COLS)
    // the rarest of those that there are
    row[NAMES] = Math.max(...many.data.filter((_, at) => at % COLS === NAMES))
    expect(explained(few, row).columns.category).toBe('rare')
    expect(explained(fitted(many, { m: 100 }), row).columns.category).toBe('known')
  })

  it('have no range without histograms, and no category without landmarks', () => {
    const row = rows.data.slice(0, COLS)
    expect(explained(fitted(rows, { members: ['nearest'] }), row).columns).toMatchObject({ usual: null })
    expect(explained(fitted(rows, { members: ['hbos'] }), row).columns).toMatchObject({ category: null })
  })
})
