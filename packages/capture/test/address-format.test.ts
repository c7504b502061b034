import { isIPv6 } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatAddress, formatMac, parseIpv4, parseIpv6, parseMac } from '../src/index.js'

describe('formatAddress', () => {
  // RFC 5952, sections 1 to 5
  it.each([
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:0db8::0001', '2001:db8::1'],
    ['2001:db8:0:0:0:0:2:1', '2001:db8::2:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:DB8::AAAA', '2001:db8::aaaa'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
  ])('%s as %s', (given, expected) => {
    expect(formatAddress(parseIpv6(given)!, 0, 6)).toBe(expected)
  })

  it('writes IPv4 from the last word', () => {
    expect(formatAddress([9, 9, 9, 9, 0, 0, 0, 0xc0000201], 4, 4)).toBe('192.0.2.1')
  })

  it('gives back what is parsed, and what node:net takes as IPv6', () => {
    const word = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffffffff }), fc.constant(0xffff))
    fc.assert(
      fc.property(fc.tuple(word, word, word, word), (words) => {
        const text = formatAddress(words, 0, 6)
        expect(isIPv6(text)).toBe(true)
        expect([...parseIpv6(text)!]).toEqual(words)
        expect(parseIpv4(formatAddress(words, 0, 4))).toBe(words[3])
      }),
    )
  })

  it('takes as IPv6 what node:net does', () => {
    const part = fc.constantFrom('', '0', 'ffff', '1.2.3.4', '12345', 'g', ':', '::', '256.1.1.1')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 9 }), (parts) => {
        const text = parts.join(':')
        expect([text, parseIpv6(text) !== null]).toEqual([text, isIPv6(text)])
      }),
      { numRuns: sampleCount(3000) },
    )
  })

  it('writes and reads MAC addresses', () => {
    expect(formatMac([0, 1, 2, 0xab, 0xcd, 0xef, 0xff], 1)).toBe('01:02:ab:cd:ef:ff')
    expect([...parseMac('0:1b-C:d:e:f')!]).toEqual([0, 0x1b, 0xc, 0xd, 0xe, 0xf])
    expect(parseMac('00:11:22:33:44')).toBeNull()
  })
})
