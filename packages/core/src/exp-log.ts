/**
 * The natural logarithm with the same bits on every machine, by fdlibm's method (e_log.c): x = 2^k·(1 + f), s = f / (2
 * + f), a degree-7 polynomial in s². Error below 1 unit in the last place.
 */

const L1 = 0.6666666666666735
const L2 = 0.3999999999940942
const L3 = 0.2857142874366239
const L4 = 0.22222198432149784
const L5 = 0.1818357216161805
const L6 = 0.15313837699209373
const L7 = 0.14798198605116586
const TWO_54 = 18014398509481984

const bits = new DataView(new ArrayBuffer(8))

/** ln x; NaN below 0, −Infinity at 0. */
export function log(x: number): number {
  if (!(x > 0)) return x === 0 ? Number.NEGATIVE_INFINITY : Number.NaN
  if (x === Number.POSITIVE_INFINITY) return x
  let k = 0
  let value = x
  if (value < 2.2250738585072014e-308) {
    value *= TWO_54
    k = -54
  }
  bits.setFloat64(0, value)
  let high = bits.getUint32(0)
  k += (high >>> 20) - 1023
  high &= 0x000fffff
  // 1 + f in [√2/2, √2): halve the mantissa when it is above √2
  const carry = (high + 0x95f64) & 0x100000
  bits.setUint32(0, high | (carry ^ 0x3ff00000))
  k += carry >>> 20
  const f = bits.getFloat64(0) - 1
  if (f === 0) return k === 0 ? 0 : k * LN2_HIGH + k * LN2_LOW
  const s = f / (2 + f)
  const z = s * s
  const w = z * z
  const t1 = w * (L2 + w * (L4 + w * L6))
  const t2 = z * (L1 + w * (L3 + w * (L5 + w * L7)))
  const r = t2 + t1
  const half = 0.5 * f * f
  return k === 0 ? f - (half - s * (half + r)) : k * LN2_HIGH - (half - (s * (half + r) + k * LN2_LOW) - f)
}

/**
 * The exponential with the same bits on every machine, which Math.exp does not promise and a model file does, by
 * fdlibm's method (e_exp.c): x = k·ln 2 + r, a degree-5 rational approximation of exp(r), scaled by 2^k. IEEE
 * operations alone; error below 1 unit in the last place.
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
