import { readFileSync, writeFileSync } from 'node:fs'
import {
  checkParameters,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorOptions,
  detectorOptionsOf,
  OPTION_NAMES,
} from '@oddflow/detectors'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { type TrainCommandOptions, trainOptionsFrom } from '../src/commands/train.js'
import { detectorFlagRows, withDetectorFlags } from '../src/detector-flags.js'
import { recipeNamed } from '../src/recipes.js'

const BESIDE = { output: 'm', recipe: 'default', fpr: 0.01, seed: 1, format: 'text' }

/** What `train ARGS` would ask of the detectors. */
function asked(args: readonly string[]): DetectorOptions {
  const command = withDetectorFlags(new Command('train')).exitOverride()
  command.configureOutput({ writeErr: () => {} })
  command.parse(['node', 'train', ...args])
  const options = { ...BESIDE, ...command.opts() } as TrainCommandOptions
  return trainOptionsFrom(options, recipeNamed('default'), 'iat-size').detector
}

/** A value for each option that is not its default. */
const OTHER: Readonly<Record<string, [flag: string, value: unknown]>> = {
  scaler: ['--scaler log', 'log'],
  bandwidthQuantile: ['--bandwidth-quantile 0.7', 0.7],
  quantileCompat: ['--quantile-compat authors', 'authors'],
  precision: ['--precision f32', 'f32'],
  m: ['--m 33', 33],
  landmarks: ['--landmarks farthest-first', 'farthest-first'],
  d: ['--d 4', 4],
  centre: ['--centre', true],
  supportGuard: ['--no-support-guard', false],
  k: ['--k 3', 3],
  covariance: ['--covariance tied', 'tied'],
  nu: ['--nu 0.1', 0.1],
  trees: ['--trees 12', 12],
  bins: ['--bins 12', 12],
  members: ['--members hbos,nearest', ['hbos', 'nearest']],
}

const PAGE = new URL('../../../docs/parameters.md', import.meta.url)

/** The table of docs/parameters.md as it should be. */
const documented = (): string =>
  detectorFlagRows()
    .map(({ flag, detectors, byDefault, help }) => {
      const [name, ...values] = flag.split(' ')
      const shown = [`\`${name}\``, ...values].join(' ')
      return `| ${shown} | ${detectors === '' ? 'all' : detectors} | ${byDefault} | ${help} |`
    })
    .join('\n')

describe('the detectors’ options on the command line', () => {
  it('stand in docs/parameters.md', () => {
    const head = '| --- | --- | --- | --- |\n'
    const page = readFileSync(PAGE, 'utf8')
    const start = page.indexOf(head) + head.length
    const end = page.indexOf('\n\n', start - 1)
    const updated = `${page.slice(0, start)}${documented()}${page.slice(end)}`
    if (process.env.UPDATE_README !== undefined) writeFileSync(PAGE, updated)
    expect(readFileSync(PAGE, 'utf8')).toBe(updated)
  })

  it('are all of them', () => {
    const taken = new Set(DETECTOR_NAMES.flatMap((name) => DETECTORS[name].options))
    expect([...OPTION_NAMES].sort()).toEqual([...taken].sort())
    expect(Object.keys(OTHER).sort()).toEqual([...taken].sort())
  })

  it.each(Object.entries(OTHER))(
    '%s reaches every detector that takes it and no other',
    (option, [flag, value]) => {
      for (const detector of DETECTOR_NAMES) {
        const args = ['--detector', detector, ...flag.split(' ')]
        if ((DETECTORS[detector].options as readonly string[]).includes(option)) {
          const parameters = checkParameters(asked(args))
          expect(detectorOptionsOf(parameters), detector).toMatchObject({ detector, [option]: value })
        } else {
          const name = flag.split(' ')[0]!.replace('--no-', '--')
          expect(() => asked(args)).toThrow(`${name}: does not apply to ${detector}; leave it out`)
        }
      }
    },
  )

  it('say in the help which detectors take them, and the default', () => {
    const help = withDetectorFlags(new Command('train')).helpInformation().replace(/\s+/g, ' ')
    expect(help).toContain('--k <count> components (oc-kjl, oc-nystrom, gmm; default: 10)')
    expect(help).toContain('--trees <count> trees of the forest (iforest; default: 100)')
    expect(help).toMatch(/--scaler <name> scaling of feature columns \(default: none\)/)
    for (const group of ['Detector:', 'Embedding:', 'Mixture:', 'One-class SVM:', 'Other detectors:']) {
      expect(help).toContain(group)
    }
  })
})
