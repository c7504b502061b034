/** One output's cursor in the spool, in a small file. After a kill an alert may come twice, under the same id, but none is missing. */
import { fileError } from '@oddflow/program'
import { createTurns } from '../files/state-file.js'
import type { AlertBatch, AlertReader } from './alert-log.js'
import {
  bytesOf,
  cursorPath,
  MAXIMUM_PAYLOAD_BYTES,
  MAXIMUM_READ_BYTES,
  RECORD_HEADER_BYTES,
  ReaderCursor,
  readCursor,
  recordsOf,
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

/** Read at a time: at least the longest record. */
const BATCH_BYTES = RECORD_HEADER_BYTES + MAXIMUM_PAYLOAD_BYTES

interface Position {
  readonly segment: Segment
  readonly sequence: number
  readonly offset: number
}

export class SpoolReader implements AlertReader {
  readonly name: string
  readonly cursor: ReaderCursor
  readonly #view: Spool
  /** Where a record begins, the one numbered cursor.next after a read. */
  #position: Position | null = null
  #isKept: boolean
  /** Commits, and the first cursor when the disk works again. */
  readonly #inTurn = createTurns()

  private constructor(name: string, view: Spool, cursor: ReaderCursor, isKept: boolean) {
    this.name = name
    this.#view = view
    this.cursor = cursor
    this.#isKept = isKept
  }

  static async open(name: string, view: Spool): Promise<SpoolReader> {
    const start = view.segments[0]?.first ?? view.end
    const kept = await readCursor(view.files, view.folder, name, view.faults)
    // a new output begins with what no output has had: it may have been renamed; without any cursor, all were lost
    const isNew = view.outputs.size > 0 && !view.outputs.has(name)
    const begin = isNew ? Math.max(start, Math.min(...view.outputs.values())) : start
    if (begin > start)
      view.log.info(
        `${name}: a new output of ${view.folder}; it does not get earlier alerts that all others have had (${begin - start})`,
      )
    const cursor = new ReaderCursor(kept?.next ?? begin, kept?.dropped)
    if (cursor.next < start) view.damaged(view.folder, cursor.next, start)
    cursor.forget(start)
    const reader = new SpoolReader(name, view, cursor, kept !== null)
    await reader.keepFirst()
    return reader
  }

  /** Writes the cursor unless there is one: the next start notices lost alerts by it, and that the output is not new. */
  async keepFirst(): Promise<void> {
    if (!this.#isKept) await this.#keep().catch(() => undefined)
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
    return bytesOf(this.#view.waiting(from))
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

  #keep(): Promise<void> {
    return this.#inTurn(async () => {
      const { committed, dropped } = this.cursor
      const { files, folder } = this.#view
      try {
        await writeCursor(files, folder, this.name, { next: committed, dropped })
        this.#isKept = true
      } catch (error) {
        throw fileError('write', cursorPath(folder, this.name), error)
      }
    })
  }

  /** Alerts from cursor.next, which is moved past damaged ones; empty if none can be read. */
  async #readFrom(segment: Segment, limit: number): Promise<Uint8Array[]> {
    const kept = this.#position
    const from =
      kept !== null && kept.segment === segment && kept.sequence <= this.cursor.next
        ? kept
        : { segment, sequence: segment.first, offset: SEGMENT_HEADER_BYTES }
    const left = Math.max(0, segment.bytes - from.offset)
    const file = await this.#view.files.open(segment.path, 'read').catch(() => null)
    if (file === null) return []
    try {
      const lines = this.#linesOf(await file.read(from.offset, Math.min(left, BATCH_BYTES)), from, limit)
      // the next alert may lie far behind damaged or delivered ones
      return lines.length > 0 || left <= BATCH_BYTES
        ? lines
        : this.#linesOf(await file.read(from.offset, Math.min(left, MAXIMUM_READ_BYTES)), from, limit)
    } finally {
      await file.close()
    }
  }

  #linesOf(bytes: Uint8Array, from: Position, limit: number): Uint8Array[] {
    const { cursor } = this
    const { segment } = from
    const lines: Uint8Array[] = []
    for (const { sequence, offset, payload } of recordsOf(bytes, from.sequence, segment.end)) {
      // alerts before the wanted one are skipped unread, and forged ones with the damaged ones
      if (sequence < cursor.next || !(sequence >= this.#view.ownFrom || isEvent(payload))) continue
      if (lines.length === 0 && sequence > cursor.next) {
        this.#view.damaged(segment.path, cursor.next, sequence)
        cursor.forget(sequence)
      }
      const end = offset + RECORD_HEADER_BYTES + payload.length
      if (sequence !== cursor.next + lines.length || lines.length === limit) break
      if (lines.length > 0 && end > BATCH_BYTES) break
      lines.push(payload.slice())
      this.#position = { segment, sequence: sequence + 1, offset: from.offset + end }
    }
    return lines
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
