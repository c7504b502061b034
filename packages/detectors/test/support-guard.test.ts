import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { fitSupportGuard, reachLimit } from '../src/calibration/support-guard.js'
import {
  checkParameters,
  createScoreParts,
  createScoreWorkspace,
  type DetectorModel,
  fitDetector,
  scoreParts,
  scoreSamples,
} from '../src/index.js'
import { clusteredRows } from './rows.js'

const D = 4

/** Rows on a wide ring: landmarks cover it thinly, so a small bandwidth leaves many rows at the origin. */
function scattered(n: number, seed: number) {
  const rng = createRng(seed)
  return matrixOf(
    n,
    D,
    Float64Array.from({ length: n * D }, () => 50 * rng.nextNormal()),
  )
}

const score = (model: DetectorModel, row: number[]) =>
  scoreSamples(
    model,
    matrixOf(1, D, Float64Array.from(row)),
    new Float64Array(1),
    createScoreWorkspace(model),
  )[0]!

describe('the support guard', () => {
  it('keeps a far row from scoring as normal where the mixture is dense at the origin', () => {
    const rows = scattered(400, 1)
    const far = [1e5, -1e5, 1e5, 1e5]
    const train = (supportGuard: boolean) =>
      fitDetector(
        rows,
        checkParameters({ detector: 'oc-kjl', m: 40, k: 3, bandwidthQuantile: 0.001, supportGuard }),
        createRng(2),
      )
    const shareBelow = (model: DetectorModel) => {
      const scores = scoreSamples(model, rows, new Float64Array(400), createScoreWorkspace(model))
      const value = score(model, far)
      return scores.filter((s) => s <= value).length / 400
    }
    // without it, most of the training rows look less normal than a row a thousand times as far away
    expect(shareBelow(train(false))).toBeGreaterThan(0.5)
    expect(shareBelow(train(true))).toBe(0)
  })

  it('is the only difference that it makes to a model', () => {
    const options = { detector: 'oc-nystrom-qs', m: 30 } as const
    const rows = clusteredRows(150, D)
    const { supportGuard, parameters, ...guarded } = fitDetector(rows, checkParameters(options), createRng(3))
    const without = fitDetector(rows, checkParameters({ ...options, supportGuard: false }), createRng(3))
    expect(without).toEqual({
      ...guarded,
      supportGuard: null,
      parameters: { ...parameters, supportGuard: false },
    })
    expect(supportGuard).not.toBeNull()
  })

  it('gives each landmark the mean squared distance of the rows nearest to it, and leaves landmarks themselves out', () => {
    // on a line: landmarks at 0 and 10 (rows 0 and 3); nearest to the first: 1, 2; to the second: 13 and 0
    const rows = matrixOf(5, 1, Float64Array.of(0, 1, 2, 10, 13))
    const embedding = {
      kind: 'kjl',
      bandwidth: 1,
      landmarks: matrixOf(2, 1, Float64Array.of(0, 10)),
      projection: matrixOf(1, 2, new Float64Array(2)),
    } as const
    const guard = fitSupportGuard(rows, embedding, Uint32Array.of(0, 3), Float64Array.of(1, 2, 3, 4, 5))
    const common = 0.001 * ((1 + 4 + 100 + 9 + 100) / 5)
    const [first, second] = [(1 + 4 + 100) / 3 + common, (9 + 100) / 2 + common]
    expect([...guard.squaredReaches]).toEqual([first, second])
    const supports = [-100 / second, -1 / first, -4 / first, -100 / first, -9 / second].sort((a, b) => a - b)
    expect([...guard.support.data].filter((_, i) => i % 2 === 0)).toEqual(
      supports.map((s) => expect.closeTo(s, 12) as number),
    )
  })

  it.each([
    ['one odd row', 1],
    ['1 % of rows of another kind', 4],
  ])('costs at most a tenth of what is found: %s', (_, odd) => {
    // heartbeats: an interval, a request of about 80 bytes, an answer of about 120
    const heartbeats = (n: number, seed: number, more = [0, 0]) => {
      const rng = createRng(seed)
      const size = (bytes: number) => bytes + rng.nextBelow(5)
      return matrixOf(
        n,
        3,
        Float64Array.from({ length: 3 * n }, (_, i) =>
          i % 3 === 0 ? 0.01 * rng.nextFloat() : size(i % 3 === 1 ? 80 + more[0]! : 120 + more[1]!),
        ),
      )
    }
    const normal = heartbeats(300, 77)
    const novel = [heartbeats(300, 78, [0, 400]), heartbeats(300, 79, [300, 300])]
    const foundBy = (model: DetectorModel): number => {
      const scores = (rows: Matrix) =>
        scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
      const level = scores(normal).sort()[3]!
      return novel.reduce((sum, rows) => sum + scores(rows).filter((s) => s < level).length, 0)
    }
    for (const detector of ['oc-kjl-qs', 'oc-nystrom', 'oc-kjl-svm'] as const) {
      for (const landmarks of ['random', 'farthest-first'] as const) {
        for (const seed of [1, 2, 3]) {
          const clean = heartbeats(400, seed)
          const dirty = heartbeats(400, seed)
          for (let k = 0; k < odd; k++) dirty.data.set([0.003, 1442 - 9 * k, 1442 - 5 * k], 3 * (50 + 60 * k))
          const [found, foundBeside] = [clean, dirty].map((rows) =>
            foundBy(fitDetector(rows, checkParameters({ detector, landmarks }), createRng(seed))),
          )
          expect({ detector, landmarks, seed, found: foundBeside! >= 0.9 * found! }).toEqual({
            detector,
            landmarks,
            seed,
            found: true,
          })
          expect(found).toBeGreaterThan(500)
        }
      }
    }
  })

  it('limits what a distance counts, whatever repeats', () => {
    expect(reachLimit(Float64Array.of(1, 2, 3, 900))).toBe(3)
    expect(reachLimit(Float64Array.from({ length: 100 }, (_, i) => i + 1))).toBe(95)
    expect(reachLimit(Float64Array.from({ length: 100 }, (_, i) => Math.max(0, i - 95)))).toBe(2)
    expect(reachLimit(Float64Array.of(0, 0, 0, 5))).toBe(0)
    expect(reachLimit(Float64Array.of(Number.POSITIVE_INFINITY, 4, 9))).toBe(4)
    expect(reachLimit(new Float64Array(3))).toBe(0)
  })

  it('has a scale where every row equals a landmark, and where there is a single landmark', () => {
    const rows = matrixOf(4, 1, Float64Array.of(0, 1, 0, 1))
    const projection = matrixOf(1, 2, new Float64Array(2))
    const twice = fitSupportGuard(
      rows,
      { kind: 'kjl', bandwidth: 3, landmarks: rows, projection },
      Uint32Array.of(0, 1, 2, 3),
      new Float64Array(4),
    )
    expect([...twice.squaredReaches]).toEqual(new Array(4).fill(9 + 0.001 * 9))
    for (const m of [1, 2]) {
      const model = fitDetector(
        clusteredRows(20, D),
        checkParameters({ detector: 'oc-nystrom', m, d: 1, k: 1 }),
        createRng(1),
      )
      expect(Number.isFinite(score(model, [0, 0, 0, 0]))).toBe(true)
    }
  })

  it('says in its parts that it was the support, or the density', () => {
    const rows = clusteredRows(300, D)
    const model = fitDetector(rows, checkParameters({ detector: 'oc-kjl', m: 30, k: 3 }), createRng(2))
    const parts = scoreParts(
      model,
      matrixOf(2, D, Float64Array.of(...rows.data.subarray(0, D), 1e4, 1e4, 1e4, 1e4)),
      createScoreParts(2),
      createScoreWorkspace(model),
    )
    expect(parts.supportTerm[1]!).toBeLessThan(-10)
    expect(parts.supportTerm[0]!).toBeGreaterThan(-6)
    expect(parts.support[1]!).toBeLessThan(parts.support[0]!)
  })
})
