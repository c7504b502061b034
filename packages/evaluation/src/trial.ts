/**
 * Trial: one detector fitted once and tested, with all that it takes to know what was measured and to do it again.
 *
 * A trial says which data (by hash), which parameters, which seed, which machine and which versions; tables are
 * made from trials and nothing else. The same trial of two machines has two records, which differ in the
 * machine and the times alone: what the data, the seed and the parameters decide is equal everywhere.
 */

/** Plain data that survives JSON unchanged: what parameters are made of. */
export type PlainValue =
  | null
  | boolean
  | number
  | string
  | readonly PlainValue[]
  | { readonly [name: string]: PlainValue }

export type Tuning = 'none' | 'minimal'

/** What was scored: every test row there is, or 300 + 300 of them as the paper draws them. */
export type TestSample = 'all' | 'protocol'

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
  /** Choosing them, likewise; null without tuning, and where it was done elsewhere. */
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
