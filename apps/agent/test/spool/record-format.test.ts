import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decodeRecords,
  encodeRecords,
  encodeSegmentHeader,
  MAXIMUM_PAYLOAD_BYTES,
  RECORD_HEADER_BYTES,
} from '../../src/spool/segments.js'

const payloads = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 })
const sequence = fc.maxSafeNat()

describe('records', () => {
  it('come back as they were written', () => {
    fc.assert(
      fc.property(payloads, sequence, (written, first) => {
        const bytes = encodeRecords(first, written)
        const read = decodeRecords(bytes, first)
        expect(read.payloads.map((payload) => [...payload])).toEqual(written.map((payload) => [...payload]))
        expect(read.end).toBe(bytes.length)
        expect(decodeRecords(bytes, first, 2).payloads).toHaveLength(Math.min(2, written.length))
      }),
    )
  })

  it('cut anywhere: the whole ones before the cut, and nothing else', () => {
    fc.assert(
      fc.property(payloads, sequence, fc.nat(), (written, first, at) => {
        const bytes = encodeRecords(first, written)
        const cut = bytes.subarray(0, bytes.length === 0 ? 0 : at % bytes.length)
        const { payloads: read, end } = decodeRecords(cut, first)
        let whole = 0
        let length = 0
        while (whole < written.length && length + RECORD_HEADER_BYTES + written[whole].length <= cut.length) {
          length += RECORD_HEADER_BYTES + written[whole++].length
        }
        expect([read.length, end]).toEqual([whole, length])
      }),
    )
  })

  it('with a changed byte: none from the damaged one on', () => {
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
          bytes[place] ^= change
          expect(decodeRecords(bytes, first).end).toBeLessThanOrEqual(place)
        },
      ),
    )
  })

  it('are of their place: under another sequence number they are none', () => {
    const bytes = encodeRecords(7, [Uint8Array.of(1, 2, 3)])
    expect(decodeRecords(bytes, 7).payloads).toHaveLength(1)
    expect(decodeRecords(bytes, 8).payloads).toHaveLength(0)
  })

  it('are never longer than they may be, whatever a length says', () => {
    const bytes = encodeRecords(0, [new Uint8Array(MAXIMUM_PAYLOAD_BYTES + 1).fill(1)])
    expect(decodeRecords(bytes, 0)).toEqual({ payloads: [], end: 0 })
  })
})

it('a header is the signature and the first sequence number', () => {
  const bytes = encodeSegmentHeader(2 ** 40 + 7)
  expect(new TextDecoder().decode(bytes.subarray(0, 8))).toBe('OFSPOOL1')
  expect([...bytes.subarray(8)]).toEqual([7, 0, 0, 0, 0, 1, 0, 0])
})
