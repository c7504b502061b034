import { concatRows, createRng, type Matrix, matrixOf } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  fitDetector,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createOnlineUpdater, type LearningModel, type LearningOptions } from '../src/index.js'
import { excessOf } from '../src/round-sketch.js'
import { clusteredRows } from './detectors.js'

const COLUMNS = 5
const LANDMARKS = 40

function train(): SavedModel {
  const detector = fitDetector(clusteredRows(400, COLUMNS), checkParameters({ m: LANDMARKS }), createRng(1))
  const rows = clusteredRows(200, COLUMNS, 7)
  const scores = scoreSamples(detector, rows, new Float64Array(200), createScoreWorkspace(detector))
  return {
    detector,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: COLUMNS, scaler: 'none' },
    threshold: calibrateThreshold(scores, 0.02),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed: 1, dataSha256: 'ab'.repeat(32), rows: 600 },
  }
}

const saved = train()
const learning: LearningOptions = { guard: null, forgetting: { kind: 'exponential', halfLifeRows: 300 } }

const moved = (rows: Matrix, by: number) =>
  matrixOf(
    rows.rows,
    rows.cols,
    rows.data.map((v) => v + by),
  )

const landmarksOf = ({ detector }: { readonly detector: unknown }): Matrix => {
  const model = detector as LearningModel
  return 'embedding' in model ? model.embedding.landmarks : matrixOf(0, COLUMNS, new Float64Array(0))
}

describe('too few rows as near as landmarks are', () => {
  it('is the largest difference of the two shares', () => {
    const list = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(list, list, (a, b) => {
        const share = (of: number[], x: number) => of.filter((v) => v <= x).length / of.length
        const expected = Math.max(0, ...a.map((x) => share(a, x) - share(b, x)))
        const sorted = (of: number[]) => Float64Array.from(of).sort()
        expect(excessOf(sorted(a), sorted(b))).toBeCloseTo(expected, 12)
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('takes for equal what differs in the last digits alone', () => {
    const first = new Float64Array(50)
    first.fill(4, 25)
    const second = Float64Array.from(first, (v) => v + 1e-12)
    expect(excessOf(first, second)).toBe(0)
    expect(
      excessOf(
        first,
        Float64Array.from(first, (v) => v + 1),
      ),
    ).toBe(0.5)
  })
})

describe('landmarks', () => {
  it('stay where traffic stays', () => {
    const updater = createOnlineUpdater(saved, { learning })
    for (let i = 0; i < 20; i++) updater.arrive(clusteredRows(100, COLUMNS, 40 + i), { assumeNormal: true })
    // rows of the tails that were said to be normal may have brought some; that all have moved, none did
    expect(updater.counters.sketchUpdates).toBeLessThanOrEqual(2)
  })

  it('follow rows learned as normal that move little by little, without novel rows to learn', () => {
    const updater = createOnlineUpdater(saved, { learning: { ...learning, novel: 'disregard' } })
    for (let i = 0; i < 40; i++) {
      updater.arrive(moved(clusteredRows(100, COLUMNS, 60 + i), Math.min(4, 0.15 * i)))
    }
    expect(updater.counters.sketchUpdates).toBeGreaterThanOrEqual(1)
    // silent once they have followed
    const updates = updater.counters.sketchUpdates
    for (let i = 0; i < 10; i++) updater.arrive(moved(clusteredRows(100, COLUMNS, 160 + i), 4))
    expect(updater.counters.sketchUpdates - updates).toBeLessThanOrEqual(3)
  })

  it('are no stray rows, though they are said to be normal', () => {
    const growing: LearningOptions = {
      guard: null,
      sketch: { kind: 'grow', rows: 10, everyRounds: 1, maximumLandmarks: 80 },
    }
    const stray = (count: number) => {
      const rng = createRng(5)
      return matrixOf(
        count,
        COLUMNS,
        Float64Array.from({ length: count * COLUMNS }, () => 60 + 0.1 * rng.nextNormal()),
      )
    }
    const strayLandmarks = (count: number): number => {
      const updater = createOnlineUpdater(saved, { learning: growing })
      updater.arrive(concatRows([clusteredRows(100, COLUMNS, 3), stray(count)]), { assumeNormal: true })
      updater.endRound()
      const { data, rows } = landmarksOf(updater)
      return Array.from({ length: rows }, (_, j) => data[j * COLUMNS]!).filter((v) => v > 50).length
    }
    expect(strayLandmarks(3)).toBe(0)
    expect(strayLandmarks(30)).toBeGreaterThan(0)
  })
})
