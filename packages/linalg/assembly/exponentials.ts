/**
 * exp(factor · v) for v ≥ 0 and factor ≤ 0: kernel values out of squared distances, and the terms of a
 * log-sum-exp. `count` is a multiple of 4 and the pointers are bytes.
 *
 * float64 is core's exp (fdlibm's) operation by operation, two lanes at a time, so the bits are the same; NaN
 * stays NaN. What a non-positive exponent cannot reach is left out. float32 is the function of
 * src/kernel-exp-float32.ts, where its polynomial and its error are described; its results are written as
 * float64, since everything after a kernel value is summed in float64.
 *
 * The constants are loaded from memory ahead of the loop: written as constants, V8 would build each of them
 * anew from two integer registers in every turn, which takes twice as long as the arithmetic.
 */

const CONSTANTS_F64 = memory.data<f64>([
  Math.LOG2E, // 1 / ln 2
  0.5,
  0.6931471803691238, // ln 2, its leading bits
  1.9082149292705877e-10, // and the rest of it
  0.16666666666666602, // P1
  -0.0027777777777015593,
  0.00006613756321437934,
  -0.0000016533902205465252,
  4.1381367970572385e-8, // P5
  2,
  1,
  4503599627371519, // 2^52 + 1023
  -1022,
])

export function expScaledF64(values: usize, count: i32, factor: f64): void {
  const end = values + (usize(count) << 3)
  const scale = f64x2.splat(factor)
  const inverseLn2 = v128.load64_splat(CONSTANTS_F64)
  const half = v128.load64_splat(CONSTANTS_F64, 8)
  const ln2High = v128.load64_splat(CONSTANTS_F64, 16)
  const ln2Low = v128.load64_splat(CONSTANTS_F64, 24)
  const p1 = v128.load64_splat(CONSTANTS_F64, 32)
  const p2 = v128.load64_splat(CONSTANTS_F64, 40)
  const p3 = v128.load64_splat(CONSTANTS_F64, 48)
  const p4 = v128.load64_splat(CONSTANTS_F64, 56)
  const p5 = v128.load64_splat(CONSTANTS_F64, 64)
  const two = v128.load64_splat(CONSTANTS_F64, 72)
  const one = v128.load64_splat(CONSTANTS_F64, 80)
  const exponentBias = v128.load64_splat(CONSTANTS_F64, 88)
  const lowestNormal = v128.load64_splat(CONSTANTS_F64, 96)
  for (let at = values; at < end; at += 16) {
    const x = f64x2.mul(v128.load(at), scale)
    const k = f64x2.floor(f64x2.add(f64x2.mul(x, inverseLn2), half))
    const high = f64x2.sub(x, f64x2.mul(k, ln2High))
    const low = f64x2.mul(k, ln2Low)
    const r = f64x2.sub(high, low)
    const t = f64x2.mul(r, r)
    let c = f64x2.add(p4, f64x2.mul(t, p5))
    c = f64x2.add(p3, f64x2.mul(t, c))
    c = f64x2.add(p2, f64x2.mul(t, c))
    c = f64x2.add(p1, f64x2.mul(t, c))
    c = f64x2.sub(r, f64x2.mul(t, c))
    const fraction = f64x2.div(f64x2.mul(r, c), f64x2.sub(two, c))
    const y = f64x2.sub(one, f64x2.sub(f64x2.sub(low, fraction), high))
    // the low bits of k + 1023 + 2^52 are k + 1023, which is the exponent field of 2^k
    const subnormal = f64x2.lt(k, lowestNormal)
    if (v128.any_true(subnormal)) {
      const lift = v128.and(subnormal, f64x2.splat(54))
      const power = i64x2.shl(f64x2.add(f64x2.add(k, lift), exponentBias), 52)
      const drop = v128.bitselect(f64x2.splat(5.551115123125783e-17), one, subnormal)
      const result = f64x2.mul(f64x2.mul(y, power), drop)
      v128.store(at, v128.andnot(result, f64x2.lt(x, f64x2.splat(-745.1332191019411))))
    } else {
      v128.store(at, f64x2.mul(y, i64x2.shl(f64x2.add(k, exponentBias), 52)))
    }
  }
}

const CONSTANTS_F32 = memory.data<f32>([
  Mathf.LOG2E, // 1 / ln 2
  0.5, // also the polynomial's second coefficient
  0.693359375, // ln 2, its leading bits
  -0.00021219444, // and the rest of it
  0.00019875691,
  0.0013981999,
  0.0083334519,
  0.041665796,
  0.16666665,
  1,
  8388735, // 2^23 + 127
  -87,
])

/** Reads float32, writes float64. */
export function expScaledF32(values: usize, count: i32, factor: f32, out: usize): void {
  const end = values + (usize(count) << 2)
  const scale = f32x4.splat(factor)
  const inverseLn2 = v128.load32_splat(CONSTANTS_F32)
  const half = v128.load32_splat(CONSTANTS_F32, 4)
  const ln2High = v128.load32_splat(CONSTANTS_F32, 8)
  const ln2Low = v128.load32_splat(CONSTANTS_F32, 12)
  const p5 = v128.load32_splat(CONSTANTS_F32, 16)
  const p4 = v128.load32_splat(CONSTANTS_F32, 20)
  const p3 = v128.load32_splat(CONSTANTS_F32, 24)
  const p2 = v128.load32_splat(CONSTANTS_F32, 28)
  const p1 = v128.load32_splat(CONSTANTS_F32, 32)
  const one = v128.load32_splat(CONSTANTS_F32, 36)
  const exponentBias = v128.load32_splat(CONSTANTS_F32, 40)
  const lowest = v128.load32_splat(CONSTANTS_F32, 44)
  let o = out
  for (let at = values; at < end; at += 16) {
    const x = f32x4.mul(v128.load(at), scale)
    const k = f32x4.floor(f32x4.add(f32x4.mul(x, inverseLn2), half))
    let r = f32x4.sub(x, f32x4.mul(k, ln2High))
    r = f32x4.sub(r, f32x4.mul(k, ln2Low))
    let p = f32x4.add(f32x4.mul(p5, r), p4)
    p = f32x4.add(f32x4.mul(p, r), p3)
    p = f32x4.add(f32x4.mul(p, r), p2)
    p = f32x4.add(f32x4.mul(p, r), p1)
    p = f32x4.add(f32x4.mul(p, r), half)
    p = f32x4.add(f32x4.add(f32x4.mul(p, f32x4.mul(r, r)), r), one)
    // as above
    const power = i32x4.shl(f32x4.add(k, exponentBias), 23)
    const value = v128.and(f32x4.mul(p, power), f32x4.ge(x, lowest))
    v128.store(o, f64x2.promote_low_f32x4(value))
    v128.store(o, f64x2.promote_low_f32x4(i32x4.shuffle(value, value, 2, 3, 2, 3)), 16)
    o += 32
  }
}
