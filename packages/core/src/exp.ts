/**
 * exp: one exponential for every machine.
 *
 * Math.exp may differ in its last bits between processors and engine versions, and a model file promises
 * the same scores everywhere, so the library carries its own. The method is fdlibm's (Sun Microsystems,
 * e_exp.c): x = k·ln 2 + r with |r| ≤ ln 2 / 2, a degree-5 rational approximation of exp(r), then a scaling
 * by 2^k. Only IEEE additions, multiplications and one division are used, so every result is bit-equal
 * everywhere; the error is below 1 unit in the last place. Results below 2^-1022 are rounded through a
 * subnormal scaling as IEEE asks.
 */

const LN2_HIGH = 0.6931471803691238
const LN2_LOW = 1.9082149292705877e-10
const INVERSE_LN2 = Math.LOG2E
const P1 = 0.16666666666666602
const P2 = -0.0027777777777015593
const P3 = 0.00006613756321437934
const P4 = -0.0000016533902205465252
const P5 = 4.1381367970572385e-8
const OVERFLOW = 709.782712893384
const UNDERFLOW = -745.1332191019411

/** 2^k for k = −1022 … 1023, at index k + 1022: a load is cheaper than building the bits. */
const POWERS = new Float64Array(2046)
{
  let p = 1
  for (let k = 0; k <= 1023; k++) {
    POWERS[k + 1022] = p
    p *= 2
  }
  p = 1
  for (let k = 0; k >= -1022; k--) {
    POWERS[k + 1022] = p
    p /= 2
  }
}

const TINY_SCALE = 1 / 18014398509481984 // 2^−54

/** e^x. exp(±Infinity) and exp(NaN) as Math.exp has them. */
export function exp(x: number): number {
  if (!(x >= UNDERFLOW)) return x < UNDERFLOW ? 0 : Number.NaN
  if (x > OVERFLOW) return Number.POSITIVE_INFINITY
  const k = Math.floor(x * INVERSE_LN2 + 0.5)
  const high = x - k * LN2_HIGH
  const low = k * LN2_LOW
  const r = high - low
  const t = r * r
  const c = r - t * (P1 + t * (P2 + t * (P3 + t * (P4 + t * P5))))
  const y = 1 - (low - (r * c) / (2 - c) - high)
  if (k >= -1022) return k <= 1023 ? y * POWERS[k + 1022]! : y * 2 * POWERS[2045]!
  return y * POWERS[k + 54 + 1022]! * TINY_SCALE
}

/** Replaces values[start … start+length) by their exponentials. */
export function expInPlace(values: Float64Array, start: number, length: number): void {
  const end = start + length
  for (let i = start; i < end; i++) values[i] = exp(values[i]!)
}
