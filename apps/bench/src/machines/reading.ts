/** Readings: what targets measured, one item of work each (`machines.jsonl`). Pages and trials come from these. */
import { DataError, FormatError } from '@oddflow/core'
import { z } from 'zod'
import {
  amount,
  count,
  digest,
  jsonLines,
  newestOfEach,
  parseShape,
  positive,
  readLines,
  writeFileWhole,
} from '../files.js'
import { checkTrial, encodeTrial, type TestResult, type Trial, trialKey, workKey } from '../run/trial.js'
import { openTrials } from '../run/trials-file.js'
import { SHORT_NAME } from './machine-description.js'
import { isComplete, type TargetRun } from './reach.js'
import { expectedShape, failureShape, machineShape, outcomeShape, workShape } from './runner-line.js'
import { workItemKey } from './work.js'

const readingShape = z.strictObject({
  format: z.literal(1),
  target: z.string().regex(SHORT_NAME),
  /** `carried`: the bundle and its results went by hand. */
  reach: z.enum(['local', 'ssh', 'emulated', 'carried']),
  memoryCeilingBytes: positive.nullable(),
  bundleSha256: digest,
  machine: machineShape,
  loadAverage: amount.nullable(),
  /** Of the process that did the item, with whatever else it did. */
  peakMemoryBytes: count.nullable(),
  work: workShape,
  expected: expectedShape,
  outcome: z.union([outcomeShape, failureShape]),
})

export type Reading = z.infer<typeof readingShape>

/** What one run of a bundle's program printed. */
export function readingsOf(
  about: Pick<Reading, 'target' | 'reach' | 'memoryCeilingBytes'>,
  { machine: { bundleSha256, machine, loadAverage }, items }: TargetRun,
): Reading[] {
  return items.map(({ work, expected, outcome, peakMemoryBytes }) => ({
    ...{ format: 1, ...about, bundleSha256, machine, loadAverage },
    ...{ peakMemoryBytes, work, expected, outcome },
  }))
}

/** Whether model and scores are those of the machine that made the bundle; null for an item that failed. */
export function isEqualReading({ expected, outcome }: Reading): boolean | null {
  if ('failure' in outcome) return null
  return outcome.modelSha256 === expected.modelSha256 && outcome.scoresSha256 === expected.scoresSha256
}

/** Whether its times may stand beside those of other machines: not under an emulator, not under a ceiling. */
export function isTimed({ reach, machine, memoryCeilingBytes, outcome }: Reading): boolean {
  return reach !== 'emulated' && !machine.emulated && memoryCeilingBytes === null && !('failure' in outcome)
}

function readingKey({ target, work }: Reading): string {
  return `${target} ${workItemKey(work)}`
}

/** Readings of a file; none when there is no file. Throws an error that begins with the path and names the line. */
export function readReadings(path: string): Reading[] {
  return readLines(path, 'readings', (line) => {
    const reading = parseShape(readingShape, line, 'reading')
    if (!isComplete(reading)) throw new FormatError('reading', 'outcome: does not match the work')
    return reading
  })
}

type Recorded = ReturnType<typeof recordReadings>

/** Throws before anything is written when a reading belongs to no trial. */
export function recordReadings(
  readings: readonly Reading[],
  paths: { readonly readings: string; readonly trials: string },
) {
  const known = readReadings(paths.readings)
  const file = openTrials(paths.trials)
  try {
    const made = trialsOfReadings(readings, file.trials)
    const there = new Map(file.trials.map((trial) => [trialKey(trial), trial]))
    const added = made.filter((trial) => !there.has(trialKey(trial)))
    // what a machine trained itself is never replaced by what it only tested
    const newer = new Map(
      made.filter((trial) => isOlder(there.get(trialKey(trial)), trial)).map((t) => [trialKey(t), t]),
    )
    writeFileWhole(paths.readings, jsonLines(newestOfEach([...known, ...readings], readingKey)))
    if (newer.size > 0) file.rewrite(file.trials.map((trial) => newer.get(trialKey(trial)) ?? trial))
    for (const trial of added) file.append(trial)
    return {
      trials: added.length,
      /** Trials of the same machine and work, measured before, that these took the place of. */
      replaced: newer.size,
      /** Readings whose hashes are right and whose AUC is not the trial's: they made no trial. */
      unlike: countUnlike(readings, file.trials),
    }
  } finally {
    file.close()
  }
}

function isOlder(known: Trial | undefined, made: Trial): boolean {
  return known !== undefined && known.trainMillis === null && encodeTrial(known) !== encodeTrial(made)
}

function countUnlike(readings: readonly Reading[], trials: readonly Trial[]): number {
  const trained = trainedByWork(trials)
  return readings.filter((reading) => {
    const { work, outcome } = reading
    if (work.kind === 'fit' || 'failure' in outcome || outcome.result === null) return false
    const trial = trained.get(workKey(work))
    return trial !== undefined && !isResultOf(trial, outcome.result)
  }).length
}

/** How the trials fared, for the end of a line: `2 trials added, 1 replaced`. */
export function describeRecorded({ trials, replaced, unlike }: Recorded): string {
  return [
    `${trials} trials added`,
    ...(replaced === 0 ? [] : [`${replaced} replaced`]),
    ...(unlike === 0 ? [] : [`${unlike} with another AUC than the trial: left out`]),
  ].join(', ')
}

/** How many models and scores are those of the machine that made the bundle. */
export function countEqual(readings: readonly Reading[]) {
  const done = readings.flatMap(({ work, expected, outcome }) =>
    'failure' in outcome ? [] : [{ work, expected, outcome }],
  )
  const equal = (kind: Reading['work']['kind'], hash: 'modelSha256' | 'scoresSha256') => {
    const own = done.filter(({ work }) => work.kind === kind)
    return { equal: own.filter((one) => one.outcome[hash] === one.expected[hash]).length, of: own.length }
  }
  return {
    models: equal('score', 'modelSha256'),
    scores: equal('score', 'scoresSha256'),
    fits: equal('fit', 'modelSha256'),
    failed: readings.length - done.length,
  }
}

/** `12 of 12 models byte-equal, 12 of 12 scores equal`, and what failed. */
export function describeReadings(readings: readonly Reading[]): { text: string; equal: boolean } {
  const { models, scores, fits, failed } = countEqual(readings)
  const parts = [
    `${models.equal} of ${models.of} models read and written again byte-equal`,
    `${scores.equal} of ${scores.of} scores equal`,
    ...(fits.of === 0 ? [] : [`${fits.equal} of ${fits.of} models fitted again byte-equal`]),
    ...(failed === 0 ? [] : [`${failed} items failed`]),
  ]
  return { text: parts.join(', '), equal: [models, scores, fits].every(({ equal, of }) => equal === of) }
}

/**
 * Readings as trials: the trial of the machine that trained, with the reading's machine, times and results. A reading
 * from an emulator, under a ceiling, or with other bytes, scores or results makes none.
 */

/** `trials`: of the machine that trained, by which readings are told apart. Throws DataError for a reading of none. */
function trialsOfReadings(readings: readonly Reading[], trials: readonly Trial[]): Trial[] {
  const trained = trainedByWork(trials)
  return readings.flatMap((reading): Trial[] => {
    const { work, outcome, machine } = reading
    if (work.kind === 'fit' || 'failure' in outcome || !isTimed(reading)) return []
    const trial = trained.get(workKey(work))
    if (trial === undefined) throw new DataError(`${workKey(work)}: no trial of a machine that trained it`)
    if (trial.dataSha256 !== work.dataSha256) {
      throw new DataError(`${workKey(work)}: the rows differ from those of the trial (hashes)`)
    }
    if (trial.machine.name === reading.target) {
      if (reading.reach === 'local') return []
      throw new DataError(`${reading.target}: is the name of the machine that trained; give this one another`)
    }
    if (isEqualReading(reading) !== true || !isResultOf(trial, outcome.result)) return []
    return [
      checkTrial({
        ...trial,
        results: [outcome.result],
        trainMillis: null,
        tuneMillis: null,
        testRows: outcome.testRows,
        testMillis: outcome.testMillis,
        machine: {
          name: reading.target,
          cpu: machine.cpu,
          logicalCpus: machine.logicalCpus,
          memoryBytes: machine.memoryBytes,
          operatingSystem: machine.operatingSystem,
          architecture: machine.architecture,
          concurrency: 1,
        },
        loadAverage: reading.loadAverage,
        versions: { ...trial.versions, node: machine.node },
      }),
    ]
  })
}

/** The trials of machines that trained, by their work. */
function trainedByWork(trials: readonly Trial[]): ReadonlyMap<string, Trial> {
  return new Map(
    trials.filter(({ trainMillis }) => trainMillis !== null).map((trial) => [workKey(trial), trial]),
  )
}

/** Whether a result is the trial's own of that test sample, to the last bit; a trial may have been given another. */
function isResultOf(trial: Trial, result: TestResult | null): boolean {
  if (result === null) return false
  const { sample, auc, normal, novel } = result
  const own = trial.results.find((own) => own.sample === sample)
  return own === undefined || (own.auc === auc && own.normal === normal && own.novel === novel)
}
