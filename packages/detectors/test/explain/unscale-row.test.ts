import { matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { fitScaler, SCALER_NAMES, scaleInto, unscaleRow } from '../../src/scaler.js'

const COLS = 3
// of a kind that has ranges whose inverses are numbers
const numbers = fc.integer({ min: -1e7, max: 1e7 }).map((whole) => whole / 1000)

it.each(SCALER_NAMES)('undoes %s, for training rows and beyond', (kind) => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(numbers, numbers, numbers), { minLength: 5, maxLength: 40 }),
      fc.tuple(numbers, numbers, numbers),
      (training, other) => {
        const scaler = fitScaler(matrixOf(training.length, COLS, Float64Array.from(training.flat())), kind)
        for (const row of [...training, other]) {
          const scaled = new Float64Array(COLS)
          scaleInto(scaler, Float64Array.from(row), 0, 1, COLS, scaled)
          const back = new Float64Array(COLS)
          unscaleRow(scaler, scaled, 0, COLS, back)
          for (let j = 0; j < COLS; j++) expect(Math.abs(back[j]! - row[j]!)).toBeLessThan(1e-5)
        }
      },
    ),
  )
})
