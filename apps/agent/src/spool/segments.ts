/**
 * Segments: the files of a spool, found again after a restart.
 *
 * A segment is named by the sequence number of its first record, in sixteen digits. Only the last one can end in a torn record; it is
 * cut back to its last whole record. After a failed write the next segment begins with the number that was to be written.
 */
import { join } from 'node:path'
import { crc32, FormatError } from '@oddflow/core'
import { fileError } from '@oddflow/program'
import { type FileSystem, hasCode, isOutOfFiles } from '../files/file-system.js'
import { readStateOrSetAside, setAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { AlertBatch } from './alert-log.js'

/**
 * A segment is 16 bytes of header (the signature, then the sequence number of its first record as a 64-bit little-endian number) and
 * records: length of the payload (u32), CRC-32 (u32), payload. The CRC is of the record's sequence number (8 bytes) and the payload,
 * so bytes of another place or time never pass for a record. Behind a damaged record, reading continues at the next one (`findRecord`).
 */
export const SEGMENT_HEADER_BYTES = 16
export const RECORD_HEADER_BYTES = 8
/** Longest payload: an alert takes one to four thousand bytes. */
export const MAXIMUM_PAYLOAD_BYTES = 65_536
/** Read size of a segment: above the largest segment, which is a mebibyte and a batch. */
export const MAXIMUM_READ_BYTES = 4_194_304
const SIGNATURE = new TextEncoder().encode('OFSPOOL1')

export function encodeSegmentHeader(firstSequence: number): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_HEADER_BYTES)
  bytes.set(SIGNATURE)
  new DataView(bytes.buffer).setBigUint64(8, BigInt(firstSequence), true)
  return bytes
}

/** Records with the sequence numbers from `first` on, one after another. */
export function encodeRecords(first: number, payloads: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(payloads.reduce((sum, { length }) => sum + RECORD_HEADER_BYTES + length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const [i, payload] of payloads.entries()) {
    view.setUint32(at, payload.length, true)
    view.setUint32(at + 4, checksum(first + i, payload), true)
    bytes.set(payload, at + RECORD_HEADER_BYTES)
    at += RECORD_HEADER_BYTES + payload.length
  }
  return bytes
}

interface Place {
  /** Of a record's first byte. */
  readonly offset: number
  readonly sequence: number
}

interface SegmentRecord extends Place {
  /** A view of the bytes that were given. */
  readonly payload: Uint8Array
}

/** The whole records numbered below `end`. `bytes` begin with the record `first`; damaged records are skipped. */
export function* recordsOf(bytes: Uint8Array, first: number, end: number): Generator<SegmentRecord> {
  const view = viewOf(bytes)
  let at: Place | null = { offset: 0, sequence: first }
  while (at !== null && at.sequence < end) {
    const { offset, sequence }: Place = at
    const behind = endOfRecord(view, offset)
    const payload = behind <= bytes.length ? bytes.subarray(offset + RECORD_HEADER_BYTES, behind) : null
    if (payload !== null && view.getUint32(offset + 4, true) === checksum(sequence, payload)) {
      yield { offset, sequence, payload }
      at = { offset: behind, sequence: sequence + 1 }
    } else at = findRecord(bytes, offset, sequence, end)
  }
}

/** Limit of the search behind one damage: some tenths of a second. */
const MAXIMUM_SEARCHED_BYTES = 67_108_864

/**
 * The next whole record, numbered below `end`, behind a damaged one that begins at `from` and has the number `sequence`; or null.
 *
 * A length ends in zero bytes, which no alert has, so there are few places to try. At each, the CRC is computed backwards over the
 * payload, which leaves the CRC that the sequence number must have.
 */
function findRecord(bytes: Uint8Array, from: number, sequence: number, end: number): Place | null {
  const view = viewOf(bytes)
  let left = MAXIMUM_SEARCHED_BYTES
  for (let offset = from + 1; offset + RECORD_HEADER_BYTES < bytes.length; offset++) {
    if (bytes[offset + 3] !== 0 || bytes[offset + 2] > 1) continue
    const recordEnd = endOfRecord(view, offset)
    if (!(recordEnd <= bytes.length)) continue
    const payload = bytes.subarray(offset + RECORD_HEADER_BYTES, recordEnd)
    const wanted = crcBefore(payload, view.getUint32(offset + 4, true))
    const missing = Math.max(1, Math.floor((offset - from) / (RECORD_HEADER_BYTES + 1)))
    const last = Math.min(sequence + missing, end - 1)
    for (let next = sequence + 1; next <= last; next++) {
      if (crcOfSequence(next) === wanted) return { offset, sequence: next }
    }
    left -= payload.length + 8 * missing
    if (left < 0) return null
  }
  return null
}

/** First byte behind the record at `at`: behind the bytes if it is cut off, NaN if there is no valid length. */
function endOfRecord(view: DataView, at: number): number {
  if (at + RECORD_HEADER_BYTES > view.byteLength) return Number.POSITIVE_INFINITY
  const length = view.getUint32(at, true)
  return length > 0 && length <= MAXIMUM_PAYLOAD_BYTES ? at + RECORD_HEADER_BYTES + length : Number.NaN
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}

const sequenceBytes = new Uint8Array(8)
const sequenceView = new DataView(sequenceBytes.buffer)

function crcOfSequence(sequence: number): number {
  sequenceView.setUint32(0, sequence % 2 ** 32, true)
  sequenceView.setUint32(4, Math.floor(sequence / 2 ** 32), true)
  return crc32(sequenceBytes)
}

function checksum(sequence: number, payload: Uint8Array): number {
  return crc32(payload, crcOfSequence(sequence))
}

/** By the last byte of a CRC's state: the step that led there, and what it mixed in. */
const stepBack = { index: new Uint8Array(256), mixed: new Uint32Array(256) }
for (let index = 0; index < 256; index++) {
  let mixed = index
  for (let bit = 0; bit < 8; bit++) mixed = (mixed >>> 1) ^ (mixed & 1 ? 0xedb88320 : 0)
  stepBack.index[mixed >>> 24] = index
  stepBack.mixed[mixed >>> 24] = mixed
}

/** The CRC-32 before the payload was added to it. */
function crcBefore(payload: Uint8Array, sum: number): number {
  let state = ~sum
  for (let i = payload.length - 1; i >= 0; i--) {
    const last = state >>> 24
    state = ((state ^ stepBack.mixed[last]) << 8) | (stepBack.index[last] ^ payload[i])
  }
  return ~state >>> 0
}

/**
 * An output's cursor on disk, in `NAME.place`. If it is damaged, the whole spool is delivered again, under the same ids. `end.mark` has
 * the same format and the end of the spool when it was last closed, so that a lost end can be counted.
 */
interface KeptCursor {
  /** Everything before it is delivered. */
  readonly next: number
  /** Alerts that were lost before their delivery. */
  readonly dropped: number
}

export const cursorPath = (folder: string, name: string): string => join(folder, `${name}.place`)
const endPath = (folder: string): string => join(folder, 'end.mark')

export async function readCursor(
  files: FileSystem,
  folder: string,
  name: string,
  log: Pick<Log, 'warn'>,
): Promise<KeptCursor | null> {
  return readStateOrSetAside(files, cursorPath(folder, name), decodeCursor, log)
}

export async function writeCursor(
  files: FileSystem,
  folder: string,
  name: string,
  cursor: KeptCursor,
): Promise<void> {
  await writeState(files, cursorPath(folder, name), cursor)
}

/** 0 if there is none. */
export async function readEnd(files: FileSystem, folder: string, log: Pick<Log, 'warn'>): Promise<number> {
  return (await readStateOrSetAside(files, endPath(folder), decodeCursor, log))?.next ?? 0
}

export async function writeEnd(files: FileSystem, folder: string, end: number): Promise<void> {
  await writeState(files, endPath(folder), { next: end, dropped: 0 })
}

/** Throws FormatError. */
function decodeCursor(value: unknown): KeptCursor {
  const { next, dropped } = (value ?? {}) as Record<string, unknown>
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
  if (!isCount(next) || !isCount(dropped)) throw new FormatError('place', 'expected counts')
  return { next, dropped }
}

/**
 * ReaderCursor: an output's position in either log, and the number of alerts that it lost. A batch that was read stays in hand until it
 * is committed, so each alert is either delivered or counted as dropped.
 */
export class ReaderCursor {
  /** Where a restart begins. */
  committed: number
  /** Behind the batch in hand. */
  next: number
  dropped: number
  hand: AlertBatch | null = null

  constructor(next: number, dropped = 0) {
    this.committed = next
    this.next = next
    this.dropped = dropped
  }

  /** The log has dropped everything before `first`. */
  forget(first: number): void {
    if (this.next >= first) return
    this.dropped += first - this.next
    this.next = first
    if (this.hand === null) this.committed = first
  }

  take(batch: AlertBatch): AlertBatch {
    if (batch.lines.length > 0) {
      this.hand = batch
      this.next = batch.first + batch.lines.length
    }
    return batch
  }

  commit(next: number): void {
    const { hand } = this
    if (hand === null || next <= hand.first) return
    const done = Math.min(next - hand.first, hand.lines.length)
    if (done === hand.lines.length) {
      this.hand = null
      this.committed = this.next
    } else {
      this.hand = { first: hand.first + done, lines: hand.lines.slice(done) }
      this.committed = hand.first + done
    }
  }

  /** @param end - the sequence number behind the log's last alert. */
  backlog(end: number): number {
    return Math.max(0, end - this.next) + (this.hand?.lines.length ?? 0)
  }
}

/** Bytes of alerts together. */
export function bytesOf(lines: readonly Uint8Array[]): number {
  return lines.reduce((sum, { length }) => sum + length, 0)
}

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
  /** In order, without an empty last one. */
  readonly segments: Segment[]
  /** A number that no alert has had. */
  readonly end: number
  /** Next alert of each output of earlier runs; 0 where its cursor is damaged. */
  readonly outputs: ReadonlyMap<string, number>
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
  const outputs = new Map<string, number>()
  for (const name of names) {
    const output = /^(.+)\.place(\.damaged)?$/.exec(name)?.[1]
    if (output !== undefined) outputs.set(output, (await readCursor(files, folder, output, log))?.next ?? 0)
  }
  // a cursor or the end mark may be ahead of the remaining segments
  const ends = [0, await readEnd(files, folder, log), ...firsts, ...outputs.values()]
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
      // a folder, a link, an unreadable file: its alerts are counted as lost by their numbers
      log.warn(
        `${fileError('read', path, error).message}; ${await setAside(files, path)}, and its alerts are lost`,
      )
    }
  }
  return { segments, end: Math.max(...ends), outputs }
}

/** A finished segment: its records reach to the first of the next segment. */
async function measure(files: FileSystem, path: string, first: number, end: number): Promise<Segment> {
  const file = await files.open(path, 'read')
  try {
    return { path, first, end, bytes: await file.size() }
  } finally {
    await file.close()
  }
}

/** The last segment: cut back to its last whole record. */
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
    const size = await file.size()
    const bytes = await file.read(0, Math.min(size, MAXIMUM_READ_BYTES))
    const { at, sequence } = lastOf(bytes, first)
    if (at < size && (size > bytes.length || !(endOfRecord(viewOf(bytes), at) > bytes.length))) {
      log.warn(`${path}: the last ${size - at} bytes are not alerts and are lost`)
    }
    if (at < size && !isFixed) {
      await file.truncate(at)
      await file.sync()
    }
    return { path, first, end: sequence, bytes: at }
  } finally {
    await file.close()
  }
}

/** The end of a segment's records, damaged ones included if they have their whole length. A cut-off record was never acknowledged. */
function lastOf(bytes: Uint8Array, first: number): { at: number; sequence: number } {
  let at = Math.min(SEGMENT_HEADER_BYTES, bytes.length)
  let sequence = first
  for (const record of recordsOf(bytes.subarray(at), first, Number.MAX_SAFE_INTEGER)) {
    at = SEGMENT_HEADER_BYTES + record.offset + RECORD_HEADER_BYTES + record.payload.length
    sequence = record.sequence + 1
  }
  const behind = endOfRecord(viewOf(bytes), at)
  return behind <= bytes.length ? { at: behind, sequence: sequence + 1 } : { at, sequence }
}
