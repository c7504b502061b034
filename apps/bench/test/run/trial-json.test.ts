import { FormatError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkTrial, decodeTrial, encodeTrial, type Trial, trialKey } from '../../src/run/trial.js'
import { sampleTrial as untunedTrial } from '../support/sample-trial.js'

const sampleTrial = untunedTrial({
  tuning: 'minimal',
  validationAuc: 0.75,
  parameters: {
    detector: 'oc-kjl-qs',
    bandwidthQuantile: 0.3,
    embedding: { kind: 'kjl', centre: false },
    start: { kind: 'quickshift++', neighbours: null },
  },
  trainMillis: 1250.5,
  tuneMillis: 12_000,
})
const trialWith = (changes: Partial<Trial>): Trial => ({ ...sampleTrial, ...changes })
const line = encodeTrial(sampleTrial)
const untuned = untunedTrial()

describe('trials as JSON lines', () => {
  it('come back as they were, whatever order the fields stood in', () => {
    expect(decodeTrial(line)).toEqual(sampleTrial)
    const turned = Object.fromEntries(Object.entries(sampleTrial).reverse())
    expect(encodeTrial(turned as unknown as Trial)).toBe(line)
    expect(decodeTrial(encodeTrial(untuned))).toEqual(untuned)
    expect(line).not.toContain('\n')
  })

  it('keep every bit of a number', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    const time = fc.double({ min: 0, max: 1e9, noNaN: true })
    fc.assert(
      fc.property(
        share,
        time,
        fc.array(time, { minLength: 1, maxLength: 20 }),
        (auc, trainMillis, testMillis) => {
          const result = { ...sampleTrial.results[0]!, auc: auc + 0 }
          const trial = trialWith({
            results: [result],
            trainMillis: trainMillis + 0,
            testMillis: testMillis.map((t) => t + 0),
          })
          expect(decodeTrial(encodeTrial(trial))).toEqual(trial)
        },
      ),
    )
  })

  it('are refused when they are cut anywhere', () => {
    for (let length = 0; length < line.length; length++) {
      expect(() => decodeTrial(line.slice(0, length))).toThrow(FormatError)
    }
  })

  it('give a typed error or a trial for any change of a character', () => {
    fc.assert(
      fc.property(fc.nat({ max: line.length - 1 }), fc.string({ maxLength: 3 }), (at, put) => {
        const changed = line.slice(0, at) + put + line.slice(at + 1)
        try {
          expect(decodeTrial(encodeTrial(decodeTrial(changed)))).toEqual(decodeTrial(changed))
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it('give a typed error for any other JSON', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(() => decodeTrial(text)).toThrow(FormatError)
      }),
    )
  })

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['a field missing', { seed: undefined }, /seed/],
    ['a field too many', { extra: 1 }, /extra/],
    ['an AUC above 1', { results: [{ ...sampleTrial.results[0], auc: 1.01 }] }, /results\.0\.auc/],
    ['no results', { results: [] }, /results/],
    ['a sample twice', { results: [sampleTrial.results[0], sampleTrial.results[0]] }, /one of each sample/],
    ['a negative time', { testMillis: [-1] }, /testMillis\.0/],
    ['a hash of another length', { dataSha256: 'abc' }, /dataSha256/],
    ['a name with markup', { dataset: '<script>' }, /dataset/],
    ['a name of many characters', { detector: 'a'.repeat(65) }, /detector/],
    ['control characters', { versions: { node: '\u001b[31m' } }, /versions\.node/],
    ['a bidirectional override', { machine: { ...sampleTrial.machine, cpu: 'a\u202eb' } }, /machine\.cpu/],
    ['another version', { formatVersion: 2 }, /formatVersion/],
    ['tuning without its result', { validationAuc: null }, /validationAuc/],
    ['a time of tuning without one of training', { trainMillis: null }, /tuneMillis/],
    ['deep parameters', { parameters: { a: [[[[[[1]]]]]] } }, /less nesting/],
    ['a prototype', { parameters: JSON.parse('{"__proto__":{"x":1}}') }, /parameters/],
  ])('refuse %s', (_, changes, message) => {
    const changed = JSON.stringify({ ...sampleTrial, ...changes })
    expect(() => decodeTrial(changed)).toThrow(FormatError)
    expect(() => decodeTrial(changed)).toThrow(message)
  })

  it('refuse a number beyond float64', () => {
    expect(() => decodeTrial(line.replace('0.3', '1e999'))).toThrow(/parameters\.bandwidthQuantile/)
    expect(() => decodeTrial(line.replace('1250.5', '1e999'))).toThrow(/trainMillis/)
  })

  it('refuse a repeated key, and a line too long, before anything else', () => {
    expect(() => decodeTrial(line.replace('"seed":1', '"seed":1,"seed":2'))).toThrow(/repeats the key/)
    expect(() => decodeTrial(' '.repeat(70_000))).toThrow(/at most 65536/)
    expect(() => checkTrial(trialWith({ trainMillis: Number.NaN }))).toThrow(/trainMillis/)
  })

  it('may come from a machine that only tested', () => {
    const tested = trialWith({ trainMillis: null, tuneMillis: null })
    expect(decodeTrial(encodeTrial(tested))).toEqual(tested)
  })

  it('are told apart by what they are of and where', () => {
    const elsewhere = trialWith({ machine: { ...sampleTrial.machine, name: 'nano' } })
    expect(trialKey(elsewhere)).not.toBe(trialKey(sampleTrial))
    expect(trialKey(trialWith({ trainMillis: 1 }))).toBe(trialKey(sampleTrial))
  })
})
