/**
 * RecordReader: what the capture formats have in common, seen from the block loop of capture-reader.ts.
 *
 * A record reader takes whole records from data[at … end) into a batch and stops where the batch is full,
 * where a record is not complete (`need` then says how many bytes from the returned position on would let
 * it go on), where bytes are to be passed over unread (`skip`), or at damage (`error`). It never holds
 * bytes: carrying a record over from one block to the next is the block loop's work.
 */
import type { FormatError } from '@oddflow/core'
import type { CaptureFormat } from './capture-end.js'
import type { CaptureDrops } from './capture-notes.js'
import type { FrameBatch } from './frame-batch.js'

export interface RecordReader {
  readonly format: CaptureFormat
  /** The file header (pcapng: the first section header) has been read. */
  readonly started: boolean
  /** Bytes wanted from the position that `read` returned; 0 when it stopped because the batch is full. */
  readonly need: number
  /** Bytes to pass over before `read` is called again; the block loop sets it back to 0. */
  skip: number
  readonly error: FormatError | null
  /**
   * Returns the position of the first byte not used.
   * @param view over `data`, same bounds
   * @param base offset in the capture of data[0]
   */
  read(data: Uint8Array, view: DataView, at: number, end: number, base: number, batch: FrameBatch): number
  /** Comments seen so far, and those that were kept. */
  readonly commentCount: number
  readonly comments: readonly string[]
  /** Packets whose time is not within ±(2^53 − 1) µs and was left out. */
  readonly unusableTimes: number
  /** Packets whose fraction of a second is a second or more (pcap). */
  readonly overfullFractions: number
  /** Packets that claim more than MAXIMUM_WIRE_BYTES on the wire. */
  readonly implausibleLengths: number
  /** What the recorder says it lost, so far. */
  readonly drops: CaptureDrops
  /** The capture ends here although the reader wants more only at a record boundary. */
  readonly midRecord: boolean
  /** The length that the block being passed over claims; 0 where none is. */
  readonly skippedBlockBytes: number
}

/** `0x` and eight digits. */
export function hex32(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, '0')}`
}
