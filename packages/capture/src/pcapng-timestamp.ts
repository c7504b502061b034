/**
 * Timestamps of pcapng: a 64-bit count of ticks whose length each interface states for itself.
 *
 * Source: draft-ietf-opsawg-pcapng, if_tsresol (option 9: a power of ten, or of two where the top bit is
 * set; 10^-6 s where it is absent) and if_tsoffset (option 14: whole seconds to add). The result is
 * floor(ticks · 10^9 / resolution) nanoseconds, as whole microseconds and what lies below them. Decimal
 * resolutions down to the nanosecond go through doubles without loss; the rest, which hardly occur, go
 * through BigInt. What is not within ±(2^53 − 1) µs (the year 2255) is no time but NaN: doubles there are
 * microseconds apart, and differences of such times would be noise.
 */

export interface TickLength {
  /** 0 … 9: ticks are 10^-exponent s. −1: `perSecond` holds the resolution. */
  readonly decimalExponent: number
  /** Ticks in a second. */
  readonly perSecond: bigint
  /** if_tsoffset in seconds. */
  readonly offsetSeconds: bigint
  /** The same in microseconds; NaN where a double does not hold it exactly. */
  readonly offsetMicros: number
}

export const MICROSECOND_TICKS: TickLength = {
  decimalExponent: 6,
  perSecond: 1_000_000n,
  offsetSeconds: 0n,
  offsetMicros: 0,
}

/** @param resolution the byte of if_tsresol */
export function tickLength(resolution: number, offsetSeconds: bigint): TickLength {
  const exponent = resolution & 0x7f
  const micros = Number(offsetSeconds * 1_000_000n)
  const offsetMicros = Number.isSafeInteger(micros) ? micros : Number.NaN
  if ((resolution & 0x80) !== 0) {
    return { decimalExponent: -1, perSecond: 1n << BigInt(exponent), offsetSeconds, offsetMicros }
  }
  return {
    decimalExponent: exponent <= 9 ? exponent : -1,
    perSecond: 10n ** BigInt(exponent),
    offsetSeconds,
    offsetMicros,
  }
}

const POWERS_OF_TEN = [1, 10, 100, 1e3, 1e4, 1e5, 1e6]

/** Writes the time of frame n: NaN and 0 where it is out of range. */
export function writeTicks(
  micros: Float64Array,
  subNanos: Uint16Array,
  n: number,
  ticks: TickLength,
  high: number,
  low: number,
): void {
  const exponent = ticks.decimalExponent
  let whole = Number.NaN
  let rest = 0
  if (exponent >= 0 && exponent <= 6) {
    whole = (high * 4294967296 + low) * POWERS_OF_TEN[6 - exponent]!
  } else if (exponent > 6) {
    const divisor = POWERS_OF_TEN[exponent - 6]!
    const quotient = Math.floor(high / divisor)
    const below = (high - quotient * divisor) * 4294967296 + low
    const lower = Math.floor(below / divisor)
    whole = quotient * 4294967296 + lower
    rest = (below - lower * divisor) * POWERS_OF_TEN[9 - exponent]!
  }
  // both terms are exact here; a sum out of range is caught below, rounded or not
  if (whole <= Number.MAX_SAFE_INTEGER && !Number.isNaN(ticks.offsetMicros)) {
    whole += ticks.offsetMicros
  } else {
    const count = (BigInt(high) << 32n) | BigInt(low)
    const nanos = (count * 1_000_000_000n) / ticks.perSecond
    whole = Number(nanos / 1000n + ticks.offsetSeconds * 1_000_000n)
    rest = Number(nanos % 1000n)
  }
  const isTime = whole <= Number.MAX_SAFE_INTEGER && whole >= -Number.MAX_SAFE_INTEGER
  micros[n] = isTime ? whole : Number.NaN
  subNanos[n] = isTime ? rest : 0
}
