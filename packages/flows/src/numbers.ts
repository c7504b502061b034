import type { ColumnSource } from '@oddflow/capture'

/**
 * The q-quantile by linear interpolation between order statistics: type 7 of Hyndman and Fan (1996), numpy's default,
 * with numpy's two-sided interpolation, so results agree to the last bit.
 */

/** @param values - at least one finite number, in any order; not changed. @param q - in [0, 1]. */
export function linearQuantile(values: ArrayLike<number>, q: number): number {
  const sorted = Float64Array.from(values).sort()
  return quantileOfSorted(sorted, sorted.length, q)
}

/** The same of the first `count` numbers of `sorted`, which ascend. */
export function quantileOfSorted(sorted: Float64Array, count: number, q: number): number {
  const position = q * (count - 1)
  const below = Math.floor(position)
  const t = position - below
  const a = sorted[below]
  const b = sorted[Math.min(below + 1, count - 1)]
  const difference = b - a
  return t >= 0.5 ? b - difference * (1 - t) : a + difference * t
}

/** Every column of a buffer begins at a multiple of it. */
const COLUMN_ALIGNMENT_BYTES = 64

/** Columns one after the other in a buffer that is large enough and holds zeros; nothing is freed. */
export function columnsIn(buffer: ArrayBuffer): ColumnSource {
  let used = 0
  const take = (bytes: number): number => {
    const at = used
    used += COLUMN_ALIGNMENT_BYTES * Math.ceil(bytes / COLUMN_ALIGNMENT_BYTES)
    return at
  }
  return {
    uint8: (count) => new Uint8Array(buffer, take(count), count),
    uint16: (count) => new Uint16Array(buffer, take(2 * count), count),
    int32: (count) => new Int32Array(buffer, take(4 * count), count),
    uint32: (count) => new Uint32Array(buffer, take(4 * count), count),
    float64: (count) => new Float64Array(buffer, take(8 * count), count),
  }
}

/**
 * floorDivide: x // y of Python, for y > 0.
 *
 * Not Math.floor(x / y): the quotient may round up to a whole number that x does not reach. Python computes the exact
 * remainder first (CPython, Objects/floatobject.c, _float_div_mod).
 */
export function floorDivide(x: number, y: number): number {
  let remainder = x % y
  let quotient = (x - remainder) / y
  if (remainder < 0) {
    remainder += y
    quotient -= 1
  }
  if (quotient === 0) return 0
  const whole = Math.floor(quotient)
  return quotient - whole > 0.5 ? whole + 1 : whole
}
