/** A fitter keeps what its fits have in common; nobody may be able to tell from its models. */
import { createRng, type Matrix } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  type CheckedParameters,
  checkParameters,
  createFitter,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorOptions,
  fitDetector,
} from '../src/index.js'
import { clusteredRows } from './rows.js'

const takes = (options: DetectorOptions, name: string) =>
  (DETECTORS[options.detector!].options as readonly string[]).includes(name)

/** Every combination of what shared steps depend on, as far as the detector takes it. */
function grid(first: DetectorOptions): CheckedParameters[] {
  let all: DetectorOptions[] = [first]
  const vary = (name: string, values: readonly unknown[]): void => {
    if (!takes(first, name)) return
    all = all.flatMap((options) => values.map((value) => ({ ...options, [name]: value })))
  }
  vary('scaler', ['none', 'standard'])
  vary('bandwidthQuantile', [0.2, 0.6])
  vary('quantileCompat', ['pairs', 'authors'])
  vary('m', [20, 10])
  vary('centre', [false, true])
  vary('k', [2, 3])
  return all.map((options) => checkParameters(options))
}

const fitAll = (rows: Matrix, candidates: readonly CheckedParameters[]) => {
  const learn = createFitter(rows, createRng(3), candidates)
  return candidates.map((parameters) => learn(parameters))
}

describe('createFitter', () => {
  const rows = clusteredRows(48, 4)

  it.each(DETECTOR_NAMES)('makes the models of fitDetector, bit for bit: %s', (detector) => {
    const options = takes({ detector }, 'm') ? { detector, m: 20 } : { detector }
    const candidates = grid(takes({ detector }, 'trees') ? { ...options, trees: 5 } : options)
    const expected = candidates.map((parameters) => fitDetector(rows, parameters, createRng(3)))
    expect(fitAll(rows, candidates)).toEqual(expected)
    // in another order, and with a quantile that was not announced
    const learn = createFitter(rows, createRng(3), candidates.slice(0, 1))
    const backwards = [...candidates].reverse().map((parameters) => learn(parameters))
    expect(backwards.reverse()).toEqual(expected)
  })

  it('shares one embedding among candidates that differ in k', () => {
    const of = (k: number) => checkParameters({ detector: 'oc-kjl', k, m: 20 })
    const [a, b] = fitAll(rows, [of(2), of(3)])
    expect(a).toHaveProperty('embedding')
    expect((a as { embedding: unknown }).embedding).toBe((b as { embedding: unknown }).embedding)
  })

  it('refuses rows as fitDetector does', () => {
    const bad = { rows: 2, cols: 1, data: Float64Array.of(1, Number.NaN) }
    expect(() => createFitter(bad, createRng(1), [])).toThrow(/rows/)
  })
})
