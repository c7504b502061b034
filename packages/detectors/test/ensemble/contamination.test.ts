/** What odd training rows cost: one, or 1 % of a kind, at most a tenth of what is found of other kinds. */
import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  fitHoldingOut,
  isNovel,
  scoreSamples,
  thresholdOfHeldOut,
} from '../../src/index.js'

const COLUMNS = 8

/** Rows of three kinds that a device sends, in six inputs. */
function normalRows(n: number, seed: number): Matrix {
  const rng = createRng(seed)
  const data = Float64Array.from({ length: n * COLUMNS }, (_, at) => {
    const kind = Math.floor(at / COLUMNS) % 3
    const column = at % COLUMNS
    return 3 * Math.sin(kind * 5 + column) + (column < 3 ? 0.05 : 0.5) * rng.nextNormal()
  })
  return matrixOf(n, COLUMNS, data)
}

/** A kind that the device does not send: one of many, `distance` away. */
function oddRows(n: number, kind: number, distance: number): Matrix {
  const rng = createRng(100 + kind)
  const centre = Array.from({ length: COLUMNS }, () => distance * rng.nextNormal())
  return matrixOf(
    n,
    COLUMNS,
    Float64Array.from({ length: n * COLUMNS }, (_, at) => centre[at % COLUMNS]! + 0.1 * rng.nextNormal()),
  )
}

function found(training: Matrix, inputs: Uint32Array, options: DetectorOptions) {
  const parameters = checkParameters({ ...options, detector: 'ensemble' })
  const { model, heldOut } = fitHoldingOut(training, parameters, createRng(1), { inputs })
  const threshold = thresholdOfHeldOut(heldOut!, 0.01)
  const share = (rows: Matrix) => {
    const scores = scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
    return scores.filter((s) => isNovel(s, threshold)).length / rows.rows
  }
  const kinds = Array.from({ length: 30 }, (_, kind) => share(oddRows(40, kind, 1)))
  return {
    novel: kinds.reduce((sum, part) => sum + part, 0) / kinds.length,
    normal: share(normalRows(600, 77)),
    odd: heldOut!.odd,
    notes: model.fitReport.notes.join('\n'),
  }
}

function joined(a: Matrix, b: Matrix): Matrix {
  return matrixOf(a.rows + b.rows, COLUMNS, Float64Array.of(...a.data, ...b.data))
}

const rows = normalRows(600, 1)
const inputs = Uint32Array.from({ length: 600 }, (_, i) => Math.floor(i / 100))

function spoilt(count: number, distance: number, options: DetectorOptions) {
  const training = joined(rows, oddRows(count, 50, distance))
  return found(training, Uint32Array.of(...inputs, ...new Uint32Array(count)), options)
}

describe('an ensemble of nearest and hbos', () => {
  const clean = found(rows, inputs, {})

  it('finds other kinds at the rate that was asked', () => {
    expect(clean.novel).toBeGreaterThan(0.5)
    expect(clean.normal).toBeLessThanOrEqual(0.02)
    expect(clean.odd).not.toContain(1)
  })

  it.each([
    ['one row', 1, 6],
    ['1 % of a kind in one input', 6, 6],
    ['1 % of a kind that is not far', 6, 1.5],
  ])('loses at most a tenth to %s', (_, count, distance) => {
    const { novel, normal } = spoilt(count, distance, {})
    expect(novel).toBeGreaterThanOrEqual(0.9 * clean.novel)
    expect(normal).toBeLessThanOrEqual(0.02)
  })

  it.each([1, 6])('marks %i far rows and no other as odd, and says so', (count) => {
    const { odd, notes } = spoilt(count, 6, {})
    expect([...odd.subarray(0, 600)]).not.toContain(1)
    expect([...odd.subarray(600)]).toEqual(new Array(count).fill(1))
    expect(notes).toContain(count === 1 ? '1 training row unlike' : '6 training rows unlike')
  })
})

describe.each(['nearest', 'hbos'] as const)('%s alone', (member) => {
  it('loses at most a tenth to one row', () => {
    const options = { members: [member] }
    const clean = found(rows, inputs, options)
    expect(spoilt(1, 6, options).novel).toBeGreaterThanOrEqual(0.9 * clean.novel)
  })
})
