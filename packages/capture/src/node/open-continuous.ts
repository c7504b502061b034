/**
 * Several capture files that are one capture, as tcpdump -G or dumpcap -b write them, in any order: each is opened
 * once for its first time, so they must be regular files. A cut or damaged file gives what it holds, the others
 * continue, and the end state says which.
 */
import { stat } from 'node:fs/promises'
import { ArgumentError, plural } from '@oddflow/core'
import {
  addDrops,
  type CaptureEnd,
  createWarningList,
  FIRST_TIMES,
  firstTimeOf,
  MAXIMUM_COMMENTS,
  NO_DROPS,
  warnOfLargeCounters,
} from '../capture-notes.js'
import {
  MAXIMUM_OPEN_CAPTURES,
  type MergeCounters,
  type MergeInput,
  mergeCaptures,
} from '../merge-captures.js'
import type { FrameBatch } from '../packet-batch.js'
import { CaptureFileError, describeSystemError, type FrameSource, frameSource } from './frame-source.js'
import { type OpenCaptureOptions, openCapture } from './open-capture.js'

/** Files that a line names. */
const MAXIMUM_NAMED_FILES = 8

interface FileOrder {
  readonly file: string
  readonly latePackets: number
  readonly wrongTimes: number
  readonly openedLate: boolean
}

function describeDisorder(files: readonly FileOrder[]): string[] {
  const lines: string[] = []
  const waited = files.filter(({ openedLate }) => openedLate)
  if (waited.length > 0) {
    const late = waited.reduce((sum, { latePackets }) => sum + latePackets, 0)
    lines.push(
      `more than ${MAXIMUM_OPEN_CAPTURES} files overlap in time, the maximum to read at once: ${plural(waited.length, 'file')} opened late, with ${plural(late, 'late packet')}; merge some of them beforehand (mergecap)`,
    )
  }
  const wrong = told(files, ({ wrongTimes }) => wrongTimes)
  if (wrong !== null) {
    lines.push(
      `${plural(wrong.packets, 'packet')} with a time more than a week from those before and after it; kept in its place${wrong.where}`,
    )
  }
  const late = told(files, ({ latePackets }) => latePackets)
  if (late !== null) {
    lines.push(
      `${plural(late.packets, 'packet')} too late to be put in order; kept in the order of the file${late.where}`,
    )
  }
  return lines
}

/** null where there is none. */
function told(
  files: readonly FileOrder[],
  of: (file: FileOrder) => number,
): { readonly packets: number; readonly where: string } | null {
  const concerned = files.filter((file) => of(file) > 0)
  if (concerned.length === 0) return null
  const packets = concerned.reduce((sum, file) => sum + of(file), 0)
  if (files.length === 1) return { packets, where: '' }
  const named = concerned.slice(0, MAXIMUM_NAMED_FILES).map((file) => `${of(file)} in ${file.file}`)
  const more = concerned.length - named.length
  return {
    packets,
    where: ` (${named.join(', ')}${more > 0 ? `, others in ${plural(more, 'more file')}` : ''})`,
  }
}

/** Smaller than a single capture's, since many files may be open. */
const BLOCK_BYTES = 131_072
const FIRST_BLOCK_BYTES = 65_536

/** Options of `openContinuous`. */
export interface OpenContinuousOptions extends OpenCaptureOptions {
  /** How many places late a packet may be and still be put in order, 1 … 65,536. Default 1,024. */
  readonly windowFrames?: number
}

/** Of all files together: `format` is the first file's, `error` and `detail` the first that occurred. */
export interface ContinuousEnd extends CaptureEnd {
  /** Packets delivered after one with a later time. */
  readonly latePackets: number
  /** Packets with a wrong time (more than a week from their neighbours), which keep their place. */
  readonly wrongTimes: number
  /** In the order of their first times. */
  readonly files: readonly ContinuousFile[]
}

/** How the reading of one file of a rotated capture ended. */
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

/** The time at which the file begins (capture-notes.ts); −Infinity where it is not known. */
async function firstTime(file: string, options: OpenContinuousOptions): Promise<number> {
  if (!(await isRegularFile(file))) {
    throw new CaptureFileError(
      file,
      'unreadable',
      'is not a regular file; only regular files can be read as one capture',
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
