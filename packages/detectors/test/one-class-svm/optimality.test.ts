/**
 * Optimality on random small data: against the conditions of Karush, Kuhn and Tucker on a gram matrix made
 * here, and against a slow solver made here (projected gradient, accelerated), never against our own figures.
 */
import { type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fitOneClassSvm, type SvmKernel } from '../../src/one-class-svm/fit.js'
import { clusteredRows } from '../rows.js'

interface Problem {
  rows: Matrix
  nu: number
  kernel: SvmKernel
}

/** Coordinates on a coarse grid, so that repeated rows and ties are common. */
const problems: fc.Arbitrary<Problem> = fc
  .record({ n: fc.integer({ min: 1, max: 14 }), cols: fc.integer({ min: 1, max: 3 }) })
  .chain(({ n, cols }) =>
    fc.record({
      rows: fc
        .array(fc.integer({ min: -4, max: 4 }), { minLength: n * cols, maxLength: n * cols })
        .map((values) =>
          matrixOf(
            n,
            cols,
            Float64Array.from(values, (v) => v / 2),
          ),
        ),
      nu: fc.oneof(fc.constant(1), fc.constant(1 / n), fc.double({ min: 0.01, max: 1, noNaN: true })),
      kernel: fc.oneof(
        fc
          .double({ min: 0.1, max: 10, noNaN: true })
          .map((bandwidth): SvmKernel => ({ kind: 'rbf', bandwidth })),
        fc.constant<SvmKernel>({ kind: 'linear' }),
      ),
    }),
  )

describe('One-class SVM: optimality', () => {
  it('satisfies the conditions, and no other feasible point found is better', () => {
    fc.assert(
      fc.property(problems, fc.boolean(), fc.boolean(), ({ rows, nu, kernel }, shrinking, roomy) => {
        const tolerance = 1e-9
        const { dualCoefficients, supportVectors, offset, report } = fitOneClassSvm(rows, {
          kernel,
          nu,
          tolerance,
          shrinking,
          precision: 'float64',
          cacheBytes: roomy ? 1e6 : 0,
        })
        const n = rows.rows
        expect(report.converged).toBe(true)
        expect(Math.abs(dualCoefficients.reduce((a, b) => a + b, 0) - nu * n)).toBeLessThan(1e-9)
        for (const a of dualCoefficients) expect(a > 0 && a <= 1).toBe(true)
        const alpha = spread(rows, supportVectors, dualCoefficients)
        const k = gram(rows, kernel)
        const g = times(k, alpha)
        const scale = Math.max(1, ...k.map((row, i) => row[i]!)) * n
        // f(x_i) = g_i − ρ is ≤ 0 where α = 1, ≥ 0 where α = 0, 0 between. Equal rows share their coefficients
        // in `spread`; equal rows have equal g, so only what their sum allows is asked.
        alpha.forEach((a, i) => {
          const f = g[i]! - offset
          if (a > 1e-9) expect(f).toBeLessThan(1e-7 * scale)
          if (a < 1 - 1e-9) expect(f).toBeGreaterThan(-1e-7 * scale)
        })
        const reference = objective(k, projectedGradient(k, nu * n))
        expect(Math.abs(report.objective - objective(k, alpha))).toBeLessThan(1e-9 * scale * n)
        expect(report.objective).toBeLessThanOrEqual(reference + 1e-8 * scale * n)
        expect(report.objective).toBeGreaterThanOrEqual(reference - 1e-4 * scale * n)
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('comes to the same solution with rows left out, whatever the memory', () => {
    const rows = clusteredRows(900, 4)
    const options = { kernel: { kind: 'rbf', bandwidth: 1 } as const, nu: 0.2, tolerance: 1e-8 }
    for (const precision of ['float64', 'float32'] as const) {
      const whole = fitOneClassSvm(rows, { ...options, precision, shrinking: false })
      for (const cacheBytes of [1e9, 1e6, 1e5, 0]) {
        const model = fitOneClassSvm(rows, { ...options, precision, cacheBytes })
        expect(model.report.shrinkings).toBeGreaterThan(0)
        expect(model.report.violation).toBeLessThan(1e-8)
        expect(Math.abs(model.report.objective / whole.report.objective - 1)).toBeLessThan(1e-10)
        expect(Math.abs(model.offset - whole.offset)).toBeLessThan(1e-7)
      }
    }
  })

  it('puts at most a share nu of the rows below the boundary and at least that share on or below it', () => {
    fc.assert(
      fc.property(problems, ({ rows, nu, kernel }) => {
        const { report } = fitOneClassSvm(rows, { kernel, nu, tolerance: 1e-9, precision: 'float64' })
        expect(report.boundSupportVectors).toBeLessThanOrEqual(nu * rows.rows + 1e-9)
        expect(report.supportVectors).toBeGreaterThanOrEqual(nu * rows.rows - 1e-9)
      }),
    )
  })
})

function gram({ rows, cols, data }: Matrix, kernel: SvmKernel): number[][] {
  return Array.from({ length: rows }, (_, i) =>
    Array.from({ length: rows }, (_, j) => {
      let dot = 0
      let distance = 0
      for (let t = 0; t < cols; t++) {
        const a = data[i * cols + t]!
        const b = data[j * cols + t]!
        dot += a * b
        distance += (a - b) ** 2
      }
      return kernel.kind === 'linear' ? dot : Math.exp(-distance / kernel.bandwidth ** 2)
    }),
  )
}

const times = (k: number[][], v: number[]) => k.map((row) => row.reduce((s, x, j) => s + x * v[j]!, 0))
const objective = (k: number[][], v: number[]) => times(k, v).reduce((s, g, i) => s + g * v[i]!, 0) / 2

/** Coefficients of all rows: each support vector goes to the next row that equals it. */
function spread(rows: Matrix, vectors: Matrix, coefficients: Float64Array): number[] {
  const { cols } = rows
  const alpha = new Array<number>(rows.rows).fill(0)
  const same = (i: number, s: number) => {
    for (let t = 0; t < cols; t++) if (rows.data[i * cols + t] !== vectors.data[s * cols + t]) return false
    return true
  }
  for (let s = 0, i = 0; s < vectors.rows; s++, i++) {
    while (!same(i, s)) i++
    alpha[i] = coefficients[s]!
  }
  return alpha
}

/** Minimises ½αᵀKα over 0 ≤ α ≤ 1, Σα = total, by Nesterov's accelerated projected gradient. */
function projectedGradient(k: number[][], total: number): number[] {
  const n = k.length
  const lipschitz = k.reduce((s, row, i) => s + row[i]!, 0) || 1
  let alpha = new Array<number>(n).fill(total / n)
  let ahead = alpha
  let best = alpha
  for (let t = 1; t <= 400; t++) {
    const g = times(k, ahead)
    const next = project(
      ahead.map((a, i) => a - g[i]! / lipschitz),
      total,
    )
    ahead = next.map((a, i) => a + ((t - 1) / (t + 2)) * (a - alpha[i]!))
    alpha = next
    if (objective(k, next) < objective(k, best)) best = next
  }
  return best
}

/** The nearest point with 0 ≤ α ≤ 1 and Σα = total: a shift, found by bisection. */
function project(v: number[], total: number): number[] {
  let low = Math.min(...v) - 1
  let high = Math.max(...v)
  const at = (shift: number) => v.map((x) => Math.min(1, Math.max(0, x - shift)))
  for (let t = 0; t < 60; t++) {
    const middle = (low + high) / 2
    if (at(middle).reduce((a, b) => a + b, 0) > total) low = middle
    else high = middle
  }
  return at(high)
}
