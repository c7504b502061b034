import { DataError, FormatError, parseStrictJson } from '@oddflow/core'

/**
 * Trials as JSON lines, fields in a fixed order, so that equal trials are equal text. A line may come from another
 * machine: each field is checked by name and bounded.
 */

/** UTF-16 units in a line. */
export const MAXIMUM_TRIAL_LENGTH = 65_536

// ---- checks: each returns the value as it is kept, or throws FormatError that names the field

type Check<T> = (value: unknown, field: string) => T

/** `least` … 2^53 − 1. Adding 0 makes negative zero positive. */
const whole =
  (least: number): Check<number> =>
  (value, field) => {
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value + 0
    throw refuse(field, `a whole number of ${least} or more`, value)
  }

const share: Check<number> = (value, field) => {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value + 0
  throw refuse(field, 'a number from 0 to 1', value)
}

const amount: Check<number> = (value, field) => {
  if (typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY) return value + 0
  throw refuse(field, 'a finite number of 0 or more', value)
}

const matching =
  (pattern: RegExp, expected: string): Check<string> =>
  (value, field) => {
    if (typeof value === 'string' && pattern.test(value)) return value
    throw refuse(field, expected, value)
  }

const shortName = matching(/^[a-z0-9][a-z0-9.+-]{0,63}$/, 'a short name of a-z, 0-9, hyphens')
/** Identifiers; `__proto__` is none. */
const optionName = matching(/^[a-z][A-Za-z0-9]{0,63}$/, 'names of options')
const digest = matching(/^[0-9a-f]{64}$/, '64 lower-case hexadecimal digits')
const text: Check<string> = (value, field) => {
  if (typeof value === 'string' && value.length <= 200 && /^[^\p{C}\p{Zl}\p{Zp}]*$/u.test(value)) return value
  throw refuse(field, 'at most 200 printable characters', value)
}

const oneOf =
  <T extends string | number>(...allowed: readonly T[]): Check<T> =>
  (value, field) => {
    const found = allowed.find((each) => each === value)
    if (found === undefined) throw refuse(field, allowed.join(' or '), value)
    return found
  }

const nullable =
  <T>(check: Check<T>): Check<T | null> =>
  (value, field) =>
    value === null ? null : check(value, field)

const list =
  <T>(check: Check<T>, most: number): Check<T[]> =>
  (value, field) => {
    if (!Array.isArray(value) || value.length < 1 || value.length > most) {
      throw refuse(field, `a list of 1 to ${most}`, value)
    }
    return value.map((entry, i) => check(entry, `${field}[${i}]`))
  }

function object(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw refuse(field, 'an object', value)
  }
  return value as Readonly<Record<string, unknown>>
}

const entries =
  <T>(name: Check<string>, check: Check<T>, most: number): Check<Record<string, T>> =>
  (value, field) => {
    const found = Object.entries(object(value, field))
    if (found.length > most) throw refuse(field, `at most ${most}`, found.length)
    return Object.fromEntries(
      found.map(([key, entry]) => [name(key, field), check(entry, `${field}.${key}`)]),
    )
  }

/** Exactly these fields, in their order. */
const record =
  <T>(checks: { readonly [Name in keyof T]-?: Check<T[Name]> }): Check<T> =>
  (value, field) => {
    const found = object(value, field)
    const at = (name: string): string => (field === '' ? name : `${field}.${name}`)
    for (const name of Object.keys(found)) {
      if (!Object.hasOwn(checks, name)) throw refuse(at(name.slice(0, 60)), 'no such field', found[name])
    }
    const kept = Object.entries<Check<unknown>>(checks).map(([name, check]) => {
      if (!Object.hasOwn(found, name)) throw refuse(at(name), 'this field', 'none')
      return [name, check(found[name], at(name))]
    })
    return Object.fromEntries(kept) as T
  }

const plain =
  (depth: number): Check<PlainValue> =>
  (value, field) => {
    if (value === null || typeof value === 'boolean') return value
    if (typeof value === 'number' && Number.isFinite(value)) return value
    if (typeof value === 'string') return text(value, field)
    if (depth === 0) throw refuse(field, 'less nesting', value)
    const inside = plain(depth - 1)
    return Array.isArray(value) ? list(inside, 100)(value, field) : options(inside)(value, field)
  }

const options = (check: Check<PlainValue>): Check<Record<string, PlainValue>> =>
  entries(optionName, check, Number.POSITIVE_INFINITY)

function refuse(field: string, expected: string, found: unknown): FormatError {
  const shown = (typeof found === 'string' ? found : (JSON.stringify(found) ?? 'nothing')).slice(0, 60)
  const name = field === '' ? 'trial' : field
  return new FormatError('trial', `${name}: expected ${expected}, found ${JSON.stringify(shown)}`, {
    field: name,
  })
}

const fields = record<Trial>({
  formatVersion: oneOf(1),
  dataset: shortName,
  dataSha256: digest,
  features: shortName,
  dimension: whole(1),
  detector: shortName,
  tuning: oneOf('none', 'minimal'),
  repeat: whole(0),
  seed: whole(0),
  trainRows: whole(1),
  validationAuc: nullable(share),
  parameters: options(plain(4)),
  results: list(
    record<TestResult>({
      sample: oneOf('all', 'protocol'),
      normal: whole(1),
      novel: whole(1),
      auc: share,
      aucVariance: nullable(share),
      averagePrecision: share,
    }),
    2,
  ),
  trainMillis: nullable(amount),
  tuneMillis: nullable(amount),
  testRows: whole(1),
  testMillis: list(amount, 1000),
  spaceNumbers: whole(1),
  machine: record<TrialMachine>({
    name: shortName,
    cpu: text,
    logicalCpus: whole(1),
    memoryBytes: whole(1),
    operatingSystem: text,
    architecture: shortName,
    concurrency: whole(1),
  }),
  loadAverage: nullable(amount),
  versions: entries(shortName, text, 20),
})

/** Rebuilds a trial from `value`, fields in order. Throws FormatError that names the field. */
export function checkTrial(value: unknown): Trial {
  const trial = fields(value, '')
  const { tuning, validationAuc, trainMillis, tuneMillis, results } = trial
  const tuned = tuning === 'minimal'
  if ((validationAuc === null) === tuned) {
    throw refuse('validationAuc', tuned ? 'a number' : 'null without tuning', validationAuc)
  }
  const tunedHere = tuned && trainMillis !== null
  if ((tuneMillis === null) === tunedHere) {
    throw refuse('tuneMillis', tunedHere ? 'a number' : 'null without tuning', tuneMillis)
  }
  if (results.length === 2 && results[0]!.sample === results[1]!.sample) {
    throw refuse('results', 'one of each sample', `two of ${results[0]!.sample}`)
  }
  return trial
}

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

/**
 * One detector fitted once and tested, with data hash, parameters, seed, machine and versions. The same trial of two
 * machines differs in machine and times alone.
 */

/** Plain data that survives JSON unchanged: what parameters are made of. */
export type PlainValue =
  | null
  | boolean
  | number
  | string
  | readonly PlainValue[]
  | { readonly [name: string]: PlainValue }

/** Whether a trial's parameters were searched on validation rows. */
export type Tuning = 'none' | 'minimal'

/** What was scored: every test row there is, or 300 + 300 of them as the paper draws them. */
export type TestSample = 'all' | 'protocol'

/** AUC and rates of a trial on one test sample. */
export interface TestResult {
  readonly sample: TestSample
  /** Test rows of each class. */
  readonly normal: number
  readonly novel: number
  /** Novel positive. */
  readonly auc: number
  /** DeLong's: how much other test rows would have changed it. null for a class of one row. */
  readonly aucVariance: number | null
  readonly averagePrecision: number
}

/** The machine that a trial ran on. */
export interface TrialMachine {
  /** What tables call it: `server`, `rspi`, `nano`, or any short name. */
  readonly name: string
  readonly cpu: string
  readonly logicalCpus: number
  readonly memoryBytes: number
  readonly operatingSystem: string
  /** As Node names it: x64, arm64, arm. */
  readonly architecture: string
  /** Trials that ran at the same time on it; more than one and times are those of a busy machine. */
  readonly concurrency: number
}

/** The record of one trial: data, detector, machine, results. */
export interface Trial {
  readonly formatVersion: 1
  /** Name of the data set's manifest. */
  readonly dataset: string
  /** SHA-256 of every row that went into the trial: 64 lower-case hexadecimal digits. */
  readonly dataSha256: string
  /** iat-size, stats-header, samp-size, … */
  readonly features: string
  /** D. */
  readonly dimension: number
  readonly detector: string
  readonly tuning: Tuning
  /** From 0; each repeat has training rows of its own. */
  readonly repeat: number
  readonly seed: number
  /** n. */
  readonly trainRows: number
  /** null without tuning. */
  readonly validationAuc: number | null
  /** Complete, as the fit was given them. */
  readonly parameters: { readonly [name: string]: PlainValue }
  readonly results: readonly TestResult[]
  /** Fitting with the parameters chosen, milliseconds of wall-clock time; null where the model was trained on another
   * machine and only tested on this one. */
  readonly trainMillis: number | null
  /** Time of the choice; null without tuning, and where another machine chose. */
  readonly tuneMillis: number | null
  /** Rows scored in each timed test run, and the milliseconds that each run took. */
  readonly testRows: number
  readonly testMillis: readonly number[]
  /** Numbers that a scorer needs, as the paper counts them. */
  readonly spaceNumbers: number
  readonly machine: TrialMachine
  /** The operating system's, over the last minute, when the trial began; null where it keeps none. Above 1 a CPU,
   * other work shared the machine, and the times say so. */
  readonly loadAverage: number | null
  /** Versions by name: oddflow, node, … */
  readonly versions: { readonly [name: string]: string }
}

/** What a trial is of, without the machine: equal for the same work done elsewhere. */
export function workKey(
  trial: Pick<Trial, 'dataset' | 'features' | 'detector' | 'tuning' | 'repeat' | 'seed'>,
): string {
  const { dataset, features, detector, tuning, repeat, seed } = trial
  return [dataset, features, detector, tuning, repeat, seed].join(' ')
}

/** What decides which rows a trial sees: equal keys, equal data hashes. */
export function dataKey(trial: Pick<Trial, 'dataset' | 'features' | 'repeat' | 'seed'>): string {
  return [trial.dataset, trial.features, trial.repeat, trial.seed].join(' ')
}

/** What a trial is of and where: two trials of one key in one collection are one too many. */
export function trialKey(trial: Trial): string {
  return `${workKey(trial)} ${trial.machine.name}`
}

/**
 * Trials of several runs and machines as one collection. Equal lines are one trial; different records of one key are an
 * error, and so are different rows or numbers of training rows of one data set.
 */

/** In the order of their keys, whatever order they came in. Throws DataError naming the key at fault. */
export function mergeTrials(...runs: readonly (readonly Trial[])[]): Trial[] {
  const byKey = new Map<string, Trial>()
  for (const trial of runs.flat()) {
    const key = trialKey(trial)
    const known = byKey.get(key)
    if (known === undefined) byKey.set(key, trial)
    else if (encodeTrial(known) !== encodeTrial(trial)) {
      throw new DataError(`two different trials of ${key}: keep one of them`, 'trials')
    }
  }
  checkTrainRows(byKey.values())
  const dataOf = new Map<string, string>()
  for (const trial of byKey.values()) {
    const key = dataKey(trial)
    const known = dataOf.get(key) ?? trial.dataSha256
    if (known !== trial.dataSha256) {
      throw new DataError(`trials of ${key} were made from different rows (data hashes differ)`, 'dataSha256')
    }
    dataOf.set(key, known)
  }
  return [...byKey.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, trial]) => trial)
}

/** Each repeat of a data set has one n, whatever the seed. */
function checkTrainRows(trials: Iterable<Trial>): void {
  const rowsOf = new Map<string, number>()
  for (const { dataset, features, repeat, trainRows } of trials) {
    const key = `${dataset} ${features}, repeat ${repeat}`
    const known = rowsOf.get(key) ?? trainRows
    if (known !== trainRows) {
      const sizes = [known, trainRows].sort((a, b) => a - b)
      throw new DataError(
        `trials of ${key} were trained on ${sizes.join(' and on ')} rows: they belong into tables of their own`,
        'trainRows',
      )
    }
    rowsOf.set(key, known)
  }
}

/** A result that two machines do not agree on, though the work was the same. */
export interface Disagreement {
  readonly work: string
  readonly machines: readonly string[]
  readonly aucs: readonly number[]
}

/** Work whose AUC or space differs between machines, bit by bit, over the test samples that both have. */
export function findDisagreements(trials: readonly Trial[]): Disagreement[] {
  const byWork = new Map<string, Trial[]>()
  for (const trial of trials) {
    const key = workKey(trial)
    byWork.set(key, [...(byWork.get(key) ?? []), trial])
  }
  const found: Disagreement[] = []
  for (const [work, same] of byWork) {
    const shared = (['all', 'protocol'] as const).filter((sample) =>
      same.every(({ results }) => results.some((result) => result.sample === sample)),
    )
    const resultOf = (trial: Trial, sample: TestSample | undefined): TestResult | undefined =>
      trial.results.find((result) => result.sample === sample)
    const outcome = (trial: Trial): string =>
      JSON.stringify([shared.map((sample) => resultOf(trial, sample)), trial.spaceNumbers, trial.dataSha256])
    if (same.every((trial) => outcome(trial) === outcome(same[0]!))) continue
    found.push({
      work,
      machines: same.map((trial) => trial.machine.name),
      aucs: same.map((trial) => (resultOf(trial, shared[0]) ?? trial.results[0]!).auc),
    })
  }
  return found
}
