/**
 * Captures → whole flows, for the commands that learn from them (train, extract), and for scoring under a
 * contract whose rules need whole flows.
 */
import { DataError, type FlowContract, type Matrix, type PacketView } from '@oddflow/core'
import {
  type CollectedFlows,
  createFlowCollector,
  extractMatrix,
  extractRecords,
  type FlowCounters,
  type RecordCounts,
} from '@oddflow/flows'
import { memoryOption, namingFlowMemory } from './flow-memory.js'
import type { FlowGathering } from './flow-plan.js'
import { hashSeed } from './hash-seed.js'
import { type CaptureInput, type CaptureRead, type ReadOptions, readPackets } from './read-packets.js'

export interface CollectedCaptures {
  readonly flows: CollectedFlows
  readonly reads: readonly CaptureRead[]
}

/** Reads every capture into one collection; flows never cross inputs. */
export async function collectFlows(
  inputs: readonly CaptureInput[],
  gathering: FlowGathering,
  options: ReadOptions & { readonly view: PacketView },
): Promise<CollectedCaptures> {
  const collector = namingFlowMemory(() =>
    createFlowCollector({ ...gathering, ...memoryOption(options), hashSeed: hashSeed() }),
  )
  const reads: CaptureRead[] = []
  for (const input of inputs) {
    try {
      reads.push(await readPackets(input, options, (packets) => collector.add(packets)))
    } catch (error) {
      if (!(error instanceof DataError)) throw error
      const message = error.message.replace(/, or allow more memory$/, ' (--filter, --flow-memory)')
      throw new DataError(`${input.name}: ${message}`, error.field)
    }
    collector.endCapture()
  }
  return { flows: collector.finish(), reads }
}

/** Most numbers of a matrix of rows: 1 GiB. */
const MAXIMUM_NUMBERS = 2 ** 27

/** Throws DataError where so many rows do not go into memory. */
export function checkRowsFit(rows: number, { dimension, featureSet }: FlowContract): void {
  if (rows * dimension <= MAXIMUM_NUMBERS) return
  throw new DataError(
    `${rows} rows of ${dimension} numbers (${featureSet}) are more than ${MAXIMUM_NUMBERS} numbers, the most that are held: take fewer or shorter captures, or --filter`,
  )
}

/** The rows of collected flows, and what became of their records. Throws DataError as `checkRowsFit` does. */
export function rowsOfFlows(
  flows: CollectedFlows,
  contract: FlowContract,
): { readonly rows: Matrix; readonly counts: RecordCounts } {
  const counts = extractRecords(flows, contract, () => {})
  checkRowsFit(counts.rows, contract)
  return { rows: extractMatrix(flows, contract), counts }
}

/** The counters of flows that were collected and then cut; a collector ends none for lack of memory. */
export function countersOf(flows: CollectedFlows, counts: RecordCounts): FlowCounters {
  return {
    ...flows.counters,
    ...counts,
    heldPackets: 0,
    evictedFlows: 0,
    evictedHalfOpenFlows: 0,
    evictedActiveFlows: 0,
    evictedIdleFlows: 0,
  }
}
