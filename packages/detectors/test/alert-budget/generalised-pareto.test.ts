import { createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { excessAt, fitGeneralisedPareto, logSurvival } from '../../src/calibration/alert-budget.js'

/** scipy.stats.genpareto.logsf */
describe('logSurvival', () => {
  it.each([
    [0.5, 2, 7, -2.0232018233569597],
    [-0.25, 1, 3, -5.545177444479562],
    [0, 1.5, 4, -2.6666666666666665],
    [1.2, 0.1, 100, -5.909091518399986],
    [-0.25, 1, 4, Number.NEGATIVE_INFINITY],
  ])('ξ = %d, σ = %d at %d', (shape, scale, excess, expected) => {
    const found = logSurvival({ shape, scale }, excess)
    if (Number.isFinite(expected)) expect(found).toBeCloseTo(expected, 12)
    else expect(found).toBe(expected)
  })

  it('is undone by excessAt', () => {
    fc.assert(
      fc.property(
        fc.double({ min: -0.9, max: 2, noNaN: true }),
        fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
        fc.double({ min: 1e-6, max: 1, noNaN: true }),
        (shape, scale, share) => {
          const excess = excessAt({ shape, scale }, share)
          expect(logSurvival({ shape, scale }, excess)).toBeCloseTo(Math.log(share), 4)
        },
      ),
    )
  })
})

describe('fitGeneralisedPareto', () => {
  const draw = (shape: number, scale: number, n: number, seed: number): Float64Array => {
    const rng = createRng(seed)
    return Float64Array.from({ length: n }, () => excessAt({ shape, scale }, 1 - rng.nextFloat())).sort()
  }

  it.each([-0.3, -0.1, 0, 0.2, 0.5, 1])('finds ξ = %d, whatever the scale', (shape) => {
    let sum = 0
    let squares = 0
    const runs = 40
    const n = 400
    for (let seed = 0; seed < runs; seed++) {
      const sample = draw(shape, 3, n, seed)
      const fit = fitGeneralisedPareto(sample)
      sum += fit.shape
      squares += (fit.shape - shape) ** 2
      const scaled = fitGeneralisedPareto(sample.map((y) => 1024 * y))
      expect(scaled.shape).toBeCloseTo(fit.shape, 9)
      expect(scaled.scale / (1024 * fit.scale)).toBeCloseTo(1, 9)
    }
    // maximum likelihood's asymptotic standard deviation is (1 + ξ)/√n (Smith, 1984)
    const deviation = (1 + shape) / Math.sqrt(n)
    expect(Math.abs(sum / runs - shape)).toBeLessThan(deviation)
    expect(Math.sqrt(squares / runs)).toBeLessThan(1.6 * deviation)
  })

  it('is finite for equal, two and far apart excesses', () => {
    for (const sample of [
      [1, 1, 1, 1],
      [1, 2],
      [1e-9, 1e9],
      [1e-3, 1, 1e3, 1e6],
    ]) {
      const { shape, scale } = fitGeneralisedPareto(Float64Array.from(sample))
      expect(Number.isFinite(shape) && scale > 0, String(sample)).toBe(true)
    }
  })
})
