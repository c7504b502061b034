/** Readings into their file, and those that may be timed into the trials: the end of `machines` and of `merge`. */
import { trialKey } from '@oddflow/evaluation'
import { openTrials } from '../run/trials-file.js'
import { mergeReadings, type Reading, readReadings, writeReadings } from './reading.js'
import { trialsOfReadings } from './trials-of-readings.js'

export interface Recorded {
  /** Trials that were added; those that were there already are left as they are. */
  readonly trials: number
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
    const there = new Set(file.trials.map(trialKey))
    const added = made.filter((trial) => !there.has(trialKey(trial)))
    writeReadings(paths.readings, mergeReadings(known, readings))
    for (const trial of added) file.append(trial)
    return { trials: added.length }
  } finally {
    file.close()
  }
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
