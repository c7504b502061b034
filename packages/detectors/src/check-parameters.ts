/**
 * checkParameters: options in, complete and ranged parameters out, or an ArgumentError that names the option.
 *
 * A model file stores checked parameters; `checkStoredParameters` turns them back into options and checks them
 * the same way, so there is one set of rules.
 */
import { ArgumentError } from '@oddflow/core'
import type { DetectorDefinition } from './detector-definition.js'
import { DETECTOR_NAMES, type DetectorName, isDetectorName } from './detector-name.js'
import { badOption, DEFAULT_OPTIONS, type GivenOptions, OptionReader } from './option-reader.js'
import type { CheckedParameters, DetectorOptions, OptionName, ParametersOf } from './parameters.js'
import { DETECTORS } from './registry.js'
import { checkSameFields } from './same-fields.js'

export { DEFAULT_OPTIONS } from './option-reader.js'

const OPTION_NAMES: Readonly<Record<OptionName, true>> = {
  bandwidthQuantile: true,
  quantileCompat: true,
  quantileRows: true,
  kernel: true,
  nu: true,
  m: true,
  d: true,
  k: true,
  centre: true,
  scaler: true,
  beta: true,
  neighbours: true,
  coverage: true,
  maximumClusters: true,
  covariance: true,
  tolerance: true,
  maximumSteps: true,
  regularisation: true,
  supportGuard: true,
  maximumRows: true,
  trees: true,
  subsampleRows: true,
  varianceShare: true,
  components: true,
}

/** Throws ArgumentError with `field` set to the option at fault. An option set to undefined counts as not given. */
export function checkParameters<Name extends DetectorName = typeof DEFAULT_OPTIONS.detector>(
  options: DetectorOptions & { readonly detector?: Name } = {},
): ParametersOf<Name> {
  return checkGiven(options as GivenOptions) as ParametersOf<Name>
}

function checkGiven(given: GivenOptions): CheckedParameters {
  const detector = given.detector ?? DEFAULT_OPTIONS.detector
  if (!isDetectorName(detector)) throw badDetector(detector)
  const definition = DETECTORS[detector]
  refuseForeignOptions(given, definition)
  return definition.checkParameters(new OptionReader(given))
}

/** The options that `checkParameters` makes these parameters of, defaults written out; null ones are left away. */
export function detectorOptionsOf(parameters: CheckedParameters): DetectorOptions {
  const options: Record<string, unknown> = {}
  for (const [key, entry] of Object.entries(parameters)) {
    if (!STAGES.includes(key)) options[key] = entry ?? undefined
    else {
      const { kind: _, ...stage } = entry as Record<string, unknown>
      for (const [name, value] of Object.entries(stage)) options[name] = value ?? undefined
    }
  }
  return options
}

/** Checks parameters that came out of a file, which lack no field and have no other. Throws ArgumentError naming an
 * option or `parameters.…`. */
export function checkStoredParameters(value: unknown): CheckedParameters {
  const stored = recordOf(value, 'parameters')
  if (!isDetectorName(stored.detector)) throw badDetector(stored.detector)
  // without a prototype, so that a key `__proto__` is a key like any other
  const options = Object.create(null) as Record<string, unknown>
  const kinds: [string, unknown][] = []
  for (const [key, entry] of Object.entries(stored)) {
    if (!STAGES.includes(key)) options[key] = entry
    else {
      const { kind, ...stage } = recordOf(entry, `parameters.${key}`)
      Object.assign(options, stage)
      kinds.push([key, kind])
    }
  }
  const checked = checkGiven(older(options))
  for (const stage of STAGES) {
    const wanted = (checked as unknown as Readonly<Record<string, { readonly kind?: string } | undefined>>)[
      stage
    ]
    const found = kinds.find(([key]) => key === stage)
    if (wanted !== undefined && found === undefined) recordOf(undefined, `parameters.${stage}`)
    if (found !== undefined && wanted?.kind !== found[1]) {
      throw badOption(`parameters.${stage}.kind`, wanted?.kind ?? 'nothing', found[1])
    }
  }
  // options have defaults; what was stored is complete, and each field stands in its own stage
  checkSameFields(
    stored,
    checked,
    'parameters',
    YOUNGER_FIELDS.filter((field) => isAsBefore(checked, field)).map((field) => `parameters.${field}`),
  )
  return checked
}

function badDetector(found: unknown): ArgumentError {
  return badOption('detector', `one of ${DETECTOR_NAMES.join(', ')}`, found)
}

/** Parameters that are grouped by the stage that uses them. */
const STAGES = ['embedding', 'start', 'em']

/** Fields that files of earlier versions lack, with what those versions did. */
const BEFORE = {
  supportGuard: false,
  quantileCompat: 'pairs',
  quantileRows: 5000,
  components: null,
} as const
const YOUNGER_FIELDS = Object.keys(BEFORE) as (keyof typeof BEFORE)[]

function isAsBefore(checked: CheckedParameters, field: keyof typeof BEFORE): boolean {
  const value = (checked as unknown as Readonly<Record<string, unknown>>)[field]
  return value === BEFORE[field] || value === null
}

/** Files written before there was a support guard do not speak of it, and have none. */
function older(options: Record<string, unknown>): GivenOptions {
  const { detector } = options
  const guarded = isDetectorName(detector) && DETECTORS[detector].options.includes('supportGuard')
  return guarded && options.supportGuard === undefined ? { ...options, supportGuard: false } : options
}

function refuseForeignOptions(given: GivenOptions, { name: detector, options }: DetectorDefinition): void {
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

function recordOf(value: unknown, field: string): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badOption(field, 'an object', value)
  }
  return value as Record<string, unknown>
}
