/**
 * Log-densities of mixture components, four components in two vectors, and what a log-sum-exp needs of them.
 *
 * Layout of means and factors as in detectors' gaussian-mixture.ts: groups of four components, interleaved. Each
 * lane sums as the typed-array path does. Pointers are bytes; z has rows of zWidth and terms rows of 4 · groups.
 */

/** terms[r, j] = logNormalisers[j] − ½‖W_j(z_r − µ_j)‖². `differences` is scratch for 8 · d numbers. */
export function mixtureTermsF64(
  z: usize,
  rows: i32,
  zWidth: i32,
  means: usize,
  factors: usize,
  logNormalisers: usize,
  groups: i32,
  d: i32,
  differences: usize,
  terms: usize,
): void {
  const zBytes: usize = usize(zWidth) << 3
  const termBytes: usize = usize(groups) << 5
  let r = 0
  for (; r + 2 <= rows; r += 2) {
    const z0 = z + usize(r) * zBytes
    const z1 = z0 + zBytes
    let o = terms + usize(r) * termBytes
    let m = means
    let f = factors
    let n = logNormalisers
    for (let group = 0; group < groups; group++) {
      let at = differences
      for (let i = 0; i < d; i++) {
        const u = v128.load64_splat(z0 + (usize(i) << 3))
        const w = v128.load64_splat(z1 + (usize(i) << 3))
        const m0 = v128.load(m)
        const m1 = v128.load(m, 16)
        v128.store(at, f64x2.sub(u, m0))
        v128.store(at, f64x2.sub(u, m1), 16)
        v128.store(at, f64x2.sub(w, m0), 32)
        v128.store(at, f64x2.sub(w, m1), 48)
        m += 32
        at += 64
      }
      let q0 = f64x2.splat(0)
      let q1 = f64x2.splat(0)
      let q2 = f64x2.splat(0)
      let q3 = f64x2.splat(0)
      let end = differences
      for (let i = 0; i < d; i++) {
        end += 64
        let y0 = f64x2.splat(0)
        let y1 = f64x2.splat(0)
        let y2 = f64x2.splat(0)
        let y3 = f64x2.splat(0)
        for (let t = differences; t < end; t += 64) {
          const f0 = v128.load(f)
          const f1 = v128.load(f, 16)
          f += 32
          y0 = f64x2.add(y0, f64x2.mul(f0, v128.load(t)))
          y1 = f64x2.add(y1, f64x2.mul(f1, v128.load(t, 16)))
          y2 = f64x2.add(y2, f64x2.mul(f0, v128.load(t, 32)))
          y3 = f64x2.add(y3, f64x2.mul(f1, v128.load(t, 48)))
        }
        q0 = f64x2.add(q0, f64x2.mul(y0, y0))
        q1 = f64x2.add(q1, f64x2.mul(y1, y1))
        q2 = f64x2.add(q2, f64x2.mul(y2, y2))
        q3 = f64x2.add(q3, f64x2.mul(y3, y3))
      }
      const half = f64x2.splat(0.5)
      const n0 = v128.load(n)
      const n1 = v128.load(n, 16)
      n += 32
      v128.store(o, f64x2.sub(n0, f64x2.mul(half, q0)))
      v128.store(o, f64x2.sub(n1, f64x2.mul(half, q1)), 16)
      v128.store(o + termBytes, f64x2.sub(n0, f64x2.mul(half, q2)))
      v128.store(o + termBytes, f64x2.sub(n1, f64x2.mul(half, q3)), 16)
      o += 32
    }
  }
  if (r < rows) {
    const z0 = z + usize(r) * zBytes
    let o = terms + usize(r) * termBytes
    let m = means
    let f = factors
    let n = logNormalisers
    for (let group = 0; group < groups; group++) {
      let at = differences
      for (let i = 0; i < d; i++) {
        const u = v128.load64_splat(z0 + (usize(i) << 3))
        v128.store(at, f64x2.sub(u, v128.load(m)))
        v128.store(at, f64x2.sub(u, v128.load(m, 16)), 16)
        m += 32
        at += 32
      }
      let q0 = f64x2.splat(0)
      let q1 = f64x2.splat(0)
      let end = differences
      for (let i = 0; i < d; i++) {
        end += 32
        let y0 = f64x2.splat(0)
        let y1 = f64x2.splat(0)
        for (let t = differences; t < end; t += 32) {
          y0 = f64x2.add(y0, f64x2.mul(v128.load(f), v128.load(t)))
          y1 = f64x2.add(y1, f64x2.mul(v128.load(f, 16), v128.load(t, 16)))
          f += 32
        }
        q0 = f64x2.add(q0, f64x2.mul(y0, y0))
        q1 = f64x2.add(q1, f64x2.mul(y1, y1))
      }
      const half = f64x2.splat(0.5)
      v128.store(o, f64x2.sub(v128.load(n), f64x2.mul(half, q0)))
      v128.store(o, f64x2.sub(v128.load(n, 16), f64x2.mul(half, q1)), 16)
      n += 32
      o += 32
    }
  }
}

/** A term lower than the largest by more is left out: src/decompositions.ts says why. */
const LOWEST_EXPONENT: f64 = -60

/**
 * largest[r] = the largest of row r's terms (`width` of them, a multiple of 4, those beyond `count` being −∞). What
 * the terms are below it is left in their place, without those that are left out and without gaps: in a mixture few
 * components matter to a row, and exp is spared for the rest. Row r's end at ends[r]; returned is the number in all.
 */
export function keepTermsF64(
  terms: usize,
  rows: i32,
  width: i32,
  count: i32,
  largest: usize,
  ends: usize,
): i32 {
  const bytes: usize = usize(width) << 3
  const countBytes: usize = usize(count) << 3
  let to = terms
  for (let r = 0; r < rows; r++) {
    const row = terms + usize(r) * bytes
    let a = f64x2.splat(-Infinity)
    let b = f64x2.splat(-Infinity)
    for (let j: usize = 0; j < bytes; j += 32) {
      a = f64x2.pmax(a, v128.load(row + j))
      b = f64x2.pmax(b, v128.load(row + j, 16))
    }
    a = f64x2.pmax(a, b)
    const top = max(f64x2.extract_lane(a, 0), f64x2.extract_lane(a, 1))
    store<f64>(largest + (usize(r) << 3), top)
    const end = row + countBytes
    for (let at = row; at < end; at += 8) {
      const exponent = load<f64>(at) - top
      store<f64>(to, exponent)
      to += usize(!(exponent < LOWEST_EXPONENT)) << 3
    }
    store<usize>(ends + (usize(r) << 2), to)
  }
  // exp takes four at a time
  for (let at = to; (at - terms) & 31; at += 8) store<f64>(at, 0)
  return i32((to - terms) >> 3)
}

/** sums[r] = Σ of the values that end at ends[r] and begin where the row before ends, in ascending order. */
export function sumTermsF64(values: usize, rows: i32, ends: usize, sums: usize): void {
  let at = values
  for (let r = 0; r < rows; r++) {
    const end = load<usize>(ends + (usize(r) << 2))
    let sum: f64 = 0
    for (; at < end; at += 8) sum += load<f64>(at)
    store<f64>(sums + (usize(r) << 3), sum)
  }
}
