/**
 * Numbers as people read them: grouped counts, rates in percent, durations and sizes with a fitting unit (held
 * together by no-break spaces), times in UTC. No locale of the machine is asked, so that a page is the same wherever it is made; whatever is not
 * finite becomes "n/a".
 */

const absent = 'n/a'

/** 12345 → "12,345". */
export function formatCount(count: number): string {
  if (!Number.isFinite(count)) return absent
  const digits = String(Math.round(Math.abs(count)))
  // Beyond 1e21 JavaScript itself writes an exponent: nothing to group there.
  const grouped = /^\d+$/.test(digits) ? digits.replace(/\B(?=(\d{3})+$)/g, ',') : digits
  return count < 0 ? `−${grouped}` : grouped
}

/** "1 flow", "2 flows". */
export function formatQuantity(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : plural}`
}

/** 0.0123 → "1.2 %"; small rates keep a second digit so that 0.01 % is not shown as nothing. */
export function formatPercent(rate: number): string {
  if (!Number.isFinite(rate)) return absent
  const percent = rate * 100
  if (percent !== 0 && Math.abs(percent) < 0.01) return '<\u00a00.01\u00a0%'
  if (rate !== 1 && percent > 99.9) return '>\u00a099.9\u00a0%'
  return `${trimZeros(percent.toFixed(Math.abs(percent) < 1 ? 2 : 1))}\u00a0%`
}

/** A score or another plain number: four significant digits, a true minus sign. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return absent
  const size = Math.abs(value)
  const text =
    size !== 0 && (size >= 1e7 || size < 1e-4)
      ? value.toExponential(2)
      : size >= 1000
        ? formatCount(value)
        : trimZeros(value.toPrecision(4))
  return text.replace('-', '−')
}

/** AUC and the like: three decimals, so that columns line up, but only 1 itself is 1.000. */
export function formatRatio(value: number): string {
  return Number.isFinite(value) ? formatBelowOne(value, 3) : absent
}

/** So many decimals, and as many more as a value below 1 needs not to be rounded up to it. */
export function formatBelowOne(value: number, decimals: number): string {
  for (let more = decimals; more < 20 && value < 1; more++) {
    const text = value.toFixed(more)
    if (Number(text) < 1) return text
  }
  return value.toFixed(decimals)
}

/** Microseconds → "350 µs", "12.5 ms", "3.2 s", "4 min 10 s", "2 h 5 min". */
export function formatDuration(micros: number): string {
  if (!Number.isFinite(micros)) return absent
  const size = Math.abs(micros)
  if (size < 1e3) return `${trimZeros(micros.toFixed(1))}\u00a0µs`
  if (size < 1e6) return `${trimZeros((micros / 1e3).toFixed(1))}\u00a0ms`
  if (size < 60e6) return `${trimZeros((micros / 1e6).toFixed(2))}\u00a0s`
  const seconds = Math.round(micros / 1e6)
  if (size < 3600e6) return `${Math.trunc(seconds / 60)}\u00a0min ${Math.abs(seconds % 60)}\u00a0s`
  const minutes = Math.round(seconds / 60)
  return `${formatCount(Math.trunc(minutes / 60))}\u00a0h ${Math.abs(minutes % 60)}\u00a0min`
}

/** Bytes → "640 B", "12.3 kB", "4.5 MB": decimal units, as networks count. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return absent
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  while (Math.abs(value) >= 999.95 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${trimZeros(value.toFixed(1))}\u00a0${units[unit]!}`
}

/** Microseconds since 1970 → "2026-11-27 23:38:09.123", in UTC; null where a capture has no time. */
export function formatTime(micros: number | null): string {
  if (micros === null) return 'no time'
  const date = new Date(Math.floor(micros / 1000))
  if (Number.isNaN(date.getTime())) return absent
  return date.toISOString().replace('T', ' ').replace('Z', '')
}

function trimZeros(decimal: string): string {
  return decimal.includes('.') && !decimal.includes('e') ? decimal.replace(/\.?0+$/, '') : decimal
}
