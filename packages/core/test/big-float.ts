/**
 * exp and ln as mathematics has them, on 256-bit fixed-point BigInts, sharing nothing with the library: the
 * truth that the tests measure errors against.
 */
const BITS = 256n
const ONE = 1n << BITS

/** A float64 as an exact fixed-point number (|x| ≥ 2^-200 or 0). */
function toFixed(x: number): bigint {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, x)
  const word = view.getBigUint64(0)
  const exponent = Number((word >> 52n) & 0x7ffn)
  const mantissa = (word & 0xfffffffffffffn) | (exponent === 0 ? 0n : 1n << 52n)
  const shift = BigInt(Math.max(exponent, 1) - 1075) + BITS
  const magnitude = shift >= 0n ? mantissa << shift : mantissa >> -shift
  return word >> 63n ? -magnitude : magnitude
}

/** ln 2 by 2·atanh(1/3). */
const LN2 = 2n * atanh(ONE / 3n)

function atanh(z: bigint): bigint {
  const square = (z * z) >> BITS
  let term = z
  let sum = 0n
  for (let n = 1n; term !== 0n; n += 2n) {
    sum += term / n
    term = (term * square) >> BITS
  }
  return sum
}

/** e^x as mantissa · 2^(k − 256). */
export function bigExp(x: number): { mantissa: bigint; k: number } {
  const fixed = toFixed(x)
  let k = fixed / LN2
  if (fixed < 0n) k -= 1n
  const r = fixed - k * LN2
  let term = ONE
  let sum = 0n
  for (let n = 1n; term !== 0n; n++) {
    sum += term
    term = ((term * r) >> BITS) / n
  }
  return { mantissa: sum, k: Number(k) }
}

/** ln x · 2^256 for a normal x > 0. */
export function bigLog(x: number): bigint {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, x)
  const exponent = BigInt(((view.getUint32(0) >>> 20) & 0x7ff) - 1023)
  view.setUint32(0, (view.getUint32(0) & 0x000fffff) | (1023 << 20))
  const m = toFixed(view.getFloat64(0))
  return exponent * LN2 + 2n * atanh(((m - ONE) << BITS) / (m + ONE))
}

/** |value − truth| in units of the last place of `value`; truth = mantissa · 2^(k − 256). */
export function errorInUlps(value: number, truth: bigint, k = 0): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  const word = view.getBigUint64(0)
  const exponent = Math.max(Number((word >> 52n) & 0x7ffn), 1)
  const significand =
    ((word & 0xfffffffffffffn) | ((word >> 52n) & 0x7ffn ? 1n << 52n : 0n)) * (word >> 63n ? -1n : 1n)
  // truth in units of 2^(exponent − 1075) / 2^32
  const shift = k - 256 - (exponent - 1075) + 32
  const scaled = shift >= 0 ? truth << BigInt(shift) : truth >> BigInt(-shift)
  const difference = (significand << 32n) - scaled
  return Number(difference < 0n ? -difference : difference) / 2 ** 32
}
