/**
 * Flow records → a training set: rows in the order of time in which their flows began, and where each came from.
 *
 * Records may come in any order: those of collected flows, or as flows end.
 */
import { createMatrix, type FlowContract } from '@oddflow/core'
import { type CollectedFlows, extractRecords, type FlowRecord, learnOnePacketRule } from '@oddflow/flows'
import { createDeviceNumbers } from './device-of.js'
import type { TrainingSet } from './train-model.js'

/** Rows of a block; blocks are never copied as the set grows. */
const BLOCK_ROWS = 4096

export interface TrainingRows {
  /** Takes a record; one without a row is left out. */
  add(record: FlowRecord): void
  /** So far. */
  readonly count: number
  finish(onePacketRule: TrainingSet['onePacketRule']): TrainingSet
}

/** @param checkCount - is given the number of rows whenever a block is allocated for more, and may throw. */
export function createTrainingRows(
  contract: FlowContract,
  checkCount: (rows: number) => void = () => {},
): TrainingRows {
  const { dimension } = contract
  const blocks: Block[] = []
  const deviceNumber = createDeviceNumbers()
  let count = 0
  let isSorted = true
  const blockOf = (row: number): Block => blocks[Math.floor(row / BLOCK_ROWS)]
  const byTurn = (i: number, j: number): number => {
    const [a, b] = [blockOf(i), blockOf(j)]
    const [x, y] = [i % BLOCK_ROWS, j % BLOCK_ROWS]
    return (
      a.inputs[x] - b.inputs[y] ||
      a.starts[x] - b.starts[y] ||
      a.firstPackets[x] - b.firstPackets[y] ||
      a.pieces[x] - b.pieces[y]
    )
  }
  return {
    get count() {
      return count
    },
    add(record) {
      if (record.row === null) return
      if (count === BLOCK_ROWS * blocks.length) {
        checkCount(count + 1)
        blocks.push(createBlock(dimension))
      }
      const block = blockOf(count)
      const at = count % BLOCK_ROWS
      block.rows.set(record.row, at * dimension)
      block.inputs[at] = record.captureIndex
      block.starts[at] = record.flowStartMicros
      block.firstPackets[at] = record.flowFirstPacketNumber
      block.pieces[at] = record.pieceIndex
      block.devices[at] = deviceNumber(record)
      if (count > 0 && isSorted) isSorted = byTurn(count - 1, count) <= 0
      count++
    },
    finish(onePacketRule) {
      const order = Uint32Array.from({ length: count }, (_, row) => row)
      if (!isSorted) order.sort(byTurn)
      const rows = createMatrix(count, dimension)
      const inputOfRow = new Uint32Array(count)
      const deviceOfRow = new Uint32Array(count)
      const devices = new Map<number, number>()
      order.forEach((row, to) => {
        const block = blockOf(row)
        const at = row % BLOCK_ROWS
        rows.data.set(block.rows.subarray(at * dimension, (at + 1) * dimension), to * dimension)
        inputOfRow[to] = block.inputs[at]
        const device = devices.get(block.devices[at]) ?? devices.size
        devices.set(block.devices[at], device)
        deviceOfRow[to] = device
      })
      blocks.length = 0
      return { rows, inputOfRow, deviceOfRow, contract, onePacketRule }
    },
  }
}

interface Block {
  readonly rows: Float64Array
  readonly inputs: Uint32Array
  /** Of the flow. */
  readonly starts: Float64Array
  readonly firstPackets: Float64Array
  readonly pieces: Uint32Array
  readonly devices: Uint32Array
}

function createBlock(dimension: number): Block {
  return {
    rows: new Float64Array(BLOCK_ROWS * dimension),
    inputs: new Uint32Array(BLOCK_ROWS),
    starts: new Float64Array(BLOCK_ROWS),
    firstPackets: new Float64Array(BLOCK_ROWS),
    pieces: new Uint32Array(BLOCK_ROWS),
    devices: new Uint32Array(BLOCK_ROWS),
  }
}

/** @param checkCount - as that of createTrainingRows. */
export function trainingSetOf(
  flows: CollectedFlows,
  contract: FlowContract,
  checkCount: (rows: number) => void = () => {},
): TrainingSet {
  const rows = createTrainingRows(contract, checkCount)
  extractRecords(flows, contract, (record) => rows.add(record))
  // a contract with rows for flows of one packet needs no rule for them
  return rows.finish(contract.minimumPackets === 1 ? null : learnOnePacketRule(flows))
}
