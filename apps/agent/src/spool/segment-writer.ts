/**
 * SegmentWriter: the spool's only writer. A batch is written at the end of the current segment and flushed,
 * and only then acknowledged.
 *
 * After a failed write or flush nobody knows what the disk holds behind the last acknowledged record (a flush
 * that failed once may succeed the next time without having written anything). So the segment is never written
 * to again: the same batch begins a new one when the caller tries again.
 */
import type { FileSystem, OpenFile } from '../files/file-system.js'
import { encodeRecords, encodeSegmentHeader, SEGMENT_HEADER_BYTES } from './record-format.js'
import { type Segment, segmentPath } from './segments.js'

export class SegmentWriter {
  readonly #files: FileSystem
  readonly #folder: string
  readonly #segmentBytes: number
  #open: { file: OpenFile; segment: Segment } | null = null

  constructor(files: FileSystem, folder: string, segmentBytes: number) {
    this.#files = files
    this.#folder = folder
    this.#segmentBytes = segmentBytes
  }

  /** Resolves to the segment that holds the payloads, a new one or the one before; they survive from then on. */
  async write(first: number, payloads: readonly Uint8Array[]): Promise<Segment> {
    const bytes = encodeRecords(first, payloads)
    const current = this.#open
    const isFull = current !== null && current.segment.bytes >= this.#segmentBytes
    // what goes into a file that was removed or moved meanwhile nobody reads
    if (isFull || (await current?.file.isAt(current.segment.path)) === false) await this.close()
    const target = this.#open ?? (await this.#begin(first))
    try {
      await target.file.write(bytes, target.segment.bytes)
      await target.file.sync()
    } catch (error) {
      // whole records among what it took would pass at the next start for such as were acknowledged
      await target.file.truncate(target.segment.bytes).catch(() => undefined)
      await this.close()
      throw error
    }
    target.segment.bytes += bytes.length
    target.segment.end = first + payloads.length
    return target.segment
  }

  async close(): Promise<void> {
    const current = this.#open
    this.#open = null
    await current?.file.close().catch(() => undefined)
  }

  async #begin(first: number): Promise<{ file: OpenFile; segment: Segment }> {
    const path = segmentPath(this.#folder, first)
    // somebody may have removed it
    await this.#files.makeFolder(this.#folder)
    // one of that name was begun, failed, and holds nothing that was acknowledged
    await this.#files.remove(path).catch(() => undefined)
    const file = await this.#files.open(path, 'create')
    try {
      await file.write(encodeSegmentHeader(first), 0)
      await file.sync()
      await this.#files.syncFolder(this.#folder)
    } catch (error) {
      await file.close().catch(() => undefined)
      throw error
    }
    this.#open = { file, segment: { path, first, end: first, bytes: SEGMENT_HEADER_BYTES } }
    return this.#open
  }
}
