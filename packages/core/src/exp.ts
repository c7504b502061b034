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

const LN2_HIGH = 6.9314718036912381649e-1
const LN2_LOW = 1.90821492927058770002e-10
const INVERSE_LN2 = 1.442695040888963387
const P1 = 1.66666666666666019037e-1
const P2 = -2.77777777770155933842e-3
const P3 = 6.61375632143793436117e-5
const P4 = -1.6533902205465251539e-6
const P5 = 4.13813679705723846039e-8
const OVERFLOW = 7.09782712893383973096e2
const UNDERFLOW = -7.4513321910194110842e2

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

const TINY_SCALE = 2 ** -54

/** e^x. exp(±Infinity) and exp(NaN) as Math.exp has them. */
export function exp(x: number): number {
  if (!(x > UNDERFLOW)) return x <= UNDERFLOW ? 0 : Number.NaN
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
