/**
 * Inputs → feature rows under a model's own contract, a batch at a time in the order in which they come to be: the
 * path that `update` and `drift` share.
 *
 * A capture's flows give their rows as they end, so memory does not grow with the capture. Flows without a row (one
 * packet, too few in time) teach a mixture nothing and are counted alone.
 */
import {
  ContractMismatchError,
  DataError,
  type Matrix,
  matrixOf,
  type PacketView,
  plural,
} from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowCounters, FlowRecord } from '@oddflow/flows'
import { createDeviceNumbers } from '@oddflow/program'
import { inputKind } from '../input/input-kind.js'
import { nameInputs, noFlowIn } from '../input/name-inputs.js'
import { readRowsUnder } from '../input/read-rows.js'
import { describePackets } from '../output/describe-verdicts.js'
import type { CaptureInput, CaptureRead, ReadOptions } from './read-packets.js'
import { readRecords } from './score-inputs.js'

export interface StreamedRows {
  readonly rows: number
  /** Flow records without a row. */
  readonly withoutRow: number
  /** null for feature rows. */
  readonly counters: FlowCounters | null
  readonly reads: readonly CaptureRead[]
}

const BATCH_ROWS = 100

/**
 * `onRows` gets at most 100 rows at a time, the number of the input that they are from, and for rows of captures numbers
 * that are equal for one device in one input; all are its own.
 */
export async function streamRows(
  { contract }: SavedModel,
  inputs: readonly CaptureInput[],
  options: ReadOptions & {
    readonly view: PacketView
    /** Called for each flow with a row, in the order of the rows and before they come. */
    readonly onFlow?: (record: FlowRecord) => void
  },
  onRows: (rows: Matrix, input: number, devices: Uint32Array | null) => void,
): Promise<StreamedRows> {
  const { dimension } = contract
  if (inputKind(inputs[0].files[0]) === 'rows') {
    let total = 0
    inputs.forEach(({ name }, input) => {
      const { rows, cols, data } = readRowsUnder(contract, name)
      options.progress.stage(`reading ${name}`, rows)
      for (let i = 0; i < rows; i += BATCH_ROWS) {
        const count = Math.min(BATCH_ROWS, rows - i)
        onRows(matrixOf(count, cols, data.slice(i * cols, (i + count) * cols)), input, null)
        options.progress.update(i + count)
      }
      options.progress.stop()
      total += rows
    })
    return { rows: total, withoutRow: 0, counters: null, reads: [] }
  }
  if (contract.featureSet === 'rows') {
    throw new ContractMismatchError(
      `${inputs[0].name}: the model was trained on feature rows, not on captures; give rows made in the way its own were`,
    )
  }
  const row = new Float64Array(dimension)
  const batch = new Float64Array(BATCH_ROWS * dimension)
  const devices = new Uint32Array(BATCH_ROWS)
  const deviceNumber = createDeviceNumbers()
  let filled = 0
  let input = -1
  let rows = 0
  let withoutRow = 0
  const flush = (): void => {
    if (filled > 0) {
      const rowsOfBatch = matrixOf(filled, dimension, batch.slice(0, filled * dimension))
      onRows(rowsOfBatch, input, devices.slice(0, filled))
    }
    filled = 0
  }
  const reads: CaptureRead[] = []
  const counters = await readRecords(
    contract,
    inputs,
    options,
    {
      row,
      begin() {
        input++
      },
      onRecord(record) {
        if (record.row === null) {
          if (record.noRowReason !== 'remainder') withoutRow++
          return
        }
        options.onFlow?.(record)
        batch.set(record.row, filled * dimension)
        devices[filled] = deviceNumber(record)
        rows++
        if (++filled === BATCH_ROWS) flush()
      },
      end(read) {
        flush()
        return read
      },
    },
    (read) => reads.push(read),
  )
  return { rows, withoutRow, counters, reads }
}

/** Throws DataError where the inputs gave no row, and says why. */
export function refuseNoRows(
  paths: readonly string[],
  { rows, withoutRow, counters, reads }: StreamedRows,
): void {
  if (rows > 0) return
  if (withoutRow === 0)
    throw noFlowIn(paths, counters === null ? 'no rows' : describePackets(counters, reads))
  throw new DataError(
    `${nameInputs(paths)}: ${plural(withoutRow, 'flow record')} in it, but none with a row: nothing to learn from`,
  )
}
