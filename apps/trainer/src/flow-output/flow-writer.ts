/**
 * FlowWriter: flow records into a file, one at a time, in memory that does not grow with their number. Which format
 * it is, the file's name says.
 */
import type { FlowLogOptions, FlowRecord } from '@oddflow/flows'
import { openWholeFile, UsageError, type WholeFile } from '@oddflow/program'
import { createNpyFlowWriter } from './npy-flows.js'
import { createParquetFlowWriter } from './parquet-flows.js'
import { createTextFlowWriter } from './text-flows.js'

export interface FlowWriter {
  /** The record is borrowed. */
  write(record: FlowRecord): void
  /** Writes what is left; the file is complete after. */
  finish(): void
}

export type FlowWriterFactory = (file: WholeFile, options: FlowLogOptions) => FlowWriter

const BY_NAME: readonly (readonly [RegExp, FlowWriterFactory])[] = [
  [/\.jsonl$/i, createTextFlowWriter('json')],
  [/\.csv$/i, createTextFlowWriter('csv')],
  [/\.parquet$/i, createParquetFlowWriter],
  [/\.npy$/i, createNpyFlowWriter],
]

/** Throws UsageError for a name that says no format. */
export function flowWriterFor(path: string): FlowWriterFactory {
  if (path === '-') return createTextFlowWriter('json')
  const found = BY_NAME.find(([name]) => name.test(path))
  if (found === undefined) {
    throw new UsageError(
      `--output ${path}: expected - for JSON lines on standard output, or a name that ends in .jsonl, .csv, .parquet or .npy`,
    )
  }
  return found[1]
}

/** Runs `work` on a file that is whole when it returns, and not there when it throws. */
export async function intoWholeFile<T>(path: string, work: (file: WholeFile) => Promise<T>): Promise<T> {
  const file = openWholeFile(path)
  try {
    const result = await work(file)
    file.commit()
    return result
  } finally {
    file.abandon()
  }
}
