/**
 * checkParameters: options in, complete and ranged parameters out, or an ArgumentError that names the option.
 *
 * The ranges bound what a hostile or mistaken number can make a fit allocate (m·m and k·d·d numbers), not
 * what is sensible. A model file stores checked parameters; `checkStoredParameters` turns them back into
 * options and checks them the same way, so there is one set of rules.
 */
import { ArgumentError, type ScalerName } from '@oddflow/core'
import type { DetectorDefinition } from './detector-definition.js'
import { DETECTOR_NAMES, isDetectorName } from './detector-name.js'
import type { CheckedParameters, DetectorOptions, OptionName } from './parameters.js'
import { DETECTORS } from './registry.js'

export const DEFAULT_OPTIONS = {
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.3,
  m: 100,
  d: 5,
  k: 10,
  centre: false,
  scaler: 'none',
  beta: 0.9,
  coverage: 0.95,
  maximumClusters: 20,
  tolerance: 1e-3,
  maximumSteps: 100,
  regularisation: 1e-6,
  supportGuard: true,
} as const satisfies DetectorOptions

const OPTION_NAMES: Readonly<Record<OptionName, true>> = {
  bandwidthQuantile: true,
  m: true,
  d: true,
  k: true,
  centre: true,
  scaler: true,
  beta: true,
  neighbours: true,
  coverage: true,
  maximumClusters: true,
  tolerance: true,
  maximumSteps: true,
  regularisation: true,
  supportGuard: true,
}

/** Throws ArgumentError with `field` set to the option at fault. An option set to undefined counts as not given. */
export function checkParameters(options: DetectorOptions = {}): CheckedParameters {
  const given = options as Readonly<Record<string, unknown>>
  const detector = given.detector ?? DEFAULT_OPTIONS.detector
  if (!isDetectorName(detector)) {
    throw bad('detector', `one of ${DETECTOR_NAMES.join(', ')}`, detector)
  }
  const definition = DETECTORS[detector]
  refuseForeignOptions(given, definition)
  const number = (name: OptionName, fallback: number, inRange: (v: number) => boolean, expected: string) => {
    const value = given[name] ?? fallback
    if (typeof value !== 'number' || !inRange(value)) throw bad(name, expected, value)
    return value
  }
  const whole = (name: OptionName, fallback: number, low: number, high: number) =>
    number(
      name,
      fallback,
      (v) => Number.isInteger(v) && v >= low && v <= high,
      `a whole number from ${low} to ${high}`,
    )
  const D = DEFAULT_OPTIONS
  return {
    detector,
    scaler: checkScaler(given.scaler ?? D.scaler),
    bandwidthQuantile: number(
      'bandwidthQuantile',
      D.bandwidthQuantile,
      (v) => v > 0 && v <= 1,
      'a number above 0, at most 1',
    ),
    m: whole('m', D.m, 1, 2000),
    d: whole('d', D.d, 1, 256),
    embedding:
      definition.embedding === 'kjl'
        ? { kind: 'kjl', centre: checkBoolean('centre', given.centre ?? D.centre) }
        : { kind: 'nystrom' },
    start:
      definition.start === 'k-means++'
        ? { kind: 'k-means++', k: whole('k', D.k, 1, 1000) }
        : {
            kind: 'quickshift++',
            beta: number('beta', D.beta, (v) => v > 0 && v < 1, 'a number between 0 and 1'),
            neighbours:
              given.neighbours === undefined || given.neighbours === null
                ? null
                : whole('neighbours', 1, 1, 100_000),
            coverage: number('coverage', D.coverage, (v) => v > 0 && v <= 1, 'a number above 0, at most 1'),
            maximumClusters: whole('maximumClusters', D.maximumClusters, 1, 1000),
          },
    em: {
      tolerance: number(
        'tolerance',
        D.tolerance,
        (v) => v >= 0 && Number.isFinite(v),
        'a number of 0 or more',
      ),
      maximumSteps: whole('maximumSteps', D.maximumSteps, 1, 100_000),
      regularisation: number(
        'regularisation',
        D.regularisation,
        (v) => v > 0 && v <= 1e-3,
        'a number above 0, at most 0.001',
      ),
    },
    supportGuard: checkBoolean('supportGuard', given.supportGuard ?? D.supportGuard),
  }
}

/** Checks parameters that came out of a file. Throws ArgumentError naming `parameters.…`. */
export function checkStoredParameters(value: unknown): CheckedParameters {
  const p = asRecord(value, 'parameters')
  const embedding = asRecord(p.embedding, 'parameters.embedding')
  const start = asRecord(p.start, 'parameters.start')
  const em = asRecord(p.em, 'parameters.em')
  const { kind: embeddingKind, ...embeddingOptions } = embedding
  const { kind: startKind, ...startOptions } = start
  const { detector, scaler, bandwidthQuantile, m, d } = p
  // files written before there was a guard do not speak of it, and have none
  const supportGuard = p.supportGuard ?? false
  const checked = checkParameters({
    detector,
    scaler,
    bandwidthQuantile,
    m,
    d,
    ...embeddingOptions,
    ...startOptions,
    ...em,
    supportGuard,
  } as DetectorOptions)
  if (embeddingKind !== checked.embedding.kind) {
    throw bad('parameters.embedding.kind', checked.embedding.kind, embeddingKind)
  }
  if (startKind !== checked.start.kind) throw bad('parameters.start.kind', checked.start.kind, startKind)
  return checked
}

function refuseForeignOptions(
  given: Readonly<Record<string, unknown>>,
  { name: detector, options }: DetectorDefinition,
): void {
  for (const [name, value] of Object.entries(given)) {
    if (name === 'detector' || value === undefined || value === null) continue
    if (!Object.hasOwn(OPTION_NAMES, name)) {
      throw new ArgumentError(
        `${name}: there is no such option; known: ${Object.keys(OPTION_NAMES).join(', ')}`,
        name,
      )
    }
    if (!(options as readonly string[]).includes(name)) {
      throw new ArgumentError(
        `${name}: does not apply to ${detector}, which takes ${options.join(', ')}`,
        name,
      )
    }
  }
}

function checkScaler(value: unknown): ScalerName {
  if (value !== 'none' && value !== 'standard') throw bad('scaler', 'none or standard', value)
  return value
}

function checkBoolean(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw bad(field, 'true or false', value)
  return value
}

function asRecord(value: unknown, field: string): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw bad(field, 'an object', value)
  return value as Record<string, unknown>
}

function bad(field: string, expected: string, found: unknown): ArgumentError {
  const shown = typeof found === 'object' ? JSON.stringify(found) : String(found)
  return new ArgumentError(`${field}: expected ${expected}, found ${shown?.slice(0, 60)}`, field)
}
