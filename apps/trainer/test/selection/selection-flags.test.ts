import type { DetectorOptions } from '@oddflow/detectors'
import { UsageError } from '@oddflow/program'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import {
  type SelectionFlags,
  selectionFrom,
  withSelectionFlags,
} from '../../src/selection/selection-flags.js'

const parsed = (args: string): SelectionFlags => {
  const command = withSelectionFlags(new Command('train')).exitOverride().allowExcessArguments()
  command.configureOutput({ writeErr: () => {} })
  command.parse(['node', 'train', ...args.split(' ').filter((arg) => arg !== '')])
  return command.opts()
}
const asked = (args: string, detector: DetectorOptions = { detector: 'oc-kjl' }) =>
  selectionFrom(parsed(args), detector)
const BOTH = '--select-normal a.npy --select-novel b.npy'

describe('selectionFrom', () => {
  it('is null without labelled inputs', () => {
    expect(asked('')).toBeNull()
  })

  it('is the paper’s grid as far as it applies', () => {
    const search = asked(BOTH)
    expect(search).toMatchObject({ normal: ['a.npy'], novel: ['b.npy'] })
    expect(search?.candidates.length).toBe(100)
    expect(asked(BOTH, { detector: 'oc-kjl-qs' })?.candidates.length).toBe(10)
    expect(asked(BOTH, { detector: 'gmm' })?.candidates.length).toBe(10)
    expect(Object.keys(asked(BOTH, { detector: 'oc-kjl', k: 4 })?.grid ?? {})).toEqual(['bandwidthQuantile'])
  })

  it('takes lists of its own, in their order', () => {
    const search = asked(
      `${BOTH} --grid-quantiles 0.5,0.2 --grid-k 3,1 --jobs 2 --select-rows 75 --selection-report r`,
    )
    expect(search).toMatchObject({ jobs: 2, rows: 75, report: 'r' })
    expect(search?.candidates.map(({ choice }) => choice)).toEqual([
      { bandwidthQuantile: 0.5, k: 3 },
      { bandwidthQuantile: 0.5, k: 1 },
      { bandwidthQuantile: 0.2, k: 3 },
      { bandwidthQuantile: 0.2, k: 1 },
    ])
  })

  it.each<[string, string, DetectorOptions | undefined]>([
    ['--jobs: applies with --select-normal and --select-novel', '--jobs 2', undefined],
    ['--grid-quantiles: applies with', '--grid-quantiles 0.1', undefined],
    ['--selection-report: applies with', '--selection-report r.json', undefined],
    ['--select-rows: applies with', '--select-rows 75', undefined],
    ['--select-normal: needs --select-novel', '--select-normal a.npy', undefined],
    ['--select-novel: needs --select-normal', '--select-novel a.npy', undefined],
    ['--jobs 0: expected a whole number from 1 to 256', `${BOTH} --jobs 0`, undefined],
    ['--jobs 257: expected', `${BOTH} --jobs 257`, undefined],
    ['--select-rows 0: expected a whole number of 1 or more', `${BOTH} --select-rows 0`, undefined],
    [
      '--grid-quantiles: expected a number above 0, at most 1, found 1.5',
      `${BOTH} --grid-quantiles 0.1,1.5`,
      undefined,
    ],
    ['--grid-quantiles: expected different values', `${BOTH} --grid-quantiles 0.1,0.1`, undefined],
    ['--grid-k: expected a whole number from 1 to 1000, found 0', `${BOTH} --grid-k 0,3`, undefined],
    ['--grid-k: does not apply to oc-kjl-qs; leave it out', `${BOTH} --grid-k 3`, { detector: 'oc-kjl-qs' }],
    ['--grid-k: expected a value or a grid, found both', `${BOTH} --grid-k 3`, { detector: 'gmm', k: 2 }],
    ['--select-normal: pca has no bandwidth quantile and no k left to choose', BOTH, { detector: 'pca' }],
  ])('refuses by flag: %s', (message, args, detector) => {
    expect(() => asked(args, detector)).toThrow(UsageError)
    expect(() => asked(args, detector)).toThrow(message)
  })

  it.each([
    ['--grid-quantiles 0.1,x', /--grid-quantiles.*expected a number between commas/],
    ['--grid-quantiles 0.1,,0.2', /--grid-quantiles.*expected a number between commas/],
    ['--grid-k 1.5', /--grid-k.*expected a whole number of 0 or more between commas/],
    ['--jobs two', /--jobs.*expected a number/],
  ])('refuses what is no list of numbers: %s', (args, message) => {
    expect(() => parsed(`${BOTH} ${args}`)).toThrow(message)
  })
})
