/** Readings into their file, and those that may be timed into the trials: the end of `machines` and of `merge`. */
import { encodeTrial, type Trial, trialKey, workKey } from '@oddflow/evaluation'
import { openTrials } from '../run/trials-file.js'
import { mergeReadings, type Reading, readReadings, writeReadings } from './reading.js'
import { isResultOf, trainedByWork, trialsOfReadings } from './trials-of-readings.js'

export interface Recorded {
  /** Trials that were added. */
  readonly trials: number
  /** Trials of the same machine and work, measured before, that these took the place of. */
  readonly replaced: number
  /** Readings whose hashes are right and whose AUC is not the trial's: they made no trial. */
  readonly unlike: number
}

/** Throws before anything is written when a reading belongs to no trial. */
export function recordReadings(
  readings: readonly Reading[],
  paths: { readonly readings: string; readonly trials: string },
): Recorded {
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
    writeReadings(paths.readings, mergeReadings(known, readings))
    if (newer.size > 0) file.rewrite(file.trials.map((trial) => newer.get(trialKey(trial)) ?? trial))
    for (const trial of added) file.append(trial)
    return { trials: added.length, replaced: newer.size, unlike: countUnlike(readings, file.trials) }
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

/** `12 of 12 models byte-equal, 12 of 12 scores equal`, and what failed. */
export function describeReadings(readings: readonly Reading[]): { text: string; equal: boolean } {
  const done = readings.filter(({ outcome }) => !('failure' in outcome))
  const count = (of: readonly Reading[], is: (reading: Reading) => boolean): string =>
    `${of.filter(is).length} of ${of.length}`
  const scores = done.filter(({ work }) => work.kind === 'score')
  const fits = done.filter(({ work }) => work.kind === 'fit')
  const isModelEqual = ({ outcome, expected }: Reading): boolean =>
    'modelSha256' in outcome && outcome.modelSha256 === expected.modelSha256
  const isScoreEqual = ({ outcome, expected }: Reading): boolean =>
    'scoresSha256' in outcome && outcome.scoresSha256 === expected.scoresSha256
  const parts = [
    `${count(scores, isModelEqual)} models read and written again byte-equal`,
    `${count(scores, isScoreEqual)} scores equal`,
    ...(fits.length === 0 ? [] : [`${count(fits, isModelEqual)} models fitted anew byte-equal`]),
    ...(done.length === readings.length ? [] : [`${readings.length - done.length} items failed`]),
  ]
  return { text: parts.join(', '), equal: done.every((r) => isModelEqual(r) && isScoreEqual(r)) }
}
