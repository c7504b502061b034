/**
 * Segments: the files of a spool, found again after a restart.
 *
 * A segment's name is the sequence number of its first record, in sixteen digits, so names in order are
 * records in order. Only the last segment can end in a torn record (the one before was flushed before it was
 * begun); it is cut back to its last whole one. Where a write failed for good, the next segment begins with
 * the number that was to be written, and what the failed one may hold of it does not count.
 */
import { join } from 'node:path'
import type { FileSystem } from '../files/file-system.js'
import { type KeptPlace, readPlace } from './place-file.js'
import { decodeRecords, decodeSegmentHeader, SEGMENT_HEADER_BYTES } from './record-format.js'

export interface Segment {
  readonly path: string
  readonly first: number
  /** Sequence number behind its last record. */
  end: number
  bytes: number
}

const NAME = /^(\d{16})\.spool$/

export function segmentPath(folder: string, first: number): string {
  return join(folder, `${String(first).padStart(16, '0')}.spool`)
}

export interface RecoveredSegments {
  /** Every segment with at least one record, in order; others are removed. */
  readonly segments: Segment[]
  /** A number that no alert has had yet. */
  readonly end: number
}

export async function recoverSegments(files: FileSystem, folder: string): Promise<RecoveredSegments> {
  const names = await files.list(folder)
  const firsts = names
    .flatMap((name) => NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
  const segments: Segment[] = []
  // an output may have got further than what is left of the segments
  let end = Math.max(0, ...firsts, ...(await places(files, folder, names)).map(({ next }) => next))
  for (const [i, first] of firsts.entries()) {
    const path = segmentPath(folder, first)
    const isLast = i === firsts.length - 1
    const found = isLast ? await scan(files, path, first) : await measure(files, path, first, firsts[i + 1])
    if (found === null || found.end === first) await files.remove(path)
    else segments.push(found)
    end = Math.max(end, found?.end ?? 0)
  }
  return { segments, end }
}

async function places(files: FileSystem, folder: string, names: readonly string[]): Promise<KeptPlace[]> {
  const found: KeptPlace[] = []
  for (const name of names) {
    const output = /^(.+)\.place$/.exec(name)?.[1]
    const place = output === undefined ? null : await readPlace(files, folder, output)
    if (place !== null) found.push(place)
  }
  return found
}

/** A segment that was finished: its records reach to the next one's first. */
async function measure(files: FileSystem, path: string, first: number, end: number): Promise<Segment | null> {
  const file = await files.open(path, 'read')
  try {
    if (decodeSegmentHeader(await file.read(0, SEGMENT_HEADER_BYTES)) !== first) return null
    return { path, first, end, bytes: await file.size() }
  } finally {
    await file.close()
  }
}

async function scan(files: FileSystem, path: string, first: number): Promise<Segment | null> {
  const file = await files.open(path, 'read-write')
  try {
    const bytes = await file.read(0, await file.size())
    if (decodeSegmentHeader(bytes) !== first) return null
    const { payloads, end } = decodeRecords(bytes.subarray(SEGMENT_HEADER_BYTES), first)
    const length = SEGMENT_HEADER_BYTES + end
    if (length < bytes.length) {
      await file.truncate(length)
      await file.sync()
    }
    return { path, first, end: first + payloads.length, bytes: length }
  } finally {
    await file.close()
  }
}
