/** Training set and labelled inputs → the detector's options, with the parameters that did best among a grid. */
import { createRng } from '@oddflow/core'
import type { DetectorOptions, ParameterSelection } from '@oddflow/detectors'
import {
  FIT_STREAM,
  hashRows,
  originOf,
  splitTrainingSet,
  type TrainingSet,
  type TrainOptions,
} from '@oddflow/program'
import type { Progress } from '@oddflow/program/progress'
import { namedError } from '../input/name-inputs.js'
import { type LabelledFiles, type ReadValidationOptions, readValidation } from './read-validation.js'
import { selectInWorkers } from './select-in-workers.js'
import type { SelectionRequest } from './selection-flags.js'
import { selectionReport } from './selection-report.js'

export interface ChosenParameters {
  readonly detector: DetectorOptions
  readonly selection: ParameterSelection
  /** JSON. */
  readonly report: string
}

export interface LabelledInputs {
  readonly training: readonly string[]
  readonly normal: LabelledFiles
  readonly novel: LabelledFiles
  readonly read: Omit<ReadValidationOptions, 'rows' | 'rng'> & { readonly progress: Progress }
}

export async function chooseParameters(
  set: TrainingSet,
  options: TrainOptions,
  { grid, candidates, rows, jobs }: SelectionRequest,
  { training, normal, novel, read }: LabelledInputs,
): Promise<ChosenParameters> {
  const { seed, detector } = options
  const rng = createRng(seed).fork('selection')
  const validation = await readValidation(normal, novel, set.contract, { ...read, rows, rng })
  read.progress.stage('choosing parameters', candidates.length)
  try {
    const { fit: train, split } = splitTrainingSet(set, options)
    const chosen = await selectInWorkers(
      { train, origin: originOf(set, split.fit), validation, candidates, seed, stream: [FIT_STREAM] },
      { jobs, onProgress: (done) => read.progress.update(done) },
    )
    const novelRows = validation.isNovel.reduce((count, label) => count + label, 0)
    const { best, results } = chosen
    const selection: ParameterSelection = {
      criterion: 'validation-auc',
      grid,
      candidates: candidates.length,
      failed: results.filter(({ auc }) => auc === null).length,
      auc: results[best]?.auc ?? Number.NaN,
      normalRows: validation.rows.rows - novelRows,
      novelRows,
      dataSha256: hashRows(validation.rows),
    }
    const beside = { detector: detector.detector ?? '', seed, trainingRows: train.rows }
    return {
      detector: { ...detector, ...(candidates[best]?.choice as DetectorOptions) },
      selection,
      report: selectionReport(chosen, candidates, selection, beside),
    }
  } catch (error) {
    throw namedError(training, error)
  } finally {
    read.progress.stop()
  }
}
