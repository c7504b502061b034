/** Against scipy.stats: chi2.ppf of 2c and 2c + 2 degrees of freedom, halved; beta.ppf; binomtest(k, n).proportion_ci(0.95, 'exact'). */
import { describe, expect, it } from 'vitest'
import {
  binomialInterval,
  orderStatisticInterval,
  poissonInterval,
} from '../../src/calibration/alert-budget.js'

describe('poissonInterval', () => {
  it.each([
    [0, 0, 3.6888794541139354],
    [1, 0.025317807984289876, 5.571643390938898],
    [2, 0.24220927854396496, 7.22468766772396],
    [7, 2.8143630515198654, 14.422675361702376],
    [30, 20.240874021420915, 42.82686539480766],
    [100, 81.36399125092314, 121.62679379242638],
    [1000, 938.9730184076952, 1063.952136016302],
    [4096, 3971.5121280750104, 4223.397456166916],
  ])('is exact for %d', (count, low, high) => {
    const interval = poissonInterval(count)
    expect(interval.low).toBeCloseTo(low, 7)
    expect(interval.high).toBeCloseTo(high, 7)
  })

  it.each([
    [5000, 4862.359188694899, 5140.5489485350045],
    [100_000, 99_381.15266374472, 100_621.74473974388],
  ])('is good to five digits for %d', (count, low, high) => {
    const interval = poissonInterval(count)
    expect(Math.abs(interval.low / low - 1)).toBeLessThan(1e-5)
    expect(Math.abs(interval.high / high - 1)).toBeLessThan(1e-5)
  })
})

describe('binomialInterval', () => {
  it.each([
    [0, 1, 0.0, 0.975],
    [1, 1, 0.025000000000000022, 1.0],
    [0, 406, 0.0, 0.009044757834596346],
    [3, 406, 0.001526422902866768, 0.021441368578706016],
    [94, 882, 0.08698587815748896, 0.12883750780866554],
    [882, 882, 0.9958263310574055, 1.0],
  ])('is exact for %d of %d', (count, trials, low, high) => {
    const interval = binomialInterval(count, trials)
    expect(interval.low).toBeCloseTo(low, 10)
    expect(interval.high).toBeCloseTo(high, 10)
  })
})

describe('orderStatisticInterval', () => {
  it.each([
    [1, 1, 0.025, 0.975],
    [99, 1, 0.00025570273666596153, 0.03657574498347893],
    [999, 1, 2.5342830000483428e-5, 0.003685762865739383],
    [999, 10, 0.004810331195290225, 0.01703274677025096],
    [20_000, 150, 0.006351314344783236, 0.008741182114911135],
  ])('n = %d, r = %d', (rows, rank, low, high) => {
    const interval = orderStatisticInterval(rows, rank)
    expect(Math.abs(interval.low / low - 1)).toBeLessThan(1e-8)
    expect(Math.abs(interval.high / high - 1)).toBeLessThan(1e-8)
  })

  it('beyond the exact ones is good to three digits', () => {
    const { low, high } = orderStatisticInterval(100_000, 5000)
    expect(low / 0.048657255207270746).toBeCloseTo(1, 2)
    expect(high / 0.05135879320507162).toBeCloseTo(1, 2)
  })
})
