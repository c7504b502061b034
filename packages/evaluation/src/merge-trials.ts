/**
 * Trials of several runs and machines as one collection.
 *
 * The same line twice is one trial. Two different records of one key cannot both be right, and which one is
 * cannot be known here: an error that names the key. Trials of one data set under one seed must have seen the same
 * rows, whatever the machine, and all trials of one repeat as many: nothing in a table tells trials of two n apart.
 */
import { DataError } from '@oddflow/core'
import { dataKey, type TestResult, type TestSample, type Trial, trialKey, workKey } from './trial.js'
import { encodeTrial } from './trial-json.js'

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

/**
 * Work whose AUC or space is not the same on every machine, bit for bit, over the test samples that both have: a
 * machine that only tests may have been given one of them.
 */
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
