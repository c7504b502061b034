import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  encodeRecords,
  encodeSegmentHeader,
  MAXIMUM_PAYLOAD_BYTES,
  RECORD_HEADER_BYTES,
  recordsOf,
} from '../../src/spool/segments.js'

// as of alerts: no payload has a zero byte
const payloads = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40, min: 1 }), { maxLength: 8 })
const sequence = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER - 100 })
const read = (bytes: Uint8Array, first: number, end = Number.MAX_SAFE_INTEGER): number[][] =>
  [...recordsOf(bytes, first, end)].map(({ sequence, payload }) => [sequence - first, ...payload])
const numbered = (written: readonly Uint8Array[]): number[][] => written.map((payload, i) => [i, ...payload])

describe('records', () => {
  it('come back as they were written', () => {
    fc.assert(
      fc.property(payloads, sequence, (written, first) => {
        const bytes = encodeRecords(first, written)
        expect(read(bytes, first)).toEqual(numbered(written))
        expect(read(bytes, first, first + 2)).toEqual(numbered(written.slice(0, 2)))
      }),
    )
  })

  it('cut anywhere: the whole ones before the cut, and nothing else', () => {
    fc.assert(
      fc.property(payloads, sequence, fc.nat(), (written, first, at) => {
        const bytes = encodeRecords(first, written)
        const cut = bytes.subarray(0, bytes.length === 0 ? 0 : at % bytes.length)
        let whole = 0
        let length = 0
        while (whole < written.length && length + RECORD_HEADER_BYTES + written[whole].length <= cut.length) {
          length += RECORD_HEADER_BYTES + written[whole++].length
        }
        expect(read(cut, first)).toEqual(numbered(written.slice(0, whole)))
      }),
    )
  })

  it('with a changed byte: all but the damaged one, under their numbers', () => {
    fc.assert(
      fc.property(
        payloads,
        sequence,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (written, first, at, change) => {
          const bytes = encodeRecords(first, written)
          if (bytes.length === 0) return
          const place = at % bytes.length
          let damaged = 0
          for (let end = 0; damaged < written.length; damaged++) {
            end += RECORD_HEADER_BYTES + written[damaged].length
            if (place < end) break
          }
          bytes[place] ^= change
          expect(read(bytes, first)).toEqual(numbered(written).filter((_, i) => i !== damaged))
        },
      ),
    )
  })

  it('are of their place: under another sequence number they are none', () => {
    const bytes = encodeRecords(7, [Uint8Array.of(1, 2, 3)])
    expect(read(bytes, 7)).toHaveLength(1)
    expect(read(bytes, 8)).toHaveLength(0)
  })

  it('are never longer than they may be, whatever a length says', () => {
    const bytes = encodeRecords(0, [new Uint8Array(MAXIMUM_PAYLOAD_BYTES + 1).fill(1)])
    expect(read(bytes, 0)).toEqual([])
  })
})

it('a header is the signature and the first sequence number', () => {
  const bytes = encodeSegmentHeader(2 ** 40 + 7)
  expect(new TextDecoder().decode(bytes.subarray(0, 8))).toBe('OFSPOOL1')
  expect([...bytes.subarray(8)]).toEqual([7, 0, 0, 0, 0, 1, 0, 0])
})
