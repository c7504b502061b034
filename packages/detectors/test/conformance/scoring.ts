/** What every scorer must do: the same bits however it is called, into the room that it is given. */
import { matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import {
  createScoreParts,
  createScoreWorkspace,
  embedSamples,
  hasScoreParts,
  modelEmbedding,
  scoreParts,
  scoreSamples,
} from '../../src/index.js'
import { clusteredRows, novelRows } from '../rows.js'
import { COLUMNS, type ConformanceChecks, mean, part, score, train, variantsFor } from './fixtures.js'
export const SCORING_CHECKS: ConformanceChecks = {
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

  'normal rows score higher than novel ones': (detector) => {
    const model = train(detector, clusteredRows(300, COLUMNS))
    expect(mean(score(model, clusteredRows(60, COLUMNS, 9)))).toBeGreaterThan(
      mean(score(model, novelRows(60, COLUMNS))),
    )
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

  'no rows give no scores': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    expect(score(model, matrixOf(0, COLUMNS, new Float64Array(0)))).toEqual(new Float64Array(0))
  },
}
