import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonLine, printable } from '../src/index.js'

describe('printable', () => {
  it('shows what would move a cursor, recolour a screen or reorder what is read', () => {
    expect(printable('a\u001b[31mb\n\u0000\u007f\u009b\u202e\u2066\u061c\u200f\ufeffé→')).toBe(
      'a\\u001b[31mb\\u000a\\u0000\\u007f\\u009b\\u202e\\u2066\\u061c\\u200f\\ufeffé→',
    )
  })

  it('leaves no control or format character of the bidirectional algorithm, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(printable(text)).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u)
      }),
    )
  })
})

it('jsonLine: a program reads the same value from it, and a terminal sees no control character', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const line = jsonLine(value)
      expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u)
    }),
  )
})
