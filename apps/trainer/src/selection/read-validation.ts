/** Labelled inputs → validation rows, made as the training rows were: under the contract just learnt. */
import { concatRows, DataError, type Matrix, packetView, type Rng, takeRows } from '@oddflow/core'
import { drawLabelled, type ValidationRows, validationRows } from '@oddflow/evaluation'
import type { TrainingSet } from '@oddflow/program'
import { nameInputs } from '../input/name-inputs.js'
import { readRows } from '../input/read-rows.js'
import { warn } from '../output/messages.js'
import { collectFlows, rowsOfFlows } from '../pipeline/collect-flows.js'
import { gatheringOf } from '../pipeline/flow-plan.js'
import { captureInputs, complaints, type ReadOptions } from '../pipeline/read-packets.js'

export interface LabelledFiles {
  readonly files: readonly string[]
  readonly filter: ReadOptions['filter']
}

export interface ReadValidationOptions extends Omit<ReadOptions, 'filter'> {
  readonly continuous: boolean | undefined
  /** At most so many rows of each kind, drawn with `rng`; all where it is undefined. */
  readonly rows: number | undefined
  readonly rng: Rng
}

/** Throws DataError that begins with the files' names, and what the reading throws. */
export async function readValidation(
  normal: LabelledFiles,
  novel: LabelledFiles,
  contract: TrainingSet['contract'],
  options: ReadValidationOptions,
): Promise<ValidationRows> {
  const normalRows = await readLabelled(normal, contract, options)
  const novelRows = await readLabelled(novel, contract, options)
  const { rows: most = Number.POSITIVE_INFINITY, rng } = options
  const pool = { normal: normalRows.rows, novel: novelRows.rows }
  const counts = { normal: Math.min(most, pool.normal), novel: Math.min(most, pool.novel) }
  const drawn = drawLabelled(pool, counts, rng)
  return validationRows(
    takeRows(normalRows, drawn.normal.sort()),
    takeRows(novelRows, drawn.novel.sort()),
    contract.dimension,
  )
}

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
      reader: options.reader,
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
