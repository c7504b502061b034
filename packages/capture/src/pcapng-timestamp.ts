/**
 * Timestamps of pcapng: a 64-bit count of ticks whose length each interface states for itself.
 *
 * Source: draft-ietf-opsawg-pcapng, if_tsresol (option 9: a power of ten, or of two where the top bit is
 * set; 10^-6 s where it is absent) and if_tsoffset (option 14: whole seconds to add). The result is
 * floor(ticks · 10^9 / resolution) nanoseconds, as whole microseconds and what lies below them. Decimal
 * resolutions down to the nanosecond go through doubles without loss; the rest, which hardly occur, go
 * through BigInt. Beyond 2^53 µs (the year 2255) a microsecond is the nearest double.
 */

export interface TickLength {
  /** 0 … 9: ticks are 10^-exponent s. −1: `perSecond` holds the resolution. */
  readonly decimalExponent: number
  /** Ticks in a second. */
  readonly perSecond: bigint
  /** if_tsoffset in microseconds. */
  readonly offsetMicros: number
}

export const MICROSECOND_TICKS: TickLength = {
  decimalExponent: 6,
  perSecond: 1_000_000n,
  offsetMicros: 0,
}

/** @param resolution the byte of if_tsresol */
export function tickLength(resolution: number, offsetSeconds: number): TickLength {
  const exponent = resolution & 0x7f
  const offsetMicros = offsetSeconds * 1e6
  if ((resolution & 0x80) !== 0) {
    return { decimalExponent: -1, perSecond: 1n << BigInt(exponent), offsetMicros }
  }
  return {
    decimalExponent: exponent <= 9 ? exponent : -1,
    perSecond: 10n ** BigInt(exponent),
    offsetMicros,
  }
}

const POWERS_OF_TEN = [1, 10, 100, 1e3, 1e4, 1e5, 1e6]

/** Writes the time of frame n. */
export function writeTicks(
  micros: Float64Array,
  subNanos: Uint16Array,
  n: number,
  ticks: TickLength,
  high: number,
  low: number,
): void {
  const exponent = ticks.decimalExponent
  if (exponent >= 0 && exponent <= 6) {
    micros[n] = (high * 4294967296 + low) * POWERS_OF_TEN[6 - exponent]! + ticks.offsetMicros
    subNanos[n] = 0
  } else if (exponent > 6) {
    const divisor = POWERS_OF_TEN[exponent - 6]!
    const quotient = Math.floor(high / divisor)
    const rest = (high - quotient * divisor) * 4294967296 + low
    const lower = Math.floor(rest / divisor)
    micros[n] = quotient * 4294967296 + lower + ticks.offsetMicros
    subNanos[n] = (rest - lower * divisor) * POWERS_OF_TEN[9 - exponent]!
  } else {
    const count = (BigInt(high) << 32n) | BigInt(low)
    const nanos = (count * 1_000_000_000n) / ticks.perSecond
    micros[n] = Number(nanos / 1000n) + ticks.offsetMicros
    subNanos[n] = Number(nanos % 1000n)
  }
}
