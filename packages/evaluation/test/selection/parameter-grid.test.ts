import { ArgumentError } from '@oddflow/core'
import { checkParameters, DETECTOR_NAMES, type DetectorOptions } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import {
  applicableGrid,
  gridCandidates,
  orderedGrid,
  PAPER_GRID,
  type ParameterGrid,
} from '../../src/index.js'

describe('the paper’s grid', () => {
  it('has ten bandwidths and ten numbers of components', () => {
    expect(PAPER_GRID.bandwidthQuantile).toEqual([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    expect(PAPER_GRID.k).toEqual([1, 4, 6, 8, 10, 12, 14, 16, 18, 20])
  })

  it.each(DETECTOR_NAMES)('applies to %s as far as it has the options', (detector) => {
    const grid = applicableGrid({ detector })
    const candidates = gridCandidates({ detector }, grid)
    const length = (name: keyof ParameterGrid) => grid[name]?.length ?? 1
    expect(candidates.length).toBe(length('bandwidthQuantile') * length('k'))
    for (const { parameters } of candidates) expect(parameters.detector).toBe(detector)
  })

  it('leaves out what is given', () => {
    expect(Object.keys(applicableGrid({ detector: 'oc-kjl', k: 3 }))).toEqual(['bandwidthQuantile'])
    expect(applicableGrid({ detector: 'oc-kjl', k: 3, bandwidthQuantile: 0.3 })).toEqual({})
    expect(Object.keys(applicableGrid({}))).toEqual(['bandwidthQuantile'])
  })
})

describe('gridCandidates', () => {
  it('are a plain nested loop, k innermost', () => {
    const grid: ParameterGrid = { k: [2, 1], scaler: ['none', 'log'], bandwidthQuantile: [0.5, 0.2] }
    const expected = []
    for (const scaler of ['none', 'log'] as const) {
      for (const bandwidthQuantile of [0.5, 0.2]) {
        for (const k of [2, 1]) {
          const choice = { scaler, bandwidthQuantile, k }
          expected.push({ choice, parameters: checkParameters({ detector: 'oc-kjl', d: 3, ...choice }) })
        }
      }
    }
    expect(gridCandidates({ detector: 'oc-kjl', d: 3 }, grid)).toEqual(expected)
    expect(Object.keys(orderedGrid(grid))).toEqual(['scaler', 'bandwidthQuantile', 'k'])
  })

  it('without a grid there is one candidate', () => {
    expect(gridCandidates({ detector: 'pca' }, {})).toEqual([
      { choice: {}, parameters: checkParameters({ detector: 'pca' }) },
    ])
  })

  it.each<[string, DetectorOptions, ParameterGrid]>([
    ['bandwidthQuantile', {}, { bandwidthQuantile: [0.1, 1.5] }],
    ['bandwidthQuantile', {}, { bandwidthQuantile: [0.1, Number.NaN] }],
    ['bandwidthQuantile', {}, { bandwidthQuantile: [] }],
    ['bandwidthQuantile', {}, { bandwidthQuantile: [0.1, 0.2, 0.1] }],
    ['bandwidthQuantile', { bandwidthQuantile: 0.2 }, { bandwidthQuantile: [0.1] }],
    ['k', { detector: 'oc-kjl' }, { k: [1, 0] }],
    ['k', { detector: 'oc-kjl' }, { k: [1.5] }],
    ['k', { detector: 'oc-kjl-qs' }, { k: [1] }],
    ['nu', { detector: 'ocsvm' }, { nu: [0, 0.5] }],
    ['quantile', {}, { quantile: [0.1] } as ParameterGrid],
    ['__proto__', {}, JSON.parse('{"__proto__":[1]}') as ParameterGrid],
    ['detector', { detector: 'lof' } as unknown as DetectorOptions, {}],
    [
      'bandwidthQuantile',
      { detector: 'oc-kjl' },
      {
        bandwidthQuantile: Array.from({ length: 200 }, (_, i) => (i + 1) / 200),
        k: Array.from({ length: 51 }, (_, i) => i + 1),
      },
    ],
  ])('names %s when it is at fault: %j %j', (field, options, grid) => {
    const make = () => gridCandidates(options, grid)
    expect(make).toThrow(ArgumentError)
    expect(make).toThrow(expect.objectContaining({ field }))
  })
})
