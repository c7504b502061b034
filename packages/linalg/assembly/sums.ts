/**
 * Sums over a row of kernel values: projections, weighted sums, and the smallest of a row of distances.
 *
 * Lanes are outputs (or partial sums that the typed-array path keeps as well), never terms of one sum, so every
 * sum adds its terms in that path's order. Pointers are bytes, strides elements.
 */

/**
 * out[r, i] = Σ_j k[r, j] · p[j, i], j ascending from 0 to m: p is m × width (width a multiple of 2, the
 * transposed projection), k has rows of `stride`, out has rows of `width`. Two rows and six outputs at a time, which
 * is all of the default's five.
 */
export function projectF64(k: usize, rows: i32, stride: i32, p: usize, m: i32, width: i32, out: usize): void {
  const rowBytes: usize = usize(stride) << 3
  const widthBytes: usize = usize(width) << 3
  const kBytes: usize = usize(m) << 3
  let r = 0
  for (; r + 2 <= rows; r += 2) {
    const k0 = k + usize(r) * rowBytes
    const kEnd = k0 + kBytes
    const o0 = out + usize(r) * widthBytes
    const o1 = o0 + widthBytes
    let i: usize = 0
    for (; i + 48 <= widthBytes; i += 48) {
      let q = p + i
      let a0 = f64x2.splat(0)
      let a1 = f64x2.splat(0)
      let a2 = f64x2.splat(0)
      let b0 = f64x2.splat(0)
      let b1 = f64x2.splat(0)
      let b2 = f64x2.splat(0)
      for (let at = k0; at < kEnd; at += 8) {
        const u = v128.load64_splat(at)
        const v = v128.load64_splat(at + rowBytes)
        let w = v128.load(q)
        a0 = f64x2.add(a0, f64x2.mul(w, u))
        b0 = f64x2.add(b0, f64x2.mul(w, v))
        w = v128.load(q, 16)
        a1 = f64x2.add(a1, f64x2.mul(w, u))
        b1 = f64x2.add(b1, f64x2.mul(w, v))
        w = v128.load(q, 32)
        a2 = f64x2.add(a2, f64x2.mul(w, u))
        b2 = f64x2.add(b2, f64x2.mul(w, v))
        q += widthBytes
      }
      v128.store(o0 + i, a0)
      v128.store(o0 + i, a1, 16)
      v128.store(o0 + i, a2, 32)
      v128.store(o1 + i, b0)
      v128.store(o1 + i, b1, 16)
      v128.store(o1 + i, b2, 32)
    }
    for (; i < widthBytes; i += 16) {
      let q = p + i
      let a = f64x2.splat(0)
      let b = f64x2.splat(0)
      for (let at = k0; at < kEnd; at += 8) {
        const w = v128.load(q)
        a = f64x2.add(a, f64x2.mul(w, v128.load64_splat(at)))
        b = f64x2.add(b, f64x2.mul(w, v128.load64_splat(at + rowBytes)))
        q += widthBytes
      }
      v128.store(o0 + i, a)
      v128.store(o1 + i, b)
    }
  }
  for (; r < rows; r++) {
    const k0 = k + usize(r) * rowBytes
    const o0 = out + usize(r) * widthBytes
    let i: usize = 0
    for (; i + 48 <= widthBytes; i += 48) {
      let q = p + i
      let a = f64x2.splat(0)
      let b = f64x2.splat(0)
      let c = f64x2.splat(0)
      for (let j: usize = 0; j < kBytes; j += 8) {
        const v = v128.load64_splat(k0 + j)
        a = f64x2.add(a, f64x2.mul(v128.load(q), v))
        b = f64x2.add(b, f64x2.mul(v128.load(q, 16), v))
        c = f64x2.add(c, f64x2.mul(v128.load(q, 32), v))
        q += widthBytes
      }
      v128.store(o0 + i, a)
      v128.store(o0 + i, b, 16)
      v128.store(o0 + i, c, 32)
    }
    for (; i < widthBytes; i += 16) {
      let q = p + i
      let a = f64x2.splat(0)
      for (let j: usize = 0; j < kBytes; j += 8) {
        a = f64x2.add(a, f64x2.mul(v128.load(q), v128.load64_splat(k0 + j)))
        q += widthBytes
      }
      v128.store(o0 + i, a)
    }
  }
}

/** sums[4r + l] += Σ k[r, j] · weights[j] over the j ≡ l (mod 4) below count, a multiple of 4. */
export function weightedSumsF64(
  k: usize,
  rows: i32,
  stride: i32,
  weights: usize,
  count: i32,
  sums: usize,
): void {
  const countBytes: usize = usize(count) << 3
  for (let r = 0; r < rows; r++) {
    const k0 = k + ((usize(r) * usize(stride)) << 3)
    const s = sums + (usize(r) << 5)
    let a = v128.load(s)
    let b = v128.load(s, 16)
    for (let j: usize = 0; j < countBytes; j += 32) {
      a = f64x2.add(a, f64x2.mul(v128.load(k0 + j), v128.load(weights + j)))
      b = f64x2.add(b, f64x2.mul(v128.load(k0 + j, 16), v128.load(weights + j, 16)))
    }
    v128.store(s, a)
    v128.store(s, b, 16)
  }
}

/** out[r] = weights[j] · values[r, j], j the first of the smallest of row r's `count` values; none is NaN. */
export function nearestF64(
  values: usize,
  rows: i32,
  stride: i32,
  count: i32,
  weights: usize,
  out: usize,
): void {
  const countBytes: usize = usize(count) << 3
  const evenBytes: usize = countBytes & ~31
  for (let r = 0; r < rows; r++) {
    const row = values + ((usize(r) * usize(stride)) << 3)
    let a = f64x2.splat(Infinity)
    let b = f64x2.splat(Infinity)
    let j: usize = 0
    for (; j < evenBytes; j += 32) {
      a = f64x2.pmin(a, v128.load(row + j))
      b = f64x2.pmin(b, v128.load(row + j, 16))
    }
    a = f64x2.pmin(a, b)
    let smallest = min(f64x2.extract_lane(a, 0), f64x2.extract_lane(a, 1))
    for (; j < countBytes; j += 8) smallest = min(smallest, load<f64>(row + j))
    j = 0
    while (j + 8 < countBytes && load<f64>(row + j) !== smallest) j += 8
    store<f64>(out + (usize(r) << 3), load<f64>(weights + j) * smallest)
  }
}

/**
 * As `nearestF64`, in float64 throughout, when the distances are there in float32 alone: those that can be the
 * smallest are computed again. x has rows of float64, `panels` the float32 rows that `values` are distances to.
 *
 * A float32 distance is off by the rounding of x, at most 2^-24·‖x‖, and by that of its sum, a share of
 * (dimension + 2)·2^-24 of the square; so the nearest row's is at most (√smallest + 2^-23·‖x‖)·(1 + that share).
 * The bound is drawn a little wider, and by what underflows. Rows of `values` have whole panels.
 */
export function nearestF32(
  values: usize,
  rows: i32,
  stride: i32,
  count: i32,
  x: usize,
  panels: usize,
  dimension: i32,
  weights: usize,
  out: usize,
): void {
  const countBytes: usize = usize(count) << 2
  const evenBytes: usize = countBytes & ~31
  const xBytes: usize = usize(dimension) << 3
  const share: f64 = 1 + f64(dimension + 4) * 1.1920928955078125e-7
  for (let r = 0; r < rows; r++) {
    const row = values + ((usize(r) * usize(stride)) << 2)
    const x0 = x + usize(r) * xBytes
    let a = f32x4.splat(Infinity)
    let b = f32x4.splat(Infinity)
    let j: usize = 0
    for (; j < evenBytes; j += 32) {
      a = f32x4.pmin(a, v128.load(row + j))
      b = f32x4.pmin(b, v128.load(row + j, 16))
    }
    a = f32x4.pmin(a, b)
    let smallest = min(
      min(f32x4.extract_lane(a, 0), f32x4.extract_lane(a, 1)),
      min(f32x4.extract_lane(a, 2), f32x4.extract_lane(a, 3)),
    )
    for (; j < countBytes; j += 4) smallest = min(smallest, load<f32>(row + j))
    // only for the bound: the order of its terms does not matter
    let squares = f64x2.splat(0)
    let t: usize = 0
    for (; t + 16 <= xBytes; t += 16) {
      const v = v128.load(x0 + t)
      squares = f64x2.add(squares, f64x2.mul(v, v))
    }
    let norm = f64x2.extract_lane(squares, 0) + f64x2.extract_lane(squares, 1)
    if (t < xBytes) norm += load<f64>(x0 + t) * load<f64>(x0 + t)
    const reach = (sqrt(f64(smallest)) + sqrt(norm) * 2.384185791015625e-7 + 1e-18) * share
    const bound = f32(reach * reach * 1.000001)
    const bounds = f32x4.splat(bound)
    let found: usize = 0
    let nearest: f64 = Infinity
    for (j = 0; j < countBytes; j += 16) {
      let within = i32x4.bitmask(f32x4.le(v128.load(row + j), bounds))
      for (; within !== 0; within &= within - 1) {
        const element = j + (usize(ctz(within)) << 2)
        if (element >= countBytes) break
        // lane element / 4 mod 8 of panel element / 32
        let at = panels + (((element >> 5) * xBytes) << 2) + (element & 31)
        let sum: f64 = 0
        for (t = 0; t < xBytes; t += 8) {
          const difference = load<f64>(x0 + t) - f64(load<f32>(at))
          sum += difference * difference
          at += 32
        }
        if (sum < nearest) {
          nearest = sum
          found = element
        }
      }
    }
    store<f64>(out + (usize(r) << 3), load<f64>(weights + (found << 1)) * nearest)
  }
}

/** values[j] = values[j] rounded to float32, for j < count, a multiple of 2. */
export function roundToF32(values: usize, count: i32): void {
  const end = values + (usize(count) << 3)
  for (let at = values; at < end; at += 16) {
    v128.store(at, f64x2.promote_low_f32x4(f32x4.demote_f64x2_zero(v128.load(at))))
  }
}
