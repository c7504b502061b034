/** Numbers in words: rounded so that what is said of them is true. */
import { log } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { grouped, measuredValue, partsOf, reasonText, serviceReason, topicOf } from '../src/flow-reasons.js'

const sent = (value: number, low: number, high: number, nearest = low): string | null =>
  reasonText({ name: 'initiator_bytes' }, { value, nearest, usual: { low, high } }, 'initiator')
const lasted = (value: number, low: number, high: number): string | null =>
  reasonText({ name: 'duration' }, { value, nearest: low, usual: { low, high } }, 'initiator')

describe('a reason', () => {
  it.each([
    [sent(1_234_567, 40, 3_912), 'sent 1.2 MB (usually under 4 kB)'],
    [sent(5_472, 48, 48), 'sent 5.5 kB (usually 48 B)'],
    [sent(517, 0, 0), 'sent 517 B (usually none)'],
    [sent(0, 40, 90), 'sent no data (usually at least 40 B)'],
    [sent(30, 41, 90), 'sent 30 B (usually at least 41 B)'],
    [sent(1_460, 2_345, 9_000), 'sent 1.5 kB (usually over 2.3 kB)'],
    // as many digits as tell the two apart
    [sent(4_049, 40, 4_041), 'sent 4.049 kB (usually at most 4.041 kB)'],
    // in the range of all, and in no bin of theirs
    [sent(300, 40, 4_000, 3_800), 'sent 300 B (normal: 3.8 kB)'],
    [sent(300, 40, 4_000, 310), 'sent 300 B (rarely so)'],
    [lasted(10_800, 0.02, 19.2), 'lasted 3 h (usually under 20 s)'],
    [lasted(200, 0, 0), 'lasted 3.3 min (usually 0 s)'],
    [lasted(0.00035, 0.02, 19.2), 'lasted 350 µs (usually at least 20 ms)'],
    // rounding reaches the next unit
    [lasted(0.9999, 0, 0.0009999), 'lasted 1 s (usually under 1 ms)'],
    [sent(999_950, 0, 999.6), 'sent 1 MB (usually under 1 kB)'],
    [lasted(100_000, 1, 7_000), 'lasted 28 h (usually under 2 h)'],
    [
      reasonText(
        { name: 'responder_packets' },
        { value: 0, nearest: 3, usual: { low: 3, high: 9 } },
        'initiator',
      ),
      'received nothing (usually at least 3 packets)',
    ],
    [
      reasonText(
        { name: 'responder_packets' },
        { value: 12_345, nearest: 3, usual: { low: 1, high: 1 } },
        'responder',
      ),
      'sent 12,345 packets (usually 1 packet)',
    ],
    [serviceReason(600_023, false), 'never saw this service (TCP port 23)'],
    [serviceReason(1_755_353, false), 'never saw this service (UDP port 5353, multicast)'],
    [serviceReason(100_008, true), 'rarely or never saw this service (ICMP type 8)'],
    [
      reasonText({ name: 'transport' }, { value: 6, nearest: 3, usual: null }, 'initiator'),
      'used SCTP (normal: TCP)',
    ],
  ])('is %s', (text, expected) => {
    expect(text).toBe(expected)
  })

  it('says nothing untrue of any number', () => {
    const number = fc.oneof(
      fc.nat(3000),
      fc.integer({ min: 0, max: 2 ** 45 }),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
    )
    const factor = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, none: 0 }
    const read = (text: string): number => {
      const [count, unit = 'none'] = text.split(' ')
      return unit === 'none' ? 0 : Number(count!.replaceAll(',', '')) * factor[unit as keyof typeof factor]
    }
    fc.assert(
      fc.property(number, number, number, (value, a, b) => {
        const [low, high] = [Math.min(a, b), Math.max(a, b)]
        const text = sent(value, low, high)!
        const found = /^sent (.*) \(usually (under|at most|over|at least|) ?([\d.,]+ \w+|none)\)$/.exec(text)
        if (found === null) return
        const [, shown, word, bound] = found
        const limit = read(bound!)
        const near = 1e-8 * Math.max(1, limit)
        if (word === 'under' || word === 'at most') expect(limit).toBeGreaterThanOrEqual(high - near)
        if (word === 'over' || word === 'at least') expect(limit).toBeLessThanOrEqual(low + near)
        const number = shown === 'no data' ? 0 : read(shown!)
        if (word === 'under' || word === 'at most') expect(number).toBeGreaterThan(limit)
        if (word === 'over' || word === 'at least') expect(number).toBeLessThan(limit)
      }),
      { numRuns: sampleCount(3000) },
    )
  })
})

it('a number comes back from its logarithm', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 31 - 1), fc.nat(300_000_000), (bytes, micros) => {
      expect(measuredValue({ name: 'initiator_bytes', unit: 'log1p' }, log(1 + bytes))).toBe(bytes)
      const seconds = measuredValue(
        { name: 'duration', unit: 'log10_s' },
        log(micros / 1e6 + 1e-4) * Math.LOG10E,
      )
      expect(Math.abs(seconds - micros / 1e6)).toBeLessThan(1e-8 * (1 + micros / 1e6))
    }),
  )
})

it('a number is grouped as Intl.NumberFormat groups it', () => {
  const { format } = new Intl.NumberFormat('en-US', { maximumFractionDigits: 20 })
  const digits = fc.integer({ min: -999_999_999, max: 999_999_999 })
  fc.assert(
    fc.property(digits, fc.integer({ min: -18, max: 5 }), (mantissa, exponent) => {
      const x = Number(`${mantissa}e${exponent}`)
      expect(grouped(x)).toBe(format(x))
    }),
  )
})

it('columns of an end that sent nothing, and times of a single packet, are one topic', () => {
  const single = { initiator: 1, responder: 0 }
  const times = ['duration', 'iat_mean', 'iat_max', 'first_iat'].map((name) =>
    topicOf(partsOf(name), single, true),
  )
  expect(new Set(times.map(({ family }) => family)).size).toBe(1)
  const responder = ['bytes', 'packets', 'size_max', 'first_size'].map((name) =>
    topicOf(partsOf(`responder_${name}`), single, true),
  )
  expect(new Set(responder.map(({ family }) => family)).size).toBe(1)
  expect(new Set(responder.map(({ name }) => name))).toEqual(new Set(['responder_packets']))
  const many = { initiator: 3, responder: 3 }
  expect(topicOf(partsOf('iat_max'), many, true)).toEqual({ family: 'pauses', name: 'iat_max' })
  expect(topicOf(partsOf('initiator_bytes'), many, true).family).not.toBe(
    topicOf(partsOf('responder_bytes'), many, true).family,
  )
})
