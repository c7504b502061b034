/**
 * How alerts lie in a segment of the spool.
 *
 * A segment is 16 bytes of header (the signature, then the sequence number of its first record as a 64-bit
 * little-endian number) and records: length of the payload (u32), CRC-32 (u32), payload. The CRC is of the
 * record's sequence number (8 bytes) and the payload, so bytes of another place or time never pass for a
 * record. A record is known by its place: it has no number of its own to be wrong.
 *
 * A kill in the middle of a write leaves a record that is short or does not have its CRC: reading stops there,
 * and what lies behind was never acknowledged.
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

const sequenceBytes = new Uint8Array(8)
const sequenceView = new DataView(sequenceBytes.buffer)

function checksum(sequence: number, payload: Uint8Array): number {
  sequenceView.setBigUint64(0, BigInt(sequence), true)
  return crc32(payload, crc32(sequenceBytes))
}
