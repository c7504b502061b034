/**
 * One capture → Parquet files by the UTC day on which flows began, `day=2026-11-28/ID.parquet`. Names depend on the
 * job alone and each file is whole or not there, so a capture that is read twice leaves the same files.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createPacketDecoder } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { type FlowContract, OddFlowError, packetView } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { createFlowExtractor, type FlowRecord, flowLogFields, flowSummaryContract } from '@oddflow/flows'
import { createFlowJudge, openWholeFile, type Verdict, type WholeFile } from '@oddflow/program'
import { createParquetWriter, type ParquetColumn, type ParquetFile } from '@oddflow/program/parquet'
import type { Done, Job } from './archive.js'

export type CaptureOutcome = Pick<Done, 'packets' | 'flows' | 'novel' | 'days' | 'damage'>

/** The results cannot be written: a fault of the worker, not of the capture. */
export class ResultsError extends OddFlowError {
  override readonly name = 'ResultsError'
}

const BATCH_FRAMES = 2048
/** Each day is an open file with buffers of about 0.1 MB or more. */
const MAXIMUM_DAYS = 366

/**
 * Reads the capture at `path`. `stop` ends the reading; then nothing is written and the outcome is null. Throws
 * OddFlowError for an unusable capture, ResultsError if the results cannot be written.
 */
export async function scoreCapture(
  job: Job,
  path: string,
  model: SavedModel | null,
  results: string,
  stop: AbortSignal,
): Promise<CaptureOutcome | null> {
  const judge = model === null ? null : createFlowJudge(model)
  const contract: FlowContract = judge?.contract ?? flowSummaryContract()
  const days = createDays(job, contract, model !== null, results)
  let flows = 0
  let novel = 0
  const extractor = createFlowExtractor({
    contract,
    ...(judge === null ? {} : { row: judge.row }),
    onRecord(record) {
      // the rest of a flow after its last full window is part of a flow that was judged
      if (record.noRowReason === 'remainder') return
      const verdict = judge?.judge(record) ?? null
      flows++
      if (verdict?.novel === true) novel++
      days.write(record, verdict)
    },
  })
  const { decapsulation, joinFragments } = packetView(contract)
  const decoder = createPacketDecoder({ decapsulate: decapsulation, joinFragments })
  const packets = extractor.createBatch(BATCH_FRAMES)
  let count = 0
  try {
    const source = openCapture(path, { batchFrames: BATCH_FRAMES, stop })
    for await (const frames of source) {
      decoder.decode(frames, packets)
      extractor.add(packets)
      count += frames.count
    }
    if (stop.aborted) return null
    extractor.finish()
    const dayCount = days.commit()
    const { end } = source
    const isDamaged = end !== null && (end.truncated || end.error !== null)
    const damage = isDamaged ? (end.detail ?? end.error?.message ?? 'cut short') : null
    return { packets: count, flows, novel, days: dayCount, damage: damage?.slice(0, 1000) ?? null }
  } finally {
    days.abandon()
  }
}

interface Day {
  readonly file: WholeFile
  readonly parquet: ParquetFile<ResultRow>
}

interface ResultRow {
  record: FlowRecord
  verdict: Verdict | null
}

/** The files of a capture, one for each day. */
function createDays(job: Job, contract: FlowContract, isJudged: boolean, results: string) {
  const columns = columnsOf(job, contract, isJudged)
  const days = new Map<string, Day>()
  const row: ResultRow = { record: undefined as never, verdict: null }

  const open = (day: string): Day => {
    if (days.size === MAXIMUM_DAYS) {
      throw new OddFlowError('fleet.capture', `flows of more than ${MAXIMUM_DAYS} days in one capture`)
    }
    const folder = join(results, `day=${day}`)
    mkdirSync(folder, { recursive: true })
    const file = openWholeFile(join(folder, `${job.id}.parquet`))
    const made = { file, parquet: createParquetWriter(file, columns, `oddflow-fleet ${VERSION}`) }
    days.set(day, made)
    return made
  }
  return {
    write: (record: FlowRecord, verdict: Verdict | null) =>
      writing(() => {
        const name = dayOf(record.startMicros)
        const day = days.get(name) ?? open(name)
        row.record = record
        row.verdict = verdict
        day.parquet.write(row)
      }),
    /** Returns the number of files. */
    commit: () =>
      writing(() => {
        for (const day of days.values()) {
          day.parquet.finish()
          day.file.commit()
        }
        return days.size
      }),
    abandon() {
      for (const { file } of days.values()) file.abandon()
    },
  }
}

function writing<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof OddFlowError && error.code === 'fleet.capture') throw error
    throw new ResultsError('fleet.results', error instanceof Error ? error.message : String(error))
  }
}

/** UTC; times beyond the calendar of Date are one day. */
function dayOf(micros: number): string {
  const date = new Date(micros / 1000)
  return Number.isNaN(date.getTime()) ? 'unknown' : date.toISOString().slice(0, -14)
}

function columnsOf(job: Job, contract: FlowContract, isJudged: boolean): ParquetColumn<ResultRow>[] {
  const sizes = 'sizeMeasure' in contract ? { sizeMeasure: contract.sizeMeasure } : {}
  const columns = flowLogFields({ ...sizes, everyField: true }).map(
    (field): ParquetColumn<ResultRow> => ({ ...field, read: ({ record }) => field.read(record) }),
  )
  const column = (
    name: string,
    kind: ParquetColumn<ResultRow>['kind'],
    maximumLength: number,
    read: (verdict: Verdict | null) => string | number,
    isOptional = false,
  ): ParquetColumn<ResultRow> => ({
    name,
    kind,
    maximumLength,
    isOptional,
    read: ({ verdict }) => read(verdict),
  })
  columns.push(column('capture', 'utf8', Buffer.byteLength(job.name), () => job.name))
  if (isJudged) {
    columns.push(
      column('score', 'number', 0, (verdict) => verdict?.score ?? '', true),
      column('novel', 'truth', 0, (verdict) => (verdict?.novel === true ? 1 : 0)),
      column('rule', 'text', 20, (verdict) => verdict?.rule ?? ''),
    )
  }
  return columns
}

/** The version of this package, from its own package.json. */

export const VERSION: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version
