import { createRng, matrixFromRows, matrixOf, takeRows } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkNearestLandmarkModel,
  createNearestLandmarkWorkspace,
  fitNearestLandmark,
  type NearestLandmarkModel,
  scoreNearestLandmark,
} from '../../src/detectors/nearest.js'
import { describeBaseline } from '../baseline-checks.js'
import { clusteredRows } from '../rows.js'

const score = (model: NearestLandmarkModel, rows: number[][]) =>
  scoreNearestLandmark(
    model,
    matrixFromRows(rows),
    new Float64Array(rows.length),
    createNearestLandmarkWorkspace(model),
  )

describeBaseline('nearest-landmark', {
  fit: (rows, rng) => fitNearestLandmark(rows, { m: 30, landmarks: 'random' }, rng),
  createWorkspace: createNearestLandmarkWorkspace,
  score: scoreNearestLandmark,
  check: checkNearestLandmarkModel,
  random: true,
})

describe('nearest-landmark', () => {
  it('is the distance to the nearest landmark, negated', () => {
    const model: NearestLandmarkModel = {
      kind: 'nearest-landmark',
      landmarks: matrixFromRows([
        [0, 0],
        [10, 0],
      ]),
    }
    expect([
      ...score(model, [
        [3, 4],
        [10, 0],
        [6, 0],
        [10, -7],
        [-5, 12],
      ]),
    ]).toEqual([-5, 0, -4, -7, -13])
  })

  it('has distances of rows whose squares overflow, up to the largest number', () => {
    const model: NearestLandmarkModel = { kind: 'nearest-landmark', landmarks: matrixFromRows([[0, 0]]) }
    const [a, b, c] = score(model, [
      [3e200, 4e200],
      [6e300, 8e300],
      [Number.MAX_VALUE, Number.MAX_VALUE],
    ])
    expect(a! / -5e200).toBeCloseTo(1, 14)
    expect(b! / -1e301).toBeCloseTo(1, 14)
    expect(c).toBe(-Number.MAX_VALUE)
  })

  it('agrees with a search over all rows, whatever the numbers', () => {
    const rows = fc.array(
      fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 3, maxLength: 3 }),
      {
        minLength: 1,
        maxLength: 20,
      },
    )
    fc.assert(
      fc.property(rows, rows, (landmarks, probes) => {
        const model: NearestLandmarkModel = { kind: 'nearest-landmark', landmarks: matrixFromRows(landmarks) }
        score(model, probes).forEach((s, i) => {
          const distances = landmarks.map((l) => Math.hypot(...l.map((v, t) => v - probes[i]![t]!)))
          expect(Math.abs(s + Math.min(...distances))).toBeLessThanOrEqual(1e-9 * (1 + Math.abs(s)))
        })
      }),
    )
  })

  it('draws different training rows, and says when there are fewer than m', () => {
    const rows = clusteredRows(40, 3)
    const { model, notes } = fitNearestLandmark(rows, { m: 15, landmarks: 'random' }, createRng(1))
    const all = new Set(Array.from({ length: 40 }, (_, i) => takeRows(rows, [i]).data.join()))
    const drawn = Array.from({ length: 15 }, (_, i) => takeRows(model.landmarks, [i]).data.join())
    expect(new Set(drawn).size).toBe(15)
    for (const row of drawn) expect(all.has(row)).toBe(true)
    expect(notes).toEqual([])
    const few = fitNearestLandmark(rows, { m: 100, landmarks: 'random' }, createRng(1))
    expect(few.model.landmarks.rows).toBe(40)
    expect(few.notes).toEqual(['m lowered from 100 to the 40 training rows'])
  })

  it('refuses landmarks without columns', () => {
    const landmarks = matrixOf(3, 0, new Float64Array(0))
    expect(() => checkNearestLandmarkModel({ kind: 'nearest-landmark', landmarks })).toThrow(
      expect.objectContaining({ field: 'nearestLandmark.landmarks.cols' }),
    )
  })
})
