/**
 * exp(factor · v) for v ≥ 0 and factor ≤ 0: kernel values out of squared distances, and the terms of a
 * log-sum-exp. `count` is a multiple of 4 and the pointers are bytes.
 *
 * float64 is core's exp (fdlibm's) operation by operation, two lanes at a time, so the bits are the same; NaN
 * stays NaN. What a non-positive exponent cannot reach is left out. float32 is the function of
 * src/gaussian-kernel.ts, where its polynomial and its error are described; its results are written as
 * float64, since everything after a kernel value is summed in float64.
 *
 * Each operation waits for the one before it, some thirty in a row and a division among them; what is in flight of
 * the next turn of the loop is not enough to hide that. So four vectors go through together, step by step, which
 * takes a third less time; V8 does not reorder what it is given. What is left over, and vectors with results below
 * the normal numbers, go one at a time.
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
  54,
  5.551115123125783e-17, // 2^-54
  -745.1332191019411, // below it exp is 0
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
  let at = values
  for (; at + 64 <= end; at += 64) {
    const x0 = f64x2.mul(v128.load(at), scale)
    const x1 = f64x2.mul(v128.load(at, 16), scale)
    const x2 = f64x2.mul(v128.load(at, 32), scale)
    const x3 = f64x2.mul(v128.load(at, 48), scale)
    const k0 = f64x2.floor(f64x2.add(f64x2.mul(x0, inverseLn2), half))
    const k1 = f64x2.floor(f64x2.add(f64x2.mul(x1, inverseLn2), half))
    const k2 = f64x2.floor(f64x2.add(f64x2.mul(x2, inverseLn2), half))
    const k3 = f64x2.floor(f64x2.add(f64x2.mul(x3, inverseLn2), half))
    const high0 = f64x2.sub(x0, f64x2.mul(k0, ln2High))
    const high1 = f64x2.sub(x1, f64x2.mul(k1, ln2High))
    const high2 = f64x2.sub(x2, f64x2.mul(k2, ln2High))
    const high3 = f64x2.sub(x3, f64x2.mul(k3, ln2High))
    const low0 = f64x2.mul(k0, ln2Low)
    const low1 = f64x2.mul(k1, ln2Low)
    const low2 = f64x2.mul(k2, ln2Low)
    const low3 = f64x2.mul(k3, ln2Low)
    const r0 = f64x2.sub(high0, low0)
    const r1 = f64x2.sub(high1, low1)
    const r2 = f64x2.sub(high2, low2)
    const r3 = f64x2.sub(high3, low3)
    const t0 = f64x2.mul(r0, r0)
    const t1 = f64x2.mul(r1, r1)
    const t2 = f64x2.mul(r2, r2)
    const t3 = f64x2.mul(r3, r3)
    let c0 = f64x2.add(p4, f64x2.mul(t0, p5))
    let c1 = f64x2.add(p4, f64x2.mul(t1, p5))
    let c2 = f64x2.add(p4, f64x2.mul(t2, p5))
    let c3 = f64x2.add(p4, f64x2.mul(t3, p5))
    c0 = f64x2.add(p3, f64x2.mul(t0, c0))
    c1 = f64x2.add(p3, f64x2.mul(t1, c1))
    c2 = f64x2.add(p3, f64x2.mul(t2, c2))
    c3 = f64x2.add(p3, f64x2.mul(t3, c3))
    c0 = f64x2.add(p2, f64x2.mul(t0, c0))
    c1 = f64x2.add(p2, f64x2.mul(t1, c1))
    c2 = f64x2.add(p2, f64x2.mul(t2, c2))
    c3 = f64x2.add(p2, f64x2.mul(t3, c3))
    c0 = f64x2.add(p1, f64x2.mul(t0, c0))
    c1 = f64x2.add(p1, f64x2.mul(t1, c1))
    c2 = f64x2.add(p1, f64x2.mul(t2, c2))
    c3 = f64x2.add(p1, f64x2.mul(t3, c3))
    c0 = f64x2.sub(r0, f64x2.mul(t0, c0))
    c1 = f64x2.sub(r1, f64x2.mul(t1, c1))
    c2 = f64x2.sub(r2, f64x2.mul(t2, c2))
    c3 = f64x2.sub(r3, f64x2.mul(t3, c3))
    let y0 = f64x2.div(f64x2.mul(r0, c0), f64x2.sub(two, c0))
    let y1 = f64x2.div(f64x2.mul(r1, c1), f64x2.sub(two, c1))
    let y2 = f64x2.div(f64x2.mul(r2, c2), f64x2.sub(two, c2))
    let y3 = f64x2.div(f64x2.mul(r3, c3), f64x2.sub(two, c3))
    y0 = f64x2.sub(one, f64x2.sub(f64x2.sub(low0, y0), high0))
    y1 = f64x2.sub(one, f64x2.sub(f64x2.sub(low1, y1), high1))
    y2 = f64x2.sub(one, f64x2.sub(f64x2.sub(low2, y2), high2))
    y3 = f64x2.sub(one, f64x2.sub(f64x2.sub(low3, y3), high3))
    const least = f64x2.pmin(f64x2.pmin(k0, k1), f64x2.pmin(k2, k3))
    if (v128.any_true(f64x2.lt(least, lowestNormal))) {
      for (let part: usize = 0; part < 64; part += 16) {
        v128.store(at + part, expAny(f64x2.mul(v128.load(at + part), scale)))
      }
    } else {
      // the low bits of k + 1023 + 2^52 are k + 1023, which is the exponent field of 2^k
      v128.store(at, f64x2.mul(y0, i64x2.shl(f64x2.add(k0, exponentBias), 52)))
      v128.store(at, f64x2.mul(y1, i64x2.shl(f64x2.add(k1, exponentBias), 52)), 16)
      v128.store(at, f64x2.mul(y2, i64x2.shl(f64x2.add(k2, exponentBias), 52)), 32)
      v128.store(at, f64x2.mul(y3, i64x2.shl(f64x2.add(k3, exponentBias), 52)), 48)
    }
  }
  for (; at < end; at += 16) v128.store(at, expAny(f64x2.mul(v128.load(at), scale)))
}

/** exp of two numbers, neither above 0, also where it is subnormal or 0. */
function expAny(x: v128): v128 {
  const one = v128.load64_splat(CONSTANTS_F64, 80)
  const k = f64x2.floor(
    f64x2.add(f64x2.mul(x, v128.load64_splat(CONSTANTS_F64)), v128.load64_splat(CONSTANTS_F64, 8)),
  )
  const high = f64x2.sub(x, f64x2.mul(k, v128.load64_splat(CONSTANTS_F64, 16)))
  const low = f64x2.mul(k, v128.load64_splat(CONSTANTS_F64, 24))
  const r = f64x2.sub(high, low)
  const t = f64x2.mul(r, r)
  let c = v128.load64_splat(CONSTANTS_F64, 64)
  for (let i: usize = CONSTANTS_F64 + 56; i > CONSTANTS_F64 + 24; i -= 8) {
    c = f64x2.add(v128.load64_splat(i), f64x2.mul(t, c))
  }
  c = f64x2.sub(r, f64x2.mul(t, c))
  const fraction = f64x2.div(f64x2.mul(r, c), f64x2.sub(v128.load64_splat(CONSTANTS_F64, 72), c))
  const y = f64x2.sub(one, f64x2.sub(f64x2.sub(low, fraction), high))
  const subnormal = f64x2.lt(k, v128.load64_splat(CONSTANTS_F64, 96))
  const lift = v128.and(subnormal, v128.load64_splat(CONSTANTS_F64, 104))
  const power = i64x2.shl(f64x2.add(f64x2.add(k, lift), v128.load64_splat(CONSTANTS_F64, 88)), 52)
  const drop = v128.bitselect(v128.load64_splat(CONSTANTS_F64, 112), one, subnormal)
  const result = f64x2.mul(f64x2.mul(y, power), drop)
  return v128.andnot(result, f64x2.lt(x, v128.load64_splat(CONSTANTS_F64, 120)))
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

/** Reads float32, writes float64; `out` does not overlap `values`. */
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
  let at = values
  let o = out
  for (; at + 64 <= end; at += 64) {
    const x0 = f32x4.mul(v128.load(at), scale)
    const x1 = f32x4.mul(v128.load(at, 16), scale)
    const x2 = f32x4.mul(v128.load(at, 32), scale)
    const x3 = f32x4.mul(v128.load(at, 48), scale)
    const k0 = f32x4.floor(f32x4.add(f32x4.mul(x0, inverseLn2), half))
    const k1 = f32x4.floor(f32x4.add(f32x4.mul(x1, inverseLn2), half))
    const k2 = f32x4.floor(f32x4.add(f32x4.mul(x2, inverseLn2), half))
    const k3 = f32x4.floor(f32x4.add(f32x4.mul(x3, inverseLn2), half))
    let r0 = f32x4.sub(x0, f32x4.mul(k0, ln2High))
    let r1 = f32x4.sub(x1, f32x4.mul(k1, ln2High))
    let r2 = f32x4.sub(x2, f32x4.mul(k2, ln2High))
    let r3 = f32x4.sub(x3, f32x4.mul(k3, ln2High))
    r0 = f32x4.sub(r0, f32x4.mul(k0, ln2Low))
    r1 = f32x4.sub(r1, f32x4.mul(k1, ln2Low))
    r2 = f32x4.sub(r2, f32x4.mul(k2, ln2Low))
    r3 = f32x4.sub(r3, f32x4.mul(k3, ln2Low))
    let y0 = f32x4.add(f32x4.mul(p5, r0), p4)
    let y1 = f32x4.add(f32x4.mul(p5, r1), p4)
    let y2 = f32x4.add(f32x4.mul(p5, r2), p4)
    let y3 = f32x4.add(f32x4.mul(p5, r3), p4)
    y0 = f32x4.add(f32x4.mul(y0, r0), p3)
    y1 = f32x4.add(f32x4.mul(y1, r1), p3)
    y2 = f32x4.add(f32x4.mul(y2, r2), p3)
    y3 = f32x4.add(f32x4.mul(y3, r3), p3)
    y0 = f32x4.add(f32x4.mul(y0, r0), p2)
    y1 = f32x4.add(f32x4.mul(y1, r1), p2)
    y2 = f32x4.add(f32x4.mul(y2, r2), p2)
    y3 = f32x4.add(f32x4.mul(y3, r3), p2)
    y0 = f32x4.add(f32x4.mul(y0, r0), p1)
    y1 = f32x4.add(f32x4.mul(y1, r1), p1)
    y2 = f32x4.add(f32x4.mul(y2, r2), p1)
    y3 = f32x4.add(f32x4.mul(y3, r3), p1)
    y0 = f32x4.add(f32x4.mul(y0, r0), half)
    y1 = f32x4.add(f32x4.mul(y1, r1), half)
    y2 = f32x4.add(f32x4.mul(y2, r2), half)
    y3 = f32x4.add(f32x4.mul(y3, r3), half)
    y0 = f32x4.add(f32x4.add(f32x4.mul(y0, f32x4.mul(r0, r0)), r0), one)
    y1 = f32x4.add(f32x4.add(f32x4.mul(y1, f32x4.mul(r1, r1)), r1), one)
    y2 = f32x4.add(f32x4.add(f32x4.mul(y2, f32x4.mul(r2, r2)), r2), one)
    y3 = f32x4.add(f32x4.add(f32x4.mul(y3, f32x4.mul(r3, r3)), r3), one)
    // as above
    y0 = f32x4.mul(y0, i32x4.shl(f32x4.add(k0, exponentBias), 23))
    y1 = f32x4.mul(y1, i32x4.shl(f32x4.add(k1, exponentBias), 23))
    y2 = f32x4.mul(y2, i32x4.shl(f32x4.add(k2, exponentBias), 23))
    y3 = f32x4.mul(y3, i32x4.shl(f32x4.add(k3, exponentBias), 23))
    y0 = v128.and(y0, f32x4.ge(x0, lowest))
    y1 = v128.and(y1, f32x4.ge(x1, lowest))
    y2 = v128.and(y2, f32x4.ge(x2, lowest))
    y3 = v128.and(y3, f32x4.ge(x3, lowest))
    storePromoted(o, y0)
    storePromoted(o + 32, y1)
    storePromoted(o + 64, y2)
    storePromoted(o + 96, y3)
    o += 128
  }
  for (; at < end; at += 16) {
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
    p = f32x4.mul(p, i32x4.shl(f32x4.add(k, exponentBias), 23))
    storePromoted(o, v128.and(p, f32x4.ge(x, lowest)))
    o += 32
  }
}

/** Four numbers of float32 as float64. */
function storePromoted(at: usize, values: v128): void {
  v128.store(at, f64x2.promote_low_f32x4(values))
  v128.store(at, f64x2.promote_low_f32x4(i32x4.shuffle(values, values, 2, 3, 2, 3)), 16)
}
