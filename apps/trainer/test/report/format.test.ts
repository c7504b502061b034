import { describe, expect, it } from 'vitest'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatPercent,
  formatRatio,
  formatTime,
} from '../../src/report/format.js'

describe('formatting', () => {
  it.each([
    [formatCount(0), '0'],
    [formatCount(1234567), '1,234,567'],
    [formatCount(-1000), '−1,000'],
    [formatCount(1e300), '1e+300'],
    [formatPercent(0), '0 %'],
    [formatPercent(1), '100 %'],
    [formatPercent(0.0123), '1.2 %'],
    [formatPercent(0.0012), '0.12 %'],
    [formatPercent(0.9999), '> 99.9 %'],
    [formatPercent(1e-9), '< 0.01 %'],
    [formatNumber(-13127.4), '−13,127'],
    [formatNumber(0.11414), '0.1141'],
    [formatNumber(-1e9), '−1.00e+9'],
    [formatNumber(5e-324), '4.94e−324'],
    [formatNumber(100), '100'],
    [formatRatio(0.9611), '0.961'],
    [formatRatio(0.9999), '0.9999'],
    [formatRatio(0.99996), '0.99996'],
    [formatRatio(1), '1.000'],
    [formatDuration(0), '0 µs'],
    [formatDuration(12_500), '12.5 ms'],
    [formatDuration(77_000_000), '1 min 17 s'],
    [formatDuration(59_999_999), '60 s'],
    [formatDuration(7_500_000_000), '2 h 5 min'],
    [formatBytes(999), '999 B'],
    [formatBytes(999_999), '1 MB'],
    [formatBytes(12_345), '12.3 kB'],
    // 2026-01-01T00:00:00Z is 1,767,225,600 s after the epoch (date -u -d 2026-01-01 +%s).
    [formatTime(1_767_225_600_123_456), '2026-01-01 00:00:00.123'],
    [formatTime(null), 'no time'],
    [formatTime(1e300), 'n/a'],
  ])('%s = %s', (found, expected) => {
    expect(found.replace(/\u00a0/g, ' ')).toBe(expected)
  })

  it('says n/a for whatever is not finite', () => {
    for (const format of [
      formatCount,
      formatPercent,
      formatNumber,
      formatRatio,
      formatDuration,
      formatBytes,
      formatTime,
    ])
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
        expect(format(value)).toBe('n/a')
  })
})
