/**
 * Every SIMD kernel against the typed-array kernel that it stands in for: the same bits, for every shape, with
 * distances that overflow and exponentials that underflow; and the memory that programs share.
 */
import { log } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  expScaledFloat32,
  gaussianKernelRows,
  gaussianKernelRowsFloat32,
  type KernelMemory,
  logSumExp,
  MAXIMUM_BYTES,
  MemoryLayout,
  matrixTimesVector,
  nearestOfRows,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  packRowsFloat32,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  squaredDistances,
  toFloat32,
} from '../../src/index.js'

/** Numbers of every size: exact, tiny, huge, equal. */
const number = fc.oneof(
  fc.double({ min: -10, max: 10, noNaN: true }),
  fc.constantFrom(0, -0, 1, 1500, 1e-170, -1e-170, 1e160, Number.MAX_VALUE, -Number.MAX_VALUE),
  fc.integer({ min: -3, max: 3 }),
)
const numbers = (length: number) =>
  fc.array(number, { minLength: length, maxLength: length }).map((values) => Float64Array.from(values))

const shape = fc.record({
  rows: fc.integer({ min: 1, max: 9 }),
  m: fc.integer({ min: 1, max: 19 }),
  dimension: fc.integer({ min: 1, max: 7 }),
})
const blocks = shape.chain(({ rows, m, dimension }) =>
  fc.record({
    rows: fc.constant(rows),
    m: fc.constant(m),
    dimension: fc.constant(dimension),
    x: numbers(rows * dimension),
    y: numbers(m * dimension),
    weights: numbers(m).map((values) => values.map((v) => 1 + Math.min(1e300, Math.abs(v)))),
    factor: fc.constantFrom(-1, -0.003, -1e-300, -1e300, -17.5),
  }),
)

const kernels = simdKernels() as SimdKernels

/** Runs with `bytes` of memory that belong to this call alone. */
function withMemory(bytes: number, use: (memory: KernelMemory) => void): void {
  const memory = kernels.enter({ bytes, load: ({ f64 }) => f64.fill(0.123, 128, bytes / 8) })
  expect(memory).not.toBeNull()
  use(memory!)
}

const sameBits = (found: ArrayLike<number>, expected: ArrayLike<number>) => {
  expect(found.length).toBe(expected.length)
  for (let i = 0; i < found.length; i++) {
    if (!Object.is(found[i], expected[i])) expect(found[i], `number ${i}`).toBe(expected[i])
  }
}

describe('SIMD kernels', () => {
  it('are there, in this Node', () => {
    expect(kernels).not.toBeNull()
    expect(simdKernels()).toBe(kernels)
  })

  it('give the kernel rows and nearest distances of the typed arrays, in float64', () => {
    fc.assert(
      fc.property(blocks, ({ rows, m, dimension, x, y, weights, factor }) => {
        const panels = panelCount(m, PANEL_LANES_F64)
        const stride = panels * PANEL_LANES_F64
        const expected = new Float64Array(rows * m)
        const values = new Float64Array(rows)
        gaussianKernelRows(x, 0, rows, y, 0, m, dimension, factor, expected, { weights, values })
        const layout = new MemoryLayout()
        const xAt = layout.float64(x.length)
        const yAt = layout.float64(stride * dimension)
        const weightsAt = layout.float64(m)
        const nearestAt = layout.float64(rows)
        const outAt = layout.float64(rows * stride)
        withMemory(layout.bytes, ({ f64 }) => {
          packRows(x, 0, rows, dimension, f64, xAt / 8)
          f64.set(weights, weightsAt / 8)
          packPanels(y, 0, m, dimension, PANEL_LANES_F64, f64, yAt / 8)
          kernels.run.squaredDistancesF64(xAt, rows, yAt, panels, dimension, outAt, stride)
          const distances = new Float64Array(m)
          for (let r = 0; r < rows; r++) {
            squaredDistances(x, r * dimension, y, 0, m, dimension, distances, 0)
            sameBits(f64.slice(outAt / 8 + r * stride, outAt / 8 + r * stride + m), distances)
          }
          kernels.run.nearestF64(outAt, rows, stride, m, weightsAt, nearestAt)
          sameBits(f64.slice(nearestAt / 8, nearestAt / 8 + rows), values)
          kernels.run.expScaledF64(outAt, rows * stride, factor)
          for (let r = 0; r < rows; r++) {
            const row = f64.slice(outAt / 8 + r * stride, outAt / 8 + r * stride + m)
            sameBits(row, expected.subarray(r * m, (r + 1) * m))
          }
        })
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('give the kernel rows and nearest distances of the typed arrays, in float32', () => {
    fc.assert(
      fc.property(blocks, ({ rows, m, dimension, x, y, weights, factor: asked }) => {
        const factor = Math.fround(Math.max(-1e30, Math.min(-1e-30, asked)))
        const x32 = Float32Array.from(x, toFloat32)
        const y32 = Float32Array.from(y, toFloat32)
        const panels = panelCount(m, PANEL_LANES_F32)
        const stride = panels * PANEL_LANES_F32
        const expected = new Float64Array(rows * m)
        const values = new Float64Array(rows)
        const scratch = new Float32Array(m)
        gaussianKernelRowsFloat32(x32, rows, y32, 0, m, dimension, factor, scratch, expected)
        const squares = new Float64Array(rows * m)
        for (let r = 0; r < rows; r++) {
          squaredDistances(x, r * dimension, Float64Array.from(y32), 0, m, dimension, squares, r * m)
        }
        nearestOfRows(squares, rows, m, { weights, values })
        const layout = new MemoryLayout()
        const xAt = layout.float32(x.length)
        const exactAt = layout.float64(x.length)
        const yAt = layout.float32(stride * dimension)
        const weightsAt = layout.float64(m)
        const nearestAt = layout.float64(rows)
        const distancesAt = layout.float32(rows * stride)
        const outAt = layout.float64(rows * stride)
        withMemory(layout.bytes, ({ f64, f32 }) => {
          packRowsFloat32(x, 0, rows, dimension, f32, xAt / 4)
          f64.set(weights, weightsAt / 8)
          packPanels(Float64Array.from(y32), 0, m, dimension, PANEL_LANES_F32, f32, yAt / 4)
          kernels.run.squaredDistancesF32(xAt, rows, yAt, panels, dimension, distancesAt, stride)
          f64.set(x, exactAt / 8)
          kernels.run.nearestF32(distancesAt, rows, stride, m, exactAt, yAt, dimension, weightsAt, nearestAt)
          kernels.run.expScaledF32(distancesAt, rows * stride, factor, outAt)
          sameBits(f64.slice(nearestAt / 8, nearestAt / 8 + rows), values)
          for (let r = 0; r < rows; r++) {
            const row = f64.slice(outAt / 8 + r * stride, outAt / 8 + r * stride + m)
            sameBits(row, expected.subarray(r * m, (r + 1) * m))
          }
        })
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('take exponentials as the typed arrays do, through all that a float can hold', () => {
    const squares: number[] = [0, Number.MIN_VALUE, Number.POSITIVE_INFINITY]
    for (let v = 1e-12; v < 2000; v *= 1.0013) squares.push(v)
    for (let v = 707; v < 747; v += 0.0097) squares.push(v)
    while (squares.length % 4 > 0) squares.push(0)
    const count = squares.length
    const typed = Float64Array.from(squares)
    gaussianKernelRows(
      new Float64Array(1),
      0,
      1,
      Float64Array.from(squares, Math.sqrt),
      0,
      count,
      1,
      -1,
      typed,
    )
    const exact = Float64Array.from(squares, (v) => Math.sqrt(v) * Math.sqrt(v))
    const layout = new MemoryLayout()
    const at = layout.float64(count)
    const singleAt = layout.float32(count)
    const outAt = layout.float64(count)
    withMemory(layout.bytes, ({ f64, f32 }) => {
      f64.set(exact, at / 8)
      kernels.run.expScaledF64(at, count, -1)
      sameBits(f64.slice(at / 8, at / 8 + count), typed)
      f32.set(squares, singleAt / 4)
      kernels.run.expScaledF32(singleAt, count, -1, outAt)
      sameBits(
        f64.slice(outAt / 8, outAt / 8 + count),
        squares.map((v) => expScaledFloat32(Math.fround(v), -1)),
      )
      f64.set(exact, at / 8)
      kernels.run.roundToF32(at, count)
      sameBits(f64.slice(at / 8, at / 8 + count), Float32Array.from(exact))
    })
  })

  it('sum as the typed arrays do: projections, weighted sums, log-sum-exp', () => {
    const cases = fc
      .record({
        rows: fc.integer({ min: 1, max: 9 }),
        m: fc.integer({ min: 1, max: 13 }),
        d: fc.integer({ min: 1, max: 9 }),
      })
      .chain((c) => fc.record({ ...wrap(c), k: numbers(c.rows * c.m), p: numbers(c.d * c.m) }))
    fc.assert(
      fc.property(cases, ({ rows, m, d, k, p }) => {
        const width = d + (d & 1)
        const padded = 4 * Math.ceil(m / 4)
        const layout = new MemoryLayout()
        const kAt = layout.float64(rows * padded)
        const pAt = layout.float64(m * width)
        const outAt = layout.float64(rows * width)
        const weightsAt = layout.float64(padded)
        const sumsAt = layout.float64(4 * rows)
        const largestAt = layout.float64(rows)
        const endsAt = layout.float32(rows)
        withMemory(layout.bytes, ({ f64 }) => {
          const put = (fill: number) => {
            for (let r = 0; r < rows; r++) {
              for (let j = 0; j < padded; j++) f64[kAt / 8 + r * padded + j] = j < m ? k[r * m + j]! : fill
            }
          }
          put(0)
          for (let j = 0; j < m; j++) {
            for (let i = 0; i < width; i++) f64[pAt / 8 + j * width + i] = i < d ? p[i * m + j]! : 0
            f64[weightsAt / 8 + j] = p[j]!
          }
          f64.fill(0, weightsAt / 8 + m, weightsAt / 8 + padded)
          kernels.run.projectF64(kAt, rows, padded, pAt, m, width, outAt)
          f64.fill(0, sumsAt / 8, sumsAt / 8 + 4 * rows)
          kernels.run.weightedSumsF64(kAt, rows, padded, weightsAt, padded, sumsAt)
          for (let r = 0; r < rows; r++) {
            const projected = new Float64Array(d)
            matrixTimesVector(p, d, m, k, r * m, projected, 0)
            sameBits(f64.slice(outAt / 8 + r * width, outAt / 8 + r * width + d), projected)
            const sums = [0, 0, 0, 0]
            for (let j = 0; j < m; j++) sums[j % 4]! += k[r * m + j]! * p[j]!
            sameBits(f64.slice(sumsAt / 8 + 4 * r, sumsAt / 8 + 4 * r + 4), sums)
          }
          put(Number.NEGATIVE_INFINITY)
          const kept = kernels.run.keepTermsF64(kAt, rows, padded, m, largestAt, endsAt)
          kernels.run.expScaledF64(kAt, 4 * Math.ceil(kept / 4), 1)
          kernels.run.sumTermsF64(kAt, rows, endsAt, sumsAt)
          for (let r = 0; r < rows; r++) {
            const found = f64[largestAt / 8 + r]! + log(f64[sumsAt / 8 + r]!)
            sameBits([found], [logSumExp(k, r * m, m)])
          }
        })
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('load a program’s constants when another was there in between, and only then', () => {
    let loads = 0
    const program: SimdProgram = {
      bytes: 4096,
      load({ f64 }) {
        loads++
        f64[200] = 42
      },
    }
    const other: SimdProgram = { bytes: 4096, load: ({ f64 }) => f64.fill(7, 128, 512) }
    for (let turn = 1; turn <= 3; turn++) {
      expect(kernels.enter(program)?.f64[200]).toBe(42)
      expect(kernels.enter(program)?.f64[200]).toBe(42)
      expect(loads).toBe(turn)
      expect(kernels.enter(other)?.f64[200]).toBe(7)
    }
  })

  it('grow the memory with what is in use, up to a bound beyond which there is none', () => {
    const small: SimdProgram = { bytes: 2048, load: ({ f64 }) => f64.fill(1, 128, 256) }
    kernels.enter(small)
    const bytes = 5 * 1024 * 1024
    expect(kernels.enter({ bytes, load: () => {} })?.f64.length).toBeGreaterThanOrEqual(bytes / 8)
    expect(kernels.enter({ bytes: MAXIMUM_BYTES + 1, load: () => expect.unreachable() })).toBeNull()
    expect(kernels.enter(small)?.f64[128]).toBe(1)
  })
})

function wrap<T extends object>(record: T): { [K in keyof T]: fc.Arbitrary<T[K]> } {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, fc.constant(value)])) as {
    [K in keyof T]: fc.Arbitrary<T[K]>
  }
}
