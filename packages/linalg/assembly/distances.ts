/**
 * Squared Euclidean distances from rows of X to panels of Y, one pair a lane.
 *
 * A panel is a few rows of Y laid side by side, column after column (four of float64, eight of float32: two
 * vectors), so a vector holds one column of several rows and each lane adds up its own pair, Σ_t (x_t − y_t)²
 * with t ascending: the order of the typed-array kernels, hence their bits. Four rows of X at a time share what
 * is loaded of Y; what is left goes one by one, over two panels at a time so that enough additions are in flight.
 *
 * Pointers are bytes. X is row-major, `dimension` wide; row r of the result starts at out + r · stride elements
 * and has all lanes of all panels.
 */

export function squaredDistancesF64(
  x: usize,
  rows: i32,
  y: usize,
  panels: i32,
  dimension: i32,
  out: usize,
  stride: i32,
): void {
  const rowBytes: usize = usize(dimension) << 3
  const outBytes: usize = usize(stride) << 3
  let r = 0
  for (; r + 4 <= rows; r += 4) {
    const x0 = x + usize(r) * rowBytes
    const x1 = x0 + rowBytes
    const x2 = x1 + rowBytes
    const x3 = x2 + rowBytes
    let o0 = out + usize(r) * outBytes
    let p = y
    for (let panel = 0; panel < panels; panel++) {
      let a0 = f64x2.splat(0)
      let a1 = f64x2.splat(0)
      let b0 = f64x2.splat(0)
      let b1 = f64x2.splat(0)
      let c0 = f64x2.splat(0)
      let c1 = f64x2.splat(0)
      let e0 = f64x2.splat(0)
      let e1 = f64x2.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 8) {
        const u = v128.load(p)
        const w = v128.load(p, 16)
        p += 32
        let v = v128.load64_splat(x0 + t)
        let d = f64x2.sub(v, u)
        a0 = f64x2.add(a0, f64x2.mul(d, d))
        d = f64x2.sub(v, w)
        a1 = f64x2.add(a1, f64x2.mul(d, d))
        v = v128.load64_splat(x1 + t)
        d = f64x2.sub(v, u)
        b0 = f64x2.add(b0, f64x2.mul(d, d))
        d = f64x2.sub(v, w)
        b1 = f64x2.add(b1, f64x2.mul(d, d))
        v = v128.load64_splat(x2 + t)
        d = f64x2.sub(v, u)
        c0 = f64x2.add(c0, f64x2.mul(d, d))
        d = f64x2.sub(v, w)
        c1 = f64x2.add(c1, f64x2.mul(d, d))
        v = v128.load64_splat(x3 + t)
        d = f64x2.sub(v, u)
        e0 = f64x2.add(e0, f64x2.mul(d, d))
        d = f64x2.sub(v, w)
        e1 = f64x2.add(e1, f64x2.mul(d, d))
      }
      const o1 = o0 + outBytes
      const o2 = o1 + outBytes
      const o3 = o2 + outBytes
      v128.store(o0, a0)
      v128.store(o0, a1, 16)
      v128.store(o1, b0)
      v128.store(o1, b1, 16)
      v128.store(o2, c0)
      v128.store(o2, c1, 16)
      v128.store(o3, e0)
      v128.store(o3, e1, 16)
      o0 += 32
    }
  }
  const panelBytes: usize = rowBytes << 2
  for (; r < rows; r++) {
    const x0 = x + usize(r) * rowBytes
    let o = out + usize(r) * outBytes
    let p = y
    let panel = 0
    for (; panel + 2 <= panels; panel += 2) {
      let q = p + panelBytes
      let a0 = f64x2.splat(0)
      let a1 = f64x2.splat(0)
      let b0 = f64x2.splat(0)
      let b1 = f64x2.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 8) {
        const v = v128.load64_splat(x0 + t)
        let d = f64x2.sub(v, v128.load(p))
        a0 = f64x2.add(a0, f64x2.mul(d, d))
        d = f64x2.sub(v, v128.load(p, 16))
        a1 = f64x2.add(a1, f64x2.mul(d, d))
        d = f64x2.sub(v, v128.load(q))
        b0 = f64x2.add(b0, f64x2.mul(d, d))
        d = f64x2.sub(v, v128.load(q, 16))
        b1 = f64x2.add(b1, f64x2.mul(d, d))
        p += 32
        q += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
      v128.store(o, b0, 32)
      v128.store(o, b1, 48)
      o += 64
      p = q
    }
    if (panel < panels) {
      let a0 = f64x2.splat(0)
      let a1 = f64x2.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 8) {
        const v = v128.load64_splat(x0 + t)
        let d = f64x2.sub(v, v128.load(p))
        a0 = f64x2.add(a0, f64x2.mul(d, d))
        d = f64x2.sub(v, v128.load(p, 16))
        a1 = f64x2.add(a1, f64x2.mul(d, d))
        p += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
    }
  }
}

export function squaredDistancesF32(
  x: usize,
  rows: i32,
  y: usize,
  panels: i32,
  dimension: i32,
  out: usize,
  stride: i32,
): void {
  const rowBytes: usize = usize(dimension) << 2
  const outBytes: usize = usize(stride) << 2
  let r = 0
  for (; r + 4 <= rows; r += 4) {
    const x0 = x + usize(r) * rowBytes
    const x1 = x0 + rowBytes
    const x2 = x1 + rowBytes
    const x3 = x2 + rowBytes
    let o0 = out + usize(r) * outBytes
    let p = y
    for (let panel = 0; panel < panels; panel++) {
      let a0 = f32x4.splat(0)
      let a1 = f32x4.splat(0)
      let b0 = f32x4.splat(0)
      let b1 = f32x4.splat(0)
      let c0 = f32x4.splat(0)
      let c1 = f32x4.splat(0)
      let e0 = f32x4.splat(0)
      let e1 = f32x4.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 4) {
        const u = v128.load(p)
        const w = v128.load(p, 16)
        p += 32
        let v = v128.load32_splat(x0 + t)
        let d = f32x4.sub(v, u)
        a0 = f32x4.add(a0, f32x4.mul(d, d))
        d = f32x4.sub(v, w)
        a1 = f32x4.add(a1, f32x4.mul(d, d))
        v = v128.load32_splat(x1 + t)
        d = f32x4.sub(v, u)
        b0 = f32x4.add(b0, f32x4.mul(d, d))
        d = f32x4.sub(v, w)
        b1 = f32x4.add(b1, f32x4.mul(d, d))
        v = v128.load32_splat(x2 + t)
        d = f32x4.sub(v, u)
        c0 = f32x4.add(c0, f32x4.mul(d, d))
        d = f32x4.sub(v, w)
        c1 = f32x4.add(c1, f32x4.mul(d, d))
        v = v128.load32_splat(x3 + t)
        d = f32x4.sub(v, u)
        e0 = f32x4.add(e0, f32x4.mul(d, d))
        d = f32x4.sub(v, w)
        e1 = f32x4.add(e1, f32x4.mul(d, d))
      }
      const o1 = o0 + outBytes
      const o2 = o1 + outBytes
      const o3 = o2 + outBytes
      v128.store(o0, a0)
      v128.store(o0, a1, 16)
      v128.store(o1, b0)
      v128.store(o1, b1, 16)
      v128.store(o2, c0)
      v128.store(o2, c1, 16)
      v128.store(o3, e0)
      v128.store(o3, e1, 16)
      o0 += 32
    }
  }
  const panelBytes: usize = rowBytes << 3
  for (; r < rows; r++) {
    const x0 = x + usize(r) * rowBytes
    let o = out + usize(r) * outBytes
    let p = y
    let panel = 0
    for (; panel + 2 <= panels; panel += 2) {
      let q = p + panelBytes
      let a0 = f32x4.splat(0)
      let a1 = f32x4.splat(0)
      let b0 = f32x4.splat(0)
      let b1 = f32x4.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 4) {
        const v = v128.load32_splat(x0 + t)
        let d = f32x4.sub(v, v128.load(p))
        a0 = f32x4.add(a0, f32x4.mul(d, d))
        d = f32x4.sub(v, v128.load(p, 16))
        a1 = f32x4.add(a1, f32x4.mul(d, d))
        d = f32x4.sub(v, v128.load(q))
        b0 = f32x4.add(b0, f32x4.mul(d, d))
        d = f32x4.sub(v, v128.load(q, 16))
        b1 = f32x4.add(b1, f32x4.mul(d, d))
        p += 32
        q += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
      v128.store(o, b0, 32)
      v128.store(o, b1, 48)
      o += 64
      p = q
    }
    if (panel < panels) {
      let a0 = f32x4.splat(0)
      let a1 = f32x4.splat(0)
      for (let t: usize = 0; t < rowBytes; t += 4) {
        const v = v128.load32_splat(x0 + t)
        let d = f32x4.sub(v, v128.load(p))
        a0 = f32x4.add(a0, f32x4.mul(d, d))
        d = f32x4.sub(v, v128.load(p, 16))
        a1 = f32x4.add(a1, f32x4.mul(d, d))
        p += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
    }
  }
}
