/** What every detector refuses, by name. */
import { ArgumentError, matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import { checkParameters, createScoreWorkspace, type DetectorOptions, scoreSamples } from '../../src/index.js'
import { clusteredRows } from '../rows.js'
import { COLUMNS, type ConformanceChecks, score, takes, train } from './fixtures.js'
export const REFUSALS_CHECKS: ConformanceChecks = {
  'rows of another width are refused': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    expect(() => score(model, clusteredRows(3, COLUMNS + 1))).toThrow(ArgumentError)
    expect(() => score(model, clusteredRows(3, COLUMNS + 1))).toThrow(/expected 6 columns.*found 7/)
  },

  'a workspace of another model is refused': (detector) => {
    const model = train(detector, clusteredRows(60, COLUMNS))
    const workspace = createScoreWorkspace(structuredClone(model))
    expect(() => scoreSamples(model, clusteredRows(1, COLUMNS), new Float64Array(1), workspace)).toThrow(
      /another model/,
    )
  },

  'rows without columns are refused': (detector) => {
    const empty = matrixOf(5, 0, new Float64Array(0))
    expect(() => train(detector, empty)).toThrow(ArgumentError)
    expect(() => train(detector, empty)).toThrow(/rows: expected from 1 to .* columns, found 0/)
    const model = train(detector, clusteredRows(60, COLUMNS))
    expect(() => score(model, empty)).toThrow(/expected 6 columns.*found 0/)
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

  'an option that does not apply is refused by name': (detector) => {
    const every: DetectorOptions = {
      k: 3,
      centre: true,
      supportGuard: false,
      m: 9,
      d: 2,
      nu: 0.1,
      bandwidthQuantile: 0.2,
      covariance: 'tied',
      trees: 3,
      bins: 9,
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
}
