/**
 * Options of detectors, each defined once: default, range and help. Here are those that several detectors take; an
 * option of one detector is in its own file. `DetectorOptions`, the checks, the flags of `oddflow train` and
 * docs/parameters.md derive from all of them (registry.ts).
 *
 * What no caller sets is a constant, further down. Defaults follow the paper's section "Implementation Details and
 * Hyperparameter Choices" (m = 100, d = 5, beta = 0.9, n^(2/3) neighbors, 95 % of the rows in at most 20 clusters, full
 * covariances), with the bandwidth at the 0.3-quantile of pair distances. Ranges bound what a hostile or mistaken
 * number can make a fit allocate, not what is sensible.
 */
import { ArgumentError } from '@oddflow/core'
import type { DetectorName } from './detector.js'
import { shownValue } from './fields.js'
import type { Definitions } from './registry.js'
import { SCALER_NAMES } from './scaler.js'

/** In the order of the help. */
const GROUPS = ['Detector', 'Embedding', 'Mixture', 'One-class SVM', 'Other detectors'] as const

export type OptionGroup = (typeof GROUPS)[number]

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

/** An option or a constant. */
export interface Setting<Value> extends Range {
  readonly byDefault: Value
  /** Of a constant that the first model files lack: its field in the parameters. */
  readonly laterField?: string
}

/** Options and constants by name. */
export type SettingTable = Readonly<Record<string, Setting<unknown>>>

/** The values of a table's settings. */
export type ValuesOf<Table extends SettingTable> = {
  readonly [Name in keyof Table]: Table[Name]['byDefault']
}

/** One option of a detector: default, range and help. */
export interface OptionDefinition<Value> extends Setting<Value>, OptionHelp {
  readonly kind: 'whole' | 'number' | 'flag' | 'choice' | 'list'
  readonly choices?: readonly string[]
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && !Number.isNaN(value)

export const wholeIn = (low: number, high: number): Range => ({
  isValid: (value) => Number.isInteger(value) && isNumber(value) && value >= low && value <= high,
  expected: `a whole number from ${low} to ${high}`,
})

export const numberIn = (expected: string, isInRange: (value: number) => boolean): Range => ({
  isValid: (value) => isNumber(value) && isInRange(value),
  expected,
})

export const SHARE = numberIn('a number above 0, at most 1', (value) => value > 0 && value <= 1)
export const FRACTION = numberIn('a number between 0 and 1', (value) => value > 0 && value < 1)

export const oneOf = (choices: readonly string[]): Range => ({
  isValid: (value) => (choices as readonly unknown[]).includes(value),
  expected: `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`,
})

export function whole(
  low: number,
  high: number,
  byDefault: number,
  help: OptionHelp,
): OptionDefinition<number> {
  return { value: 'count', ...help, kind: 'whole', byDefault, ...wholeIn(low, high) }
}

export function share(byDefault: number, help: OptionHelp): OptionDefinition<number> {
  return { value: 'share', ...help, kind: 'number', byDefault, ...SHARE }
}

export function flag(byDefault: boolean, help: OptionHelp): OptionDefinition<boolean> {
  const isValid = (value: unknown) => typeof value === 'boolean'
  return { ...help, kind: 'flag', byDefault, isValid, expected: 'true or false' }
}

/** One of `choices`, by default the first. */
export function choice<const Name extends string>(
  choices: readonly [Name, ...Name[]],
  help: OptionHelp,
): OptionDefinition<Name> {
  return { value: 'name', ...help, kind: 'choice', byDefault: choices[0], choices, ...oneOf(choices) }
}

/** In the order of the help. */
export const SHARED_OPTIONS = {
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
    help: "distances from which the bandwidth quantile is taken. pairs: the distances between all pairs of rows, as in the paper's text. authors: also the distance 0 of each row to itself, as in their program. positive-pairs: only distances above 0; for rows with so many repeats that the bandwidth is 0 otherwise",
    older: { field: 'parameters.quantileCompat', value: 'pairs' },
  }),
  /** At most the number of training rows; the default is lowered to it. */
  m: whole(1, 2000, 100, { group: 'Embedding', help: 'landmarks', shownDefault: '100; for ensemble 128' }),
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
    help: 'a row that is far from every landmark is always novel',
    off: 'score as the paper does, without a guard',
    older: { field: 'parameters.supportGuard', value: false },
  }),
  /** At most the number of training rows; lowered to the number of different rows. */
  k: whole(1, 1000, 10, { group: 'Mixture', help: 'components' }),
  nu: share(0.5, { group: 'One-class SVM', help: 'share of training rows to leave outside the boundary' }),
}

export const constant = <const Value>(
  byDefault: Value,
  range: Range,
  laterField?: string,
): Setting<Value> => ({ byDefault, ...range, ...(laterField === undefined ? {} : { laterField }) })

/**
 * Constants that models store and callers cannot set: no measurement favours another value. Files of earlier versions,
 * where they were options, may hold other values in these ranges.
 */
const SHARED_CONSTANTS = {
  /** Of more rows, a random sample is ranked: time grows with the square. */
  quantileRows: constant<number>(5000, wholeIn(2, 1_000_000), 'parameters.quantileRows'),
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
  clusterSearchRows: constant<number>(10_000, wholeIn(10, 1_000_000), 'parameters.start.clusterSearchRows'),
  mixtureStart: constant<'clusters' | 'k-means++'>(
    'clusters',
    oneOf(['clusters', 'k-means++']),
    'parameters.start.mixtureStart',
  ),
}

export const SHARED_SETTINGS = { ...SHARED_OPTIONS, ...SHARED_CONSTANTS }

/** The name of a setting that several detectors have. */
export type SharedName = keyof typeof SHARED_SETTINGS

/** The value of a setting that several detectors have. */
export type SharedValue<Name extends SharedName> = (typeof SHARED_SETTINGS)[Name]['byDefault']

/** Only an option has a text for people. */
export function isOption(setting: Setting<unknown>): setting is OptionDefinition<unknown> {
  return 'help' in setting
}

/** In the order of their groups. */
export function inHelpOrder(options: Readonly<Record<string, OptionDefinition<unknown>>>) {
  const rank = ([, { group }]: [string, OptionDefinition<unknown>]): number => GROUPS.indexOf(group)
  return Object.fromEntries(Object.entries(options).sort((a, b) => rank(a) - rank(b)))
}

// ---- the options of all detectors

type OwnTables = { [Name in DetectorName]: NonNullable<Definitions[Name]['own']> }[DetectorName]
type OptionTables = typeof SHARED_OPTIONS | OwnTables
type OptionsIn<Table> = Table extends unknown
  ? { [Name in keyof Table]: Table[Name] extends OptionDefinition<unknown> ? Name : never }[keyof Table]
  : never

/** The name of a detector option. */
export type OptionName = OptionsIn<OptionTables> & string

/** Options with one value, of which a search may try several. */
export type GridOption = Exclude<OptionName, 'members'>

type ValueIn<Table, Name extends string> =
  Table extends Readonly<Record<Name, OptionDefinition<infer Value>>> ? Value : never

/** Options that a caller may set. All have defaults; see `OPTIONS`. */
export type DetectorOptions = {
  readonly [Name in OptionName]?: ValueIn<OptionTables, Name>
} & {
  /** Default `oc-kjl-qs`. */
  readonly detector?: DetectorName
}

export const BANDWIDTH_OPTIONS = ['bandwidthQuantile', 'quantileCompat'] as const
export const EM_CONSTANTS = ['tolerance', 'maximumSteps', 'regularisation'] as const

/** The detector of options that name none. */
export const DEFAULT_DETECTOR = 'oc-kjl-qs'

export type GivenOptions = Readonly<Record<string, unknown>>

/** Reads a caller's options one at a time: in range, or an ArgumentError that names the option. */
export class OptionReader {
  constructor(private readonly given: GivenOptions) {}

  has(name: string): boolean {
    return this.given[name] !== undefined && this.given[name] !== null
  }

  read<Name extends SharedName>(name: Name): SharedValue<Name> {
    return this.readAs(name, SHARED_SETTINGS[name]) as SharedValue<Name>
  }

  /** Several, as an object with their names. */
  readAll<const Name extends SharedName>(names: readonly Name[]): { [N in Name]: SharedValue<N> } {
    return Object.fromEntries(names.map((name) => [name, this.read(name)])) as { [N in Name]: SharedValue<N> }
  }

  /** A detector's own settings. */
  readOwn<Table extends SettingTable>(table: Table): ValuesOf<Table> {
    const values = Object.entries(table).map(([name, setting]) => [name, this.readAs(name, setting)])
    return Object.fromEntries(values) as ValuesOf<Table>
  }

  /** A one-class SVM's tolerance: 0 would never be met. */
  readPositiveTolerance(): number {
    const tolerance = this.read('tolerance')
    if (tolerance === 0) throw badOption('tolerance', 'a positive number', tolerance)
    return tolerance
  }

  private readAs(name: string, { byDefault, isValid, expected }: Setting<unknown>): unknown {
    if (!this.has(name)) return byDefault
    const value = this.given[name]
    if (!isValid(value)) throw badOption(name, expected, value)
    return value
  }
}

export function badOption(field: string, expected: string, found: unknown): ArgumentError {
  return new ArgumentError(`${field}: expected ${expected}, found ${shownValue(found)}`, field)
}
