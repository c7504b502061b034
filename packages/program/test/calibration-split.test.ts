import { createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { splitCalibration } from '../src/train-model.js'

const captureOfRow = (sizes: readonly number[]): Uint32Array =>
  Uint32Array.from(sizes.flatMap((size, capture) => new Array<number>(size).fill(capture)))

describe('splitCalibration', () => {
  it('parts the rows: each is in one half, in order, and one at least is left to fit on', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 }),
        fc.double({ min: 0.01, max: 0.99, noNaN: true }),
        fc.nat(),
        (sizes, share, seed) => {
          const of = captureOfRow(sizes)
          const { fit, calibration, method } = splitCalibration(of, share, createRng(seed))
          expect(fit.length).toBeGreaterThan(0)
          expect([...fit]).toEqual([...fit].sort((a, b) => a - b))
          expect([...calibration]).toEqual([...calibration].sort((a, b) => a - b))
          expect([...fit, ...calibration].sort((a, b) => a - b)).toEqual([...of.keys()])
          const wanted = Math.min(of.length - 1, Math.round(share * of.length))
          if (method === 'rows') {
            expect(calibration.length).toBe(wanted)
          } else {
            expect(sizes.length).toBeGreaterThanOrEqual(5)
            // whole captures, between half and twice the share
            const held = new Set([...calibration].map((row) => of[row]))
            expect([...fit].some((row) => held.has(of[row]))).toBe(false)
            expect(calibration.length).toBeGreaterThanOrEqual(wanted / 2)
            expect(calibration.length).toBeLessThanOrEqual(2 * wanted)
          }
        },
      ),
    )
  })

  it('draws rows from few captures and holds whole ones back from five on', () => {
    expect(splitCalibration(captureOfRow([50, 50, 50, 50]), 0.2, createRng(1)).method).toBe('rows')
    expect(splitCalibration(captureOfRow([50, 50, 50, 50, 50]), 0.2, createRng(1)).method).toBe('captures')
  })

  it('draws rows where one capture is nearly all', () => {
    expect(splitCalibration(captureOfRow([1000, 1, 1, 1, 1, 1]), 0.2, createRng(1)).method).toBe('rows')
  })

  it('repeats with the seed and changes with it', () => {
    const of = captureOfRow([200])
    const once = splitCalibration(of, 0.2, createRng(1)).calibration
    expect(splitCalibration(of, 0.2, createRng(1)).calibration).toEqual(once)
    expect(splitCalibration(of, 0.2, createRng(2)).calibration).not.toEqual(once)
  })
})
