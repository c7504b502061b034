/** One output's cursor in the spool, in a small file. After a kill an alert may come twice, under the same id, but none is missing. */
import { fileError } from '@oddflow/program'
import type { AlertBatch, AlertReader } from './alert-log.js'
import {
  cursorPath,
  decodeRecords,
  type FoundRecord,
  findRecord,
  MAXIMUM_PAYLOAD_BYTES,
  MAXIMUM_READ_BYTES,
  RECORD_HEADER_BYTES,
  ReaderCursor,
  readCursor,
  SEGMENT_HEADER_BYTES,
  type Segment,
  writeCursor,
} from './segments.js'
import type { Spool } from './spool.js'

/** Counts changes and wakes all waiters, so that no change is missed. */
export class Notifier {
  #count = 0
  #waiting = new Set<() => void>()

  get count(): number {
    return this.#count
  }

  notify(): void {
    this.#count++
    const woken = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of woken) wake()
  }

  /** Resolves when the count exceeds `since`, or the signal is aborted. */
  wait(since: number, signal?: AbortSignal): Promise<void> {
    if (this.#count > since || signal?.aborted === true) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal?.addEventListener('abort', wake)
    })
  }
}

/** Bytes read at a time: at least the longest record. */
const CHUNK_BYTES = RECORD_HEADER_BYTES + MAXIMUM_PAYLOAD_BYTES

export class SpoolReader implements AlertReader {
  readonly name: string
  readonly cursor: ReaderCursor
  readonly #view: Spool
  /** Where the record numbered cursor.next begins, if it is known. */
  #position: { segment: Segment; sequence: number; offset: number } | null = null

  private constructor(name: string, view: Spool, cursor: ReaderCursor) {
    this.name = name
    this.#view = view
    this.cursor = cursor
  }

  static async open(name: string, view: Spool): Promise<SpoolReader> {
    const start = view.segments[0]?.first ?? view.end
    const kept = await readCursor(view.files, view.folder, name, view.faults)
    const cursor = new ReaderCursor(kept?.next ?? start, kept?.dropped)
    if (cursor.next < start) view.damaged(view.folder, cursor.next, start)
    cursor.forget(start)
    const reader = new SpoolReader(name, view, cursor)
    // the next start notices lost alerts by it; if the disk fails, the first commit writes it
    if (kept === null) await reader.#keep().catch(() => undefined)
    return reader
  }

  get dropped(): number {
    return this.cursor.dropped
  }

  get backlog(): number {
    const { end } = this.#view
    return this.cursor.backlog(end + this.#view.waiting(end).length)
  }

  /** None while they are on disk. */
  get memoryBytes(): number {
    const from = Math.max(this.cursor.committed, this.#view.end)
    return this.#view.waiting(from).reduce((sum, { length }) => sum + length, 0)
  }

  async read(limit: number): Promise<AlertBatch> {
    const { cursor } = this
    if (cursor.hand !== null) return cursor.hand
    for (;;) {
      const { segments, end } = this.#view
      if (cursor.next >= end) {
        return cursor.take({ first: cursor.next, lines: this.#view.waiting(cursor.next).slice(0, limit) })
      }
      const segment = segments.find((each) => each.end > cursor.next)
      const found = segment?.first ?? end
      if (cursor.next < found) {
        this.#view.damaged(this.#view.folder, cursor.next, found)
        cursor.forget(found)
      }
      if (segment === undefined) return { first: cursor.next, lines: [] }
      const lines = await this.#readFrom(segment, limit)
      // the file may have gone while it was read
      if (!this.#view.segments.includes(segment)) continue
      if (lines.length > 0) return cursor.take({ first: cursor.next, lines })
      // damaged: the rest of the segment is lost, and counted
      if (cursor.next < segment.end) this.#view.damaged(segment.path, cursor.next, segment.end)
      cursor.forget(segment.end)
    }
  }

  async commit(next: number): Promise<void> {
    this.cursor.commit(next)
    await this.#keep()
    await this.#view.released()
  }

  async #keep(): Promise<void> {
    const { committed, dropped } = this.cursor
    const { files, folder } = this.#view
    try {
      await writeCursor(files, folder, this.name, { next: committed, dropped })
    } catch (error) {
      throw fileError('write', cursorPath(folder, this.name), error)
    }
  }

  /** The lines up to the first that differs: all of them events, or none. */
  #beginningOf(lines: Uint8Array[], first: number): { lines: Uint8Array[]; isSound: boolean } {
    const isSound = (line: Uint8Array, i: number): boolean => first + i >= this.#view.ownFrom || isEvent(line)
    const begins = isSound(lines[0], 0)
    const end = lines.findIndex((line, i) => isSound(line, i) !== begins)
    return { lines: end < 0 ? lines : lines.slice(0, end), isSound: begins }
  }

  /** Alerts from cursor.next, which is moved past damaged ones; empty if none can be read. */
  async #readFrom(segment: Segment, limit: number): Promise<Uint8Array[]> {
    const { cursor } = this
    let at = this.#position
    if (at === null || at.segment !== segment || at.sequence > cursor.next) {
      at = { segment, sequence: segment.first, offset: SEGMENT_HEADER_BYTES }
    }
    const file = await this.#view.files.open(segment.path, 'read').catch(() => null)
    if (file === null) return []
    try {
      while (at.sequence < segment.end) {
        const wanted = cursor.next
        const count = at.sequence < wanted ? wanted - at.sequence : Math.min(limit, segment.end - at.sequence)
        const { payloads, end } = decodeRecords(await file.read(at.offset, CHUNK_BYTES), at.sequence, count)
        const isWanted: boolean = at.sequence === wanted
        if (payloads.length > 0) {
          // alerts before the wanted one are skipped unread
          const { lines, isSound } = this.#beginningOf(payloads, isWanted ? wanted : Number.POSITIVE_INFINITY)
          const isAll = lines.length === payloads.length
          const bytes = isAll ? end : lines.reduce((sum, { length }) => sum + RECORD_HEADER_BYTES + length, 0)
          at = { segment, sequence: at.sequence + lines.length, offset: at.offset + bytes }
          this.#position = at
          if (isWanted && isSound) return lines.map((line) => line.slice())
          if (!isSound) {
            this.#view.damaged(segment.path, wanted, at.sequence)
            cursor.forget(at.sequence)
          }
          continue
        }
        const next: FoundRecord | null = findRecord(
          await file.read(0, Math.min(segment.bytes, MAXIMUM_READ_BYTES)),
          at.offset,
          at.sequence,
          segment.end,
        )
        if (next === null) return []
        if (cursor.next < next.sequence) this.#view.damaged(segment.path, cursor.next, next.sequence)
        cursor.forget(next.sequence)
        at = { segment, ...next }
      }
      return []
    } finally {
      await file.close()
    }
  }
}

/** Whether a line is an object with the time and the id that every output reads. */
function isEvent(line: Uint8Array): boolean {
  try {
    const { timestamp, oddflow } = JSON.parse(new TextDecoder().decode(line)) as {
      timestamp?: unknown
      oddflow?: { id?: unknown }
    }
    return typeof timestamp === 'string' && typeof oddflow?.id === 'string'
  } catch {
    return false
  }
}
