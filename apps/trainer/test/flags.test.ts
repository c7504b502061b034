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
import { UsageError } from '@oddflow/program'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { type TrainCommandOptions, trainOptionsFrom } from '../src/commands/train.js'
import {
  detectorFlagRows,
  flagOf,
  recipeDetector,
  recipeNamed,
  type SelectionFlags,
  selectionFrom,
  withDetectorFlags,
  withSelectionFlags,
} from '../src/flags.js'
import { flowPlan, frameSizeWarning } from '../src/pipeline/flow-plan.js'

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
  const { kind, byDefault, isValid, choices = [] } = optionNamed(name)
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
  const near = byDefault as number
  const other = kind === 'whole' ? [near - 1, near + 1].find(isValid) : near / 2
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

const parsed = (args: string): SelectionFlags => {
  const command = withSelectionFlags(new Command('train')).exitOverride().allowExcessArguments()
  command.configureOutput({ writeErr: () => {} })
  command.parse(['node', 'train', ...args.split(' ').filter((arg) => arg !== '')])
  return command.opts()
}
const selected = (args: string, detector: DetectorOptions = { detector: 'oc-kjl' }) =>
  selectionFrom(parsed(args), detector)
const BOTH = '--select-normal a.npy --select-novel b.npy'

describe('selectionFrom', () => {
  it('is null without labelled inputs', () => {
    expect(selected('')).toBeNull()
  })

  it('is the paper’s grid as far as it applies', () => {
    const search = selected(BOTH)
    expect(search?.candidates.length).toBe(100)
    expect(selected(BOTH, { detector: 'oc-kjl-qs' })?.candidates.length).toBe(10)
    expect(selected(BOTH, { detector: 'gmm' })?.candidates.length).toBe(10)
    expect(Object.keys(selected(BOTH, { detector: 'oc-kjl', k: 4 })?.grid ?? {})).toEqual([
      'bandwidthQuantile',
    ])
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
    expect(() => selected(args, detector)).toThrow(UsageError)
    expect(() => selected(args, detector)).toThrow(message)
  })

  it('refuses threads that are no number', () => {
    expect(() => parsed(`${BOTH} --jobs two`)).toThrow(/--jobs.*expected a number/)
  })
})

const given = (changes: Partial<TrainCommandOptions> = {}): TrainCommandOptions => ({
  output: 'm',
  recipe: 'default',
  fpr: 0.01,
  calibrationShare: 0.2,
  seed: 1,
  format: 'text',
  ...changes,
})
const options = (changes: Partial<TrainCommandOptions> = {}, recipe = 'default') =>
  trainOptionsFrom(given(changes), recipeNamed(recipe), recipeNamed(recipe).features)

describe('rows with sizes of frames', () => {
  const warning = (changes: Partial<TrainCommandOptions>) =>
    frameSizeWarning(flowPlan(given(changes), recipeNamed('default')))

  it.each(['iat-size', 'size', 'stats-header', 'samp-size'] as const)('%s is warned of', (features) => {
    expect(warning({ features })).toMatch(/^--features \S+ with --size frame: .* depend on where/)
    expect(warning({ features, size: 'ip' })).toBeNull()
  })

  it.each(['flow-summary', 'iat', 'samp-num', 'header-bits'] as const)('%s has none', (features) => {
    expect(warning({ features })).toBeNull()
  })
})

describe('recipes', () => {
  it('paper is the text of the paper where it is unambiguous', () => {
    expect(recipeNamed('paper')).toMatchObject({
      bandwidthQuantile: 0.25,
      centre: false,
      iatUnit: 'microseconds',
      truncation: 'truncate',
    })
  })

  it('default judges flow summaries by an ensemble', () => {
    const { calibrationShare: _, ...bare } = given()
    const recipe = recipeNamed('default')
    expect(trainOptionsFrom(bare, recipe, recipe.features).detector).toEqual({
      detector: 'ensemble',
      scaler: 'none',
    })
    expect(flowPlan(given(), recipeNamed('default'))).toMatchObject({
      gathering: { idleTimeoutMicros: 600_000_000, endOnClose: true, sizeMeasure: 'payload' },
      learning: { featureSet: 'flow-summary', activeTimeoutMicros: 600_000_000 },
    })
  })

  it('default has oc-kjl-qs for other rows, which differs from the paper in quantile, unit and long flows', () => {
    expect(recipeDetector(recipeNamed('default'), 'iat-size')).toBe('oc-kjl-qs')
    expect(recipeDetector(recipeNamed('default'), undefined)).toBe('oc-kjl-qs')
    expect(recipeNamed('default')).toMatchObject({
      bandwidthQuantile: 0.3,
      centre: false,
      scaler: 'none',
      iatUnit: 'seconds',
      sizeMeasure: 'frame',
      truncation: 'split',
    })
  })

  it.each(['authers', 'toString', '__proto__', ''])('there is no recipe %j', (name) => {
    expect(() => recipeNamed(name)).toThrow(UsageError)
  })
})

describe('options over a recipe', () => {
  it('a single option overrides its setting and leaves the others', () => {
    expect(options({ bandwidthQuantile: 0.5 }, 'paper').detector).toMatchObject({
      detector: 'oc-kjl-qs',
      bandwidthQuantile: 0.5,
      centre: false,
    })
    expect(flowPlan(given({ iatUnit: 's' }), recipeNamed('paper')).learning).toMatchObject({
      iatUnit: 'seconds',
      mode: 'truncate',
    })
  })

  it("drops a recipe's setting that the detector has no use for, and refuses it when it is given", () => {
    expect(options({ detector: 'oc-nystrom-qs' }).detector).not.toHaveProperty('centre')
    expect(() => options({ detector: 'oc-nystrom-qs', centre: true })).toThrow(/^--centre: does not apply/)
    expect(() => options({ detector: 'oc-nystrom-qs', centre: false })).toThrow(/^--centre: does not apply/)
    expect(() => options({ k: 3 })).toThrow(
      /^--k: does not apply to ensemble; leave it out, or name a detector that takes it: oc-kjl, oc-nystrom, gmm$/,
    )
  })

  it.each([
    [{ fpr: 0 }, '--fpr'],
    [{ fpr: 1 }, '--fpr'],
    [{ fpr: Number.NaN }, '--fpr'],
    [{ calibrationShare: 0 }, '--calibration-share'],
    [{ calibrationShare: 1 }, '--calibration-share'],
    [{ m: 0 }, '--m'],
    [{ detector: 'oc-kjl', d: 0 }, '--d'],
    [{ detector: 'oc-kjl', bandwidthQuantile: 1.5 }, '--bandwidth-quantile'],
    [{ detector: 'oc-kjl', k: 0 }, '--k'],
    [{ detector: 'oc' }, '--detector'],
  ])('refuses %j by its flag', (changes, flag) => {
    expect(() => options(changes)).toThrow(UsageError)
    expect(() => options(changes)).toThrow(new RegExp(`^${flag}\\b`))
  })

  it.each([0, -1, Number.NaN, 1e12, 1e-9])('refuses a timeout of %d seconds', (seconds) => {
    expect(() => flowPlan(given({ idleTimeout: seconds }), recipeNamed('default'))).toThrow(/^--idle-timeout/)
    expect(() => flowPlan(given({ activeTimeout: seconds }), recipeNamed('default'))).toThrow(
      /^--active-timeout/,
    )
  })

  it('takes seconds with a fraction as whole microseconds', () => {
    const { gathering } = flowPlan(given({ idleTimeout: 0.1 + 0.2 }), recipeNamed('default'))
    expect(gathering.idleTimeoutMicros).toBe(300_000)
  })
})
