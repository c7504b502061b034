/** Training set and labelled inputs → the detector's options, with the parameters that did best among a grid. */
import { availableParallelism } from 'node:os'
import { concatRows, DataError, type Matrix, packetView } from '@oddflow/core'
import type { DetectorOptions, ParameterSelection } from '@oddflow/detectors'
import {
  bestCandidate,
  type Candidate,
  type CandidateResult,
  candidateGroups,
  type Selection,
  validationRows,
} from '@oddflow/evaluation'
import {
  FIT_STREAM,
  hashRows,
  originOf,
  runInWorkers,
  splitTrainingSet,
  type TrainingSet,
  type TrainOptions,
} from '@oddflow/program'
import type { Progress } from '@oddflow/program/progress'
import type { SelectionRequest } from '../flags.js'
import { namedError, nameInputs, warn } from '../inputs.js'
import { gatheringOf } from '../pipeline/flow-plan.js'
import { captureInputs, complaints, type ReadOptions } from '../pipeline/read-packets.js'
import { readRows } from '../pipeline/read-rows.js'
import { collectFlows, rowsOfFlows } from '../pipeline/score-inputs.js'
import type { CandidateNews, SelectionWork } from './selection-worker.js'

/** All candidates of a search as JSON, in the grid's order. */
function selectionReport(
  { best, results }: Selection,
  candidates: readonly Candidate[],
  { grid, ...selection }: ParameterSelection,
  beside: { readonly detector: string; readonly seed: number; readonly trainingRows: number },
): string {
  const report = {
    ...beside,
    criterion: selection.criterion,
    grid,
    validation: {
      normalRows: selection.normalRows,
      novelRows: selection.novelRows,
      dataSha256: selection.dataSha256,
    },
    chosen: { ...candidates[best]?.choice, auc: selection.auc },
    failed: selection.failed,
    candidates: results.map(({ auc, failure, figures }, index) => ({
      ...candidates[index]?.choice,
      auc,
      ...(failure === null ? {} : { failure }),
      ...(Object.keys(figures).length === 0 ? {} : { figures }),
    })),
  }
  return `${JSON.stringify(report, null, 2)}\n`
}

interface LabelledFiles {
  readonly files: readonly string[]
  readonly filter: ReadOptions['filter']
}

interface ReadValidationOptions extends Omit<ReadOptions, 'filter'> {
  readonly continuous: boolean | undefined
}

/** Made under the contract just learned. Throws DataError that begins with the files' names, and what the reading throws. */
async function readLabelled(
  { files, filter }: LabelledFiles,
  contract: TrainingSet['contract'],
  options: ReadValidationOptions,
): Promise<Matrix> {
  if (contract.featureSet === 'rows') return concatRows(files.map((file) => rowsOf(file, contract.dimension)))
  const { flows, reads } = await collectFlows(
    captureInputs(files, options.continuous),
    gatheringOf(contract),
    {
      filter,
      dropDuplicates: options.dropDuplicates,
      flowMemoryBytes: options.flowMemoryBytes,
      progress: options.progress,
      view: packetView(contract),
    },
  )
  for (const line of reads.flatMap(complaints)) warn(line)
  const { rows } = rowsOfFlows(flows, contract)
  if (rows.rows > 0) return rows
  throw new DataError(
    `${nameInputs(files)}: no flow of ${contract.minimumPackets} or more packets to choose parameters by; check what was captured, and the filter`,
  )
}

function rowsOf(file: string, dimension: number): Matrix {
  const rows = readRows(file)
  if (rows.cols === dimension) return rows
  throw new DataError(
    `${file}: rows of ${rows.cols} numbers, but the training rows have ${dimension}; choose parameters by rows of the same kind`,
  )
}

interface ChosenParameters {
  readonly detector: DetectorOptions
  readonly selection: ParameterSelection
  /** JSON. */
  readonly report: string
}

interface LabelledInputs {
  readonly training: readonly string[]
  readonly normal: LabelledFiles
  readonly novel: LabelledFiles
  readonly read: ReadValidationOptions & { readonly progress: Progress }
}

export async function chooseParameters(
  set: TrainingSet,
  options: TrainOptions,
  { grid, candidates, jobs }: SelectionRequest,
  { training, normal, novel, read }: LabelledInputs,
): Promise<ChosenParameters> {
  const { seed, detector } = options
  const { contract } = set
  const normalRows = await readLabelled(normal, contract, read)
  const validation = validationRows(normalRows, await readLabelled(novel, contract, read), contract.dimension)
  read.progress.stage('choosing parameters', candidates.length)
  try {
    const { fit: train, split } = splitTrainingSet(set, options)
    const chosen = await selectInWorkers(
      { train, origin: originOf(set, split.fit), validation, candidates, seed, stream: [FIT_STREAM] },
      jobs,
      read.progress,
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

/** Throws DataError if no candidate could be fitted, and as `runInWorkers`. The choice does not depend on the threads. */
async function selectInWorkers(
  work: SelectionWork,
  jobs: number | undefined,
  progress: Progress,
): Promise<Selection> {
  const { train, validation, candidates } = work
  const results: CandidateResult[] = new Array(candidates.length)
  let done = 0
  await runInWorkers<readonly number[], CandidateNews>(candidateGroups(candidates), {
    script: new URL('./selection-worker.js', import.meta.url),
    workers: jobs ?? availableParallelism(),
    data: {
      ...work,
      train: inSharedMemory(train),
      validation: { ...validation, rows: inSharedMemory(validation.rows) },
    } satisfies SelectionWork,
    onSaid({ index, result }) {
      results[index] = result
      progress.update(++done)
    },
  })
  return { best: bestCandidate(results), results }
}

/** All threads share it. */
function inSharedMemory({ rows, cols, data }: Matrix): Matrix {
  const shared = new Float64Array(new SharedArrayBuffer(data.byteLength))
  shared.set(data)
  return { rows, cols, data: shared }
}
