/**
 * Checks of options, stored parameters and models, for any table of detectors: all of them, or the possible members of
 * an ensemble.
 */
import { ArgumentError, MAXIMUM_DIMENSION } from '@oddflow/core'
import type { DetectorDefinition, DetectorTable, ModelHead } from './detector.js'
import { describeValue, failField, fieldsAt, namingPaths, shownKey, sizeUpTo, wholeAt } from './fields.js'
import type { DetectorModel, FitReport } from './model.js'
import {
  badOption,
  DEFAULT_DETECTOR,
  type GivenOptions,
  inHelpOrder,
  isOption,
  type OptionDefinition,
  OptionReader,
  type SettingTable,
  SHARED_SETTINGS,
} from './options.js'
import type { CheckedParameters } from './parameters.js'
import { checkScalerModel, scaledWidth } from './scaler.js'

/** What several detectors share, and what each has of its own. */
function settingsIn(detectors: DetectorTable): SettingTable {
  return Object.assign(
    { ...SHARED_SETTINGS },
    ...Object.values(detectors).map((definition) => definition?.own),
  )
}

/** All options of these detectors by name, in the order of the help. */
export function optionsIn(detectors: DetectorTable): Readonly<Record<string, OptionDefinition<unknown>>> {
  const options = Object.entries(settingsIn(detectors)).filter(
    (entry): entry is [string, OptionDefinition<unknown>] => isOption(entry[1]),
  )
  return inHelpOrder(Object.fromEntries(options))
}

function detectorIn(detectors: DetectorTable, name: unknown): DetectorDefinition {
  const definition = typeof name === 'string' && Object.hasOwn(detectors, name) ? detectors[name] : undefined
  if (definition === undefined) {
    throw badOption('detector', `one of ${Object.keys(detectors).join(', ')}`, name)
  }
  return definition
}

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

/** Options from a caller or a file. Only a file has `constants`. */
export function checkGivenBy(
  detectors: DetectorTable,
  given: GivenOptions,
  constants: GivenOptions = {},
): CheckedParameters {
  const definition = detectorIn(detectors, given.detector ?? DEFAULT_DETECTOR)
  refuseForeignOptions(detectors, given, definition)
  return definition.checkParameters(new OptionReader({ ...given, ...constants }))
}

/** As `checkStoredParameters` says. */
export function checkStoredBy(detectors: DetectorTable, value: unknown): CheckedParameters {
  const stored = recordOf(value, 'parameters')
  const paths = new Map<string, string>()
  return namingPaths(
    (field) => (field.startsWith('parameters') ? field : (paths.get(field) ?? `parameters.${field}`)),
    () => checkStored(detectors, stored, paths),
  )
}

/** `paths` gets the path of each field by its name. */
function checkStored(
  detectors: DetectorTable,
  stored: Readonly<Record<string, unknown>>,
  paths: Map<string, string>,
): CheckedParameters {
  const definition = detectorIn(detectors, stored.detector)
  const settings = settingsIn(detectors)
  // without a prototype, so that a key `__proto__` is an ordinary key
  const options = Object.create(null) as Record<string, unknown>
  const constants = Object.create(null) as Record<string, unknown>
  const kinds: [string, unknown][] = []
  const add = ([name, value]: [string, unknown]): void => {
    if (Object.hasOwn(settings, name) && !isOption(settings[name]!)) constants[name] = value
    else options[name] = value
  }
  for (const [key, entry] of Object.entries(stored)) {
    if (!STAGES.includes(key)) add([key, entry])
    else {
      const { kind, ...stage } = recordOf(entry, `parameters.${key}`)
      for (const field of Object.entries(stage)) {
        add(field)
        paths.set(field[0], `parameters.${key}.${field[0]}`)
      }
      kinds.push([key, kind])
    }
  }
  const unspoken = unspokenOf(definition, settings, options)
  const given = {
    ...options,
    ...Object.fromEntries(unspoken.filter(isNotDefault).map(([name, { older }]) => [name, older!.value])),
  }
  const checked = checkGivenBy(detectors, given, constants)
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
  const later = Object.values(settings).flatMap(({ laterField }) => laterField ?? [])
  const mayLack = [...later, ...unspoken.map(([, { older }]) => older!.field)]
  checkSameFields(stored, checked, 'parameters', mayLack)
  return checked
}

/** Parameters grouped by the stage that uses them. */
export const STAGES = ['embedding', 'start', 'em']

type Unspoken = [name: string, option: OptionDefinition<unknown>]

/** The detector's options that were added after the first files and are missing here. */
function unspokenOf(
  { options }: DetectorDefinition,
  settings: SettingTable,
  stored: Readonly<Record<string, unknown>>,
): Unspoken[] {
  return options.flatMap((name): Unspoken[] => {
    const option = settings[name] as OptionDefinition<unknown>
    return option.older === undefined || stored[name] !== undefined ? [] : [[name, option]]
  })
}

/** An option that only repeats its default may be absent, and must be where others leave it without effect. */
function isNotDefault([, { older, byDefault }]: Unspoken): boolean {
  return older!.value !== byDefault
}

function refuseForeignOptions(
  detectors: DetectorTable,
  given: GivenOptions,
  { name: detector, options }: DetectorDefinition,
): void {
  const known = optionsIn(detectors)
  for (const [name, value] of Object.entries(given)) {
    if (name === 'detector') continue
    // a misspelt name is an error, whatever its value
    if (!Object.hasOwn(known, name)) {
      throw new ArgumentError(
        `${name}: there is no such option; known: ${Object.keys(known).join(', ')}`,
        name,
      )
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

// ---- models

/** As `checkModel` says. */
export function checkModelBy(detectors: DetectorTable, value: unknown): DetectorModel {
  const model = fieldsAt(value, 'model')
  const parameters = checkStoredBy(detectors, model.parameters)
  if (model.kind !== parameters.detector) failField('kind', parameters.detector, model.kind)
  const fitReport = checkFitReport(model.fitReport)
  const scaler = checkScalerModel(model.scaler, fitReport.dimension, parameters.scaler)
  const head: ModelHead = { fitReport, dimension: scaledWidth(scaler, fitReport.dimension), scaler }
  return detectorIn(detectors, parameters.detector).checkModel(model, parameters, head)
}

function checkFitReport(value: unknown): FitReport {
  const r = fieldsAt(value, 'fitReport')
  const { notes, dimension } = r
  if (!Array.isArray(notes) || notes.length > 100 || !notes.every((n) => typeof n === 'string')) {
    failField('fitReport.notes', 'at most 100 sentences', notes)
  }
  if (typeof dimension !== 'number' || !Number.isSafeInteger(dimension)) {
    failField('fitReport.dimension', 'a whole number', dimension)
  }
  sizeUpTo(dimension as number, MAXIMUM_DIMENSION, 'fitReport.dimension')
  return {
    trainingRows: wholeAt(r.trainingRows, 'fitReport.trainingRows'),
    dimension: dimension as number,
    notes: [...(notes as string[])],
  }
}
