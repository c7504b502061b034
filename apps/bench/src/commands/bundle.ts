/** `oddflow-bench bundle DIR`: what `machines` sends over a network, to be carried by hand. */
import { DataError } from '@oddflow/core'
import type { Trial } from '@oddflow/evaluation'
import { readManifests } from '../datasets/read-manifests.js'
import { UsageError } from '../errors.js'
import { type Bundle, makeBundle } from '../machines/make-bundle.js'
import { PROGRAM_FILE } from '../machines/work.js'
import { createProgress, note } from '../output.js'
import { readTrials } from '../run/trials-file.js'
import type { CommandOptions } from './options.js'

export interface WorkOptions extends Omit<CommandOptions, 'trainRows' | 'workers' | 'seed' | 'machine'> {
  readonly refitRows: number
}

export function bundle(folder: string, options: WorkOptions): void {
  const { work, sha256 } = bundleOfTrials(folder, options)
  note(`${folder}: ${work.items.length} items, SHA-256 ${sha256}`)
  note(`Carry the folder to the machine; there: node ${PROGRAM_FILE} --name NAME > NAME.jsonl`)
  note('Bring NAME.jsonl back; here: oddflow-bench merge NAME.jsonl')
}

/** Of trials of the machine that trains, as the options choose them. */
export function bundleOfTrials(folder: string, options: WorkOptions): Bundle {
  const { datasets, detectors, tuning, repeats } = options
  const isChosen = (trial: Trial): boolean =>
    trial.trainMillis !== null &&
    (datasets === undefined || datasets.includes(trial.dataset)) &&
    (detectors === undefined || detectors.includes(trial.detector)) &&
    (tuning === 'both' || trial.tuning === tuning) &&
    trial.repeat < repeats
  const all = readTrials(options.trials)
  requireNames(options, 'datasets', all, 'dataset')
  requireNames(options, 'detectors', all, 'detector')
  const trials = all.filter(isChosen)
  if (trials.length === 0) {
    throw new DataError(`${options.trials}: holds none of the trials asked for; run oddflow-bench reproduce`)
  }
  const progress = createProgress()
  progress.start(trials.length)
  try {
    return makeBundle({
      trials,
      manifests: readManifests(options.manifests),
      data: options.data,
      folder,
      testRuns: options.testRuns,
      refitRows: options.refitRows,
      onItem: (done, _total, name) => progress.update(done, name),
    })
  } finally {
    progress.stop()
  }
}

/** Throws UsageError for a name that no trial has. */
function requireNames(
  options: WorkOptions,
  option: 'datasets' | 'detectors',
  trials: readonly Trial[],
  field: 'dataset' | 'detector',
): void {
  const known = [...new Set(trials.map((trial) => trial[field]))]
  for (const name of options[option] ?? []) {
    if (known.includes(name)) continue
    const there = known.length === 0 ? 'it has no trials' : `there are ${known.join(', ')}`
    throw new UsageError(`${name}: no trial in ${options.trials} is of it (--${option}); ${there}`)
  }
}
