/**
 * openContinuous: several capture files that are one capture, as tcpdump -G or dumpcap -b leave them.
 *
 * The files may be named in any order: each is opened once for its first time, and then they are merged in the
 * order of time (merge-captures.ts); what could not be put in order is counted by file and told. All must be regular files, since a pipe cannot be looked into beforehand;
 * one input alone may be anything. A file that is no capture throws CaptureFileError; one that is cut, damaged
 * or empty gives what it holds, the others go on, and the end state tells which.
 */
import { stat } from 'node:fs/promises'
import { ArgumentError } from '@oddflow/core'
import { type CaptureEnd, createWarningList } from '../capture-end.js'
import { addDrops, MAXIMUM_COMMENTS, NO_DROPS, warnOfLargeCounters } from '../capture-notes.js'
import type { FrameBatch } from '../frame-batch.js'
import { type MergeCounters, type MergeInput, mergeCaptures } from '../merge-captures.js'
import { FIRST_TIMES, firstTimeOf } from '../wrong-times.js'
import { CaptureFileError, describeSystemError } from './capture-file-error.js'
import { describeDisorder, type FileOrder } from './continuous-warnings.js'
import { type FrameSource, frameSource } from './frame-source.js'
import { type OpenCaptureOptions, openCapture } from './open-capture.js'

/** Smaller than a single capture's, since many files may be open. */
const BLOCK_BYTES = 131_072
const FIRST_BLOCK_BYTES = 65_536

export interface OpenContinuousOptions extends OpenCaptureOptions {
  /** How many places late a packet may come and still be put right, 1 … 65,536; 1,024 where it is left out. */
  readonly windowFrames?: number
}

/** Of all files together: `format` is the first one's, `error` and `detail` the first that there is. */
export interface ContinuousEnd extends CaptureEnd {
  /** Packets given out after one with a later time. */
  readonly latePackets: number
  /** Packets whose time is wrong (more than a week from those before and behind), taken where they stand. */
  readonly wrongTimes: number
  /** In the order of their first times. */
  readonly files: readonly ContinuousFile[]
}

export interface ContinuousFile extends FileOrder {
  readonly end: CaptureEnd
}

/** Errors come when it is iterated. */
export function openContinuous(
  files: readonly string[],
  options: OpenContinuousOptions = {},
): FrameSource<ContinuousEnd> {
  if (files.length === 0) throw new ArgumentError('files: expected at least one file, found none', 'files')
  return frameSource(
    readMerged(files, {
      blockBytes: BLOCK_BYTES,
      emptyIsDamage: files.length > 1,
      ...options,
    }),
  )
}

async function* readMerged(
  files: readonly string[],
  options: OpenContinuousOptions,
): AsyncGenerator<FrameBatch, ContinuousEnd> {
  const opened: { file: string; firstTimestampMicros: number; source: FrameSource | null }[] = []
  const inputs: MergeInput[] = []
  for (const file of files) {
    const firstTimestampMicros =
      files.length === 1 ? Number.NEGATIVE_INFINITY : await firstTime(file, options)
    const entry = { file, firstTimestampMicros, source: null as FrameSource | null }
    opened.push(entry)
    inputs.push({
      firstTimestampMicros,
      open: () => {
        entry.source = openCapture(file, options)
        return entry.source
      },
    })
  }
  const counters: MergeCounters = { lateFrames: 0 }
  yield* mergeCaptures(inputs, counters, options.windowFrames)
  const ends = opened
    .map((entry, k) => ({ ...entry, counts: counters.inputs![k]! }))
    .sort((a, b) =>
      a.firstTimestampMicros === b.firstTimestampMicros
        ? 0
        : a.firstTimestampMicros < b.firstTimestampMicros
          ? -1
          : 1,
    )
    .map(
      ({ file, source, counts: { lateFrames, wrongTimes, openedLate } }): ContinuousFile => ({
        file,
        latePackets: lateFrames,
        wrongTimes,
        openedLate,
        end: source!.end!,
      }),
    )
  const wrongTimes = ends.reduce((sum, each) => sum + each.wrongTimes, 0)
  return { ...combine(ends), latePackets: counters.lateFrames, wrongTimes, files: ends }
}

/** The time at which the file begins (wrong-times.ts); −Infinity where it is not known. */
async function firstTime(file: string, options: OpenContinuousOptions): Promise<number> {
  if (!(await isRegularFile(file))) {
    throw new CaptureFileError(
      file,
      'unreadable',
      'is no regular file; where several files are read as one, each must be',
    )
  }
  const source = openCapture(file, { ...options, batchFrames: FIRST_TIMES, blockBytes: FIRST_BLOCK_BYTES })
  const times: number[] = []
  for await (const batch of source) {
    times.push(...batch.timestampMicros.subarray(0, batch.count))
    if (times.length >= FIRST_TIMES) break
  }
  return firstTimeOf(times)
}

async function isRegularFile(file: string): Promise<boolean> {
  if (file === '-') return false
  try {
    const status = await stat(file)
    // a directory has an error of its own when it is opened
    return status.isFile() || status.isDirectory()
  } catch (cause) {
    throw describeSystemError(file, cause)
  }
}

function combine(ends: readonly ContinuousFile[]): CaptureEnd {
  const warnings = createWarningList()
  let drops = NO_DROPS
  for (const { file, end } of ends) {
    for (const line of end.warnings) warnings.add(`${file}: ${line}`)
    drops = addDrops(drops, end.drops)
  }
  const largeCounters = warnOfLargeCounters(drops)
  if (largeCounters !== null) warnings.add(`all files: ${largeCounters}`)
  const sum = (of: (end: CaptureEnd) => number): number => ends.reduce((total, { end }) => total + of(end), 0)
  const told = ends.find(({ end }) => end.error !== null) ?? ends.find(({ end }) => end.detail !== null)
  return {
    format: ends[0]!.end.format,
    packets: sum((end) => end.packets),
    bytes: sum((end) => end.bytes),
    truncated: ends.some(({ end }) => end.truncated),
    error: told?.end.error ?? null,
    detail: told === undefined ? null : `${told.file}: ${told.end.detail}`,
    warnings: [...warnings.lines(), ...describeDisorder(ends)],
    commentCount: sum((end) => end.commentCount),
    comments: ends.flatMap(({ end }) => end.comments).slice(0, MAXIMUM_COMMENTS),
    drops,
  }
}
