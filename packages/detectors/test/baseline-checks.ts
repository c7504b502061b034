/**
 * What each baseline must do, whatever its algorithm: named checks over the functions of one of them.
 */
import { ArgumentError, createRng, DataError, type Matrix, matrixOf, type Rng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkedTrainingRows } from '../src/fit-rows.js'
import { clusteredRows, novelRows } from './rows.js'

export interface Baseline<Model, Workspace> {
  fit(rows: Matrix, rng: Rng): { readonly model: Model; readonly notes: readonly string[] }
  createWorkspace(model: Model): Workspace
  score(model: Model, rows: Matrix, out: Float64Array, workspace: Workspace): Float64Array
  check(value: unknown): Model
  /** False when nothing in the fit is random. */
  readonly random: boolean
}

const COLUMNS = 6

const fill = (n: number, f: (row: number, column: number) => number) =>
  matrixOf(
    n,
    COLUMNS,
    Float64Array.from({ length: n * COLUMNS }, (_, at) => f(Math.floor(at / COLUMNS), at % COLUMNS)),
  )

const part = (rows: Matrix, first: number, count: number) =>
  matrixOf(count, rows.cols, rows.data.slice(first * rows.cols, (first + count) * rows.cols))

/** Every path to a value below `value`, with a setter that returns a changed deep copy. */
export function mutationsOf(value: object): { path: string; set: (replacement: unknown) => unknown }[] {
  const found: { path: string; set: (replacement: unknown) => unknown }[] = []
  const walk = (at: unknown, path: string[]): void => {
    if (path.length > 0) {
      found.push({
        path: path.join('.'),
        set(replacement) {
          const copy = structuredClone(value) as Record<string, unknown>
          let holder = copy
          for (const key of path.slice(0, -1)) holder = holder[key] as Record<string, unknown>
          holder[path[path.length - 1]!] = replacement
          return copy
        },
      })
    }
    if (at !== null && typeof at === 'object' && !ArrayBuffer.isView(at)) {
      for (const [key, entry] of Object.entries(at)) walk(entry, [...path, key])
    }
  }
  walk(value, [])
  return found
}

export function describeBaseline<Model extends object, Workspace>(
  name: string,
  baseline: Baseline<Model, Workspace>,
): void {
  const train = (rows: Matrix, seed = 5) => baseline.fit(checkedTrainingRows(rows), createRng(seed)).model
  const score = (model: Model, rows: Matrix) =>
    baseline.score(model, rows, new Float64Array(rows.rows), baseline.createWorkspace(model))

  describe(`${name}, as every baseline`, () => {
    it('gives the same model for the same seed, and another for another where chance is used', () => {
      const rows = clusteredRows(400, COLUMNS)
      expect(train(rows)).toEqual(train(rows))
      if (baseline.random) expect(train(rows, 6)).not.toEqual(train(rows))
    })

    it('leaves the training rows as they were and keeps none of them', () => {
      const rows = clusteredRows(60, COLUMNS)
      const before = rows.data.slice()
      const model = train(rows)
      expect(rows.data).toEqual(before)
      const scores = score(model, clusteredRows(9, COLUMNS, 3))
      rows.data.fill(0)
      expect(score(model, clusteredRows(9, COLUMNS, 3))).toEqual(scores)
    })

    it('scores a row with the same bits in a batch of any size and at any place', () => {
      const model = train(clusteredRows(150, COLUMNS))
      const rows = matrixOf(
        42,
        COLUMNS,
        Float64Array.from([...clusteredRows(31, COLUMNS, 9).data, ...novelRows(11, COLUMNS).data]),
      )
      const whole = score(model, rows)
      for (const size of [1, 2, 3, 5, 8, 41]) {
        for (let first = 0; first + size <= rows.rows; first += size) {
          expect(score(model, part(rows, first, size))).toEqual(whole.slice(first, first + size))
        }
      }
    })

    it('remembers nothing between calls, writes no further than it should and allocates no arrays', () => {
      const model = train(clusteredRows(150, COLUMNS))
      const workspace = baseline.createWorkspace(model)
      const rows = clusteredRows(21, COLUMNS, 9)
      const out = new Float64Array(23).fill(77)
      expect(baseline.score(model, rows, out, workspace)).toBe(out)
      expect([...out.slice(21)]).toEqual([77, 77])
      const first = out.slice()
      const before = process.memoryUsage().arrayBuffers
      const novel = novelRows(20, COLUMNS)
      const held = process.memoryUsage().arrayBuffers - before
      for (let i = 0; i < 100; i++) baseline.score(model, novel, out, workspace)
      expect(process.memoryUsage().arrayBuffers).toBeLessThanOrEqual(before + held)
      baseline.score(model, rows, out, workspace)
      expect(out.slice(0, 21)).toEqual(first.slice(0, 21))
      expect(baseline.score(model, part(rows, 0, 0), out, workspace)).toBe(out)
    })

    it('scores normal rows higher than novel ones', () => {
      const model = train(clusteredRows(300, COLUMNS))
      const mean = (values: Float64Array) => values.reduce((a, b) => a + b, 0) / values.length
      expect(mean(score(model, clusteredRows(60, COLUMNS, 9)))).toBeGreaterThan(
        mean(score(model, novelRows(60, COLUMNS))),
      )
    })

    it('learns degenerate rows, finitely', () => {
      const normal = clusteredRows(60, COLUMNS)
      const degenerate = {
        'two rows': fill(2, (i, j) => i * j),
        'three rows': fill(3, (i, j) => i * j),
        'mostly equal rows': fill(50, (i) => (i < 20 ? 1 : i)),
        'two different rows, many times': fill(50, (i) => i % 2),
        'a constant column': fill(60, (i, j) => (j === 2 ? 5 : normal.data[i * COLUMNS + j]!)),
        'all columns but one constant': fill(60, (i, j) => (j === 2 ? i : 4)),
        'rows on a line': fill(60, (i, j) => i * (j + 1)),
        'one row far away': fill(60, (i, j) => (i === 0 ? 1e12 : normal.data[i * COLUMNS + j]!)),
      }
      for (const [kind, rows] of Object.entries(degenerate)) {
        const model = train(rows)
        expect(baseline.check(model), kind).toEqual(model)
        for (const probe of [rows, normal, fill(1, () => -1e9)]) {
          for (const s of score(model, probe)) expect(Number.isFinite(s), kind).toBe(true)
        }
      }
    })

    it('gives finite scores to any finite row, the largest included', () => {
      const model = train(clusteredRows(60, COLUMNS))
      const value = fc.oneof(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.constantFrom(Number.MAX_VALUE, -Number.MAX_VALUE, Number.MIN_VALUE, 0, -0),
      )
      fc.assert(
        fc.property(fc.array(value, { minLength: COLUMNS, maxLength: COLUMNS }), (row) => {
          const [s] = score(model, matrixOf(1, COLUMNS, Float64Array.from(row)))
          expect(Number.isFinite(s)).toBe(true)
        }),
        { numRuns: sampleCount(300) },
      )
    })

    it('learns any small matrix of numbers to a finite model, or throws a DataError', () => {
      const value = fc.oneof(
        fc.integer({ min: -2, max: 2 }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.constantFrom(Number.MAX_VALUE, -Number.MAX_VALUE, 1e-300),
      )
      const matrices = fc
        .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 4 }))
        .chain(([n, cols]) =>
          fc
            .array(value, { minLength: n * cols, maxLength: n * cols })
            .map((data) => matrixOf(n, cols, Float64Array.from(data))),
        )
      fc.assert(
        fc.property(matrices, fc.nat(), (rows, seed) => {
          let model: Model
          try {
            model = train(rows, seed)
          } catch (error) {
            expect(error).toBeInstanceOf(DataError)
            return
          }
          expect(baseline.check(model)).toEqual(model)
          for (const s of score(model, rows)) expect(Number.isFinite(s)).toBe(true)
        }),
        { numRuns: sampleCount(500) },
      )
    })

    it('comes back from structuredClone as it was', () => {
      const model = train(clusteredRows(60, COLUMNS))
      const copy = structuredClone(model)
      expect(copy).toEqual(model)
      const rows = clusteredRows(20, COLUMNS, 9)
      expect(score(copy, rows)).toEqual(score(model, rows))
    })

    it('has its model refused by field when any field is missing or of another type', () => {
      const model = train(clusteredRows(40, COLUMNS))
      const nasty: readonly unknown[] = [
        undefined,
        null,
        'x',
        {},
        [],
        Number.NaN,
        -1,
        0.5,
        1e300,
        { toString: 1, valueOf: 1 },
      ]
      for (const { path, set } of mutationsOf(model)) {
        for (const replacement of nasty) {
          let thrown: unknown
          try {
            const accepted = baseline.check(set(replacement))
            // a number in range may stand for another: then the model must still score finitely
            for (const s of score(accepted, clusteredRows(5, COLUMNS))) {
              expect(Number.isFinite(s), path).toBe(true)
            }
            expect(typeof replacement, path).toBe('number')
          } catch (error) {
            thrown = error
            expect(error, path).toBeInstanceOf(ArgumentError)
            expect((error as ArgumentError).field, path).toContain(path.split('.')[0])
          }
          if (typeof replacement !== 'number') expect(thrown, `${path} accepted`).toBeDefined()
        }
      }
      for (const value of [undefined, null, 7, 'model', []]) {
        expect(() => baseline.check(value)).toThrow(ArgumentError)
      }
    })

    it('has its model refused when an array holds NaN or is a number short', () => {
      const model = train(clusteredRows(40, COLUMNS))
      for (const { path, set } of mutationsOf(model)) {
        const key = path.split('.')
        const array = key.reduce<unknown>((at, k) => (at as Record<string, unknown>)[k], model)
        if (array instanceof Float64Array) {
          const spoilt = array.slice()
          spoilt[spoilt.length - 1] = Number.NaN
          expect(() => baseline.check(set(spoilt)), path).toThrow(ArgumentError)
        }
        if (array instanceof Float64Array || array instanceof Int32Array) {
          expect(() => baseline.check(set(array.slice(1))), path).toThrow(ArgumentError)
        }
      }
    })
  })
}
