/**
 * Squared Euclidean distances from rows of X to panels of Y, one pair a lane.
 *
 * A panel is a few rows of Y laid side by side, column after column (four of float64, eight of float32: two
 * vectors), so a vector holds one column of several rows and each lane adds up its own pair, Σ_t (x_t − y_t)²
 * with t ascending: the order of the typed-array kernels, hence their bits. X comes in groups of four rows, also
 * column after column (src/simd/simd-kernels.ts), so that one pointer and constant offsets reach all that a turn of the
 * innermost loop reads; it is a group against a panel, eight sums in flight. Rows that are left stand one after the
 * other and take three panels at a time, six sums. More sums than that, or turns unrolled by hand, were slower: V8
 * unrolls by itself, and then runs out of registers.
 *
 * In float64 both are within a tenth of what two additions a cycle allow. The functions are generic in the type of
 * number; each export is one instance of them.
 *
 * Pointers are bytes. Row r of the result starts at out + r · stride elements and has all lanes of all panels.
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
  distances<f64>(x, rows, y, panels, dimension, out, stride)
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
  distances<f32>(x, rows, y, panels, dimension, out, stride)
}

function distances<T extends number>(
  x: usize,
  rows: i32,
  y: usize,
  panels: i32,
  dimension: i32,
  out: usize,
  stride: i32,
): void {
  const bytes: usize = sizeof<T>()
  const rowBytes: usize = usize(dimension) * bytes
  const outBytes: usize = usize(stride) * bytes
  let r = 0
  for (; r + 4 <= rows; r += 4) {
    const x0 = x + usize(r) * rowBytes
    const xEnd = x0 + (rowBytes << 2)
    const outEnd = out + usize(r) * outBytes + (usize(panels) << 5)
    let p = y
    for (let o = outEnd - (usize(panels) << 5); o < outEnd; o += 32) {
      let a0 = i64x2.splat(0)
      let a1 = i64x2.splat(0)
      let b0 = i64x2.splat(0)
      let b1 = i64x2.splat(0)
      let c0 = i64x2.splat(0)
      let c1 = i64x2.splat(0)
      let e0 = i64x2.splat(0)
      let e1 = i64x2.splat(0)
      for (let at = x0; at < xEnd; at += 4 * bytes) {
        const u = v128.load(p)
        const w = v128.load(p, 16)
        p += 32
        let v = v128.load_splat<T>(at)
        a0 = addSquare<T>(a0, v, u)
        a1 = addSquare<T>(a1, v, w)
        v = v128.load_splat<T>(at, sizeof<T>())
        b0 = addSquare<T>(b0, v, u)
        b1 = addSquare<T>(b1, v, w)
        v = v128.load_splat<T>(at, 2 * sizeof<T>())
        c0 = addSquare<T>(c0, v, u)
        c1 = addSquare<T>(c1, v, w)
        v = v128.load_splat<T>(at, 3 * sizeof<T>())
        e0 = addSquare<T>(e0, v, u)
        e1 = addSquare<T>(e1, v, w)
      }
      const o1 = o + outBytes
      const o2 = o1 + outBytes
      const o3 = o2 + outBytes
      v128.store(o, a0)
      v128.store(o, a1, 16)
      v128.store(o1, b0)
      v128.store(o1, b1, 16)
      v128.store(o2, c0)
      v128.store(o2, c1, 16)
      v128.store(o3, e0)
      v128.store(o3, e1, 16)
    }
  }
  const panelBytes = rowBytes * (32 / bytes)
  for (; r < rows; r++) {
    const x0 = x + usize(r) * rowBytes
    const xEnd = x0 + rowBytes
    let o = out + usize(r) * outBytes
    let p = y
    let panel = 0
    for (; panel + 3 <= panels; panel += 3) {
      let q = p + panelBytes
      let s = q + panelBytes
      let a0 = i64x2.splat(0)
      let a1 = i64x2.splat(0)
      let b0 = i64x2.splat(0)
      let b1 = i64x2.splat(0)
      let c0 = i64x2.splat(0)
      let c1 = i64x2.splat(0)
      for (let at = x0; at < xEnd; at += bytes) {
        const v = v128.load_splat<T>(at)
        a0 = addSquare<T>(a0, v, v128.load(p))
        a1 = addSquare<T>(a1, v, v128.load(p, 16))
        b0 = addSquare<T>(b0, v, v128.load(q))
        b1 = addSquare<T>(b1, v, v128.load(q, 16))
        c0 = addSquare<T>(c0, v, v128.load(s))
        c1 = addSquare<T>(c1, v, v128.load(s, 16))
        p += 32
        q += 32
        s += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
      v128.store(o, b0, 32)
      v128.store(o, b1, 48)
      v128.store(o, c0, 64)
      v128.store(o, c1, 80)
      o += 96
      p = s
    }
    for (; panel < panels; panel++) {
      let a0 = i64x2.splat(0)
      let a1 = i64x2.splat(0)
      for (let at = x0; at < xEnd; at += bytes) {
        const v = v128.load_splat<T>(at)
        a0 = addSquare<T>(a0, v, v128.load(p))
        a1 = addSquare<T>(a1, v, v128.load(p, 16))
        p += 32
      }
      v128.store(o, a0)
      v128.store(o, a1, 16)
      o += 32
    }
  }
}

function addSquare<T extends number>(sum: v128, v: v128, y: v128): v128 {
  const difference = v128.sub<T>(v, y)
  return v128.add<T>(sum, v128.mul<T>(difference, difference))
}
