/**
 * Trials: one detector fitted once and tested, with data hash, parameters, seed, machine and versions. The same trial
 * of two machines differs in machine and times alone. A trial is a line of JSON with its fields in a fixed order, so
 * equal trials are equal text. A line may come from another machine: each field is checked and bounded.
 */
import { DataError } from '@oddflow/core'
import { z } from 'zod'
import { checkShape, digest, groupBy, parseShape } from '../files.js'
import { SHORT_NAME } from '../machines/machine-description.js'

/** Adding 0 makes negative zero positive. */
const number = (shape: z.ZodNumber) => shape.overwrite((value) => value + 0)
const share = number(z.number().min(0).max(1))
const amount = number(z.number().min(0))
const count = number(z.number().int().min(0))
const positive = number(z.number().int().min(1))
const shortName = z.string().regex(SHORT_NAME)
const text = z
  .string()
  .max(200)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u)

/** At most 20 entries that a machine named; `__proto__` is no name. */
const entries = <Value extends z.ZodType>(name: z.ZodString, value: Value, most: number) =>
  z.preprocess(
    (given, { addIssue }) => {
      if (Object.hasOwn(Object(given), '__proto__')) addIssue('expected no __proto__')
      return given
    },
    z.record(name, value).refine((found) => Object.keys(found).length <= most, `expected at most ${most}`),
  )

/** Plain data that survives JSON unchanged: what parameters are made of. */
type PlainValue = null | boolean | number | string | PlainValue[] | { [name: string]: PlainValue }

const plain = (depth: number): z.ZodType<PlainValue> => {
  const scalars = [z.null(), z.boolean(), number(z.number()), text] as const
  return z.union(
    depth === 0
      ? scalars
      : [
          ...scalars,
          z
            .array(plain(depth - 1))
            .min(1)
            .max(100),
          options(depth - 1),
        ],
    'expected plain data of less nesting',
  )
}

const options = (depth: number): z.ZodType<{ [name: string]: PlainValue }> =>
  entries(z.string().regex(/^[a-z][A-Za-z0-9]{0,63}$/), plain(depth), 1000)

/** AUC and precision on one test sample. */
export const testResult = z.strictObject({
  /** What was scored: every test row there is, or 300 + 300 of them as the paper draws them. */
  sample: z.enum(['all', 'protocol']),
  /** Test rows of each class. */
  normal: positive,
  novel: positive,
  /** Novel positive. */
  auc: share,
  /** DeLong's: how much other test rows would have changed it. null for a class of one row. */
  aucVariance: share.nullable(),
  averagePrecision: share,
})

const trialMachine = z.strictObject({
  /** What tables call it: `server`, `rspi`, `nano`, or any short name. */
  name: shortName,
  cpu: text,
  logicalCpus: positive,
  memoryBytes: positive,
  operatingSystem: text,
  /** As Node names it: x64, arm64, arm. */
  architecture: shortName,
  /** Trials that ran at the same time on it; more than one and times are those of a busy machine. */
  concurrency: positive,
})

const trialShape = z.strictObject({
  formatVersion: z.literal(1),
  /** Name of the data set's manifest. */
  dataset: shortName,
  /** SHA-256 of every row that went into the trial: 64 lower-case hexadecimal digits. */
  dataSha256: digest,
  /** iat-size, stats-header, samp-size, … */
  features: shortName,
  /** D. */
  dimension: positive,
  detector: shortName,
  /** Whether the parameters were searched on validation rows. */
  tuning: z.enum(['none', 'minimal']),
  /** From 0; each repeat has training rows of its own. */
  repeat: count,
  seed: count,
  /** n. */
  trainRows: positive,
  /** null without tuning. */
  validationAuc: share.nullable(),
  /** Complete, as the fit was given them. */
  parameters: options(4),
  results: z.array(testResult).min(1).max(2).readonly(),
  /** Fitting with the parameters chosen, milliseconds of wall-clock time; null where the model was trained on another
   * machine and only tested on this one. */
  trainMillis: amount.nullable(),
  /** Time of the choice; null without tuning, and where another machine chose. */
  tuneMillis: amount.nullable(),
  /** Rows scored in each timed test run, and the milliseconds that each run took. */
  testRows: positive,
  testMillis: z.array(amount).min(1).max(1000).readonly(),
  /** Numbers that a scorer needs, as the paper counts them. */
  spaceNumbers: positive,
  machine: trialMachine,
  /** The operating system's, over the last minute, when the trial began; null where it keeps none. Above 1 a CPU,
   * other work shared the machine, and the times say so. */
  loadAverage: amount.nullable(),
  /** Versions by name: oddflow, node, … */
  versions: entries(shortName, text, 20),
})

const checkedTrial = trialShape.superRefine(
  ({ tuning, validationAuc, trainMillis, tuneMillis, results }, { addIssue }) => {
    const refuse = (field: string, message: string): void =>
      addIssue({ code: 'custom', path: [field], message })
    const expected = (isNumber: boolean): string =>
      `expected ${isNumber ? 'a number' : 'null without tuning'}`
    const tuned = tuning === 'minimal'
    const tunedHere = tuned && trainMillis !== null
    if ((validationAuc !== null) !== tuned) refuse('validationAuc', expected(tuned))
    if ((tuneMillis !== null) !== tunedHere) refuse('tuneMillis', expected(tunedHere))
    if (results[0]?.sample === results[1]?.sample) refuse('results', 'expected one of each sample')
  },
)

export type Trial = Readonly<z.infer<typeof trialShape>>
export type TrialMachine = Readonly<z.infer<typeof trialMachine>>
export type TestResult = Readonly<z.infer<typeof testResult>>
export type Tuning = Trial['tuning']
export type TestSample = TestResult['sample']

/** Rebuilds a trial from `value`, fields in order. Throws FormatError that names the field. */
export const checkTrial = (value: unknown): Trial => checkShape(checkedTrial, value, 'trial')

/** One line, without its end. */
export const encodeTrial = (trial: Trial): string => JSON.stringify(checkTrial(trial))

/** Throws FormatError that names the field. */
export const decodeTrial = (line: string): Trial => parseShape(checkedTrial, line, 'trial')

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
 * Trials of several runs and machines as one collection, in the order of their keys. Equal lines are one trial. Throws
 * DataError that names the key of different records, and the data set of different rows or numbers of training rows.
 */
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
  const trials = [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, trial]) => trial)
  // each repeat of a data set has one n, whatever the seed
  const repeatOf = ({ dataset, features, repeat }: Trial): string =>
    `${dataset} ${features}, repeat ${repeat}`
  for (const [key, sizes] of different(trials, repeatOf, ({ trainRows }) => trainRows)) {
    const ascending = sizes.sort((a, b) => a - b).join(' and on ')
    throw new DataError(
      `trials of ${key} were trained on ${ascending} rows: they belong into tables of their own`,
      'trainRows',
    )
  }
  for (const [key] of different(trials, dataKey, ({ dataSha256 }) => dataSha256)) {
    throw new DataError(`trials of ${key} were made from different rows (data hashes differ)`, 'dataSha256')
  }
  return trials
}

/** Keys that trials share although their values differ, with these values. */
function different<T>(
  trials: readonly Trial[],
  keyOf: (trial: Trial) => string,
  get: (trial: Trial) => T,
): [key: string, values: T[]][] {
  return [...groupBy(trials, keyOf)]
    .map(([key, same]): [string, T[]] => [key, [...new Set(same.map(get))]])
    .filter(([, values]) => values.length > 1)
}

/** Work whose AUC or space differs between machines, bit by bit, over the test samples that both have. */
export function findDisagreements(trials: readonly Trial[]) {
  return [...groupBy(trials, workKey)].flatMap(([work, same]) => {
    const shared = (['all', 'protocol'] as const).filter((sample) =>
      same.every(({ results }) => results.some((result) => result.sample === sample)),
    )
    const resultOf = (trial: Trial, sample: TestSample | undefined): TestResult | undefined =>
      trial.results.find((result) => result.sample === sample)
    const outcome = (trial: Trial): string =>
      JSON.stringify([shared.map((sample) => resultOf(trial, sample)), trial.spaceNumbers, trial.dataSha256])
    if (same.every((trial) => outcome(trial) === outcome(same[0]!))) return []
    const machines = same.map((trial) => trial.machine.name)
    return {
      work,
      machines,
      aucs: same.map((trial) => (resultOf(trial, shared[0]) ?? trial.results[0]!).auc),
    }
  })
}
