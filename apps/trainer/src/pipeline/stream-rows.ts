/**
 * Inputs → feature rows under a model's own contract, a batch at a time in the order in which they come to be: the
 * path that `update` and `drift` share.
 *
 * A capture's flows give their rows as they end, so memory does not grow with the capture. Flows without a row (one
 * packet, too few in time) teach a mixture nothing and are counted alone.
 */
import { ContractMismatchError, type Matrix, matrixOf } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { createFlowExtractor, type FlowCounters } from '@oddflow/flows'
import { inputKindOfAll } from '../input/input-kind.js'
import { readRows } from '../input/read-rows.js'
import { hashSeed } from './hash-seed.js'
import { type CaptureRead, type ReadOptions, readPackets } from './read-packets.js'

export interface StreamedRows {
  readonly rows: number
  /** Flow records without a row. */
  readonly withoutRow: number
  /** null for feature rows. */
  readonly counters: FlowCounters | null
  readonly reads: readonly CaptureRead[]
}

const BATCH_ROWS = 100

/** A file is finite, so its open flows may take what a long-running watcher's may not. */
const OPEN_FLOWS_BYTES = 512 * 1024 * 1024

/** `onRows` gets at most 100 rows at a time, and the number of the input that they are from; they are its own. */
export async function streamRows(
  { contract }: SavedModel,
  paths: readonly string[],
  options: ReadOptions,
  onRows: (rows: Matrix, input: number) => void,
): Promise<StreamedRows> {
  const { dimension } = contract
  if (inputKindOfAll(paths) === 'rows') {
    let total = 0
    paths.forEach((path, input) => {
      const { rows, cols, data } = readRows(path)
      if (cols !== dimension) {
        throw new ContractMismatchError(
          `${path}: rows of ${cols} numbers, but the model was trained on rows of ${dimension}; use rows made under its feature contract (oddflow extract --model)`,
        )
      }
      options.progress.stage(`reading ${path}`, rows)
      for (let i = 0; i < rows; i += BATCH_ROWS) {
        const count = Math.min(BATCH_ROWS, rows - i)
        onRows(matrixOf(count, cols, data.slice(i * cols, (i + count) * cols)), input)
        options.progress.update(i + count)
      }
      options.progress.stop()
      total += rows
    })
    return { rows: total, withoutRow: 0, counters: null, reads: [] }
  }
  if (contract.featureSet !== 'iat-size') {
    throw new ContractMismatchError(
      `${paths[0]}: the model was trained on feature rows, not on captures; give rows made in the way its own were`,
    )
  }
  const row = new Float64Array(dimension)
  let batch = new Float64Array(BATCH_ROWS * dimension)
  let filled = 0
  let input = 0
  let rows = 0
  let withoutRow = 0
  const flush = (): void => {
    if (filled === 0) return
    onRows(matrixOf(filled, dimension, batch.slice(0, filled * dimension)), input)
    batch = new Float64Array(BATCH_ROWS * dimension)
    filled = 0
  }
  const extractor = createFlowExtractor({
    contract,
    row,
    hashSeed: hashSeed(),
    memoryBytes: OPEN_FLOWS_BYTES,
    onRecord: (record) => {
      if (record.row === null) {
        if (record.noRowReason !== 'remainder') withoutRow++
        return
      }
      batch.set(record.row, filled * dimension)
      rows++
      if (++filled === BATCH_ROWS) flush()
    },
  })
  const reads: CaptureRead[] = []
  for (const path of paths) {
    reads.push(await readPackets(path, options, (packets) => extractor.add(packets)))
    extractor.endCapture()
    flush()
    input++
  }
  return { rows, withoutRow, counters: extractor.finish(), reads }
}
