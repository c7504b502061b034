/** Explanations hold for every detector, and point at what was made different. */
import { ArgumentError, createRng } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { nearestExample, normalExamples } from '../../src/explain/explain-score.js'
import {
  checkParameters,
  createExplainer,
  createScoreWorkspace,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorModel,
  type DetectorName,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '../../src/index.js'
import { clusteredRows } from '../rows.js'

const COLS = 6
const rows = clusteredRows(240, COLS)
const OPTIONS: DetectorOptions = { m: 30, trees: 10, scaler: 'standard' }

function fitted(detector: DetectorName, options: DetectorOptions = OPTIONS): DetectorModel {
  const taken = Object.entries(options).filter(([name]) =>
    (DETECTORS[detector].options as readonly string[]).includes(name),
  )
  return fitDetector(rows, checkParameters({ ...Object.fromEntries(taken), detector }), createRng(3))
}

const scoreOf = (model: DetectorModel, row: Float64Array): number =>
  scoreSamples(
    model,
    { rows: 1, cols: COLS, data: row },
    new Float64Array(1),
    createScoreWorkspace(model),
  )[0]!

/** A normal row in which one feature is far from all that was seen. */
function outIn(column: number): Float64Array {
  const row = rows.data.slice(3 * COLS, 4 * COLS)
  row[column] = -60
  return row
}

const explained = DETECTOR_NAMES.filter(
  (name) => name === 'ensemble' || DETECTORS[name].normalExamples !== undefined,
)

describe.each(explained)('%s', (detector) => {
  const model = fitted(detector)
  const explainer = createExplainer(model)

  it('has shares that add up to the score with those features replaced', () => {
    for (const column of [0, 4]) {
      const row = outIn(column)
      const score = scoreOf(model, row)
      const { features, explainedScore } = explainer!.explain(row, score, Number.POSITIVE_INFINITY)
      expect(features.length).toBeGreaterThan(0)
      expect(features.length).toBeLessThanOrEqual(5)
      const replaced = row.slice()
      let sum = score
      for (const { column: at, value, nearest, gain } of features) {
        expect(value).toBe(row[at])
        replaced[at] = nearest
        sum += gain
      }
      expect(scoreOf(model, replaced)).toBe(explainedScore)
      expect(sum).toBeCloseTo(explainedScore, 6)
      expect(new Set(features.map((share) => share.column)).size).toBe(features.length)
    }
  })

  it('begins with the feature that was made different', () => {
    for (const column of [0, 3, 5]) {
      const row = outIn(column)
      const [first] = explainer!.explain(row, scoreOf(model, row), Number.POSITIVE_INFINITY).features
      // the linear SVM of far rows in the paper's form has one value for all that is far
      expect(first).toMatchObject({ column, value: -60 })
      expect(first!.nearest).toBeGreaterThan(-20)
    }
  })

  it('stops where the row would be normal', () => {
    const row = outIn(2)
    const score = scoreOf(model, row)
    expect(explainer!.explain(row, score, score - 1).features).toEqual([])
    expect(explainer!.explain(row, score, score).features.length).toBeGreaterThan(0)
  })

  it('refuses what is no row of the model', () => {
    expect(() => explainer!.explain(new Float64Array(COLS - 1), 0, 0)).toThrow(ArgumentError)
    expect(() => explainer!.explain(new Float64Array(COLS).fill(Number.NaN), 0, 0)).toThrow(ArgumentError)
  })
})

describe('modes', () => {
  it.each(['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'gmm'] as const)('%s: the three clusters', (detector) => {
    const model = fitted(detector, { ...OPTIONS, k: 3, m: 60 })
    const explainer = createExplainer(model)!
    const modes = new Map<number, number>()
    for (let cluster = 0; cluster < 3; cluster++) {
      const row = rows.data.slice(cluster * COLS, (cluster + 1) * COLS)
      row[1] += 5 * (cluster + 1)
      const { mode, features } = explainer.explain(row, scoreOf(model, row), Number.POSITIVE_INFINITY)
      expect(mode!.weight).toBeGreaterThan(0)
      expect(mode!.weight).toBeLessThanOrEqual(1)
      modes.set(cluster, mode!.component)
      // what is typical of a cluster lies within it
      for (const { typical } of features) expect(Math.abs(typical! - 10 * cluster)).toBeLessThan(5)
    }
    expect(new Set(modes.values()).size).toBe(3)
  })

  it('are none where the detector has none, and a forest has nothing to explain by', () => {
    for (const detector of ['ocsvm', 'nearest', 'kde', 'pca', 'oc-kjl-svm'] as const) {
      const model = fitted(detector)
      const row = outIn(1)
      const { mode, features } = createExplainer(model)!.explain(
        row,
        scoreOf(model, row),
        Number.POSITIVE_INFINITY,
      )
      expect(mode).toBeNull()
      expect(features.every(({ typical }) => typical === null)).toBe(true)
    }
    expect(createExplainer(fitted('iforest'))).toBeNull()
  })
})

it('the nearest example is that of all distances', () => {
  const examples = normalExamples(fitted('nearest'))!
  const rng = createRng(1)
  for (let i = 0; i < 50; i++) {
    const row = Float64Array.from({ length: COLS }, () => 2 * rng.nextNormal())
    const squares = Array.from({ length: examples.rows.rows }, (_, e) =>
      row.reduce((sum, value, j) => sum + (value - examples.rows.data[e * COLS + j]!) ** 2, 0),
    )
    const found = nearestExample(examples, row)
    expect(squares[found]).toBeCloseTo(Math.min(...squares), 9)
  }
})
