import { describe, expect, it } from 'vitest'
import { candidatesOf, isTunable, METHOD_NAMES, methodOptions } from '../../src/run/trial-model.js'

describe('the recipe', () => {
  it.each(METHOD_NAMES)('sets nothing that does not apply to %s', (method) => {
    for (const tuning of ['none', 'minimal'] as const) {
      for (const { parameters } of candidatesOf(method, tuning)) {
        expect(parameters.detector).toBe(methodOptions(method).detector)
      }
    }
    expect(candidatesOf(method, 'none').length).toBe(1)
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

  it('tells a centred sketch from the one of the text by that alone', () => {
    for (const detector of ['oc-kjl', 'oc-kjl-qs', 'oc-kjl-svm'] as const) {
      const [text, centred] = [detector, `${detector}-centred` as const].map((method) =>
        candidatesOf(method, 'minimal').map(({ parameters }) => parameters),
      )
      expect(text!.every((p) => 'embedding' in p && 'centre' in p.embedding && !p.embedding.centre)).toBe(
        true,
      )
      expect(centred).toEqual(text!.map((p) => ({ ...p, embedding: { kind: 'kjl', centre: true } })))
    }
  })
})
