import { checkParameters, DETECTOR_NAMES } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { COMPONENTS_GRID, candidatesOf, isTunable, QUANTILE_GRID } from '../../src/run/recipe.js'

describe('the recipe', () => {
  it.each(DETECTOR_NAMES)('sets nothing that does not apply to %s', (detector) => {
    for (const tuning of ['none', 'minimal'] as const) {
      for (const options of candidatesOf(detector, tuning)) {
        expect(checkParameters(options).detector).toBe(detector)
      }
    }
    expect(candidatesOf(detector, 'none').length).toBe(1)
  })

  it("is the paper's", () => {
    expect(QUANTILE_GRID).toEqual([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    expect(COMPONENTS_GRID).toEqual([1, 4, 6, 8, 10, 12, 14, 16, 18, 20])
    const untuned = checkParameters(candidatesOf('oc-kjl-qs', 'none')[0])
    expect(untuned).toMatchObject({
      bandwidthQuantile: 0.25,
      m: 100,
      d: 5,
      embedding: { kind: 'kjl', centre: false },
      start: { kind: 'quickshift++', beta: 0.9, coverage: 0.95, maximumClusters: 20 },
      scaler: 'none',
      supportGuard: false,
    })
    expect(candidatesOf('oc-kjl-qs', 'minimal').length).toBe(10)
    expect(candidatesOf('oc-kjl', 'minimal').length).toBe(100)
    expect(isTunable('oc-nystrom-qs')).toBe(true)
  })
})
