import { DETECTOR_NAMES } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { candidatesOf, isTunable } from '../../src/run/recipe.js'

describe('the recipe', () => {
  it.each(DETECTOR_NAMES)('sets nothing that does not apply to %s', (detector) => {
    for (const tuning of ['none', 'minimal'] as const) {
      for (const { parameters } of candidatesOf(detector, tuning)) {
        expect(parameters.detector).toBe(detector)
      }
    }
    expect(candidatesOf(detector, 'none').length).toBe(1)
  })

  it("is the paper's", () => {
    const untuned = candidatesOf('oc-kjl-qs', 'none')[0]!.parameters
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
