import { readFileSync, writeFileSync } from 'node:fs'
import {
  checkParameters,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorOptions,
  detectorOptionsOf,
  OPTION_NAMES,
  type OptionName,
  optionNamed,
} from '@oddflow/detectors'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { type TrainCommandOptions, trainOptionsFrom } from '../src/commands/train.js'
import { detectorFlagRows, withDetectorFlags } from '../src/detector-flags.js'
import { flagOf } from '../src/flags.js'
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

/** A flag for each option with a value that is not its default. */
const OTHER: readonly [option: OptionName, flag: string, value: unknown][] = OPTION_NAMES.map((name) => {
  const { kind, byDefault, choices = [] } = optionNamed(name)
  const flag = flagOf(name)
  if (kind === 'flag') return [name, byDefault ? flag.replace('--', '--no-') : flag, !byDefault]
  if (kind === 'list') {
    const reversed = [...(byDefault as string[])].reverse()
    return [name, `${flag} ${reversed.join(',')}`, reversed]
  }
  if (kind === 'choice') {
    const other = choices.find((one) => one !== byDefault)
    return [name, `${flag} ${other}`, other]
  }
  const other = kind === 'whole' ? (byDefault as number) - 1 : (byDefault as number) / 2
  return [name, `${flag} ${other}`, other]
})

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
  })

  it.each(OTHER)('%s reaches every detector that takes it and no other', (option, flag, value) => {
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
  })

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
