/**
 * What every detector must do: named checks that run over each one in the registry.
 *
 * A check gets the name of a detector and throws when the detector fails it. The options are small so that a
 * fit takes milliseconds.
 */
import { ArgumentError, createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import {
  checkModel,
  checkParameters,
  createScoreParts,
  createScoreWorkspace,
  DETECTORS,
  type DetectorModel,
  type DetectorName,
  type DetectorOptions,
  embedSamples,
  fitDetector,
  hasScoreParts,
  modelEmbedding,
  scoreParts,
  scoreSamples,
} from '../src/index.js'
import { clusteredRows, novelRows } from './rows.js'

const COLUMNS = 6

/** Those of the options that the detector takes. */
const applicable = (detector: DetectorName, options: DetectorOptions): DetectorOptions =>
  Object.fromEntries(Object.entries(options).filter(([name]) => takes(detector, name)))

const takes = (detector: DetectorName, option: string) =>
  (DETECTORS[detector].options as readonly string[]).includes(option)

const train = (
  detector: DetectorName,
  rows: Matrix,
  options: DetectorOptions = {},
  seed = 5,
): DetectorModel => {
  const given = applicable(detector, { m: 30, trees: 10, ...options })
  return fitDetector(rows, checkParameters({ ...given, detector }), createRng(seed))
}

const score = (model: DetectorModel, rows: Matrix) =>
  scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))

const part = (rows: Matrix, first: number, count: number) =>
  matrixOf(count, rows.cols, rows.data.slice(first * rows.cols, (first + count) * rows.cols))

/** All numbers of a model, in one order, as bytes. */
const bytes = (model: DetectorModel) =>
  JSON.stringify(model, (_, v) => (v instanceof Float64Array ? [...v] : v))

const mean = (values: Float64Array) => values.reduce((a, b) => a + b, 0) / values.length

/** Options that lead through different code in every detector. */
const VARIANTS: readonly DetectorOptions[] = [
  {},
  { scaler: 'standard' },
  { supportGuard: false },
  { scaler: 'standard', supportGuard: false },
  { scaler: 'log' },
  { scaler: 'log-standard' },
  { scaler: 'quantile' },
  { precision: 'f32' },
  { precision: 'f32', scaler: 'standard', supportGuard: false },
]

/** Without those that say nothing new of a detector that has one precision. */
const variantsFor = (detector: DetectorName): readonly DetectorOptions[] =>
  VARIANTS.filter(({ precision }) => precision === undefined || takes(detector, 'precision'))

/** Nothing in their fits is random, with so few rows. */
const DETERMINISTIC: readonly DetectorName[] = ['ocsvm', 'kde', 'pca']

function modelOrDataError(learn: () => DetectorModel): DetectorModel | null {
  try {
    return learn()
  } catch (error) {
    if (error instanceof DataError) return null
    throw error
  }
}

export const CONFORMANCE_CHECKS: Readonly<Record<string, (detector: DetectorName) => void>> = {
  'the same seed gives the same model, another seed another': (detector) => {
    const rows = clusteredRows(150, COLUMNS)
    const model = train(detector, rows)
    expect(bytes(train(detector, rows))).toBe(bytes(model))
    const other = expect(bytes(train(detector, rows, {}, 6)))
    if (DETERMINISTIC.includes(detector)) other.toBe(bytes(model))
    else other.not.toBe(bytes(model))
  },

  'fitting leaves the rows as they were': (detector) => {
    const rows = clusteredRows(60, COLUMNS)
    const before = rows.data.slice()
    train(detector, rows, { scaler: 'standard' })
    expect(rows.data).toEqual(before)
  },

  'a score has the same bits in a batch of any size and at any place': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(150, COLUMNS), options)
      const rows = clusteredRows(41, COLUMNS, 9)
      const whole = score(model, rows)
      for (const size of [1, 2, 3, 5, 8, 40]) {
        for (let first = 0; first + size <= rows.rows; first += size) {
          expect(score(model, part(rows, first, size))).toEqual(whole.slice(first, first + size))
        }
      }
      const reversed = matrixOf(
        rows.rows,
        COLUMNS,
        Float64Array.from(rows.data, (_, at) => {
          const row = rows.rows - 1 - Math.floor(at / COLUMNS)
          return rows.data[row * COLUMNS + (at % COLUMNS)]!
        }),
      )
      expect(score(model, reversed).reverse()).toEqual(whole)
    }
  },

  'SIMD kernels and typed arrays give the same bits': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(150, COLUMNS), options)
      const typed = createScoreWorkspace(model, { simd: false })
      const d = modelEmbedding(model)?.dimensions ?? 0
      const far = matrixOf(
        3,
        COLUMNS,
        Float64Array.from({ length: 3 * COLUMNS }, (_, at) => 1e200 * (at - 9)),
      )
      for (const rows of [clusteredRows(41, COLUMNS, 9), novelRows(6, COLUMNS), far]) {
        const out = new Float64Array(rows.rows)
        expect(score(model, rows)).toEqual(scoreSamples(model, rows, out, typed))
        if (d === 0) continue
        const embed = (workspace: ReturnType<typeof createScoreWorkspace>) =>
          embedSamples(model, rows, new Float64Array(rows.rows * d), workspace)
        expect(embed(createScoreWorkspace(model))).toEqual(embed(typed))
        if (!hasScoreParts(model)) continue
        const parts = (workspace: ReturnType<typeof createScoreWorkspace>) =>
          scoreParts(model, rows, createScoreParts(rows.rows), workspace)
        expect(parts(createScoreWorkspace(model))).toEqual(parts(typed))
      }
    }
  },

  'workspaces of several models may take turns': (detector) => {
    const models = [5, 6].map((seed) => train(detector, clusteredRows(150, COLUMNS), {}, seed))
    const workspaces = models.map((model) => createScoreWorkspace(model))
    const rows = clusteredRows(20, COLUMNS, 9)
    const alone = models.map((model) => score(model, rows))
    for (const turn of [0, 1, 0, 0, 1]) {
      const out = new Float64Array(20)
      expect(scoreSamples(models[turn]!, rows, out, workspaces[turn]!)).toEqual(alone[turn])
    }
  },

  'a workspace remembers nothing between calls': (detector) => {
    const model = train(detector, clusteredRows(150, COLUMNS))
    const workspace = createScoreWorkspace(model)
    const rows = clusteredRows(20, COLUMNS, 9)
    const first = scoreSamples(model, rows, new Float64Array(20), workspace).slice()
    scoreSamples(model, novelRows(20, COLUMNS), new Float64Array(20), workspace)
    expect(scoreSamples(model, rows, new Float64Array(20), workspace)).toEqual(first)
  },

  'structuredClone brings back the same model and the same scores': (detector) => {
    const model = train(detector, clusteredRows(150, COLUMNS), { scaler: 'standard' })
    const copy = structuredClone(model)
    expect(copy).toEqual(model)
    const rows = clusteredRows(20, COLUMNS, 9)
    expect(score(copy, rows)).toEqual(score(model, rows))
  },

  'the fitted model passes checkModel unchanged': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(90, COLUMNS), options)
      expect(checkModel(model)).toEqual(model)
    }
  },

  'normal rows score higher than novel ones': (detector) => {
    const model = train(detector, clusteredRows(300, COLUMNS))
    expect(mean(score(model, clusteredRows(60, COLUMNS, 9)))).toBeGreaterThan(
      mean(score(model, novelRows(60, COLUMNS))),
    )
  },

  'with the guard, rows ever further from the training rows score ever lower': (detector) => {
    if (!takes(detector, 'supportGuard')) return
    const model = train(detector, clusteredRows(300, COLUMNS))
    const rows = matrixOf(
      40,
      COLUMNS,
      Float64Array.from({ length: 40 * COLUMNS }, (_, at) => -100 * 2 ** Math.floor(at / COLUMNS)),
    )
    const scores = score(model, rows)
    for (let i = 1; i < 40; i++) expect(scores[i]!).toBeLessThan(scores[i - 1]!)
    const lowest = Math.min(...score(model, clusteredRows(300, COLUMNS)))
    expect(scores[0]!).toBeLessThan(lowest)
  },

  'the parts of a score add up to it, and without a guard to the log-density': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(90, COLUMNS), options)
      const workspace = createScoreWorkspace(model)
      const rows = matrixOf(
        40,
        COLUMNS,
        Float64Array.of(...clusteredRows(20, COLUMNS, 9).data, ...novelRows(20, COLUMNS).data),
      )
      const parts = createScoreParts(40)
      if (!hasScoreParts(model)) {
        expect(() => scoreParts(model, rows, parts, workspace)).toThrow(/has no parts/)
        continue
      }
      expect(scoreParts(model, rows, parts, workspace)).toBe(parts)
      const scores = score(model, rows)
      for (let i = 0; i < 40; i++) {
        expect(parts.densityTerm[i]! + parts.supportTerm[i]!).toBe(scores[i])
        expect(parts.support[i]!).toBeLessThanOrEqual(0)
        if (options.supportGuard === false) expect(scores[i]).toBe(parts.logDensity[i])
        else expect(scores[i]!).toBeLessThan(0)
      }
      expect(() => scoreParts(model, rows, createScoreParts(39), workspace)).toThrow(/out: expected/)
    }
  },

  'rows of another width are refused': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    expect(() => score(model, clusteredRows(3, COLUMNS + 1))).toThrow(ArgumentError)
    expect(() => score(model, clusteredRows(3, COLUMNS + 1))).toThrow(/expected 6 columns.*found 7/)
  },

  'no rows give no scores': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    expect(score(model, matrixOf(0, COLUMNS, new Float64Array(0)))).toEqual(new Float64Array(0))
  },

  'scores go into the array given, no further, and it is returned': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    const workspace = createScoreWorkspace(model)
    const rows = clusteredRows(10, COLUMNS, 9)
    const out = new Float64Array(12).fill(77)
    expect(scoreSamples(model, rows, out, workspace)).toBe(out)
    expect([...out.slice(10)]).toEqual([77, 77])
    expect(() => scoreSamples(model, rows, new Float64Array(9), workspace)).toThrow(/out: expected/)
    const d = modelEmbedding(model)?.dimensions
    if (d === undefined) {
      expect(() => embedSamples(model, rows, out, workspace)).toThrow(/embeds nothing/)
      return
    }
    const embedded = new Float64Array(10 * d + 1).fill(77)
    expect(embedSamples(model, rows, embedded, workspace)).toBe(embedded)
    expect(embedded[10 * d]).toBe(77)
  },

  'scoring allocates no arrays': (detector) => {
    for (const scaler of ['none', 'quantile'] as const) {
      const model = train(detector, clusteredRows(60, COLUMNS), { scaler })
      const workspace = createScoreWorkspace(model)
      const rows = clusteredRows(37, COLUMNS, 9)
      const out = new Float64Array(37)
      const d = modelEmbedding(model)?.dimensions ?? 0
      const embedded = new Float64Array(37 * d)
      const before = process.memoryUsage().arrayBuffers
      for (let i = 0; i < 200; i++) {
        scoreSamples(model, rows, out, workspace)
        if (d > 0) embedSamples(model, rows, embedded, workspace)
      }
      expect(process.memoryUsage().arrayBuffers).toBeLessThanOrEqual(before)
    }
  },

  'rows may come as an ml-matrix Matrix': (detector) => {
    const rows = clusteredRows(60, COLUMNS)
    const like = { rows: 60, columns: COLUMNS, get: (i: number, j: number) => rows.data[i * COLUMNS + j]! }
    const model = train(detector, rows)
    expect(fitDetector(like, model.parameters, createRng(5))).toEqual(model)
    const scores = scoreSamples(model, like, new Float64Array(60), createScoreWorkspace(model))
    expect(scores).toEqual(score(model, rows))
  },

  'a workspace of another model is refused': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    const workspace = createScoreWorkspace(structuredClone(model))
    expect(() => scoreSamples(model, clusteredRows(1, COLUMNS), new Float64Array(1), workspace)).toThrow(
      /another model/,
    )
  },

  'NaN and infinity are refused in training and in scoring': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const rows = clusteredRows(60, COLUMNS)
      rows.data[COLUMNS + 2] = bad
      expect(() => train(detector, rows)).toThrow(/row 1, column 2/)
      expect(() => score(model, rows)).toThrow(/row 1, column 2/)
    }
  },

  'the largest finite numbers score without NaN': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(60, COLUMNS), options)
      const rows = matrixOf(2, COLUMNS, new Float64Array(2 * COLUMNS).fill(Number.MAX_VALUE))
      rows.data.fill(-Number.MAX_VALUE, 0, 3)
      for (const s of score(model, rows)) expect(Number.isFinite(s)).toBe(true)
    }
  },

  'degenerate training rows give a finite model or a DataError that says what to do': (detector) => {
    const fill = (n: number, f: (row: number, column: number) => number) =>
      matrixOf(
        n,
        COLUMNS,
        Float64Array.from({ length: n * COLUMNS }, (_, at) => f(Math.floor(at / COLUMNS), at % COLUMNS)),
      )
    const normal = clusteredRows(60, COLUMNS)
    for (const variant of variantsFor(detector)) {
      const learn = (rows: Matrix, options: DetectorOptions = {}) =>
        train(detector, rows, { ...variant, ...options })
      expect(() => learn(fill(50, () => 3))).toThrow(DataError)
      expect(() => learn(fill(50, () => 3))).toThrow(/all training rows are equal/)
      expect(() => learn(fill(0, () => 0))).toThrow(/at least 2/)
      expect(() => learn(fill(1, () => 0))).toThrow(/at least 2/)
      const mostlyEqual = fill(50, (i) => (i < 45 ? 1 : i))
      if (takes(detector, 'bandwidthQuantile')) {
        expect(() => learn(mostlyEqual)).toThrow(/raise bandwidthQuantile above 0\.809/)
      }
      const defined = {
        'two rows': fill(2, (i, j) => i * j),
        'three rows': fill(3, (i, j) => i * j),
        'mostly equal rows and a high quantile': mostlyEqual,
        'two different rows, many times': fill(50, (i) => i % 2),
        'two different rows, unevenly': fill(50, (i) => (i < 20 ? 0 : 1)),
        'a constant column': fill(60, (i, j) => (j === 2 ? 5 : normal.data[i * COLUMNS + j]!)),
        'all columns but one constant': fill(60, (i, j) => (j === 2 ? i : 4)),
        'rows on a line': fill(60, (i, j) => i * (j + 1)),
        'one row far away': fill(60, (i, j) => (i === 0 ? 1e12 : normal.data[i * COLUMNS + j]!)),
      }
      for (const [name, rows] of Object.entries(defined)) {
        const model = modelOrDataError(() => learn(rows, { bandwidthQuantile: 0.95, k: 3 }))
        if (model === null) {
          // a full covariance over the rows themselves is singular where they lie on a line
          expect(detector, name).toBe('gmm')
          continue
        }
        expect(checkModel(model), name).toEqual(model)
        for (const s of score(model, rows)) expect(Number.isFinite(s), name).toBe(true)
      }
    }
  },

  'm above the number of rows and d above the rank are lowered, and the model says so': (detector) => {
    const model = train(detector, clusteredRows(4, COLUMNS), { m: 500, d: 50, bandwidthQuantile: 1 })
    const notes = model.fitReport.notes.join()
    if (takes(detector, 'm')) expect(notes).toMatch(/m lowered from 500 to the 4/)
    if (!takes(detector, 'd')) return
    expect(modelEmbedding(model)?.dimensions).toBeLessThanOrEqual(4)
    expect(notes).toMatch(/d lowered from 50 to [1-4]/)
  },

  'an option that does not apply is refused by name': (detector) => {
    const every: DetectorOptions = {
      k: 3,
      centre: true,
      beta: 0.8,
      neighbours: 9,
      coverage: 0.9,
      maximumClusters: 5,
      supportGuard: false,
      m: 9,
      d: 2,
      nu: 0.1,
      bandwidthQuantile: 0.2,
      kernel: 'rbf',
      covariance: 'tied',
      trees: 3,
      subsampleRows: 20,
      varianceShare: 0.5,
      maximumRows: 100,
      tolerance: 1e-4,
      maximumSteps: 10,
      regularisation: 1e-5,
      precision: 'f32',
    }
    for (const [name, value] of Object.entries(every)) {
      const check = () => checkParameters({ detector, [name]: value })
      if (takes(detector, name)) expect(JSON.stringify(check())).toContain(JSON.stringify(value))
      else {
        expect(check).toThrow(`${name}: does not apply to ${detector}`)
        expect(check).toThrow(expect.objectContaining({ field: name }))
      }
    }
  },

  'progress runs through the stages in order': (detector) => {
    const seen: string[] = []
    fitDetector(clusteredRows(300, COLUMNS), checkParameters({ detector }), createRng(1), {
      onProgress({ stage, fraction }) {
        expect(fraction).toBeGreaterThanOrEqual(0)
        expect(fraction).toBeLessThanOrEqual(1)
        if (seen[seen.length - 1] !== stage) seen.push(stage)
      },
    })
    expect(seen).toEqual(DETECTORS[detector].stages)
  },
}
