/**
 * One output's place in the spool: reads segments in order, and keeps how far it has got in a small file that
 * is replaced as a whole. After a kill it begins where it last committed, so an alert may come twice, under
 * the same id, and never not at all.
 */
import type { FileSystem } from '../files/file-system.js'
import type { AlertBatch, AlertReader } from './alert-log.js'
import { readPlace, writePlace } from './place-file.js'
import { ReaderPlace } from './reader-place.js'
import {
  decodeRecords,
  MAXIMUM_PAYLOAD_BYTES,
  RECORD_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
} from './record-format.js'
import type { Segment } from './segments.js'

/** What a reader sees of the spool. */
export interface SpoolView {
  readonly files: FileSystem
  readonly folder: string
  /** In order, without a gap. */
  readonly segments: readonly Segment[]
  /** Sequence number behind the last acknowledged alert. */
  readonly end: number
  /** The place of the slowest reader has moved on. */
  released(): Promise<void>
}

/** Bytes read at a time: some tens of alerts, and the longest record for certain. */
const CHUNK_BYTES = RECORD_HEADER_BYTES + MAXIMUM_PAYLOAD_BYTES

export class SpoolReader implements AlertReader {
  readonly name: string
  readonly place: ReaderPlace
  readonly #view: SpoolView
  /** Where the record numbered place.next begins, if it is known. */
  #position: { segment: Segment; sequence: number; offset: number } | null = null

  private constructor(name: string, view: SpoolView, place: ReaderPlace) {
    this.name = name
    this.#view = view
    this.place = place
  }

  static async open(name: string, view: SpoolView): Promise<SpoolReader> {
    const start = view.segments[0]?.first ?? view.end
    const kept = await readPlace(view.files, view.folder, name)
    const place = new ReaderPlace(kept?.next ?? start, kept?.dropped)
    place.forget(start)
    return new SpoolReader(name, view, place)
  }

  get dropped(): number {
    return this.place.dropped
  }

  get backlog(): number {
    return this.place.backlog(this.#view.end)
  }

  async read(limit: number): Promise<AlertBatch> {
    const { place } = this
    if (place.hand !== null) return place.hand
    for (;;) {
      const segment = this.#view.segments.find(({ end }) => end > place.next)
      if (segment === undefined || place.next >= this.#view.end) return { first: place.next, lines: [] }
      place.forget(segment.first)
      const lines = await this.#readFrom(segment, limit)
      // the file may have gone while it was read
      if (!this.#view.segments.includes(segment)) continue
      if (lines.length > 0) return place.take({ first: place.next, lines })
      // damaged: what cannot be read any more is lost, and counted
      place.forget(segment.end)
    }
  }

  async commit(next: number): Promise<void> {
    this.place.commit(next)
    const { committed, dropped } = this.place
    await writePlace(this.#view.files, this.#view.folder, this.name, { next: committed, dropped })
    await this.#view.released()
  }

  async #readFrom(segment: Segment, limit: number): Promise<Uint8Array[]> {
    const wanted = this.place.next
    let at = this.#position
    if (at === null || at.segment !== segment || at.sequence !== wanted) {
      at = { segment, sequence: segment.first, offset: SEGMENT_HEADER_BYTES }
    }
    const file = await this.#view.files.open(segment.path, 'read').catch(() => null)
    if (file === null) return []
    try {
      for (;;) {
        const count = Math.min(at.sequence < wanted ? wanted - at.sequence : limit, segment.end - at.sequence)
        const { payloads, end } = decodeRecords(await file.read(at.offset, CHUNK_BYTES), at.sequence, count)
        const isWanted: boolean = at.sequence === wanted
        at = { segment, sequence: at.sequence + payloads.length, offset: at.offset + end }
        this.#position = at
        if (isWanted || payloads.length === 0) return isWanted ? payloads.map((line) => line.slice()) : []
      }
    } finally {
      await file.close()
    }
  }
}
