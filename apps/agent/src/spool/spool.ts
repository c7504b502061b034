/**
 * Spool: the alert log on disk. Acknowledged alerts survive a kill at any moment and a power cut.
 *
 * Each turn writes the pending alerts, flushes them with one fsync, and acknowledges them. While the disk fails, outputs get alerts from
 * memory. If memory is full, the oldest alert that some output has is dropped and counted for the others; if no output has any, the new
 * alert is refused and counted. If the segments exceed their limit, the oldest is removed.
 */
import { join } from 'node:path'
import type { FileSystem, OpenFile } from '../files/file-system.js'
import { makeStateFolder } from '../files/state-file.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'
import type { AlertLog, AlertReader } from './alert-log.js'
import {
  encodeRecords,
  encodeSegmentHeader,
  MAXIMUM_PAYLOAD_BYTES,
  type RecoveredSegments,
  recoverSegments,
  SEGMENT_HEADER_BYTES,
  type Segment,
  segmentPath,
  writeEnd,
} from './segments.js'
import { Notifier, SpoolReader } from './spool-reader.js'

/** After this long without a refusal the log says how many there were. */
const QUIET_MILLIS = 10_000

/** Counts the alerts that the log had no room for, and logs the first and the number of each series. */
export function createRefusals(folder: string, monotonicMillis: () => number, log: Pick<Log, 'warn'>) {
  let count = 0
  /** Of this series. */
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
    refuse(): void {
      count++
      lastMillis = monotonicMillis()
      if (ofThese++ > 0) return
      log.warn(`${folder}: alerts arrive faster than they are written, and memory is full; some are refused`)
    },
    /** An alert was taken. */
    accept(): void {
      if (ofThese > 0 && monotonicMillis() - lastMillis >= QUIET_MILLIS) end()
    },
    /** No more come. */
    end,
  }
}

type Refusals = ReturnType<typeof createRefusals>

/**
 * The spool's only writer. After a failed write or flush the disk may hold anything behind the last acknowledged record, so that
 * segment is never written to again: the batch goes to a new one.
 */
function createSegmentWriter(files: FileSystem, folder: string, segmentBytes: number) {
  let open: { file: OpenFile; segment: Segment } | null = null
  const close = async (): Promise<void> => {
    const current = open
    open = null
    await current?.file.close().catch(() => undefined)
  }
  const begin = async (first: number) => {
    const path = segmentPath(folder, first)
    await files.makeFolder(folder)
    // a file of that name is from a failed start, and has no acknowledged alert
    await files.remove(path).catch(() => undefined)
    const file = await files.open(path, 'create')
    open = { file, segment: { path, first, end: first, bytes: SEGMENT_HEADER_BYTES } }
    await file.write(encodeSegmentHeader(first), 0)
    await file.sync()
    await files.syncFolder(folder)
    return open
  }
  return {
    /** Resolves to the segment that holds the payloads, a new one or the one before; they survive from then on. */
    async write(first: number, payloads: readonly Uint8Array[]): Promise<Segment> {
      const isFull = open !== null && open.segment.bytes >= segmentBytes
      // no reader sees writes to a file that was removed or moved
      const isGap = open !== null && open.segment.end !== first
      if (isFull || isGap || (await open?.file.isAt(open.segment.path)) === false) await close()
      try {
        const { file, segment } = open ?? (await begin(first))
        const bytes = encodeRecords(first, payloads)
        try {
          await file.write(bytes, segment.bytes)
          await file.sync()
        } catch (error) {
          // the next start would take whole records of this batch for acknowledged ones
          await file.truncate(segment.bytes).catch(() => undefined)
          throw error
        }
        segment.bytes += bytes.length
        segment.end = first + payloads.length
        return segment
      } catch (error) {
        await close()
        throw error
      }
    },
    close,
  }
}

interface SpoolOptions {
  readonly files: FileSystem
  readonly clock: Clock
  /** Created if it is missing. */
  readonly folder: string
  /** Bytes that all segments may take, at least 64 KiB. */
  readonly maximumBytes: number
  /** Bytes that may wait in memory for the disk. */
  readonly maximumPendingBytes: number
  /** The input waits for the disk while it works (run-agent.ts), so nothing is refused then. Default false. */
  readonly inputWaits?: boolean
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Reports damage; the log by default. */
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

/** Recovers the alerts of an earlier run. Rejects with the error of the file system. */
export async function openSpool(options: SpoolOptions): Promise<AlertLog> {
  const { files, log, faults = log } = options
  const folder = join(options.folder, 'spool')
  await makeStateFolder(files, folder, faults)
  return new Spool(options, folder, await recoverSegments(files, folder, faults))
}

export class Spool implements AlertLog {
  readonly acknowledgement = new Notifier()
  acknowledged = 0
  pendingBytes = 0
  lost = 0
  lastError: Error | null = null
  readonly files: FileSystem
  readonly folder: string
  readonly log: Pick<Log, 'info'>
  /** Reports damage. */
  readonly faults: Pick<Log, 'warn'>
  /** In order; a gap between two counts to the first. */
  readonly segments: Segment[]
  /** Alerts before this number are of an earlier run: any program that may write to the folder can have made them. */
  readonly ownFrom: number
  /** Outputs of earlier runs. */
  readonly outputs: ReadonlyMap<string, number>
  /** Sequence number behind the last acknowledged alert. */
  end: number
  readonly #options: SpoolOptions
  readonly #writer: ReturnType<typeof createSegmentWriter>
  readonly #refusals: Refusals
  readonly #readers: SpoolReader[] = []
  readonly #closing = new AbortController()
  /** Ends of lost ranges, so that only one reader reports each. */
  readonly #told = new Set<number>()
  #pending: Uint8Array[] = []
  #turn: Promise<void> | null = null
  #isDropping = false

  constructor(options: SpoolOptions, folder: string, { segments, end, outputs }: RecoveredSegments) {
    this.#options = options
    this.files = options.files
    this.folder = folder
    this.log = options.log
    this.faults = options.faults ?? options.log
    this.segments = segments
    this.ownFrom = end
    this.end = end
    this.outputs = outputs
    const segmentBytes = Math.min(MAXIMUM_SEGMENT_BYTES, Math.floor(options.maximumBytes / 8))
    this.#writer = createSegmentWriter(options.files, folder, segmentBytes)
    this.#refusals = createRefusals(options.folder, options.clock.monotonicMillis, options.log)
  }

  get refused(): number {
    return this.#refusals.count
  }

  get pending(): number {
    return this.#pending.length
  }

  append(line: Uint8Array): boolean {
    const { inputWaits, maximumPendingBytes } = this.#options
    if (this.lastError !== null) this.#makeRoom(line.length)
    const isBounded = this.lastError !== null || inputWaits !== true
    const tooMuch = isBounded && this.pendingBytes + line.length > maximumPendingBytes
    if (tooMuch || line.length > MAXIMUM_PAYLOAD_BYTES || this.#closing.signal.aborted) {
      this.#refusals.refuse()
      return false
    }
    this.#refusals.accept()
    this.#pending.push(line)
    this.pendingBytes += line.length
    this.#turn ??= Promise.resolve().then(() => this.#writeAll())
    if (this.lastError !== null) this.acknowledgement.notify()
    return true
  }

  async reader(name: string): Promise<AlertReader> {
    const reader = await SpoolReader.open(name, this)
    this.#readers.push(reader)
    return reader
  }

  /** Alerts with the numbers from `from` on, at least `end`, that are in memory because the disk fails. */
  waiting(from: number): Uint8Array[] {
    return this.lastError === null ? [] : this.#pending.slice(from - this.end)
  }

  /** The cursor of the slowest reader has moved on. */
  async released(): Promise<void> {
    const slowest = Math.min(...this.#readers.map(({ cursor }) => cursor.committed))
    for (const behind of this.#told) if (behind <= slowest) this.#told.delete(behind)
    // the last one is being written to
    while (this.segments.length > 1 && this.segments[0].end <= slowest) await this.#removeOldest()
  }

  /** Alerts from `first` to before `behind` are missing from the file, or damaged; reported once. */
  damaged(path: string, first: number, behind: number): void {
    if (this.#told.has(behind)) return
    this.#told.add(behind)
    const lost = behind - first
    const [alerts, them] = lost === 1 ? ['an alert is', 'it'] : [`${lost} alerts are`, 'them']
    this.faults.warn(
      `${path}: ${alerts} damaged or gone; outputs that did not have ${them} yet will not get ${them}`,
    )
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#turn
    const cursors = this.#readers.map(({ cursor }) => cursor)
    if (cursors.length > 0) this.#releasePending(Math.min(...cursors.map(({ committed }) => committed)))
    this.lost += this.pending
    for (const cursor of cursors)
      cursor.dropped += Math.max(0, this.end + this.pending - Math.max(cursor.next, this.end))
    this.#pending = []
    this.pendingBytes = 0
    this.#refusals.end()
    await this.#writer.close()
    // the next start counts missing segments by it
    await writeEnd(this.#options.files, this.folder, this.end).catch(() => undefined)
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.length > 0) {
      try {
        await this.#writeSome()
      } catch (error) {
        this.#setError(error instanceof Error ? error : new Error(String(error)))
        if (this.#closing.signal.aborted) break
        await this.#options.clock.sleep(RETRY_MILLIS, this.#closing.signal)
      }
    }
    this.#turn = null
  }

  async #writeSome(): Promise<void> {
    const batch = this.#pending.slice(0, turnLength(this.#pending))
    const first = this.end
    for (const reader of this.#readers) await reader.keepFirst()
    const segment = await this.#writer.write(first, batch)
    if (!this.segments.includes(segment)) this.segments.push(segment)
    // memory may have dropped some meanwhile
    this.#releasePending(first + batch.length)
    this.#setError(null)
    this.#options.onAcknowledged?.(first, first + batch.length)
    this.acknowledgement.notify()
    const total = (): number => this.segments.reduce((sum, { bytes }) => sum + bytes, 0)
    while (this.segments.length > 1 && total() > this.#options.maximumBytes) await this.#removeOldest()
  }

  #setError(next: Error | null): void {
    const isNews = (next === null) !== (this.lastError === null)
    this.lastError = next
    if (!isNews) return
    this.#isDropping = false
    this.#options.onError?.(next)
    this.acknowledgement.notify()
  }

  /** Drops alerts before number `to` from memory. */
  #releasePending(to: number): void {
    const gone = this.#pending.splice(0, Math.max(0, to - this.end))
    for (const line of gone) this.pendingBytes -= line.length
    this.end += gone.length
    this.acknowledged += gone.length
  }

  /** While the disk fails: drops alerts that some output has, until there is room for `bytes`. */
  #makeRoom(bytes: number): void {
    const { maximumPendingBytes, log, folder } = this.#options
    const furthest = Math.max(...this.#readers.map(({ cursor }) => cursor.committed))
    while (this.pendingBytes + bytes > maximumPendingBytes && this.end < furthest) {
      const first = this.end
      this.#releasePending(first + 1)
      const behind = this.#readers.filter(({ cursor }) => cursor.next <= first)
      // a reader that is further behind finds the gap later
      for (const { cursor } of behind) if (cursor.next === first) cursor.forget(this.end)
      if (behind.length === 0 || this.#isDropping) continue
      this.#isDropping = true
      log.warn(`${folder}: cannot be written and memory is full; outputs that are behind lose alerts`)
    }
  }

  async #removeOldest(): Promise<void> {
    const [oldest] = this.segments.splice(0, 1)
    for (const { cursor } of this.#readers) cursor.forget(oldest.end)
    await this.#options.files.remove(oldest.path).catch(() => undefined)
  }
}

/** Lines of one turn, at least one. */
function turnLength(lines: readonly Uint8Array[]): number {
  let bytes = 0
  let count = 0
  while (count < lines.length && bytes < TURN_BYTES) bytes += lines[count++].length
  return count
}
