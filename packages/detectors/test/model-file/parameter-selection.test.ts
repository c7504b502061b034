/** The part of a model's provenance that says how its parameters were chosen. */
import { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  decodeModelFile,
  encodeModelFile,
  type ParameterSelection,
  type SavedModel,
} from '../../src/index.js'
import { sampleModel } from './sample.js'

const chosen = sampleModel({ detector: 'oc-kjl', bandwidthQuantile: 0.4, k: 3 })
const selection: ParameterSelection = {
  criterion: 'validation-auc',
  grid: { bandwidthQuantile: [0.1, 0.4], k: [1, 3, 5] },
  candidates: 6,
  failed: 1,
  auc: 0.975,
  normalRows: 75,
  novelRows: 70,
  dataSha256: 'ab'.repeat(32),
}
const withSelection = (value: unknown): SavedModel => ({
  ...chosen,
  provenance: { ...chosen.provenance, selection: value as ParameterSelection },
})

describe('a selection in a model file', () => {
  it('comes back as it was, and is not there where parameters were given', () => {
    const saved = withSelection(selection)
    expect(decodeModelFile(encodeModelFile(saved))).toEqual(saved)
    expect(decodeModelFile(encodeModelFile(chosen)).provenance).not.toHaveProperty('selection')
  })

  it.each<[string, object, string]>([
    ['', { more: 1 }, 'more'],
    ['criterion', { criterion: 'accuracy' }, 'criterion'],
    ['grid', { grid: {} }, 'grid'],
    ['grid', { grid: [] }, 'grid'],
    ['an option of another detector', { grid: { nu: [0.5] }, candidates: 1, failed: 0 }, 'grid'],
    ['a choice outside', { grid: { ...selection.grid, k: [1, 2, 4] } }, 'grid.k'],
    ['a value twice', { grid: { ...selection.grid, k: [3, 3, 5] } }, 'grid.k'],
    ['objects for values', { grid: { ...selection.grid, k: [3, {}, 5] } }, 'grid.k'],
    ['no values', { grid: { ...selection.grid, k: [] } }, 'grid.k'],
    ['another count', { candidates: 5 }, 'candidates'],
    ['all failed', { failed: 6 }, 'failed'],
    ['no novel rows', { novelRows: 0 }, 'novelRows'],
    ['no normal rows', { normalRows: 0.5 }, 'normalRows'],
    ['an area above 1', { auc: 1.01 }, 'auc'],
    ['a short hash', { dataSha256: 'ab' }, 'dataSha256'],
  ])('is refused by field: %s', (_, change, field) => {
    expect(() => encodeModelFile(withSelection({ ...selection, ...change }))).toThrow(
      expect.objectContaining({ field: `provenance.selection.${field}` }),
    )
  })

  it.each([null, 3, [], 'x'])('is refused where it is no object: %j', (value) => {
    expect(() => encodeModelFile(withSelection(value))).toThrow(ArgumentError)
  })
})
