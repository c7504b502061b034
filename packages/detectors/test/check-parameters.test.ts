import { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkParameters,
  checkStoredParameters,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorOptions,
  detectorOptionsOf,
  exceedingSizes,
  type QuickShiftStart,
  storedParameters,
} from '../src/index.js'
import { SHARED_SETTINGS } from '../src/options.js'

const NO_KERNEL_ROWS = { bandwidthQuantile: null, quantileCompat: null, quantileRows: null, precision: null }

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
    ['m', [0, -1, 1.5, 2001, Number.NaN, '100']],
    ['d', [0, 257, 2.5]],
    ['scaler', ['minmax', 1]],
    ['centre', [1, 'yes']],
    ['supportGuard', [0, 'no']],
    ['detector', ['oc-kjlqs', 3, 'constructor']],
    ['quantile', [0.3, null, undefined]],
    ['beta', [0.9, null]],
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

  it('finds no name of a setting in two tables', () => {
    const names = [
      ...Object.keys(SHARED_SETTINGS),
      ...DETECTOR_NAMES.flatMap((detector) => Object.keys(DETECTORS[detector].own ?? {})),
    ]
    expect(names).toEqual([...new Set(names)])
  })

  it('takes undefined as not given', () => {
    const options = { detector: 'oc-kjl', k: undefined, m: undefined } as unknown as DetectorOptions
    expect(checkParameters(options)).toMatchObject({ m: 100 })
  })

  it('gives stored parameters back as they were', () => {
    for (const detector of DETECTOR_NAMES) {
      const checked = checkParameters({ detector, scaler: 'standard' })
      expect(checkStoredParameters(JSON.parse(JSON.stringify(checked)))).toEqual(checked)
    }
    for (const covariance of ['full', 'diagonal', 'tied', 'spherical'] as const) {
      const asked = checkParameters({ detector: 'gmm', covariance, k: 3 })
      const mixture = storedParameters(asked)
      expect(checkStoredParameters(JSON.parse(JSON.stringify(mixture)))).toEqual(mixture)
    }
  })

  it('gives options that make the same parameters', () => {
    const asked: DetectorOptions[] = [
      ...DETECTOR_NAMES.map((detector) => ({ detector })),
      { detector: 'ocsvm', nu: 0.1 },
      { centre: true, supportGuard: false },
      { detector: 'gmm', covariance: 'tied', k: 3 },
      { detector: 'kde', quantileCompat: 'authors' },
      { quantileCompat: 'positive-pairs' },
    ]
    for (const options of asked) {
      const checked = checkParameters(options)
      const written = detectorOptionsOf(checked)
      expect(written).toMatchObject(options)
      expect(storedParameters(checkParameters(written))).toEqual(storedParameters(checked))
    }
  })

  it('records explicit sizes, which a file cannot', () => {
    expect(checkParameters({ k: undefined, nu: undefined } as object)).not.toHaveProperty('explicitSizes')
    const checked = checkParameters({ detector: 'oc-kjl', m: 100, k: 10, scaler: 'log' })
    expect(checked.explicitSizes).toEqual(['m', 'k'])
    expect(storedParameters(checked)).toEqual(checkParameters({ detector: 'oc-kjl', scaler: 'log' }))
    expect(() => checkStoredParameters(checked)).toThrow(/explicitSizes: there is no such option/)
  })

  it('refuses explicit sizes that no number of rows makes room for', () => {
    const refusal = (options: DetectorOptions, field: string, says: RegExp) => {
      expect(() => checkParameters(options)).toThrow(ArgumentError)
      expect(() => checkParameters(options)).toThrow(expect.objectContaining({ field }))
      expect(() => checkParameters(options)).toThrow(says)
    }
    refusal({ d: 101 }, 'd', /^d: expected at most 100, the number of landmarks, found 101$/)
    refusal({ detector: 'oc-nystrom-svm', m: 7, d: 8 }, 'd', /at most 7.*found 8/)
    // the default d gives way
    expect(checkParameters({ m: 3 })).toMatchObject({ m: 3, d: 5, explicitSizes: ['m'] })
  })

  it('takes stored parameters of models that were lowered', () => {
    const { explicitSizes, ...older } = checkParameters({ m: 3 })
    expect(explicitSizes).toEqual(['m'])
    expect(checkStoredParameters(older)).toEqual(older)
    expect(exceedingSizes(older, { rows: 2 })).toEqual(['m', 'd'])
    expect(exceedingSizes(older, { rows: 3 })).toEqual(['d'])
    expect(exceedingSizes(older, { rows: 5 })).toEqual(['d'])
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

  it('takes stored parameters with other constants, from when these were options', () => {
    const stored: [options: DetectorOptions, stored: object][] = [
      [
        {},
        {
          quantileRows: 20,
          start: {
            kind: 'quickshift++',
            beta: 0.8,
            neighbours: 7,
            coverage: 1,
            maximumClusters: 5,
            clusterSearchRows: 90,
            mixtureStart: 'k-means++',
          },
          em: { tolerance: 0, maximumSteps: 5, regularisation: 1e-4 },
        },
      ],
      [
        { detector: 'gmm', covariance: 'tied' },
        { tolerance: 0, maximumSteps: 5, regularisation: 1e-4 },
      ],
      [{ detector: 'ocsvm' }, { kernel: 'linear', ...NO_KERNEL_ROWS, tolerance: 1e-5 }],
      [{ detector: 'kde' }, { maximumRows: 99 }],
      [{ detector: 'iforest' }, { subsampleRows: 16 }],
      [{ detector: 'pca' }, { varianceShare: null, components: 3 }],
    ]
    for (const [options, constants] of stored) {
      const older = { ...checkParameters(options), ...constants }
      expect(checkStoredParameters(JSON.parse(JSON.stringify(older)))).toEqual(older)
      expect(() => checkParameters(detectorOptionsOf(older))).not.toThrow()
    }
  })

  it.each<[DetectorOptions, object, name: string]>([
    [{ detector: 'kde' }, { quantileRows: 1 }, 'quantileRows'],
    [{ detector: 'kde' }, { maximumRows: 2.5 }, 'maximumRows'],
    [{ detector: 'gmm' }, { tolerance: -1 }, 'tolerance'],
    [{ detector: 'gmm' }, { maximumSteps: 0 }, 'maximumSteps'],
    [{ detector: 'gmm' }, { regularisation: 0.01 }, 'regularisation'],
    [{ detector: 'gmm' }, { beta: 0.9 }, 'beta'],
    [{ detector: 'ocsvm' }, { tolerance: 0 }, 'tolerance'],
    [{ detector: 'ocsvm' }, { kernel: 'poly' }, 'kernel'],
    [{ detector: 'ocsvm' }, { kernel: 'linear' }, 'precision'],
    [
      { detector: 'ocsvm' },
      { kernel: 'linear', ...NO_KERNEL_ROWS, quantileCompat: 'pairs' },
      'quantileCompat',
    ],
    [{ detector: 'ocsvm' }, { kernel: 'linear', ...NO_KERNEL_ROWS, quantileRows: 10 }, 'quantileRows'],
    [{ detector: 'pca' }, { components: 3 }, 'varianceShare'],
    [{ detector: 'pca' }, { varianceShare: null, components: 0 }, 'components'],
  ])('refuses stored parameters out of range by their path: %j %j', (options, constants, name) => {
    const check = () => checkStoredParameters({ ...checkParameters(options), ...constants })
    expect(check).toThrow(expect.objectContaining({ field: `parameters.${name}` }))
  })

  it('takes stored parameters that do not speak of later options for what was done before them', () => {
    const checked = checkParameters()
    const { mixtureStart, clusterSearchRows, ...start } = checked.start as QuickShiftStart
    expect(checkStoredParameters({ ...checked, start })).toEqual(checked)
    expect({ mixtureStart, clusterSearchRows }).toEqual({
      mixtureStart: 'clusters',
      clusterSearchRows: 10_000,
    })
  })

  it('refuses stored parameters whose stages are not the detector’s', () => {
    const kjl = JSON.parse(JSON.stringify(checkParameters({ detector: 'oc-kjl' })))
    expect(() => checkStoredParameters({ ...kjl, embedding: { kind: 'nystrom' } })).toThrow(/embedding\.kind/)
    expect(() => checkStoredParameters({ ...kjl, start: { kind: 'quickshift++' } })).toThrow(/start\.kind/)
    expect(() => checkStoredParameters({ ...kjl, em: null })).toThrow(/parameters\.em/)
    expect(() => checkStoredParameters(null)).toThrow(/parameters: expected an object/)
  })
})
