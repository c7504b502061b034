import { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkParameters,
  checkStoredParameters,
  DETECTOR_NAMES,
  type DetectorOptions,
  detectorOptionsOf,
  exceedingSizes,
  keptParameters,
  type QuickShiftStart,
} from '../src/index.js'

describe('checkParameters', () => {
  it('has the defaults of the paper, and its text where the code differs', () => {
    expect(checkParameters()).toEqual({
      detector: 'oc-kjl-qs',
      scaler: 'none',
      precision: 'f64',
      bandwidthQuantile: 0.3,
      quantileCompat: 'pairs',
      quantileRows: 5000,
      m: 100,
      landmarks: 'random',
      d: 5,
      embedding: { kind: 'kjl', centre: false },
      start: {
        kind: 'quickshift++',
        beta: 0.9,
        neighbours: null,
        coverage: 0.95,
        maximumClusters: 20,
        clusterSearchRows: 10_000,
        mixtureStart: 'clusters',
      },
      em: { tolerance: 1e-3, maximumSteps: 100, regularisation: 1e-6 },
      supportGuard: true,
    })
  })

  const refused: [string, unknown[]][] = [
    ['bandwidthQuantile', [0, -1, 1.01, Number.NaN, '0.3']],
    ['quantileCompat', ['rows', 1]],
    ['quantileRows', [1, 2.5, 1e7]],
    ['m', [0, -1, 1.5, 2001, Number.NaN, '100']],
    ['d', [0, 257, 2.5]],
    ['scaler', ['minmax', 1]],
    ['centre', [1, 'yes']],
    ['supportGuard', [0, 'no']],
    ['beta', [0, 1, Number.NaN]],
    ['neighbours', [0, 1.5, 100_001]],
    ['coverage', [0, 1.1]],
    ['maximumClusters', [0, 1001]],
    ['clusterSearchRows', [0, 9, 1e7, 50.5]],
    ['mixtureStart', ['k-means', 0]],
    ['tolerance', [-1, Number.POSITIVE_INFINITY]],
    ['maximumSteps', [0, 1e6]],
    ['regularisation', [0, 0.01]],
    ['detector', ['oc-kjlqs', 3, 'constructor']],
    ['quantile', [0.3, null, undefined]],
    ['toString', [1, null, undefined]],
  ]
  for (const [field, values] of refused) {
    it(`refuses ${field} out of range by name`, () => {
      for (const value of values) {
        const check = () => checkParameters({ [field]: value } as DetectorOptions)
        expect(check).toThrow(ArgumentError)
        expect(check).toThrow(expect.objectContaining({ field }))
      }
    })
  }

  it('takes undefined as not given', () => {
    const options = { detector: 'oc-kjl', beta: undefined, m: undefined } as unknown as DetectorOptions
    expect(checkParameters(options)).toMatchObject({ m: 100 })
  })

  it('gives stored parameters back as they were', () => {
    for (const detector of DETECTOR_NAMES) {
      const checked = checkParameters({ detector, scaler: 'standard' })
      expect(checkStoredParameters(JSON.parse(JSON.stringify(checked)))).toEqual(checked)
    }
    const linear = checkParameters({ detector: 'ocsvm', kernel: 'linear' })
    expect(checkStoredParameters(JSON.parse(JSON.stringify(linear)))).toEqual(linear)
    for (const covariance of ['full', 'diagonal', 'tied', 'spherical'] as const) {
      const asked = checkParameters({ detector: 'gmm', covariance, k: 3, regularisation: 1e-4 })
      const mixture = keptParameters(asked)
      expect(checkStoredParameters(JSON.parse(JSON.stringify(mixture)))).toEqual(mixture)
    }
  })

  it('gives options that make the same parameters', () => {
    const asked: DetectorOptions[] = [
      ...DETECTOR_NAMES.map((detector) => ({ detector })),
      { detector: 'ocsvm', kernel: 'linear', nu: 0.1 },
      { neighbours: 7, centre: true, supportGuard: false, tolerance: 0 },
      { detector: 'gmm', covariance: 'tied', k: 3 },
      { detector: 'pca', components: 2 },
      { detector: 'kde', quantileCompat: 'authors', quantileRows: 20 },
      { quantileCompat: 'positive-pairs' },
    ]
    for (const options of asked) {
      const checked = checkParameters(options)
      const written = detectorOptionsOf(checked)
      expect(written).toMatchObject(options)
      expect(keptParameters(checkParameters(written))).toEqual(keptParameters(checked))
    }
  })

  it('records the sizes that were stated, which a file cannot', () => {
    expect(checkParameters({ k: undefined, beta: 0.8 } as unknown as DetectorOptions)).not.toHaveProperty(
      'stated',
    )
    const checked = checkParameters({ detector: 'oc-kjl', m: 100, k: 10, scaler: 'log' })
    expect(checked.stated).toEqual(['m', 'k'])
    expect(keptParameters(checked)).toEqual(checkParameters({ detector: 'oc-kjl', scaler: 'log' }))
    expect(() => checkStoredParameters(checked)).toThrow(/stated: there is no such option/)
  })

  it('refuses stated sizes that no number of rows makes room for', () => {
    const refusal = (options: DetectorOptions, field: string, says: RegExp) => {
      expect(() => checkParameters(options)).toThrow(ArgumentError)
      expect(() => checkParameters(options)).toThrow(expect.objectContaining({ field }))
      expect(() => checkParameters(options)).toThrow(says)
    }
    refusal({ d: 101 }, 'd', /^d: expected at most 100, the number of landmarks, found 101$/)
    refusal({ detector: 'oc-nystrom-svm', m: 7, d: 8 }, 'd', /at most 7.*found 8/)
    refusal({ neighbours: 10_001 }, 'neighbours', /at most 10000, .*searched in, found 10001/)
    // the default d gives way
    expect(checkParameters({ m: 3 })).toMatchObject({ m: 3, d: 5, stated: ['m'] })
  })

  it('takes stored parameters of models that were lowered', () => {
    const { stated, ...older } = checkParameters({ m: 3 })
    expect(stated).toEqual(['m'])
    expect(checkStoredParameters(older)).toEqual(older)
    expect(exceedingSizes(older, { rows: 2, cols: 9 })).toEqual(['m', 'd'])
    expect(exceedingSizes(older, { rows: 3, cols: 9 })).toEqual(['d'])
    expect(exceedingSizes(older, { rows: 5, cols: 9 })).toEqual(['d'])
  })

  it('takes stored parameters that do not speak of a support guard for having none', () => {
    const { supportGuard, ...older } = checkParameters({ detector: 'oc-nystrom' })
    expect(supportGuard).toBe(true)
    expect(checkStoredParameters(older)).toEqual({ ...older, supportGuard: false })
  })

  it('takes stored parameters of earlier versions, which had pairs of at most 5,000 rows and no number of components', () => {
    for (const detector of ['kde', 'ocsvm', 'oc-nystrom-svm', 'pca'] as const) {
      const checked = checkParameters({ detector })
      const { quantileCompat, quantileRows, components, ...older } = checked as typeof checked & {
        quantileCompat?: unknown
        quantileRows?: unknown
        components?: unknown
      }
      expect([quantileCompat ?? 'pairs', quantileRows ?? 5000, components ?? null]).toEqual([
        'pairs',
        5000,
        null,
      ])
      expect(checkStoredParameters(older)).toEqual(checked)
    }
  })

  it('refuses options that leave each other nothing to do', () => {
    const refusal = (options: DetectorOptions, field: string) =>
      expect(() => checkParameters(options)).toThrow(expect.objectContaining({ field }))
    refusal({ detector: 'pca', components: 3, varianceShare: 0.9 }, 'varianceShare')
    refusal({ detector: 'ocsvm', kernel: 'linear', quantileCompat: 'pairs' }, 'quantileCompat')
    refusal({ detector: 'ocsvm', kernel: 'linear', quantileRows: 10 }, 'quantileRows')
    refusal({ detector: 'pca', components: 0 }, 'components')
  })

  it('takes stored parameters that do not speak of later options for what was done before them', () => {
    const options = { mixtureStart: 'clusters', clusterSearchRows: 10_000 } as const
    const checked = checkParameters(options)
    const { mixtureStart, clusterSearchRows, ...start } = checked.start as QuickShiftStart
    expect(checkStoredParameters({ ...checked, start })).toEqual(checked)
    expect({ mixtureStart, clusterSearchRows }).toEqual(options)
  })

  it('refuses stored parameters whose stages are not the detector’s', () => {
    const kjl = JSON.parse(JSON.stringify(checkParameters({ detector: 'oc-kjl' })))
    expect(() => checkStoredParameters({ ...kjl, embedding: { kind: 'nystrom' } })).toThrow(/embedding\.kind/)
    expect(() => checkStoredParameters({ ...kjl, start: { kind: 'quickshift++' } })).toThrow(/start\.kind/)
    expect(() => checkStoredParameters({ ...kjl, em: null })).toThrow(/parameters\.em/)
    expect(() => checkStoredParameters(null)).toThrow(/parameters: expected an object/)
  })
})
