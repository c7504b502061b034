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
    expect(search?.candidates.length).toBe(100)
    expect(asked(BOTH, { detector: 'oc-kjl-qs' })?.candidates.length).toBe(10)
    expect(asked(BOTH, { detector: 'gmm' })?.candidates.length).toBe(10)
    expect(Object.keys(asked(BOTH, { detector: 'oc-kjl', k: 4 })?.grid ?? {})).toEqual(['bandwidthQuantile'])
  })

  it.each<[string, string, DetectorOptions | undefined]>([
    ['--jobs: needs --select-normal and --select-novel', '--jobs 2', undefined],
    ['--selection-report: needs --select-normal', '--selection-report r.json', undefined],
    ['--select-normal: needs --select-novel', '--select-normal a.npy', undefined],
    ['--select-novel: needs --select-normal', '--select-novel a.npy', undefined],
    ['--jobs 0: expected a whole number from 1 to 256', `${BOTH} --jobs 0`, undefined],
    ['--jobs 257: expected', `${BOTH} --jobs 257`, undefined],
    ['--select-normal: pca has no bandwidth quantile and no k left to choose', BOTH, { detector: 'pca' }],
  ])('refuses by flag: %s', (message, args, detector) => {
    expect(() => asked(args, detector)).toThrow(UsageError)
    expect(() => asked(args, detector)).toThrow(message)
  })

  it('refuses threads that are no number', () => {
    expect(() => parsed(`${BOTH} --jobs two`)).toThrow(/--jobs.*expected a number/)
  })
})
