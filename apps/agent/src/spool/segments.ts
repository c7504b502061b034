/**
 * Segments: the files of a spool, found again after a restart.
 *
 * A segment's name is the sequence number of its first record, in sixteen digits, so names in order are
 * records in order, and a segment that is not there leaves a gap between the records of one and the name of the
 * next. The name counts, and not the header, which says the same. Only the last segment can end in a torn record
 * (the one before was flushed before it was begun); it is cut back to its last whole one. Where a write failed for
 * good, the next segment begins with the number that was to be written, and what the failed one may hold of it does
 * not count.
 */
import { join } from 'node:path'
import { fileError } from '@oddflow/program'
import { type FileSystem, hasCode, isOutOfFiles } from '../files/file-system.js'
import { setAside } from '../files/state-file.js'
import type { Log } from '../log.js'
import { readEnd, readPlace } from './place-file.js'
import { decodeRecords, endOfFrame, findRecord, isTorn, SEGMENT_HEADER_BYTES } from './record-format.js'

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
  /** In order; of the last one with at least one record, or it is removed. */
  readonly segments: Segment[]
  /** A number that no alert has had yet. */
  readonly end: number
}

export async function recoverSegments(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<RecoveredSegments> {
  const names = await files.list(folder)
  const firsts = names
    .flatMap((name) => NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
  const segments: Segment[] = []
  // an output, or the spool itself, may have got further than what is left of the segments
  const ends = [0, await readEnd(files, folder, log), ...firsts]
  for (const name of names) {
    const output = /^(.+)\.place$/.exec(name)?.[1]
    const place = output === undefined ? null : await readPlace(files, folder, output, log)
    if (place !== null) ends.push(place.next)
  }
  for (const [i, first] of firsts.entries()) {
    const path = segmentPath(folder, first)
    const isLast = i === firsts.length - 1
    try {
      const found = isLast
        ? await scan(files, path, first, log)
        : await measure(files, path, first, firsts[i + 1])
      if (found.end === first) await files.remove(path)
      else segments.push(found)
      ends.push(found.end)
    } catch (error) {
      if (isOutOfFiles(error)) throw error
      // a folder, a link, what may not be read: the alerts in it are missed by their numbers
      log.warn(
        `${fileError('read', path, error).message}; ${await setAside(files, path)}, and its alerts are lost`,
      )
    }
  }
  return { segments, end: Math.max(...ends) }
}

/** A segment that was finished: its records reach to the next one's first, as far as they can be read. */
async function measure(files: FileSystem, path: string, first: number, end: number): Promise<Segment> {
  const file = await files.open(path, 'read')
  try {
    return { path, first, end, bytes: await file.size() }
  } finally {
    await file.close()
  }
}

async function scan(
  files: FileSystem,
  path: string,
  first: number,
  log: Pick<Log, 'warn'>,
): Promise<Segment> {
  let isFixed = false
  const file = await files.open(path, 'read-write').catch((error: unknown) => {
    if (!hasCode(error, 'file.EACCES') && !hasCode(error, 'file.EROFS')) throw error
    isFixed = true
    return files.open(path, 'read')
  })
  try {
    const bytes = await file.read(0, await file.size())
    const { at, sequence } = lastOf(bytes, first)
    if (at < bytes.length && !isTorn(bytes, at)) {
      log.warn(`${path}: ends in ${bytes.length - at} bytes that are no alerts; what they held is lost`)
    }
    if (at < bytes.length && !isFixed) {
      await file.truncate(at)
      await file.sync()
    }
    return { path, first, end: sequence, bytes: at }
  } finally {
    await file.close()
  }
}

/**
 * How far a segment's records go. One that does not have its CRC and lies before a sound one, or has its whole length, is one
 * that was damaged and counts; what is cut off behind was never acknowledged.
 */
function lastOf(bytes: Uint8Array, first: number): { at: number; sequence: number } {
  let at = Math.min(SEGMENT_HEADER_BYTES, bytes.length)
  let sequence = first
  for (;;) {
    const { payloads, end } = decodeRecords(bytes.subarray(at), sequence)
    at += end
    sequence += payloads.length
    const next = findRecord(bytes, at, sequence, Number.MAX_SAFE_INTEGER)
    if (next !== null) {
      at = next.offset
      sequence = next.sequence
      continue
    }
    const behind = endOfFrame(bytes, at)
    return behind === null ? { at, sequence } : { at: behind, sequence: sequence + 1 }
  }
}
