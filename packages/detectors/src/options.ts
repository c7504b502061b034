/**
 * The options of the detectors, each defined once: default, range and help. `DetectorOptions`, the checks, the flags of
 * `oddflow train` and docs/parameters.md derive from this table. A detector's definition lists the options it takes.
 *
 * Defaults follow the paper's section "Implementation Details and Hyperparameter Choices" (m = 100, d = 5, beta = 0.9,
 * n^(2/3) neighbors, 95 % of the rows in at most 20 clusters, full covariances), with the bandwidth at the 0.3-quantile
 * of pair distances. Ranges bound what a hostile or mistaken number can make a fit allocate, not what is sensible.
 */
import { ArgumentError, SCALER_NAMES } from '@oddflow/core'
import { type DetectorName, MEMBER_NAMES, type MemberName } from './detector.js'
import { describeValue } from './fields.js'

export type OptionGroup = 'Detector' | 'Embedding' | 'Mixture' | 'One-class SVM' | 'Other detectors'

/** What is said of an option to people. */
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

/** One option of a detector: default, range and help. */
export interface OptionDefinition<Value> extends OptionHelp {
  readonly kind: 'whole' | 'number' | 'flag' | 'choice' | 'list'
  readonly byDefault: Value
  readonly choices?: readonly string[]
  readonly isValid: (value: unknown) => boolean
  /** "a number between 0 and 1". */
  readonly expected: string
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && !Number.isNaN(value)

function whole(low: number, high: number, byDefault: number, help: OptionHelp): OptionDefinition<number> {
  const isValid = (value: unknown) =>
    Number.isInteger(value) && isNumber(value) && value >= low && value <= high
  return {
    value: 'count',
    ...help,
    kind: 'whole',
    byDefault,
    isValid,
    expected: `a whole number from ${low} to ${high}`,
  }
}

/** No fixed default: null, and the rows decide. */
function wholeOrNull(low: number, high: number, help: OptionHelp): OptionDefinition<number | null> {
  return { ...whole(low, high, low, help), byDefault: null }
}

function number(
  byDefault: number,
  isInRange: (value: number) => boolean,
  expected: string,
  help: OptionHelp,
): OptionDefinition<number> {
  const isValid = (value: unknown) => isNumber(value) && isInRange(value)
  return { value: 'share', ...help, kind: 'number', byDefault, isValid, expected }
}

/** In (0, 1]. */
const share = (byDefault: number, help: OptionHelp) =>
  number(byDefault, (value) => value > 0 && value <= 1, 'a number above 0, at most 1', help)

/** In (0, 1). */
const fraction = (byDefault: number, help: OptionHelp) =>
  number(byDefault, (value) => value > 0 && value < 1, 'a number between 0 and 1', help)

function flag(byDefault: boolean, help: OptionHelp): OptionDefinition<boolean> {
  const isValid = (value: unknown) => typeof value === 'boolean'
  return { ...help, kind: 'flag', byDefault, isValid, expected: 'true or false' }
}

/** One of `choices`, by default the first. */
function choice<const Name extends string>(
  choices: readonly [Name, ...Name[]],
  help: OptionHelp,
): OptionDefinition<Name> {
  const expected = `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`
  const isValid = (value: unknown) => (choices as readonly unknown[]).includes(value)
  return { value: 'name', ...help, kind: 'choice', byDefault: choices[0], choices, isValid, expected }
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
    help: "which distances to rank: between different rows (the paper's text); the whole matrix with its zero diagonal (the authors' program); or only those above 0, if repeated rows make the first rule give 0",
    older: { field: 'parameters.quantileCompat', value: 'pairs' },
  }),
  quantileRows: whole(2, 1_000_000, 5000, {
    group: 'Detector',
    help: 'maximum number of rows whose distances are ranked; of more rows, a random sample (time grows with the square)',
    older: { field: 'parameters.quantileRows', value: 5000 },
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
  /** Raised tenfold, up to 1e-3, while a covariance is singular. */
  regularisation: number(1e-6, (value) => value > 0 && value <= 1e-3, 'a number above 0, at most 0.001', {
    group: 'Mixture',
    value: 'amount',
    help: 'amount added to the diagonal of each covariance, and raised if a covariance is still singular',
  }),
  /** Above 0 for a one-class SVM, whose conditions are never met exactly. */
  tolerance: number(1e-3, (value) => value >= 0 && Number.isFinite(value), 'a number of 0 or more', {
    group: 'Mixture',
    value: 'amount',
    help: 'stop EM when the mean log-likelihood changes by less than this, and a one-class SVM when it violates no optimality condition by more than this',
  }),
  maximumSteps: whole(1, 100_000, 100, { group: 'Mixture', help: 'maximum number of EM steps' }),
  beta: fraction(0.9, {
    group: 'Mixture',
    help: 'QuickShift++: share of density by which a cluster core may fall below its peak',
  }),
  /** null: floor(n^(2/3)), at least 1. */
  neighbours: wholeOrNull(1, 100_000, {
    group: 'Mixture',
    help: 'QuickShift++: number of neighbours, including the row itself',
    shownDefault: 'rows^(2/3)',
  }),
  coverage: share(0.95, {
    group: 'Mixture',
    help: 'QuickShift++: keep clusters, largest first, until they hold more than this share of rows',
  }),
  maximumClusters: whole(1, 1000, 20, {
    group: 'Mixture',
    help: 'QuickShift++: maximum number of clusters to keep',
  }),
  clusterSearchRows: whole(10, 1_000_000, 10_000, {
    group: 'Mixture',
    help: 'QuickShift++: maximum number of rows to search; of more rows, a random sample',
    older: { field: 'parameters.start.clusterSearchRows', value: 10_000 },
  }),
  mixtureStart: choice(['clusters', 'k-means++'], {
    group: 'Mixture',
    help: 'start EM from the clusters of QuickShift++, or from as many clusters of k-means++',
    older: { field: 'parameters.start.mixtureStart', value: 'clusters' },
  }),
  nu: share(0.5, { group: 'One-class SVM', help: 'share of training rows to leave outside the boundary' }),
  kernel: choice(['rbf', 'linear'], { group: 'One-class SVM', help: 'Gaussian kernel, or none' }),
  maximumRows: whole(1, 1_000_000, 5000, {
    group: 'Other detectors',
    help: 'maximum number of training rows to place kernels on',
  }),
  trees: whole(1, 10_000, 100, { group: 'Other detectors', help: 'trees of the forest' }),
  /** At most the number of training rows; the default is lowered to it. */
  subsampleRows: whole(2, 65_536, 256, {
    group: 'Other detectors',
    help: 'number of rows to grow each tree on',
  }),
  varianceShare: fraction(0.95, {
    group: 'Other detectors',
    help: 'keep components until they hold more than this share of the variance',
  }),
  /** Replaces varianceShare. Fewer than the columns, and at most the number of training rows. */
  components: wholeOrNull(1, 999, {
    group: 'Other detectors',
    help: 'number of components to keep, instead of --variance-share',
    shownDefault: 'set by --variance-share',
    older: { field: 'parameters.components', value: null },
  }),
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

/** The name of a detector option. */
export type OptionName = keyof typeof OPTIONS

/** Options with one value, of which a search may try several. */
export type GridOption = Exclude<OptionName, 'members'>

/** null where the default depends on the rows. */
export type OptionValue<Name extends OptionName> = (typeof OPTIONS)[Name]['byDefault']

/** Options that a caller may set. All have defaults; see `OPTIONS`. */
export type DetectorOptions = {
  readonly [Name in OptionName]?: NonNullable<OptionValue<Name>>
} & {
  /** Default `oc-kjl-qs`. */
  readonly detector?: DetectorName
}

export const BANDWIDTH_OPTIONS = ['bandwidthQuantile', 'quantileCompat', 'quantileRows'] as const
export const EM_OPTIONS = ['tolerance', 'maximumSteps', 'regularisation'] as const

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

  has(name: OptionName): boolean {
    return this.given[name] !== undefined && this.given[name] !== null
  }

  read<Name extends OptionName>(name: Name): OptionValue<Name> {
    const { byDefault, isValid, expected } = optionNamed(name)
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
  readAll<const Name extends OptionName>(names: readonly Name[]): { [N in Name]: OptionValue<N> } {
    return Object.fromEntries(names.map((name) => [name, this.read(name)])) as { [N in Name]: OptionValue<N> }
  }
}

export function badOption(field: string, expected: string, found: unknown): ArgumentError {
  const shown =
    typeof found === 'string' ? JSON.stringify(found.slice(0, 60)).slice(1, -1) : describeValue(found)
  return new ArgumentError(`${field}: expected ${expected}, found ${shown}`, field)
}
