/**
 * The options of the detectors, each defined once: default, range and help. `DetectorOptions`, the checks, the flags of
 * `oddflow train` and docs/parameters.md derive from this table. A detector's definition lists the options it takes.
 *
 * What no caller sets is a constant, further down. Defaults follow the paper's section "Implementation Details and
 * Hyperparameter Choices" (m = 100, d = 5, beta = 0.9, n^(2/3) neighbors, 95 % of the rows in at most 20 clusters, full
 * covariances), with the bandwidth at the 0.3-quantile of pair distances. Ranges bound what a hostile or mistaken
 * number can make a fit allocate, not what is sensible.
 */
import { ArgumentError, SCALER_NAMES } from '@oddflow/core'
import { type DetectorName, MEMBER_NAMES, type MemberName } from './detector.js'
import { shownValue } from './fields.js'

export type OptionGroup = 'Detector' | 'Embedding' | 'Mixture' | 'One-class SVM' | 'Other detectors'

/** The description of an option for people. */
interface OptionHelp {
  readonly group: OptionGroup
  readonly help: string
  /** What stands for the value in the help. */
  readonly value?: string
  /** Of a switch: what `--no-…` says. */
  readonly off?: string
  /** Text for a default that is not a value. */
  readonly shownDefault?: string
  /**
   * For an option added after the first model files: its field in the parameters, and the value for files without it.
   */
  readonly older?: { readonly field: string; readonly value: unknown }
}

interface Range {
  readonly isValid: (value: unknown) => boolean
  /** "a number between 0 and 1". */
  readonly expected: string
}

interface Setting<Value> extends Range {
  readonly byDefault: Value
}

/** One option of a detector: default, range and help. */
export interface OptionDefinition<Value> extends Setting<Value>, OptionHelp {
  readonly kind: 'whole' | 'number' | 'flag' | 'choice' | 'list'
  readonly choices?: readonly string[]
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && !Number.isNaN(value)

const wholeIn = (low: number, high: number): Range => ({
  isValid: (value) => Number.isInteger(value) && isNumber(value) && value >= low && value <= high,
  expected: `a whole number from ${low} to ${high}`,
})

const numberIn = (expected: string, isInRange: (value: number) => boolean): Range => ({
  isValid: (value) => isNumber(value) && isInRange(value),
  expected,
})

const SHARE = numberIn('a number above 0, at most 1', (value) => value > 0 && value <= 1)
const FRACTION = numberIn('a number between 0 and 1', (value) => value > 0 && value < 1)

const oneOf = (choices: readonly string[]): Range => ({
  isValid: (value) => (choices as readonly unknown[]).includes(value),
  expected: `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`,
})

function whole(low: number, high: number, byDefault: number, help: OptionHelp): OptionDefinition<number> {
  return { value: 'count', ...help, kind: 'whole', byDefault, ...wholeIn(low, high) }
}

function share(byDefault: number, help: OptionHelp): OptionDefinition<number> {
  return { value: 'share', ...help, kind: 'number', byDefault, ...SHARE }
}

function flag(byDefault: boolean, help: OptionHelp): OptionDefinition<boolean> {
  const isValid = (value: unknown) => typeof value === 'boolean'
  return { ...help, kind: 'flag', byDefault, isValid, expected: 'true or false' }
}

/** One of `choices`, by default the first. */
function choice<const Name extends string>(
  choices: readonly [Name, ...Name[]],
  help: OptionHelp,
): OptionDefinition<Name> {
  return { value: 'name', ...help, kind: 'choice', byDefault: choices[0], choices, ...oneOf(choices) }
}

/** Each member once, and no ensemble inside an ensemble. */
function members(
  byDefault: readonly MemberName[],
  help: OptionHelp,
): OptionDefinition<readonly MemberName[]> {
  const isValid = (value: unknown) =>
    Array.isArray(value) &&
    value.length > 0 &&
    new Set(value).size === value.length &&
    value.every((name) => (MEMBER_NAMES as readonly unknown[]).includes(name))
  const expected = `some of ${MEMBER_NAMES.join(', ')}, each once`
  return { value: 'list', ...help, kind: 'list', byDefault, isValid, expected }
}

/** In the order of the help. */
export const OPTIONS = {
  scaler: choice(SCALER_NAMES, {
    group: 'Detector',
    help: 'scaling of feature columns',
  }),
  /** Sums of kernel values, and everything learned from them, are float64 in both cases. */
  precision: choice(['f64', 'f32'], {
    group: 'Detector',
    value: 'type',
    help: 'kernel values as float64, or as float32: about twice as fast, half the space, scores exact to about six digits',
    older: { field: 'parameters.precision', value: 'f64' },
  }),
  bandwidthQuantile: share(0.3, {
    group: 'Detector',
    value: 'q',
    help: 'kernel bandwidth as a quantile of the distances between pairs of rows',
  }),
  quantileCompat: choice(['pairs', 'authors', 'positive-pairs'], {
    group: 'Detector',
    value: 'rule',
    help: "distances of the bandwidth quantile: between all pairs of rows (pairs, as in the paper's text); these and each row's distance of 0 to itself (authors, as in their program); or those above 0 only (positive-pairs, for rows that repeat so often that pairs gives 0)",
    older: { field: 'parameters.quantileCompat', value: 'pairs' },
  }),
  /** At most the number of training rows; the default is lowered to it. */
  m: whole(1, 2000, 100, { group: 'Embedding', help: 'landmarks', shownDefault: '100; ensemble: 128' }),
  /** Farthest-first finds fewer than m if fewer rows differ. */
  landmarks: choice(['random', 'farthest-first'], {
    group: 'Embedding',
    value: 'choice',
    help: 'which rows become landmarks: random ones, or ones that cover all rows, including rare kinds',
    older: { field: 'parameters.landmarks', value: 'random' },
  }),
  /** At most m; lowered to the rank of the landmarks if some are equal. */
  d: whole(1, 256, 5, { group: 'Embedding', help: 'dimensions of the embedding' }),
  /** KJL only: subtract the column means of the gram matrix before sketching. The paper does not. */
  centre: flag(false, {
    group: 'Embedding',
    help: 'centre the columns of the gram matrix',
    off: 'do not centre them',
  }),
  /** Without it the score is the paper's. */
  supportGuard: flag(true, {
    group: 'Embedding',
    help: 'make a row far from every landmark novel',
    off: 'score as the paper does, without a guard',
    older: { field: 'parameters.supportGuard', value: false },
  }),
  /** At most the number of training rows; lowered to the number of different rows. */
  k: whole(1, 1000, 10, { group: 'Mixture', help: 'components' }),
  covariance: choice(['full', 'diagonal', 'tied', 'spherical'], {
    group: 'Mixture',
    value: 'type',
    help: "form of the components' covariances",
  }),
  nu: share(0.5, { group: 'One-class SVM', help: 'share of training rows to leave outside the boundary' }),
  trees: whole(1, 10_000, 100, { group: 'Other detectors', help: 'trees of the forest' }),
  bins: whole(1, 1000, 20, {
    group: 'Other detectors',
    help: 'bins of the histogram of a column',
    shownDefault: '20; ensemble: 2 rows^(1/3), from 20 to 64',
  }),
  members: members(['nearest', 'hbos'], {
    group: 'Other detectors',
    help: 'detectors whose surprises are summed',
  }),
}

const constant = <const Value>(byDefault: Value, range: Range): Setting<Value> => ({ byDefault, ...range })

/**
 * Constants that models store and callers cannot set: no measurement favours another value. Files of earlier versions,
 * where they were options, may hold other values in these ranges.
 */
export const CONSTANTS = {
  /** Of more rows, a random sample is ranked: time grows with the square. */
  quantileRows: constant<number>(5000, wholeIn(2, 1_000_000)),
  /** EM stops when the mean log-likelihood changes by less, a one-class SVM when it violates no condition by more. */
  tolerance: constant<number>(
    1e-3,
    numberIn('a number of 0 or more', (value) => value >= 0 && Number.isFinite(value)),
  ),
  maximumSteps: constant<number>(100, wholeIn(1, 100_000)),
  /** Added to the diagonals of covariances; raised tenfold, up to 1e-3, while one is singular. */
  regularisation: constant<number>(
    1e-6,
    numberIn('a number above 0, at most 0.001', (value) => value > 0 && value <= 1e-3),
  ),
  /** QuickShift++: share of density by which a cluster core may fall below its peak. */
  beta: constant<number>(0.9, FRACTION),
  /** null: floor(n^(2/3)), at least 1. */
  neighbours: constant<number | null>(null, wholeIn(1, 100_000)),
  /** Clusters are kept, largest first, until they hold more than this share of rows. */
  coverage: constant<number>(0.95, SHARE),
  maximumClusters: constant<number>(20, wholeIn(1, 1000)),
  /** Of more rows, clusters are searched in a random sample. */
  clusterSearchRows: constant<number>(10_000, wholeIn(10, 1_000_000)),
  mixtureStart: constant<'clusters' | 'k-means++'>('clusters', oneOf(['clusters', 'k-means++'])),
  /** Rows that a kernel density places kernels on. */
  maximumRows: constant<number>(5000, wholeIn(1, 1_000_000)),
  /** Rows to grow each tree of an isolation forest on; lowered to the number of training rows. */
  subsampleRows: constant<number>(256, wholeIn(2, 65_536)),
  /** Principal components are kept until they hold more than this share of the variance; null beside `components`. */
  varianceShare: constant<number>(0.95, FRACTION),
  components: constant<number | null>(null, wholeIn(1, 999)),
  /** Of a one-class SVM. */
  kernel: constant<'rbf' | 'linear'>('rbf', oneOf(['rbf', 'linear'])),
}

/** Stored in files, but in none of the first versions. */
export const LATER_CONSTANTS = [
  'parameters.quantileRows',
  'parameters.components',
  'parameters.start.clusterSearchRows',
  'parameters.start.mixtureStart',
]

const SETTINGS = { ...OPTIONS, ...CONSTANTS }

type SettingName = keyof typeof SETTINGS

export type ConstantName = keyof typeof CONSTANTS

export function isConstant(name: string): name is ConstantName {
  return Object.hasOwn(CONSTANTS, name)
}

/** The name of a detector option. */
export type OptionName = keyof typeof OPTIONS

/** Options with one value, of which a search may try several. */
export type GridOption = Exclude<OptionName, 'members'>

/** null where the default depends on the rows. */
export type OptionValue<Name extends SettingName> = (typeof SETTINGS)[Name]['byDefault']

/** Options that a caller may set. All have defaults; see `OPTIONS`. */
export type DetectorOptions = {
  readonly [Name in OptionName]?: NonNullable<OptionValue<Name>>
} & {
  /** Default `oc-kjl-qs`. */
  readonly detector?: DetectorName
}

export const BANDWIDTH_OPTIONS = ['bandwidthQuantile', 'quantileCompat'] as const
export const EM_CONSTANTS = ['tolerance', 'maximumSteps', 'regularisation'] as const

/** Any of them, where its type does not matter. */
export function optionNamed(name: OptionName): OptionDefinition<unknown> {
  return OPTIONS[name]
}

/** The names of all detector options, in the order of the help. */
export const OPTION_NAMES = Object.keys(OPTIONS) as readonly OptionName[]

/** The detector of options that name none. */
export const DEFAULT_DETECTOR = 'oc-kjl-qs'

export type GivenOptions = Readonly<Record<string, unknown>>

/** Reads a caller's options one at a time: in range, or an ArgumentError that names the option. */
export class OptionReader {
  constructor(private readonly given: GivenOptions) {}

  has(name: SettingName): boolean {
    return this.given[name] !== undefined && this.given[name] !== null
  }

  read<Name extends SettingName>(name: Name): OptionValue<Name> {
    const { byDefault, isValid, expected }: Setting<unknown> = SETTINGS[name]
    if (!this.has(name)) return byDefault as OptionValue<Name>
    const value = this.given[name]
    if (!isValid(value)) throw badOption(name, expected, value)
    return value as OptionValue<Name>
  }

  /** A one-class SVM's tolerance: 0 would never be met. */
  readPositiveTolerance(): number {
    const tolerance = this.read('tolerance')
    if (tolerance === 0) throw badOption('tolerance', 'a positive number', tolerance)
    return tolerance
  }

  /** Several, as an object with their names. */
  readAll<const Name extends SettingName>(names: readonly Name[]): { [N in Name]: OptionValue<N> } {
    return Object.fromEntries(names.map((name) => [name, this.read(name)])) as { [N in Name]: OptionValue<N> }
  }
}

export function badOption(field: string, expected: string, found: unknown): ArgumentError {
  return new ArgumentError(`${field}: expected ${expected}, found ${shownValue(found)}`, field)
}
