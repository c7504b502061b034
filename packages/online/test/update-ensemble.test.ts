import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import {
  calibrateGroups,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  decodeModelFile,
  encodeModelFile,
  fitHoldingOut,
  isNovel,
  type SavedModel,
  scoreSamples,
  thresholdOfHeldOut,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { type EnsembleUpdate, type GivenRows, updateEnsemble } from '../src/index.js'

const COLUMNS = 6
const HASH = 'f'.repeat(64)
const update = (saved: SavedModel, given: Omit<GivenRows, 'dataSha256'>): EnsembleUpdate =>
  updateEnsemble(saved, { ...given, dataSha256: HASH })
const SERVICES = [53, 443, 8883]

/** Kinds of flows, numbered; each is of one service, which is the last column. */
function rowsOf(kinds: readonly number[], n: number, seed: number): Matrix {
  const rng = createRng(seed)
  const centres = kinds.map((kind) => {
    const draw = createRng(1000 + kind)
    return Array.from({ length: COLUMNS - 1 }, () => 3 * draw.nextNormal())
  })
  const data = new Float64Array(n * COLUMNS)
  for (let i = 0; i < n; i++) {
    const which = i % kinds.length
    const kind = kinds[which]!
    for (let j = 0; j < COLUMNS - 1; j++) {
      data[i * COLUMNS + j] = centres[which]![j]! + (j < 2 ? 0.1 : 0.4) * rng.nextNormal()
    }
    data[(i + 1) * COLUMNS - 1] = SERVICES[kind % 3]!
  }
  return matrixOf(n, COLUMNS, data)
}

const inputsOf = (rows: Matrix, count: number): Uint32Array =>
  Uint32Array.from({ length: rows.rows }, (_, i) => Math.floor((i * count) / rows.rows))

function trained(rows: Matrix, inputs: Uint32Array, options: Partial<DetectorOptions> = {}): SavedModel {
  const parameters = checkParameters({ detector: 'ensemble', ...options } as DetectorOptions)
  const { model, heldOut } = fitHoldingOut(rows, parameters, createRng(1), {
    categoryColumn: COLUMNS - 1,
    minimumScale: 0.1,
    inputs,
  })
  return {
    detector: model,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: COLUMNS, scaler: 'none' },
    threshold: thresholdOfHeldOut(heldOut!, 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.0.0', seed: 1, dataSha256: '0'.repeat(64), rows: rows.rows },
    groups: calibrateGroups({ scores: heldOut!.scores, capture: inputs, device: inputs }),
  }
}

function novelShare({ detector, threshold }: SavedModel, rows: Matrix): number {
  const scores = scoreSamples(detector, rows, new Float64Array(rows.rows), createScoreWorkspace(detector))
  return scores.filter((score) => isNovel(score, threshold)).length / rows.rows
}

const joined = (a: Matrix, b: Matrix): Matrix =>
  matrixOf(a.rows + b.rows, COLUMNS, Float64Array.of(...a.data, ...b.data))

const OLD = [0, 1, 2]
const NEW = [3, 4]
const UNKNOWN = [6, 7, 8, 10, 11]
const first = rowsOf(OLD, 600, 1)
const second = rowsOf(NEW, 300, 2)
const model = trained(first, inputsOf(first, 6))

describe('an update of an ensemble', () => {
  it('learns a new kind, keeps the old ones, and finds what a model of all finds', () => {
    const { saved, oddRows, novelBefore, novelAfter } = update(model, {
      rows: second,
      inputs: inputsOf(second, 3),
    })
    expect(novelBefore).toBe(300)
    expect(novelAfter).toBeLessThanOrEqual(15)
    expect(oddRows).toBeLessThanOrEqual(3)
    const all = joined(first, second)
    const whole = trained(all, inputsOf(all, 9))
    for (const kinds of [OLD, NEW]) {
      expect(novelShare(saved, rowsOf(kinds, 1000, 3))).toBeLessThan(0.04)
    }
    expect(novelShare(saved, rowsOf(UNKNOWN, 1000, 4))).toBeGreaterThan(
      0.9 * novelShare(whole, rowsOf(UNKNOWN, 1000, 4)),
    )
    expect(novelShare(whole, rowsOf(UNKNOWN, 1000, 4))).toBeGreaterThan(0.9)
    expect(saved.provenance.rows).toBe(900)
    expect(saved.threshold.calibration).toMatchObject({ method: 'held-out-inputs', inputs: 9 })
    expect(saved.groups).toMatchObject({ capture: { groups: 9 }, device: { groups: 6 } })
  })

  it('makes a hundred rows normal beside thousands', () => {
    const many = rowsOf(OLD, 3000, 5)
    const { novelAfter } = update(trained(many, inputsOf(many, 6)), {
      rows: rowsOf([3], 100, 6),
      inputs: new Uint32Array(100),
    })
    expect(novelAfter).toBeLessThanOrEqual(5)
  })

  it('gives equal bytes for equal rows, and a file that reads back', () => {
    const given = { rows: second, inputs: inputsOf(second, 3) }
    const bytes = encodeModelFile(update(model, given).saved)
    expect(encodeModelFile(update(model, given).saved)).toEqual(bytes)
    expect(encodeModelFile(decodeModelFile(bytes))).toEqual(bytes)
  })

  it('keeps the size after ten updates, and the old kinds, and says how many there were', () => {
    let saved = model
    const before = encodeModelFile(saved).length
    for (let i = 0; i < 10; i++) {
      const rows = rowsOf([3, i % 3], 100, 10 + i)
      const updated = update(saved, { rows, inputs: new Uint32Array(100) })
      const { novelBefore, oddRows } = updated
      expect(updated.saved.provenance.updates).toEqual({
        count: i + 1,
        rows: 100 * (i + 1),
        last: { rows: 100, oddRows, novelBefore, dataSha256: HASH },
      })
      expect(updated.saved.provenance.rows).toBe(model.provenance.rows + 100 * (i + 1))
      saved = updated.saved
    }
    expect(encodeModelFile(saved).length).toBeLessThan(1.2 * before)
    expect(novelShare(saved, rowsOf([...OLD, 3], 1000, 30))).toBeLessThan(0.05)
    const unknown = rowsOf(UNKNOWN, 1000, 31)
    expect(novelShare(saved, unknown)).toBeGreaterThan(0.8 * novelShare(model, unknown))
  })

  it.each([100, 300, 2000])(
    'keeps the old kinds normal after three updates with %i rows of one other',
    (n) => {
      let saved = model
      for (let i = 0; i < 3; i++) {
        const rows = rowsOf([3], n, 50 + i)
        const updated = update(saved, { rows, inputs: inputsOf(rows, 2) })
        expect(updated.forgotten).toBeLessThanOrEqual(0.05 * updated.remembered)
        saved = updated.saved
      }
      expect(novelShare(saved, rowsOf(OLD, 1000, 60))).toBeLessThan(0.05)
    },
  )

  it('of a few rows unlike each other blinds nothing', () => {
    const given = joined(rowsOf([3], 10, 80), rowsOf(UNKNOWN.slice(0, 4), 4, 81))
    const { saved } = update(model, { rows: given, inputs: new Uint32Array(14) })
    const unknown = rowsOf([12, 13, 14, 15], 1000, 82)
    expect(novelShare(saved, unknown)).toBeGreaterThan(0.9 * novelShare(model, unknown))
  })

  it('keeps a repeated flow normal after updates with another', () => {
    const repeated = (kind: number, n: number): Matrix => {
      const one = rowsOf([kind], 1, 70 + kind)
      return matrixOf(
        n,
        COLUMNS,
        Float64Array.from({ length: n * COLUMNS }, (_, at) => one.data[at % COLUMNS]!),
      )
    }
    let saved = trained(repeated(0, 200), inputsOf(repeated(0, 200), 4))
    for (let i = 0; i < 4; i++) {
      saved = update(saved, { rows: repeated(1 + (i % 2), 150), inputs: new Uint32Array(150) }).saved
      expect(novelShare(saved, repeated(0, 10)), `after update ${i}`).toBe(0)
    }
  })

  it('leaves out a row unlike all others', () => {
    const rows = rowsOf(NEW, 200, 7)
    for (let j = 0; j < COLUMNS - 1; j++) rows.data[j] = 60
    const { saved, oddRows } = update(model, { rows, inputs: inputsOf(rows, 2) })
    expect(oddRows).toBe(1)
    expect(novelShare(saved, matrixOf(1, COLUMNS, rows.data.slice(0, COLUMNS)))).toBe(1)
  })

  it('is refused for members that keep no rows, other detectors, and too few rows', () => {
    const given = { rows: second, inputs: inputsOf(second, 3) }
    const withMixture = trained(first, inputsOf(first, 6), { members: ['nearest', 'gmm'] })
    expect(() => update(withMixture, given)).toThrow(/an ensemble with gmm cannot learn on/)
    const { groups: _, ...ungrouped } = model
    expect(() => update(ungrouped, given)).toThrow(/expected a threshold of held-out inputs/)
    const few = rowsOf(NEW, 9, 1)
    expect(() => update(model, { rows: few, inputs: new Uint32Array(9) })).toThrow(
      /9 rows to learn from: at least 10 are needed/,
    )
    const huge = rowsOf(NEW, 100, 1)
    huge.data[7] = 1e300
    expect(() => update(model, { rows: huge, inputs: new Uint32Array(100) })).toThrow(/row 1: .*too large/)
  })
})
