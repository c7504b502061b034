/**
 * Trials as JSON lines: one trial a line, fields in a fixed order, so that equal trials are equal text.
 *
 * A file of trials may come from another machine or by mail, and its figures end up in tables. So a line is
 * taken field by field: one that is missing, unknown, repeated or out of range is refused with its name; names
 * are short and of letters, digits and hyphens, free text holds no control characters, and a line has a bounded
 * length before anything is parsed.
 */
import { FormatError, parseStrictJson } from '@oddflow/core'
import type { PlainValue, TestResult, Trial, TrialMachine } from './trial.js'

/** UTF-16 units in a line. */
export const MAXIMUM_TRIAL_LENGTH = 65_536

type Fields = Readonly<Record<string, unknown>>

/** One line, without its end. */
export function encodeTrial(trial: Trial): string {
  return JSON.stringify(checkTrial(trial))
}

/** Throws FormatError that names the field. */
export function decodeTrial(line: string): Trial {
  if (line.length > MAXIMUM_TRIAL_LENGTH) {
    throw refuse('', `at most ${MAXIMUM_TRIAL_LENGTH} characters`, `${line.length}`)
  }
  const { value } = parseStrictJson(line, (message, position) => {
    throw new FormatError('trial', message, { offsetBytes: position })
  })
  return checkTrial(value)
}

/** A trial made anew from `value`, fields in order. Throws FormatError that names the field. */
export function checkTrial(value: unknown): Trial {
  const t = record(value, '', [
    'formatVersion',
    'dataset',
    'dataSha256',
    'features',
    'dimension',
    'detector',
    'tuning',
    'repeat',
    'seed',
    'trainRows',
    'validationAuc',
    'parameters',
    'results',
    'trainMillis',
    'tuneMillis',
    'testRows',
    'testMillis',
    'spaceNumbers',
    'machine',
    'loadAverage',
    'versions',
  ])
  if (t.formatVersion !== 1) throw refuse('formatVersion', '1', t.formatVersion)
  if (t.tuning !== 'none' && t.tuning !== 'minimal') throw refuse('tuning', 'none or minimal', t.tuning)
  const tuned = t.tuning === 'minimal'
  if ((t.validationAuc === null) === tuned) {
    throw refuse('validationAuc', tuned ? 'a number' : 'null without tuning', t.validationAuc)
  }
  const tunedHere = tuned && t.trainMillis !== null
  if ((t.tuneMillis === null) === tunedHere) {
    throw refuse('tuneMillis', tunedHere ? 'a number' : 'null without tuning', t.tuneMillis)
  }
  return {
    formatVersion: 1,
    dataset: shortName(t.dataset, 'dataset'),
    dataSha256: digest(t.dataSha256, 'dataSha256'),
    features: shortName(t.features, 'features'),
    dimension: whole(t.dimension, 'dimension', 1),
    detector: shortName(t.detector, 'detector'),
    tuning: t.tuning,
    repeat: whole(t.repeat, 'repeat', 0),
    seed: whole(t.seed, 'seed', 0),
    trainRows: whole(t.trainRows, 'trainRows', 1),
    validationAuc: t.validationAuc === null ? null : share(t.validationAuc, 'validationAuc'),
    parameters: plainRecord(t.parameters, 'parameters'),
    results: results(t.results),
    trainMillis: t.trainMillis === null ? null : amount(t.trainMillis, 'trainMillis'),
    tuneMillis: t.tuneMillis === null ? null : amount(t.tuneMillis, 'tuneMillis'),
    testRows: whole(t.testRows, 'testRows', 1),
    testMillis: list(t.testMillis, 'testMillis', 1000).map((v, i) => amount(v, `testMillis[${i}]`)),
    spaceNumbers: whole(t.spaceNumbers, 'spaceNumbers', 1),
    machine: machine(t.machine),
    loadAverage: t.loadAverage === null ? null : amount(t.loadAverage, 'loadAverage'),
    versions: versions(t.versions),
  }
}

function results(value: unknown): TestResult[] {
  const found = list(value, 'results', 2).map((entry, i): TestResult => {
    const at = `results[${i}]`
    const r = record(entry, at, ['sample', 'normal', 'novel', 'auc', 'aucVariance', 'averagePrecision'])
    if (r.sample !== 'all' && r.sample !== 'protocol') {
      throw refuse(`${at}.sample`, 'all or protocol', r.sample)
    }
    return {
      sample: r.sample,
      normal: whole(r.normal, `${at}.normal`, 1),
      novel: whole(r.novel, `${at}.novel`, 1),
      auc: share(r.auc, `${at}.auc`),
      aucVariance: r.aucVariance === null ? null : share(r.aucVariance, `${at}.aucVariance`),
      averagePrecision: share(r.averagePrecision, `${at}.averagePrecision`),
    }
  })
  if (found.length === 2 && found[0]!.sample === found[1]!.sample) {
    throw refuse('results', 'one of each sample', `two of ${found[0]!.sample}`)
  }
  return found
}

function machine(value: unknown): TrialMachine {
  const m = record(value, 'machine', [
    'name',
    'cpu',
    'logicalCpus',
    'memoryBytes',
    'operatingSystem',
    'architecture',
    'concurrency',
  ])
  return {
    name: shortName(m.name, 'machine.name'),
    cpu: text(m.cpu, 'machine.cpu'),
    logicalCpus: whole(m.logicalCpus, 'machine.logicalCpus', 1),
    memoryBytes: whole(m.memoryBytes, 'machine.memoryBytes', 1),
    operatingSystem: text(m.operatingSystem, 'machine.operatingSystem'),
    architecture: shortName(m.architecture, 'machine.architecture'),
    concurrency: whole(m.concurrency, 'machine.concurrency', 1),
  }
}

function versions(value: unknown): Record<string, string> {
  const entries = Object.entries(object(value, 'versions'))
  if (entries.length > 20) throw refuse('versions', 'at most 20', entries.length)
  return Object.fromEntries(
    entries.map(([name, version]) => [shortName(name, 'versions'), text(version, `versions.${name}`)]),
  )
}

function plainRecord(value: unknown, field: string): Record<string, PlainValue> {
  return Object.fromEntries(
    Object.entries(object(value, field)).map(([name, entry]) => [
      optionName(name, field),
      plain(entry, `${field}.${name}`, 4),
    ]),
  )
}

function plain(value: unknown, field: string, depth: number): PlainValue {
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (typeof value === 'string') return text(value, field)
  if (depth === 0) throw refuse(field, 'less nesting', value)
  if (Array.isArray(value))
    return list(value, field, 100).map((v, i) => plain(v, `${field}[${i}]`, depth - 1))
  return Object.fromEntries(
    Object.entries(object(value, field)).map(([name, entry]) => [
      optionName(name, field),
      plain(entry, `${field}.${name}`, depth - 1),
    ]),
  )
}

function object(value: unknown, field: string): Fields {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw refuse(field, 'an object', value)
  }
  return value as Fields
}

function record(value: unknown, field: string, names: readonly string[]): Fields {
  const found = object(value, field)
  const at = (name: string): string => (field === '' ? name : `${field}.${name}`)
  for (const name of Object.keys(found)) {
    if (!names.includes(name)) throw refuse(at(name.slice(0, 60)), 'no such field', found[name])
  }
  for (const name of names) {
    if (!Object.hasOwn(found, name)) throw refuse(at(name), 'this field', 'none')
  }
  return found
}

function list(value: unknown, field: string, most: number): readonly unknown[] {
  if (!Array.isArray(value) || value.length < 1 || value.length > most) {
    throw refuse(field, `a list of 1 to ${most}`, value)
  }
  return value
}

function whole(value: unknown, field: string, least: number): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
    throw refuse(field, `a whole number of ${least} or more`, value)
  }
  return value + 0
}

function share(value: unknown, field: string): number {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1)) {
    throw refuse(field, 'a number from 0 to 1', value)
  }
  return value + 0
}

function amount(value: unknown, field: string): number {
  if (typeof value !== 'number' || !(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw refuse(field, 'a finite number of 0 or more', value)
  }
  return value + 0
}

function shortName(value: unknown, field: string): string {
  if (typeof value !== 'string' || !/^[a-z0-9][a-z0-9.+-]{0,63}$/.test(value)) {
    throw refuse(field, 'a short name of a-z, 0-9, hyphens', value)
  }
  return value
}

/** Option names are identifiers; `__proto__` is none. */
function optionName(value: string, field: string): string {
  if (!/^[a-z][A-Za-z0-9]{0,63}$/.test(value)) throw refuse(field, 'names of options', value)
  return value
}

function digest(value: unknown, field: string): string {
  if (typeof value !== 'string' || !/^[0-9a-f]{64}$/.test(value)) {
    throw refuse(field, '64 lower-case hexadecimal digits', value)
  }
  return value
}

function text(value: unknown, field: string): string {
  if (typeof value !== 'string' || value.length > 200 || !/^[^\p{C}\p{Zl}\p{Zp}]*$/u.test(value)) {
    throw refuse(field, 'at most 200 printable characters', value)
  }
  return value
}

function refuse(field: string, expected: string, found: unknown): FormatError {
  const shown = (typeof found === 'string' ? found : (JSON.stringify(found) ?? 'nothing')).slice(0, 60)
  const name = field === '' ? 'trial' : field
  return new FormatError('trial', `${name}: expected ${expected}, found ${JSON.stringify(shown)}`, {
    field: name,
  })
}
