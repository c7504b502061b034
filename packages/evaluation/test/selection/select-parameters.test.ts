/** The search against a plain nested loop over fitDetector, which shares nothing. */
import { ArgumentError, createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import {
  type CheckedParameters,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import {
  auc,
  bestCandidate,
  type CandidateResult,
  candidateGroups,
  createCandidateTrial,
  gridCandidates,
  type ParameterGrid,
  PLAIN_ROWS_DETECTORS,
  selectDetector,
  selectParameters,
  suitedDetector,
  validationRows,
} from '../../src/index.js'

/** Rows about two centres; novel ones lie between, near enough to be mistaken. */
function rowsAbout(centres: readonly number[], count: number, seed: number): Matrix {
  const rng = createRng(seed)
  const cols = 4
  const data = Float64Array.from(
    { length: count * cols },
    (_, at) => centres[Math.floor(at / cols) % centres.length]! + rng.nextNormal(),
  )
  return matrixOf(count, cols, data)
}
const train = rowsAbout([0, 6], 120, 1)
const validation = validationRows(rowsAbout([0, 6], 30, 2), rowsAbout([2, 4], 30, 3), 4)

function plainLoop(
  all: readonly CheckedParameters[],
  seed: number,
): { best: number; areas: (number | null)[] } {
  let best = -1
  let largest = -1
  const areas = all.map((parameters, index) => {
    const model = fitDetector(train, parameters, createRng(seed))
    const scores = new Float64Array(60)
    scoreSamples(model, validation.rows, scores, createScoreWorkspace(model))
    const area = auc(scores, validation.isNovel).value!
    if (area > largest) {
      largest = area
      best = index
    }
    return area
  })
  return { best, areas }
}

const searches: [string, DetectorOptions, ParameterGrid][] = [
  ['oc-kjl over h × k', { detector: 'oc-kjl', m: 30 }, { bandwidthQuantile: [0.1, 0.3, 0.7], k: [1, 2, 4] }],
  ['oc-nystrom-qs over h', { detector: 'oc-nystrom-qs', m: 30 }, { bandwidthQuantile: [0.2, 0.5, 0.9] }],
  [
    'ocsvm over h × nu × scaler',
    { detector: 'ocsvm' },
    { bandwidthQuantile: [0.2, 0.5], nu: [0.1, 0.5], scaler: ['none', 'standard'] },
  ],
  ['gmm over k', { detector: 'gmm' }, { k: [1, 2, 4] }],
  ['kde over h', { detector: 'kde' }, { bandwidthQuantile: [0.1, 0.5] }],
]

describe('selectParameters', () => {
  it.each(searches)('is a plain nested loop: %s', (_, options, grid) => {
    const candidates = gridCandidates(options, grid)
    const { best, results } = selectParameters(train, validation, candidates, createRng(9))
    const plain = plainLoop(
      candidates.map(({ parameters }) => parameters),
      9,
    )
    expect(results.map((result) => result.auc)).toEqual(plain.areas)
    expect(best).toBe(plain.best)
    expect(new Set(plain.areas).size).toBeGreaterThan(1)
  })

  it('tells of each result, and gives the same in any order', () => {
    const candidates = gridCandidates(
      { detector: 'oc-kjl', m: 30 },
      { bandwidthQuantile: [0.1, 0.6], k: [1, 3] },
    )
    const told: [number, CandidateResult][] = []
    const { results } = selectParameters(train, validation, candidates, createRng(2), (...heard) =>
      told.push(heard),
    )
    expect(told.length).toBe(4)
    for (const [index, result] of told) expect(result).toBe(results[index])
    const attempt = createCandidateTrial(train, validation, candidates, createRng(2))
    expect([3, 0, 2, 1].map(attempt)).toEqual([3, 0, 2, 1].map((index) => results[index]))
    expect(results[0]!.figures).toHaveProperty('bandwidth')
    expect(() => attempt(4)).toThrow(ArgumentError)
  })

  it('leaves out candidates that cannot be fitted and says why', () => {
    // most pairs are equal, so small quantiles are 0
    const repeated = matrixOf(
      60,
      4,
      Float64Array.from({ length: 240 }, (_, at) => (at < 200 ? 1 : train.data[at]!)),
    )
    const candidates = gridCandidates({ detector: 'kde' }, { bandwidthQuantile: [0.1, 0.2, 0.9, 0.95] })
    const { best, results } = selectParameters(repeated, validation, candidates, createRng(1))
    expect(results.map((result) => result.auc === null)).toEqual([true, true, false, false])
    expect(results[0]).toMatchObject({ failure: expect.stringMatching(/0\.1-quantile .* is 0/), figures: {} })
    expect(results[2]!.failure).toBeNull()
    expect(best).toBeGreaterThanOrEqual(2)
    expect(() => selectParameters(repeated, validation, candidates.slice(0, 2), createRng(1))).toThrow(
      /none of the 2 candidates could be fitted; the first: the 0\.1-quantile/,
    )
  })
})

describe('bestCandidate', () => {
  const result = (area: number | null): CandidateResult => ({
    auc: area,
    failure: area === null ? 'no' : null,
    figures: {},
  })
  it('is the first of the largest', () => {
    expect(bestCandidate([0.5, 0.9, 0.9, 0.2].map(result))).toBe(1)
    expect(bestCandidate([null, 0, 0].map(result))).toBe(1)
    expect(() => bestCandidate([null].map(result))).toThrow(DataError)
    expect(() => bestCandidate([])).toThrow(/expected at least one, found none/)
  })
})

describe('candidateGroups', () => {
  it('keep together what has an embedding in common, and everything is in one', () => {
    const of = (detector: 'oc-kjl' | 'gmm' | 'ocsvm', grid: ParameterGrid) =>
      candidateGroups(gridCandidates({ detector }, grid))
    expect(of('oc-kjl', { bandwidthQuantile: [0.1, 0.2], k: [1, 2] })).toEqual([
      [0, 1],
      [2, 3],
    ])
    expect(of('gmm', { k: [1, 2] })).toEqual([[0], [1]])
    expect(of('ocsvm', { bandwidthQuantile: [0.1, 0.2] })).toEqual([[0], [1]])
  })
})

describe('validationRows', () => {
  const good = rowsAbout([0], 3, 1)
  const none = matrixOf(0, 4, new Float64Array(0))
  const wide = matrixOf(1, 5, new Float64Array(5))
  const nan = matrixOf(1, 4, Float64Array.of(0, Number.NaN, 0, 0))

  it('puts normal rows first', () => {
    expect([...validationRows(good, rowsAbout([9], 2, 1), 4).isNovel]).toEqual([0, 0, 0, 1, 1])
  })

  it.each([
    ['no novel rows', good, none, DataError, /^novel validation rows: expected at least one, found none$/],
    ['no normal rows', none, good, DataError, /^normal validation rows: expected at least one/],
    ['another width', good, wide, ArgumentError, /^novel validation rows: expected 4 columns .*, found 5$/],
    ['NaN', nan, good, ArgumentError, /^normal validation rows.*NaN/],
  ])('refuses %s', (_, normal, novel, type, message) => {
    const make = () => validationRows(normal, novel, 4)
    expect(make).toThrow(type)
    expect(make).toThrow(message)
  })
})

describe('selectDetector', () => {
  const candidates = PLAIN_ROWS_DETECTORS.map((options) => checkParameters(options))
  const chosenFor = (rows: Matrix): string =>
    PLAIN_ROWS_DETECTORS[selectDetector(rows, candidates, createRng(1)).best]!.detector

  /** Rows of `cols` numbers, each made from the normals of its row. */
  function rowsFrom(cols: number, make: (z: readonly number[], j: number) => number): Matrix {
    const rng = createRng(7)
    const data = new Float64Array(400 * cols)
    for (let i = 0; i < 400; i++) {
      const z = Array.from({ length: cols }, () => rng.nextNormal())
      for (let j = 0; j < cols; j++) data[i * cols + j] = make(z, j)
    }
    return matrixOf(400, cols, data)
  }

  it('is a mixture for correlated columns of unlike scales, and histograms for columns of a few numbers', () => {
    expect(chosenFor(rowsFrom(6, (z, j) => 10 ** j * (z[0]! + 0.1 * z[j]!)))).toBe('gmm')
    expect(chosenFor(rowsFrom(6, (z, j) => Math.round(3 * Math.exp(z[j]!))))).toBe('hbos')
  })

  it('is the same for the same seed, and changes no row', () => {
    const rows = rowsAbout([0, 5], 200, 3)
    const before = rows.data.slice()
    const choose = () => selectDetector(rows, candidates, createRng(2))
    expect(choose()).toEqual(choose())
    expect(rows.data).toEqual(before)
  })

  it('takes numbers at the end of the range, and passes over what cannot be fitted', () => {
    const rows = rowsFrom(2, (z, j) => (j === 0 ? z[0]! : Number.MAX_VALUE * Math.sign(z[1]!)))
    const { best, results } = selectDetector(rows, candidates, createRng(1))
    expect(results[best]!.auc).not.toBeNull()
    const equal = matrixOf(50, 2, new Float64Array(100).fill(3))
    expect(() => selectDetector(equal, candidates, createRng(1))).toThrow(/all training rows are equal/)
  })

  it('is made among the presets that take the options given; of few rows there is no choice', () => {
    const rows = rowsAbout([0, 5], 200, 3)
    const suited = suitedDetector(rows, {}, createRng(2))!
    const { best, results } = selectDetector(rows, candidates, createRng(2))
    expect(suited.preset).toEqual(PLAIN_ROWS_DETECTORS[best])
    expect(suited.tried.map(({ auc }) => auc)).toEqual(results.map(({ auc }) => auc))
    expect(suitedDetector(rows, { scaler: 'standard' }, createRng(2))!.tried).toHaveLength(3)
    expect(suitedDetector(rows, { bins: 10 }, createRng(2))).toEqual({
      preset: { detector: 'hbos' },
      tried: [],
    })
    expect(suitedDetector(rows, { nu: 0.5 }, createRng(2))).toBeNull()
    expect(suitedDetector(rowsAbout([0, 5], 39, 3), {}, createRng(2))).toEqual({
      preset: { detector: 'oc-nystrom-qs' },
      tried: [],
    })
  })
})
