import { describe, expect, it } from 'vitest'
import { ArgumentError, DataError, FormatError, plural } from '../src/index.js'

it('plural', () => {
  expect([0, 1, 2].map((n) => plural(n, 'flow'))).toEqual(['0 flows', '1 flow', '2 flows'])
})

describe('an error', () => {
  it('has its message in parts: format, field, detail, hint and byte', () => {
    const argument = new ArgumentError('k: does not apply to pca', 'k', 'which takes varianceShare')
    expect(argument.message).toBe('k: does not apply to pca, which takes varianceShare')
    expect([argument.field, argument.detail, argument.hint]).toEqual([
      'k',
      'does not apply to pca',
      'which takes varianceShare',
    ])
    const format = new FormatError('model', 'threshold.value: expected a number, found text', {
      field: 'threshold.value',
      offsetBytes: 40,
    })
    expect(format.message).toBe('model: threshold.value: expected a number, found text (byte 40)')
    expect([format.code, format.format, format.detail]).toEqual([
      'format.model',
      'model',
      'expected a number, found text',
    ])
  })

  it('has the whole message as its detail where that does not begin with the field', () => {
    expect(new DataError('too few rows', 'rows').detail).toBe('too few rows')
    expect(new ArgumentError('no field').detail).toBe('no field')
  })
})
