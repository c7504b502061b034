import { DataError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { findDisagreements, mergeTrials, type Trial } from '../../src/run/trial.js'
import { summarise, trialsBehind } from '../../src/tables/trial-figures.js'
import { sampleTrial as untunedTrial } from '../support/sample-trial.js'

const sampleTrial = untunedTrial({ tuning: 'minimal', validationAuc: 0.75, tuneMillis: 12_000 })
const setting = {
  dataset: 'ctu-rows',
  features: 'iat-size',
  tuning: 'minimal',
  detector: 'oc-kjl-qs',
} as const

function trial(detector: string, repeat: number, auc: number, testMs: number, machine = 'server'): Trial {
  return {
    ...sampleTrial,
    detector,
    repeat,
    results: [{ ...sampleTrial.results[0]!, auc }],
    trainMillis: 50 * testMs,
    testRows: 200,
    testMillis: [testMs - 1, testMs + 1],
    spaceNumbers: detector === 'ocsvm' ? 60_000 : 3000,
    machine: { ...sampleTrial.machine, name: machine },
  }
}

const server = [
  trial('ocsvm', 0, 0.6, 40),
  trial('ocsvm', 1, 0.7, 60),
  trial('oc-kjl-qs', 0, 0.65, 2),
  trial('oc-kjl-qs', 1, 0.78, 4),
]
const nano = [
  trial('ocsvm', 0, 0.6, 160, 'nano'),
  trial('ocsvm', 1, 0.7, 240, 'nano'),
  trial('oc-kjl-qs', 0, 0.65, 10, 'nano'),
  trial('oc-kjl-qs', 1, 0.78, 20, 'nano'),
]

describe('summarise', () => {
  it("divides each repeat by the baseline's mean, as the paper does", () => {
    // 0.65 / 0.65 = 1 and 0.78 / 0.65 = 1.2
    const retained = summarise(server, setting, { kind: 'auc-retained', sample: 'all' })
    expect(retained!.mean).toBeCloseTo(1.1, 14)
    expect(retained!.sd).toBeCloseTo(Math.SQRT2 / 10, 14)
    // 50 / 2 = 25 and 50 / 4 = 12.5
    const faster = summarise(server, setting, { kind: 'test-speedup', machine: 'server' })
    expect(faster!.mean).toBeCloseTo(18.75, 12)
    expect(faster!.sd).toBeCloseTo(12.5 / Math.SQRT2, 12)
    expect(summarise(server, setting, { kind: 'space-reduction' })).toEqual({ mean: 20, sd: 0, n: 2 })
    expect(summarise(server, setting, { kind: 'space-bytes' })!.mean).toBe(24_000)
  })

  it('gives times per 100 rows', () => {
    expect(summarise(server, setting, { kind: 'test-millis-per-100', machine: 'server' })!.mean).toBe(1.5)
    // 100 and 200 ms for 5,000 rows
    expect(summarise(server, setting, { kind: 'train-millis-per-100', machine: 'server' })!.mean).toBe(3)
  })

  it('keeps times of machines apart, and counts work done on two of them once', () => {
    const both = mergeTrials(server, nano)
    expect(both.length).toBe(8)
    expect(summarise(both, setting, { kind: 'auc', sample: 'all' })).toEqual(
      summarise(server, setting, { kind: 'auc', sample: 'all' }),
    )
    expect(summarise(both, setting, { kind: 'test-speedup', machine: 'nano' })!.mean).toBe(15)
    expect(summarise(both, setting, { kind: 'test-speedup', machine: 'server' })!.mean).toBe(18.75)
  })

  it('has nothing to say without trials, without the machine, or without the baseline', () => {
    const alone = server.slice(2)
    expect(summarise([], setting, { kind: 'auc', sample: 'all' })).toBeNull()
    expect(summarise(server, setting, { kind: 'auc', sample: 'protocol' })).toBeNull()
    expect(summarise(server, setting, { kind: 'test-speedup', machine: 'rspi' })).toBeNull()
    expect(summarise(alone, setting, { kind: 'auc-retained', sample: 'all' })).toBeNull()
    expect(summarise(alone, setting, { kind: 'auc', sample: 'all' })!.n).toBe(2)
    expect(trialsBehind(server, setting)).toEqual(server)
  })
})

describe('mergeTrials', () => {
  it('takes a trial once, and gives the same order whatever the order of runs', () => {
    expect(mergeTrials(server, nano, server)).toEqual(mergeTrials(nano, server))
  })

  it('refuses two different trials of one key, and one set made from different rows', () => {
    expect(() => mergeTrials(server, [trial('ocsvm', 0, 0.61, 40)])).toThrow(DataError)
    const otherRows = { ...trial('ocsvm', 0, 0.6, 40, 'nano'), dataSha256: 'b'.repeat(64) }
    expect(() => mergeTrials(server, [otherRows])).toThrow(/different rows/)
    const fewer = { ...trial('ocsvm', 0, 0.6, 40), seed: 2, trainRows: 500 }
    expect(() => mergeTrials([fewer], server)).toThrow(
      /ctu-rows iat-size, repeat 0 .* on 500 and on 5000 rows/,
    )
  })
})

describe('findDisagreements', () => {
  it('names work whose outcome is not the same everywhere', () => {
    expect(findDisagreements(mergeTrials(server, nano))).toEqual([])
    const odd = trial('ocsvm', 0, 0.6 + 2 ** -53, 160, 'nano')
    expect(findDisagreements([...server, odd])).toEqual([
      {
        work: 'ctu-rows iat-size ocsvm minimal 0 1',
        machines: ['server', 'nano'],
        aucs: [0.6, 0.6 + 2 ** -53],
      },
    ])
  })
})

describe('a machine that only tests', () => {
  const protocol = { ...sampleTrial.results[0]!, sample: 'protocol' as const, auc: 0.5 }
  const trained = server.map((made) => ({ ...made, results: [...made.results, protocol] }))
  const tested = nano.map((made) => ({
    ...made,
    results: [protocol],
    trainMillis: null,
    tuneMillis: null,
  }))
  const both = mergeTrials(trained, tested)

  it('has no training time, and leaves the figures of the trained work as they are', () => {
    expect(summarise(both, setting, { kind: 'train-millis-per-100', machine: 'nano' })).toBeNull()
    expect(summarise(both, setting, { kind: 'test-speedup', machine: 'nano' })!.mean).toBe(15)
    for (const sample of ['all', 'protocol'] as const) {
      expect(summarise(both, setting, { kind: 'auc', sample })).toEqual(
        summarise(trained, setting, { kind: 'auc', sample }),
      )
    }
  })

  it('is compared over the samples that it was given', () => {
    expect(findDisagreements(both)).toEqual([])
    const odd = { ...tested[0]!, results: [{ ...protocol, auc: 0.25 }] }
    expect(findDisagreements([...trained, odd])).toMatchObject([
      { machines: ['server', 'nano'], aucs: [0.5, 0.25] },
    ])
  })
})
