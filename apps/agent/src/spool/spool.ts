/**
 * Spool: the alert log on disk. What it has acknowledged survives a kill at any moment and a power cut.
 *
 * Appended alerts gather in memory while the disk is busy; each turn writes all that have gathered and flushes
 * them with one fsync, then acknowledges them. A disk that fails (full, read-only, worn out) is tried again
 * after a second for as long as the agent runs; meanwhile alerts gather up to a bound, and outputs get them from memory. Beyond
 * the bound the oldest goes that an output has (outputs that have it not yet count it as dropped); where none has one, the new
 * alert is refused, counted and logged. What neither the disk nor all outputs have when the log is closed is lost, and counted.
 * On disk, the oldest segment goes when all are larger than they may be.
 */
import { join } from 'node:path'
import type { FileSystem, OpenFile } from '../files/file-system.js'
import { makeStateFolder } from '../files/state-file.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'
import type { AlertLog } from './alert-log.js'
import {
  encodeRecords,
  encodeSegmentHeader,
  MAXIMUM_PAYLOAD_BYTES,
  recoverSegments,
  SEGMENT_HEADER_BYTES,
  type Segment,
  segmentPath,
  writeEnd,
} from './segments.js'
import { Notifier, SpoolReader } from './spool-reader.js'

/**
 * Refusals: alerts that a log had no room for, counted, and told of in stretches: once when a stretch begins, and how many they
 * were when it is over. A stretch is over with the first alert that is taken after ten seconds without a refusal, so however
 * often a disk falls behind there are two lines in ten seconds at most.
 */

interface Refusals {
  readonly count: number
  refuse(): void
  /** An alert was taken. */
  accept(): void
  /** No more come. */
  end(): void
}

const QUIET_MILLIS = 10_000

/** @param folder - where there was no room. */
export function createRefusals(
  folder: string,
  monotonicMillis: () => number,
  log: Pick<Log, 'warn'>,
): Refusals {
  let count = 0
  /** Of this stretch. */
  let ofThese = 0
  let lastMillis = 0
  const end = (): void => {
    if (ofThese > 0)
      log.warn(`${folder}: ${ofThese === 1 ? 'an alert was' : `${ofThese} alerts were`} refused`)
    ofThese = 0
  }
  return {
    get count() {
      return count
    },
    refuse() {
      count++
      lastMillis = monotonicMillis()
      if (ofThese++ > 0) return
      log.warn(`${folder}: alerts arrive faster than they are written, and memory is full; some are refused`)
    },
    accept() {
      if (ofThese > 0 && monotonicMillis() - lastMillis >= QUIET_MILLIS) end()
    },
    end,
  }
}

/**
 * SegmentWriter: the spool's only writer. A batch is written at the end of the current segment and flushed,
 * and only then acknowledged.
 *
 * After a failed write or flush nobody knows what the disk holds behind the last acknowledged record (a flush
 * that failed once may succeed the next time without having written anything). So the segment is never written
 * to again: the same batch begins a new one when the caller tries again.
 */

class SegmentWriter {
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
    const isGap = current !== null && current.segment.end !== first
    if (isFull || isGap || (await current?.file.isAt(current.segment.path)) === false) await this.close()
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

interface SpoolOptions {
  readonly files: FileSystem
  readonly clock: Clock
  /** Made where it is missing. */
  readonly folder: string
  /** Bytes that all segments may take, at least 64 KiB. */
  readonly maximumBytes: number
  /** Bytes that may wait in memory for the disk. */
  readonly maximumPendingBytes: number
  /** The input waits for the disk while it works (run-agent.ts), so nothing is refused then. Default false. */
  readonly inputWaits?: boolean
  readonly log: Pick<Log, 'warn'>
  /** Where damage is reported; the log where it is not given. */
  readonly faults?: Pick<Log, 'warn'>
  /** Called with the numbers of the alerts that survive from now on. */
  readonly onAcknowledged?: (first: number, end: number) => void
  /** Called when the disk begins to fail and when it works again (null). */
  readonly onError?: (error: Error | null) => void
}

const RETRY_MILLIS = 1000
/** Bytes written and flushed at a time. */
const TURN_BYTES = 262_144
const MAXIMUM_SEGMENT_BYTES = 1_048_576

/** Recovers what an earlier run left. Rejects with the error of the file system. */
export async function openSpool(options: SpoolOptions): Promise<AlertLog> {
  const { files, clock, maximumBytes, log } = options
  const faults = options.faults ?? log
  const folder = join(options.folder, 'spool')
  await makeStateFolder(files, folder, faults)
  const recovered = await recoverSegments(files, folder, faults)
  const segments: Segment[] = recovered.segments
  const segmentBytes = Math.min(MAXIMUM_SEGMENT_BYTES, Math.floor(maximumBytes / 8))
  const writer = new SegmentWriter(files, folder, segmentBytes)
  const acknowledgement = new Notifier()
  const readers: SpoolReader[] = []
  const closing = new AbortController()
  /** Ends of what is lost, so that one reader alone tells of it. */
  const told = new Set<number>()
  let end = recovered.end
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  let acknowledged = 0
  let lost = 0
  const refusals = createRefusals(options.folder, clock.monotonicMillis, log)
  let lastError: Error | null = null
  let turn: Promise<void> | null = null

  let isDropping = false

  const setError = (next: Error | null): void => {
    const isNews = (next === null) !== (lastError === null)
    lastError = next
    if (!isNews) return
    isDropping = false
    options.onError?.(next)
    acknowledgement.notify()
  }
  /** Numbers the first alert in memory `to`, or leaves it where it is further on. */
  const releasePending = (to: number): void => {
    const gone = pending.splice(0, Math.max(0, to - end))
    for (const line of gone) pendingBytes -= line.length
    end += gone.length
    acknowledged += gone.length
  }
  /** While the disk fails: alerts go that some output has, until there is room for `bytes`. */
  const makeRoom = (bytes: number): void => {
    const furthest = Math.max(...readers.map(({ cursor }) => cursor.committed))
    while (pendingBytes + bytes > options.maximumPendingBytes && end < furthest) {
      const first = end
      releasePending(first + 1)
      const behind = readers.filter(({ cursor }) => cursor.next <= first)
      // one that is further behind finds the gap when it gets there
      for (const { cursor } of behind) if (cursor.next === first) cursor.forget(end)
      if (behind.length === 0 || isDropping) continue
      isDropping = true
      log.warn(`${options.folder}: cannot be written and memory is full; outputs that are behind lose alerts`)
    }
  }
  const removeOldest = async (): Promise<void> => {
    const [oldest] = segments.splice(0, 1)
    for (const { cursor } of readers) cursor.forget(oldest.end)
    await files.remove(oldest.path).catch(() => undefined)
  }
  const keepWithinBounds = async (): Promise<void> => {
    const total = (): number => segments.reduce((sum, { bytes }) => sum + bytes, 0)
    while (segments.length > 1 && total() > maximumBytes) await removeOldest()
  }
  const writeSome = async (): Promise<void> => {
    const batch = pending.slice(0, turnLength(pending))
    const first = end
    const segment = await writer.write(first, batch)
    if (!segments.includes(segment)) segments.push(segment)
    // memory may have let some go meanwhile
    releasePending(first + batch.length)
    setError(null)
    options.onAcknowledged?.(first, first + batch.length)
    acknowledgement.notify()
    await keepWithinBounds()
  }
  const writeAll = async (): Promise<void> => {
    while (pending.length > 0) {
      try {
        await writeSome()
      } catch (error) {
        setError(error instanceof Error ? error : new Error(String(error)))
        if (closing.signal.aborted) break
        await clock.sleep(RETRY_MILLIS, closing.signal)
      }
    }
    turn = null
  }

  const damaged = (path: string, first: number, behind: number): void => {
    if (told.has(behind)) return
    told.add(behind)
    const lost = behind - first
    faults.warn(
      `${path}: ${lost === 1 ? 'an alert is' : `${lost} alerts are`} damaged or gone; outputs that did not have ${lost === 1 ? 'it' : 'them'} yet will not get ${lost === 1 ? 'it' : 'them'}`,
    )
  }

  return {
    acknowledgement,
    append(line) {
      if (lastError !== null) makeRoom(line.length)
      const isBounded = lastError !== null || options.inputWaits !== true
      const tooMuch = isBounded && pendingBytes + line.length > options.maximumPendingBytes
      if (tooMuch || line.length > MAXIMUM_PAYLOAD_BYTES || closing.signal.aborted) {
        refusals.refuse()
        return false
      }
      refusals.accept()
      pending.push(line)
      pendingBytes += line.length
      turn ??= Promise.resolve().then(writeAll)
      if (lastError !== null) acknowledgement.notify()
      return true
    },
    async reader(name) {
      const reader = await SpoolReader.open(name, {
        files,
        folder,
        log: faults,
        segments,
        damaged,
        ownFrom: recovered.end,
        get end() {
          return end
        },
        waiting: (from) => (lastError === null ? [] : pending.slice(from - end)),
        async released() {
          const slowest = Math.min(...readers.map(({ cursor }) => cursor.committed))
          for (const behind of told) if (behind <= slowest) told.delete(behind)
          // the last one is being written to
          while (segments.length > 1 && segments[0].end <= slowest) await removeOldest()
        },
      })
      readers.push(reader)
      return reader
    },
    get acknowledged() {
      return acknowledged
    },
    get refused() {
      return refusals.count
    },
    get pending() {
      return pending.length
    },
    get pendingBytes() {
      return pendingBytes
    },
    get lost() {
      return lost
    },
    get lastError() {
      return lastError
    },
    async close() {
      closing.abort()
      await turn
      const cursors = readers.map(({ cursor }) => cursor)
      if (cursors.length > 0) releasePending(Math.min(...cursors.map(({ committed }) => committed)))
      lost += pending.length
      for (const cursor of cursors)
        cursor.dropped += Math.max(0, end + pending.length - Math.max(cursor.next, end))
      pending = []
      pendingBytes = 0
      refusals.end()
      await writer.close()
      // what is missing at the next start is then counted, the last segment too
      await writeEnd(files, folder, end).catch(() => undefined)
    },
  }
}

/** Lines of one turn, at least one. */
function turnLength(lines: readonly Uint8Array[]): number {
  let bytes = 0
  let count = 0
  while (count < lines.length && bytes < TURN_BYTES) bytes += lines[count++].length
  return count
}
