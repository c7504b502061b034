/**
 * Checks of options and stored parameters, for any table of detectors: all of them, or the possible members of an
 * ensemble.
 */
import { ArgumentError } from '@oddflow/core'
import { DETECTOR_NAMES, type DetectorDefinition, type FindDetector, isDetectorName } from './detector.js'
import { describeValue, shownKey } from './fields.js'
import {
  badOption,
  DEFAULT_DETECTOR,
  type DetectorOptions,
  type GivenOptions,
  isConstant,
  LATER_CONSTANTS,
  OPTION_NAMES,
  OPTIONS,
  type OptionName,
  OptionReader,
  optionNamed,
} from './options.js'
import { type CheckedParameters, storedParameters } from './parameters.js'

/**
 * checkSameFields: does a value from a file have exactly the fields that are written for it?
 *
 * Checks read the fields they know and return a complete value. This compares both, object by object: an extra field is
 * something that this version does not understand, a missing field was removed. It works for every family of detectors.
 */

/**
 * `known` was made from `found`; lists and numbers are not compared. Throws ArgumentError with the path of the first
 * field that only one of them has, except fields in `mayLack` that only `known` has.
 */
export function checkSameFields(
  found: unknown,
  known: unknown,
  path: string,
  mayLack: readonly string[] = [],
): void {
  if (!isRecord(known)) return
  if (!isRecord(found)) {
    throw new ArgumentError(`${path}: expected an object, found ${describeValue(found)}`, path)
  }
  for (const key of Object.keys(found)) {
    if (Object.hasOwn(known, key)) continue
    const field = `${path}.${shownKey(key)}`
    throw new ArgumentError(`${field}: no such field is known here`, field)
  }
  for (const [key, value] of Object.entries(known)) {
    const field = `${path}.${key}`
    if (Object.hasOwn(found, key)) checkSameFields(found[key], value, field, mayLack)
    else if (!mayLack.includes(field)) throw new ArgumentError(`${field}: this field is missing`, field)
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

/**
 * Options from a caller or a file, checked by the definition that `find` returns for their detector. Only a file has
 * `constants`.
 */
export function checkGivenBy(
  find: FindDetector,
  given: GivenOptions,
  constants: GivenOptions = {},
): CheckedParameters {
  const detector = given.detector ?? DEFAULT_DETECTOR
  const definition = isDetectorName(detector) ? find(detector) : undefined
  if (definition === undefined) throw badDetector(detector)
  refuseForeignOptions(given, definition)
  return definition.checkParameters(new OptionReader({ ...given, ...constants }))
}

/**
 * The options that `checkParameters` turns into these parameters, with defaults written out, without null ones and
 * without constants.
 */
export function detectorOptionsOf(parameters: CheckedParameters): DetectorOptions {
  const options: Record<string, unknown> = {}
  for (const [key, entry] of Object.entries(storedParameters(parameters))) {
    const given = STAGES.includes(key) ? (entry as Record<string, unknown>) : { [key]: entry }
    for (const [name, value] of Object.entries(given)) {
      if (name === 'detector' || Object.hasOwn(OPTIONS, name)) options[name] = value ?? undefined
    }
  }
  return options
}

/** As `checkStoredParameters` says. */
export function checkStoredBy(find: FindDetector, value: unknown): CheckedParameters {
  const stored = recordOf(value, 'parameters')
  const definition = isDetectorName(stored.detector) ? find(stored.detector) : undefined
  if (definition === undefined) throw badDetector(stored.detector)
  // without a prototype, so that a key `__proto__` is an ordinary key
  const options = Object.create(null) as Record<string, unknown>
  const constants = Object.create(null) as Record<string, unknown>
  const kinds: [string, unknown][] = []
  const add = ([name, value]: [string, unknown]): void => {
    if (isConstant(name)) constants[name] = value
    else options[name] = value
  }
  for (const [key, entry] of Object.entries(stored)) {
    if (!STAGES.includes(key)) add([key, entry])
    else {
      const { kind, ...stage } = recordOf(entry, `parameters.${key}`)
      Object.entries(stage).forEach(add)
      kinds.push([key, kind])
    }
  }
  const unspoken = unspokenOf(definition, options)
  const given = {
    ...options,
    ...Object.fromEntries(unspoken.filter(isNotDefault).map(([name, { value }]) => [name, value])),
  }
  const checked = checkGivenBy(find, given, constants)
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
  // options have defaults; stored parameters are complete, and each field is in its own stage
  const mayLack = [...LATER_CONSTANTS, ...unspoken.map(([, { field }]) => field)]
  checkSameFields(stored, checked, 'parameters', mayLack)
  return checked
}

function badDetector(found: unknown): ArgumentError {
  return badOption('detector', `one of ${DETECTOR_NAMES.join(', ')}`, found)
}

/** Parameters grouped by the stage that uses them. */
const STAGES = ['embedding', 'start', 'em']

type Unspoken = [name: OptionName, older: { readonly field: string; readonly value: unknown }]

/** The detector's options that were added after the first files and are missing here. */
function unspokenOf(definition: DetectorDefinition, options: Readonly<Record<string, unknown>>): Unspoken[] {
  return definition.options.flatMap((name): Unspoken[] => {
    const { older } = optionNamed(name)
    return older === undefined || options[name] !== undefined ? [] : [[name, older]]
  })
}

/** An option that only repeats its default may be absent, and must be where others leave it without effect. */
function isNotDefault([name, { value }]: Unspoken): boolean {
  return value !== optionNamed(name).byDefault
}

function refuseForeignOptions(given: GivenOptions, { name: detector, options }: DetectorDefinition): void {
  for (const [name, value] of Object.entries(given)) {
    if (name === 'detector') continue
    // a misspelt name is an error, whatever its value
    if (!Object.hasOwn(OPTIONS, name)) {
      throw new ArgumentError(`${name}: there is no such option; known: ${OPTION_NAMES.join(', ')}`, name)
    }
    if (value === undefined || value === null) continue
    if (!(options as readonly string[]).includes(name)) {
      throw new ArgumentError(
        `${name}: does not apply to ${detector}`,
        name,
        `which takes ${options.join(', ')}`,
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
