import { createMatrix, createRng, DataError, takeRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { dealFolds, foldRows } from '../../src/calibration/held-out.js'
import { countCategories, type MemberTraining } from '../../src/ensemble/ensemble-part.js'
import { createHbosFit } from '../../src/ensemble/hbos-member.js'
import { checkParameters, type EnsembleParameters } from '../../src/index.js'

const ROWS = 900
const parameters = checkParameters({ detector: 'ensemble' }) as EnsembleParameters
const odd = Uint8Array.from({ length: ROWS }, (_, i) => (i % 211 === 5 ? 1 : 0))
const kept = Uint32Array.from({ length: ROWS }, (_, i) => i).filter((i) => odd[i] === 0)

/** Rows of six inputs and thirty services, more than have tables; services of an input are its own in part. */
function training(seed: number): { readonly rows: MemberTraining; readonly inputs: Uint32Array } {
  const rng = createRng(seed)
  const inputs = Uint32Array.from({ length: ROWS }, () => rng.nextBelow(6))
  const rows = createMatrix(ROWS, 3)
  const services = createMatrix(ROWS, 1)
  inputs.forEach((input, i) => {
    services.data[i] = rng.nextBelow(30) === 0 ? 100 + input : Math.floor(30 * rng.nextFloat() ** 2)
    rows.data.set([rng.nextNormal(), Math.round(rng.nextNormal()), input], 3 * i)
  })
  return { rows: { rows, categories: countCategories(services, 0) }, inputs }
}

/** The rows of these numbers and no others. */
function alone({ rows, categories }: MemberTraining, numbers: Uint32Array): MemberTraining {
  return {
    rows: takeRows(rows, numbers),
    categories:
      categories === null
        ? null
        : { names: categories.names, of: Uint32Array.from(numbers, (row) => categories.of[row]!) },
  }
}

describe('histograms of a member', () => {
  it.each([1, 2])('without a fold are those of the other rows alone (seed %i)', (seed) => {
    const { rows, inputs } = training(seed)
    const folds = dealFolds(inputs)
    for (const given of [rows, { ...rows, categories: null }]) {
      const fitted = createHbosFit(given, folds, kept, parameters)
      for (const fold of [0, 1, 2, 3, 4, 5, null]) {
        const numbers = fold === null ? kept : foldRows(folds, fold, odd)!.fit
        const few = alone(given, numbers)
        const one = { of: new Uint8Array(numbers.length), count: 1, leastFitRows: 1 }
        const every = numbers.map((_, i) => i)
        const expected = createHbosFit(few, one, every, parameters)
        const all = { fold: null, numbers }
        expect(fitted({ fold, numbers }, createRng(1))).toEqual(expected(all, createRng(1)))
      }
    }
  })

  it('fail for the folds alone whose columns are too large', () => {
    const { rows, inputs } = training(3)
    const folds = dealFolds(inputs)
    // more than 1 % of all rows on one side, and on the other of all but the first fold's
    inputs.forEach((input, i) => {
      if (i % 20 === 0) rows.rows.data[3 * i] = 1.7e308
      else if (input === 0 && i % 3 === 0) rows.rows.data[3 * i] = -1.7e308
    })
    const fitted = createHbosFit(rows, folds, kept, parameters)
    const numbers = new Uint32Array(0)
    expect(() => fitted({ fold: 0, numbers }, createRng(1))).not.toThrow()
    expect(() => fitted({ fold: 1, numbers }, createRng(1))).toThrow(DataError)
    expect(() => fitted({ fold: 1, numbers }, createRng(1))).toThrow(/column 0: its numbers are too large/)
  })
})
