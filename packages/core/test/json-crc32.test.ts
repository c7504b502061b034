import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { crc32, parseStrictJson } from '../src/index.js'

const parse = (text: string) =>
  parseStrictJson(text, (message, position) => {
    throw new RangeError(`${message} at ${position}`)
  })

describe('parseStrictJson', () => {
  it('agrees with JSON.parse on whatever JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), (text) => {
        expect(parse(text).value).toEqual(JSON.parse(text))
      }),
    )
  })

  it('says where the outer keys stand', () => {
    const { keyPositions } = parse('{ "a": {"b": 1}, "\\u0063": [{"a": 2}, "d"] }')
    expect([...keyPositions]).toEqual([
      ['a', 2],
      ['c', 17],
    ])
  })

  it.each([
    ['{"a":1,"a":2}', 'repeats the key "a" at 7'],
    ['{"a":1,"\\u0061":2}', 'repeats the key "a" at 7'],
    ['{"__proto__":1,"b":{},"__proto__":2}', 'repeats the key "__proto__" at 22'],
    ['[{"x":{"k":[1,{"q":0,"q":0}]}}]', 'repeats the key "q" at 21'],
    [`${'['.repeat(33)}${']'.repeat(33)}`, 'nests deeper than 32 levels at 32'],
    ['{"a":', 'is not JSON'],
    ['{"a":"\\', 'is not JSON'],
    ['{"a" 1}', 'is not JSON'],
    ['', 'is not JSON'],
  ])('refuses %s', (text, message) => {
    expect(() => parse(text)).toThrow(message)
  })

  it('lets equal keys stand in different objects and as values', () => {
    expect(parse('[{"a":"a"},{"a":["a","a"]}]').value).toEqual([{ a: 'a' }, { a: ['a', 'a'] }])
  })

  it('throws nothing but what fail throws, whatever the text', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...'{}[],:"\\a0 ')), (chars) => {
        const text = chars.join('')
        let expected: unknown
        try {
          expected = JSON.parse(text)
        } catch {
          expect(() => parse(text)).toThrow(RangeError)
          return
        }
        try {
          expect(parse(text).value).toEqual(expected)
        } catch (error) {
          expect(String(error)).toMatch('repeats the key')
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })
})

describe('crc32', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

  it.each([
    ['', 0],
    ['123456789', 0xcbf43926], // the check value of the catalogue of CRC algorithms (CRC-32/ISO-HDLC)
    ['The quick brown fox jumps over the lazy dog', 0x414fa339],
  ])('of %j', (text, expected) => {
    expect(crc32(bytes(text))).toBe(expected)
  })

  it('goes on from piece to piece', () => {
    expect(crc32(bytes('456789'), crc32(bytes('123')))).toBe(0xcbf43926)
  })
})
