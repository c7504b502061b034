import { createMatrix, createRng, type Matrix, matrixOf, takeRows } from '@oddflow/core'
import {
  calibrateThreshold,
  embedRows,
  type MixtureModel,
  mixtureCovariances,
  type Threshold,
} from '@oddflow/detectors'
import { gaussianKernel, multiply } from '@oddflow/linalg'
import { describe, expect, it } from 'vitest'
import { carryMixture } from '../src/carry-mixture.js'
import { blendedTailTable, weightedTailTable } from '../src/guard-update.js'
import { RowBuffer } from '../src/learn-arrivals.js'
import { presumedFalseAlarms, recalibrated } from '../src/learning-round.js'
import { addPoint, emptyStatistics, mixtureOfStatistics } from '../src/mixture-statistics.js'
import { createSketch, growSketch, isRandomMatrixOf, replaceLandmarks } from '../src/round-sketch.js'
import { clusteredRows, fitEmbedding, fitTailTable } from './detectors.js'

const expectEqual = (a: Matrix, b: Matrix, digits = 12) => {
  expect([a.rows, a.cols]).toEqual([b.rows, b.cols])
  for (const [i, value] of a.data.entries()) expect(value).toBeCloseTo(b.data[i]!, digits)
}

describe.each(['kjl', 'centred', 'nystrom'] as const)('sketch updates: %s', (name) => {
  const rows = clusteredRows(120, 4)
  const parameters =
    name === 'nystrom' ? { kind: name } : { kind: 'kjl' as const, centre: name === 'centred' }
  const { embedding } = fitEmbedding(
    rows,
    12,
    { m: 20, landmarks: 'random', d: 3, embedding: parameters },
    createRng(3),
  )
  const more = takeRows(rows, [100, 101, 102, 103, 104])
  const sketch = createSketch(embedding, parameters, null, createRng(5))

  it('grow K and R by blocks', () => {
    const { sketch: grown, origins } = growSketch(sketch, parameters, more, 3, createRng(9))
    const { landmarks, projection } = grown.embedding
    expect(landmarks.rows).toBe(25)
    expect([...origins]).toEqual([...Array.from({ length: 20 }, (_, i) => i), -1, -1, -1, -1, -1])
    const gram = gaussianKernel(landmarks, landmarks, 12)
    expectEqual(grown.gram, gram, 15)
    if (name !== 'kjl') return
    // U' = K'·R', and R is still in R'
    expectEqual(projection, multiply(grown.random!, gram))
    for (let r = 0; r < 3; r++) {
      expect(grown.random!.data.slice(r * 25, r * 25 + 20)).toEqual(
        sketch.random!.data.slice(r * 20, r * 20 + 20),
      )
    }
  })

  it('replace landmarks and keep R', () => {
    const { sketch: replaced, origins } = replaceLandmarks(sketch, parameters, more, 3, createRng(9))
    const { landmarks } = replaced.embedding
    expect(landmarks.rows).toBe(20)
    expect(origins.filter((origin) => origin === -1).length).toBe(5)
    origins.forEach((origin, j) => {
      const row = landmarks.data.slice(j * 4, j * 4 + 4)
      if (origin >= 0) expect(row).toEqual(embedding.landmarks.data.slice(origin * 4, origin * 4 + 4))
    })
    expectEqual(replaced.gram, gaussianKernel(landmarks, landmarks, 12), 15)
    expect(replaced.random).toEqual(sketch.random)
  })

  it('know R by the projection that it makes', () => {
    if (name === 'nystrom') return
    const fit = createRng(3).fork('sketch')
    const random = createMatrix(3, 20)
    for (let i = 0; i < 60; i++) random.data[i] = fit.nextNormal()
    expect(isRandomMatrixOf(embedding, parameters, random)).toBe(true)
    expect(isRandomMatrixOf(embedding, parameters, sketch.random!)).toBe(false)
  })

  it('carry a mixture: as the M-step in the new coordinates where rows are many', () => {
    const { sketch: grown } = growSketch(sketch, parameters, more, 3, createRng(9))
    const before = embedRows(embedding, rows)
    const after = embedRows(grown.embedding, rows)
    const d = before.cols
    const statistics = emptyStatistics('full', 3, d)
    const expected = emptyStatistics('full', 3, after.cols)
    const own = new Float64Array(3)
    for (let i = 0; i < 120; i++) {
      own.fill(0)
      own[i % 3] = 1
      addPoint(statistics, before.data, i * d, own, 0, 1)
      addPoint(expected, after.data, i * after.cols, own, 0, 1)
    }
    const weights = new Float64Array(120).fill(1)
    const carried = carryMixture(
      mixtureOfStatistics(statistics, 1e-6),
      statistics,
      { count: 120, points: before.data, weights },
      { count: 120, points: after.data, weights },
      after.cols,
    )
    for (const mass of carried.masses) expect(mass).toBeCloseTo(40, 6)
    const scale = Math.max(...after.data.map(Math.abs))
    for (const [i, mean] of carried.means.entries()) {
      expect(Math.abs(mean - expected.means[i]!)).toBeLessThan(0.1 * scale)
    }
  })
})

describe('a carried mixture', () => {
  it('stays as narrow as its rows where the embedding bends elsewhere, however often it is carried', () => {
    const rng = createRng(2)
    const n = 400
    // one component of 8 rows beside one of many, which is bent anew each time
    const points = createMatrix(n, 2)
    for (let i = 0; i < n; i++) {
      points.data.set(i < 8 ? [0.01 * rng.nextNormal(), 6] : [4 * rng.nextNormal(), rng.nextNormal()], 2 * i)
    }
    const bent = (times: number): Float64Array =>
      points.data.map((value, at) => (at % 2 === 0 ? value : value + (times % 2) * points.data[at - 1]! ** 2))
    let statistics = emptyStatistics('full', 2, 2)
    for (let i = 0; i < n; i++) {
      addPoint(statistics, points.data, 2 * i, Float64Array.of(Number(i < 8), Number(i >= 8)), 0, 1)
    }
    const weights = new Float64Array(n).fill(1)
    const width = () => mixtureCovariances(mixtureOfStatistics(statistics, 1e-9) as MixtureModel)[3]!
    for (let times = 0; times < 21; times++) {
      statistics = carryMixture(
        mixtureOfStatistics(statistics, 1e-9),
        statistics,
        { count: n, points: bent(times), weights },
        { count: n, points: bent(times + 1), weights },
        2,
      )
    }
    // the bend leaves over hundreds; what is there of it in the small component is one row's in all
    expect(width()).toBeLessThan(60)
  })

  it('is exactly the affine image where the map is affine, with no row too few', () => {
    const rng = createRng(1)
    const n = 60
    const before = createMatrix(n, 2)
    for (let i = 0; i < n; i++) before.data.set([rng.nextNormal() + 9 * (i % 2), 2 * rng.nextNormal()], 2 * i)
    const after = createMatrix(n, 2)
    for (let i = 0; i < n; i++) {
      const [x, y] = [before.data[2 * i]!, before.data[2 * i + 1]!]
      after.data.set([3 * x - y + 5, x + 2 * y - 1], 2 * i)
    }
    const statistics = emptyStatistics('full', 3, 2)
    for (let i = 0; i < n; i++)
      addPoint(statistics, before.data, 2 * i, Float64Array.from([1 - (i % 2), i % 2, 0]), 0, 1)
    // a component that no kept row belongs to
    statistics.masses[2] = 10
    statistics.means.set([400, 300], 4)
    statistics.scatters.set([10, 0, 0, 20], 8)
    const weights = new Float64Array(n).fill(1)
    const carried = carryMixture(
      mixtureOfStatistics(statistics, 1e-6),
      statistics,
      { count: n, points: before.data, weights },
      { count: n, points: after.data, weights },
      2,
    )
    expect(carried.means[4]).toBeCloseTo(3 * 400 - 300 + 5, 2)
    expect(carried.means[5]).toBeCloseTo(400 + 600 - 1, 2)
    const covariance = mixtureCovariances(mixtureOfStatistics(carried, 1e-9) as MixtureModel).subarray(8)
    // A·diag(1, 2)·Aᵀ
    for (const [i, v] of [3 * 3 + 2, 3 - 4, 3 - 4, 1 + 8].entries()) expect(covariance[i]).toBeCloseTo(v, 2)
    expect(carried.masses[2]).toBeCloseTo(10, 9)
  })
})

describe('tail tables of weighted values', () => {
  it('equal those of a fit if all rows have one weight', () => {
    const rng = createRng(6)
    for (const n of [1, 2, 7, 100, 1000]) {
      const values = Float64Array.from({ length: n }, () => Math.round(20 * rng.nextNormal()) / 4)
      const entries = Array.from(values, (value) => ({ value, weight: 1 }))
      expect(weightedTailTable(entries)).toEqual(fitTailTable(values.slice()))
    }
  })

  it('give the old rows and the new their shares', () => {
    const old = fitTailTable(Float64Array.from({ length: 1000 }, (_, i) => i))
    const values = Float64Array.from({ length: 500 }, (_, i) => 5000 + i)
    const table = blendedTailTable(old, 1000, 0, values, new Float64Array(500).fill(2))
    expect(table.rows).toBeLessThanOrEqual(65)
    const below = Array.from({ length: table.rows }, (_, i) => i).filter((i) => table.data[2 * i]! < 2000)
    const half = below[below.length - 1]!
    expect(Math.exp(table.data[2 * half + 1]!)).toBeGreaterThan(0.4)
    expect(Math.exp(table.data[2 * half + 1]!)).toBeLessThanOrEqual(0.5)
    for (let i = 1; i < table.rows; i++) {
      expect(table.data[2 * i]).toBeGreaterThan(table.data[2 * i - 2]!)
      expect(table.data[2 * i + 1]).toBeGreaterThan(table.data[2 * i - 1]!)
    }
  })
})

describe('a threshold that follows', () => {
  const rng = createRng(2)
  const normal = () => Float64Array.from({ length: 2000 }, () => rng.nextNormal())
  const split = (scores: Float64Array, value: number) =>
    [scores.filter((s) => s > value), scores.filter((s) => s <= value)] as const

  it('stays where nothing changes, calibration after calibration', () => {
    let threshold: Threshold = calibrateThreshold(normal(), 0.02)
    const first = threshold.value
    for (let i = 0; i < 30; i++)
      threshold = recalibrated(threshold, ...split(normal(), threshold.value), 100)!
    expect(Math.abs(threshold.value - first)).toBeLessThan(0.35)
    // of the passing rows alone it would have climbed
    let climbing = calibrateThreshold(normal(), 0.02)
    for (let i = 0; i < 30; i++) climbing = calibrateThreshold(split(normal(), climbing.value)[0], 0.02)
    expect(climbing.value).toBeGreaterThan(first + 1)
  })

  it('takes no more of a flood than the tolerated share, and from the near side', () => {
    const threshold = calibrateThreshold(normal(), 0.02)
    const [passed, doubtful] = split(normal(), threshold.value)
    const flood = Float64Array.from({ length: 5000 }, () => -50)
    const all = Float64Array.from([...doubtful, ...flood])
    expect(recalibrated(threshold, passed, all, 100)!.value).toBeGreaterThan(-6)
    expect(presumedFalseAlarms(98, 0.02)).toBe(2)
    expect(recalibrated(threshold, passed.slice(0, 50), doubtful, 100)).toBeNull()
  })
})

describe('a row buffer', () => {
  it('keeps the newest in order, in as much room as it needs', () => {
    const buffer = new RowBuffer(2, 5)
    for (let i = 0; i < 13; i++) buffer.push(Float64Array.from([i, -i]), 0, i)
    expect([...buffer.entries().numbers]).toEqual([8, 9, 10, 11, 12])
    expect([...buffer.entries().rows.data]).toEqual([8, -8, 9, -9, 10, -10, 11, -11, 12, -12])
    buffer.push(Float64Array.from([13, -13]), 0, 13)
    buffer.filter((place) => place !== 1)
    expect([...buffer.entries().numbers]).toEqual([9, 11, 12, 13])
    const again = new RowBuffer(2, 3, buffer.entries())
    expect([...again.entries().numbers]).toEqual([11, 12, 13])
    expect(
      new RowBuffer(2, 1e9, { rows: matrixOf(0, 2, new Float64Array(0)), numbers: new Float64Array(0) }).data
        .length,
    ).toBe(0)
  })
})
