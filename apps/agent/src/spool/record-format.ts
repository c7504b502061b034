/**
 * How alerts lie in a segment of the spool.
 *
 * A segment is 16 bytes of header (the signature, then the sequence number of its first record as a 64-bit
 * little-endian number) and records: length of the payload (u32), CRC-32 (u32), payload. The CRC is of the
 * record's sequence number (8 bytes) and the payload, so bytes of another place or time never pass for a
 * record. A record is known by its place: it has no number of its own to be wrong.
 *
 * A kill in the middle of a write leaves a record that is short: it was never acknowledged. Where a record does not have
 * its CRC the disk gave back something else; reading goes on at the next place where a length, a CRC and a payload agree
 * for a later sequence number (`findRecord`), and the numbers between are those of the records that are lost.
 */
import { crc32 } from '@oddflow/core'

export const SEGMENT_HEADER_BYTES = 16
export const RECORD_HEADER_BYTES = 8
/** Longest payload: an alert takes one to four thousand bytes. */
export const MAXIMUM_PAYLOAD_BYTES = 65_536
const SIGNATURE = new TextEncoder().encode('OFSPOOL1')

export function encodeSegmentHeader(firstSequence: number): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_HEADER_BYTES)
  bytes.set(SIGNATURE)
  new DataView(bytes.buffer).setBigUint64(8, BigInt(firstSequence), true)
  return bytes
}

/** The first sequence number; null where it is no segment's header. */
export function decodeSegmentHeader(bytes: Uint8Array): number | null {
  if (bytes.length < SEGMENT_HEADER_BYTES) return null
  for (let i = 0; i < SIGNATURE.length; i++) if (bytes[i] !== SIGNATURE[i]) return null
  const first = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(8, true)
  return first <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(first) : null
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

export interface ScannedRecords {
  /** Views of the bytes that were given. */
  readonly payloads: Uint8Array[]
  /** First byte behind the last whole record. */
  readonly end: number
}

/** Whole records from the start of `bytes`, the first of which has the sequence number `first`. */
export function decodeRecords(
  bytes: Uint8Array,
  first: number,
  limit = Number.POSITIVE_INFINITY,
): ScannedRecords {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const payloads: Uint8Array[] = []
  let at = 0
  while (payloads.length < limit && at + RECORD_HEADER_BYTES <= bytes.length) {
    const length = view.getUint32(at, true)
    const end = at + RECORD_HEADER_BYTES + length
    if (length === 0 || length > MAXIMUM_PAYLOAD_BYTES || end > bytes.length) break
    const payload = bytes.subarray(at + RECORD_HEADER_BYTES, end)
    if (view.getUint32(at + 4, true) !== checksum(first + payloads.length, payload)) break
    payloads.push(payload)
    at = end
  }
  return { payloads, end: at }
}

export interface FoundRecord {
  /** Of its first byte. */
  readonly offset: number
  readonly sequence: number
}

/** Bytes that are summed in the search behind one damage: some tenths of a second, and many times what one takes. */
const MAXIMUM_SEARCHED_BYTES = 67_108_864

/**
 * The next whole record behind a damaged one that begins at `from` and has the number `sequence`; null where there is none
 * before the number `end`.
 *
 * A length has zero bytes at its end, which no alert has, so there are few places to try. At each the payload's CRC is
 * taken back to its beginning, which leaves the CRC that the sequence number must have. As many records may be missing as
 * have room in the bytes between.
 */
export function findRecord(
  bytes: Uint8Array,
  from: number,
  sequence: number,
  end: number,
): FoundRecord | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let left = MAXIMUM_SEARCHED_BYTES
  for (let offset = from + 1; offset + RECORD_HEADER_BYTES < bytes.length; offset++) {
    if (bytes[offset + 3] !== 0 || bytes[offset + 2] > 1) continue
    const length = view.getUint32(offset, true)
    if (
      length === 0 ||
      length > MAXIMUM_PAYLOAD_BYTES ||
      offset + RECORD_HEADER_BYTES + length > bytes.length
    ) {
      continue
    }
    const payload = bytes.subarray(offset + RECORD_HEADER_BYTES, offset + RECORD_HEADER_BYTES + length)
    const wanted = crcBefore(payload, view.getUint32(offset + 4, true))
    const missing = Math.max(1, Math.floor((offset - from) / (RECORD_HEADER_BYTES + 1)))
    const last = Math.min(sequence + missing, end - 1)
    for (let next = sequence + 1; next <= last; next++) {
      if (crcOfSequence(next) === wanted) return { offset, sequence: next }
    }
    left -= length + 8 * missing
    if (left < 0) return null
  }
  return null
}

/** Whether what lies at `at` is the beginning of a record that was cut off. */
export function isTorn(bytes: Uint8Array, at: number): boolean {
  if (at + RECORD_HEADER_BYTES > bytes.length) return true
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true)
  return length > 0 && length <= MAXIMUM_PAYLOAD_BYTES && at + RECORD_HEADER_BYTES + length > bytes.length
}

/** First byte behind the record whose length stands at `at`, whatever is in it; null where that is no length, or it is cut off. */
export function endOfFrame(bytes: Uint8Array, at: number): number | null {
  if (at + RECORD_HEADER_BYTES >= bytes.length) return null
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true)
  const end = at + RECORD_HEADER_BYTES + length
  return length === 0 || length > MAXIMUM_PAYLOAD_BYTES || end > bytes.length ? null : end
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

/** The CRC-32 that `sum` was before the payload was added to it. */
function crcBefore(payload: Uint8Array, sum: number): number {
  let state = ~sum
  for (let i = payload.length - 1; i >= 0; i--) {
    const last = state >>> 24
    state = ((state ^ stepBack.mixed[last]) << 8) | (stepBack.index[last] ^ payload[i])
  }
  return ~state >>> 0
}
