/**
 * OptionReader: one option at a time out of what a caller wrote, in range or refused by name.
 *
 * The ranges bound what a hostile or mistaken number can make a fit allocate, not what is sensible. They and
 * the defaults stand here once, for all detectors that have the option.
 */
import { ArgumentError, SCALER_NAMES, type ScalerName } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import { describeValue } from './check-model.js'
import { MEMBER_NAMES, type MemberName } from './detector.js'
import type {
  BandwidthParameters,
  CovarianceType,
  DetectorOptions,
  EmParameters,
  LandmarkChoice,
  MixtureStart,
  OptionName,
} from './parameters.js'

export const DEFAULT_OPTIONS = {
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.3,
  quantileCompat: 'pairs',
  quantileRows: 5000,
  kernel: 'rbf',
  nu: 0.5,
  m: 100,
  landmarks: 'random',
  d: 5,
  k: 10,
  centre: false,
  scaler: 'none',
  precision: 'f64',
  beta: 0.9,
  coverage: 0.95,
  maximumClusters: 20,
  clusterSearchRows: 10_000,
  mixtureStart: 'clusters',
  covariance: 'full',
  tolerance: 1e-3,
  maximumSteps: 100,
  regularisation: 1e-6,
  supportGuard: true,
  maximumRows: 5000,
  trees: 100,
  subsampleRows: 256,
  varianceShare: 0.95,
  bins: 20,
  members: ['nearest', 'hbos'],
} as const satisfies DetectorOptions

export type GivenOptions = Readonly<Record<string, unknown>>

type Numeric = {
  [K in keyof typeof DEFAULT_OPTIONS]: (typeof DEFAULT_OPTIONS)[K] extends number ? K : never
}[keyof typeof DEFAULT_OPTIONS]

export class OptionReader {
  constructor(private readonly given: GivenOptions) {}

  has(name: OptionName): boolean {
    return this.given[name] !== undefined && this.given[name] !== null
  }

  whole(name: Numeric, low: number, high: number): number {
    return this.number(
      name,
      (v) => Number.isInteger(v) && v >= low && v <= high,
      `a whole number from ${low} to ${high}`,
    )
  }

  /** In (0, 1]. */
  share(name: Numeric): number {
    return this.number(name, (v) => v > 0 && v <= 1, 'a number above 0, at most 1')
  }

  /** In (0, 1). */
  fraction(name: Numeric): number {
    return this.number(name, (v) => v > 0 && v < 1, 'a number between 0 and 1')
  }

  flag(name: 'centre' | 'supportGuard'): boolean {
    const value = this.given[name] ?? DEFAULT_OPTIONS[name]
    if (typeof value !== 'boolean') throw badOption(name, 'true or false', value)
    return value
  }

  scaler(): ScalerName {
    return this.oneOf('scaler', SCALER_NAMES)
  }

  precision(): Precision {
    return this.oneOf('precision', ['f64', 'f32'])
  }

  kernel(): 'rbf' | 'linear' {
    return this.oneOf('kernel', ['rbf', 'linear'])
  }

  landmarks(): LandmarkChoice {
    return this.oneOf('landmarks', ['random', 'farthest-first'])
  }

  covariance(): CovarianceType {
    return this.oneOf('covariance', ['full', 'diagonal', 'tied', 'spherical'])
  }

  mixtureStart(): MixtureStart {
    return this.oneOf('mixtureStart', ['clusters', 'k-means++'])
  }

  bandwidth(): BandwidthParameters {
    return {
      bandwidthQuantile: this.share('bandwidthQuantile'),
      quantileCompat: this.oneOf('quantileCompat', ['pairs', 'authors', 'positive-pairs']),
      quantileRows: this.whole('quantileRows', 2, 1_000_000),
    }
  }

  /** null where it is not given: the default depends on the rows. */
  neighbours(): number | null {
    return this.wholeOrNull('neighbours', 1, 100_000)
  }

  /** null where it is not given: then a share of the variance decides. */
  components(): number | null {
    return this.wholeOrNull('components', 1, 999)
  }

  /** Each once, and no ensemble within an ensemble. */
  members(): readonly MemberName[] {
    const value = this.given.members ?? DEFAULT_OPTIONS.members
    const names: readonly unknown[] = Array.isArray(value) ? value : []
    const members = MEMBER_NAMES.filter((name) => names.includes(name))
    if (names.length === 0 || members.length !== names.length) {
      throw badOption('members', `some of ${MEMBER_NAMES.join(', ')}, each once`, value)
    }
    return names as readonly MemberName[]
  }

  em(): EmParameters {
    return {
      tolerance: this.number('tolerance', (v) => v >= 0 && Number.isFinite(v), 'a number of 0 or more'),
      maximumSteps: this.whole('maximumSteps', 1, 100_000),
      regularisation: this.number(
        'regularisation',
        (v) => v > 0 && v <= 1e-3,
        'a number above 0, at most 0.001',
      ),
    }
  }

  /** The one-class SVM's; 0 would never be met. */
  svmTolerance(): number {
    return this.number('tolerance', (v) => v > 0 && Number.isFinite(v), 'a positive number')
  }

  private number(name: Numeric, inRange: (v: number) => boolean, expected: string): number {
    const value = this.given[name] ?? DEFAULT_OPTIONS[name]
    if (typeof value !== 'number' || !inRange(value)) throw badOption(name, expected, value)
    return value
  }

  private wholeOrNull(name: 'neighbours' | 'components', low: number, high: number): number | null {
    const value = this.given[name]
    if (value === undefined || value === null) return null
    if (typeof value !== 'number' || !(Number.isInteger(value) && value >= low && value <= high)) {
      throw badOption(name, `a whole number from ${low} to ${high}`, value)
    }
    return value
  }

  private oneOf<T extends string>(
    name: 'scaler' | 'precision' | 'kernel' | 'covariance' | 'quantileCompat' | 'mixtureStart' | 'landmarks',
    allowed: readonly T[],
  ): T {
    const value = this.given[name] ?? DEFAULT_OPTIONS[name]
    const found = allowed.find((v) => v === value)
    if (found === undefined) {
      const last = allowed[allowed.length - 1]
      throw badOption(name, `${allowed.slice(0, -1).join(', ')} or ${last}`, value)
    }
    return found
  }
}

export function badOption(field: string, expected: string, found: unknown): ArgumentError {
  const shown =
    typeof found === 'string' ? JSON.stringify(found.slice(0, 60)).slice(1, -1) : describeValue(found)
  return new ArgumentError(`${field}: expected ${expected}, found ${shown}`, field)
}
