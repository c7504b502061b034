/**
 * log: one natural logarithm for every machine, for the reason given in exp.ts.
 *
 * fdlibm's method (e_log.c): x = 2^k·(1 + f) with √2/2 < 1 + f < √2, s = f / (2 + f), a degree-7 polynomial
 * in s². Error below 1 unit in the last place; IEEE operations alone.
 */

const LN2_HIGH = 0.6931471803691238
const LN2_LOW = 1.9082149292705877e-10
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
