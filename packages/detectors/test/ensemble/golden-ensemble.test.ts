import { createRng, matrixFromRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkParameters,
  createScoreWorkspace,
  fitHoldingOut,
  scoreSamples,
  thresholdOfHeldOut,
} from '../../src/index.js'
import { expectClose } from '../close.js'
import { readTestJson } from '../read-json.js'

interface Figures {
  cases: {
    name: string
    minimumScale: number | null
    rows: number[][]
    inputs: number[]
    points: number[][]
    scores: number[]
    heldOut: number[]
    odd: number[]
    thresholds: Record<string, number>
  }[]
}

/** So few that none is drawn at random. */
const PARAMETERS = checkParameters({ detector: 'ensemble', m: 15 })

describe.each(readTestJson<Figures>('ensemble/numpy.json').cases)('$name', (figures) => {
  const { minimumScale, inputs } = figures
  const rows = matrixFromRows(figures.rows)
  const points = matrixFromRows(figures.points)
  const { model, heldOut } = fitHoldingOut(rows, PARAMETERS, createRng(1), {
    categoryColumn: rows.cols - 1,
    minimumScale,
    inputs: Uint32Array.from(inputs),
  })

  it('finds the same odd rows and held-out scores', () => {
    expect([...heldOut!.odd]).toEqual(figures.odd)
    expectClose(heldOut!.scores, figures.heldOut, 1e-9)
    expect([...heldOut!.inputs]).toEqual(inputs)
  })

  it('scores alike rows of known and of new services', () => {
    const scores = scoreSamples(model, points, new Float64Array(points.rows), createScoreWorkspace(model))
    expectClose(scores, figures.scores, 1e-9)
  })

  it('has the same thresholds, a step of a float64 lower', () => {
    for (const [rate, value] of Object.entries(figures.thresholds)) {
      expect(thresholdOfHeldOut(heldOut!, Number(rate)).value).toBeCloseTo(value, 9)
    }
  })
})
