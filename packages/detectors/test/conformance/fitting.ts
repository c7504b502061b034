/** What every fit must do, and what its model is. */
import { createRng, type Rng } from '@oddflow/core'
import { expect } from 'vitest'
import {
  checkModel,
  checkParameters,
  createScoreWorkspace,
  DETECTORS,
  fitDetector,
  scoreSamples,
} from '../../src/index.js'
import { clusteredRows } from '../rows.js'
import { bytes, COLUMNS, type ConformanceChecks, score, train, variantsFor } from './fixtures.js'

/** An Rng that calls `onDraw` for each number that it or a fork of it draws. */
function watchedRng(rng: Rng, onDraw: () => void): Rng {
  const drawn = <T>(value: T): T => {
    onDraw()
    return value
  }
  return {
    nextUint32: () => drawn(rng.nextUint32()),
    nextFloat: () => drawn(rng.nextFloat()),
    nextBelow: (bound) => drawn(rng.nextBelow(bound)),
    nextNormal: () => drawn(rng.nextNormal()),
    fork: (label) => watchedRng(rng.fork(label), onDraw),
  }
}

export const FITTING_CHECKS: ConformanceChecks = {
  'the same seed gives the same model, another seed another if the fit is random': (detector) => {
    const rows = clusteredRows(150, COLUMNS)
    const model = train(detector, rows)
    expect(bytes(train(detector, rows))).toBe(bytes(model))
    let draws = 0
    const rng = watchedRng(createRng(6), () => draws++)
    const other = expect(bytes(fitDetector(rows, model.parameters, rng)))
    if (draws === 0) other.toBe(bytes(model))
    else other.not.toBe(bytes(model))
  },

  'fitting leaves the rows as they were': (detector) => {
    const rows = clusteredRows(60, COLUMNS)
    const before = rows.data.slice()
    train(detector, rows, { scaler: 'standard' })
    expect(rows.data).toEqual(before)
  },

  'the fitted model passes checkModel unchanged': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(90, COLUMNS), options)
      expect(checkModel(model)).toEqual(model)
    }
  },

  'structuredClone brings back the same model and the same scores': (detector) => {
    const model = train(detector, clusteredRows(150, COLUMNS), { scaler: 'standard' })
    const copy = structuredClone(model)
    expect(copy).toEqual(model)
    const rows = clusteredRows(20, COLUMNS, 9)
    expect(score(copy, rows)).toEqual(score(model, rows))
  },

  'rows may come as an ml-matrix Matrix': (detector) => {
    const rows = clusteredRows(60, COLUMNS)
    const like = { rows: 60, columns: COLUMNS, get: (i: number, j: number) => rows.data[i * COLUMNS + j]! }
    const model = train(detector, rows)
    expect(fitDetector(like, model.parameters, createRng(5))).toEqual(model)
    const scores = scoreSamples(model, like, new Float64Array(60), createScoreWorkspace(model))
    expect(scores).toEqual(score(model, rows))
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
