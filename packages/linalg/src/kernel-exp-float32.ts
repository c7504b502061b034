/**
 * exp(factor · v) in float32 for v ≥ 0 and factor ≤ 0: the exponential behind float32 kernel values.
 *
 * x = k·ln 2 + r with |r| ≤ ln 2 / 2, k·ln 2 subtracted in two parts of which the first is exact, a polynomial of
 * degree 7 in r (the coefficients are those of Moshier's Cephes library, expf.c, a near-minimax fit), and a
 * scaling by 2^k. Every operation is rounded to float32, so SIMD lanes and Math.fround agree. The relative error
 * is below 2^-22.9 (test/kernel-exp-float32.test.ts); exponents below −87 give 0, so no value is subnormal.
 */

const INVERSE_LN2 = Math.fround(Math.LOG2E)
const LN2_HIGH = Math.fround(0.693359375)
const LN2_LOW = Math.fround(-0.00021219444)
const P5 = Math.fround(0.00019875691)
const P4 = Math.fround(0.0013981999)
const P3 = Math.fround(0.0083334519)
const P2 = Math.fround(0.041665796)
const P1 = Math.fround(0.16666665)
const LOWEST = -87

/** 2^k for k = −126 … 0, at index k + 126. */
const POWERS = new Float64Array(127)
for (let k = 0, power = 1; k >= -126; k--, power /= 2) POWERS[k + 126] = power

/** `v` and `factor` are float32 numbers. */
export function expScaledFloat32(v: number, factor: number): number {
  const x = Math.fround(v * factor)
  if (!(x >= LOWEST)) return 0
  const k = Math.floor(Math.fround(Math.fround(x * INVERSE_LN2) + 0.5))
  let r = Math.fround(x - Math.fround(k * LN2_HIGH))
  r = Math.fround(r - Math.fround(k * LN2_LOW))
  let p = Math.fround(Math.fround(P5 * r) + P4)
  p = Math.fround(Math.fround(p * r) + P3)
  p = Math.fround(Math.fround(p * r) + P2)
  p = Math.fround(Math.fround(p * r) + P1)
  p = Math.fround(Math.fround(p * r) + 0.5)
  p = Math.fround(Math.fround(Math.fround(p * Math.fround(r * r)) + r) + 1)
  return p * POWERS[k + 126]!
}
