/**
 * Captures from files, FIFOs and standard input, plain, gzip or zstd. An input that gives an error and no packet
 * throws CaptureFileError; later damage is in the end state, with everything before it delivered.
 */

import { readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import process from 'node:process'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import { type CaptureEnd, NO_DROPS } from '../capture-notes.js'
import { createCaptureReader, DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import { type CaptureSummary, createCaptureSummariser } from '../capture-summary.js'
import type { PacketFilter } from '../filter/compile-filter.js'
import { createPacketBatch, type FrameBatch } from '../packet-batch.js'
import { createPacketDecoder, type PacketDecoderOptions } from '../packet-decoder.js'
import { CaptureFileError, describeSystemError, type FrameSource, frameSource } from './frame-source.js'
import type { CompressionState } from './gzip.js'
import { framesFromPcapParser } from './pcap-parser-frames.js'
import { createCompressionState, unpackBlocks } from './unpack-blocks.js'

/**
 * The bytes of an input, in blocks that are valid until the next is asked for. A regular file is read synchronously
 * into one reused buffer, with a turn of the event loop every BYTES_A_TURN. A pipe is read asynchronously, because its
 * next byte may be hours away.
 */

/** Bytes of a regular file between two turns of the event loop. */
const BYTES_A_TURN = 1_048_576

/**
 * Where blocks begin in their buffer. A large buffer begins 16 bytes after the start of a page, where the kernel's copies
 * from whole pages are four to five times slower than elsewhere (4 KiB aliasing).
 */
const BLOCK_START = 64

/** Ends like the input when `stop` is aborted. Throws CaptureFileError. */
async function* fileBlocks(file: string, blockBytes: number, stop?: AbortSignal): AsyncGenerator<Uint8Array> {
  const failed = (cause: unknown): never => {
    throw describeSystemError(file, cause)
  }
  // a FIFO opens only when it has a writer
  const handle = await orStopped(open(file, 'r').catch(failed), stop)
  if (handle === STOPPED) return
  let isWaitedFor = false
  try {
    const status = await handle.stat().catch(failed)
    if (status.isDirectory()) throw describeSystemError(file, Object.assign(new Error(), { code: 'EISDIR' }))
    const isRegular = status.isFile()
    const size = isRegular ? Math.max(4096, Math.min(blockBytes, status.size + 1)) : blockBytes
    const buffer = new Uint8Array(BLOCK_START + size).subarray(BLOCK_START)
    let sinceTurn = 0
    for (;;) {
      let bytes: number
      if (isRegular) {
        if (stop?.aborted === true) return
        bytes = readNow(handle, buffer, failed)
      } else {
        const read = await orStopped(handle.read(buffer, 0, size, null).catch(failed), stop)
        if (read === STOPPED) {
          isWaitedFor = true
          return
        }
        bytes = read.bytesRead
      }
      if (bytes === 0) return
      yield bytes === size ? buffer : buffer.subarray(0, bytes)
      sinceTurn += bytes
      if (isRegular && sinceTurn >= BYTES_A_TURN) {
        sinceTurn = 0
        await setImmediate()
      }
    }
  } finally {
    // closing would wait for a read that may never end
    if (!isWaitedFor) await handle.close()
  }
}

async function* standardInput(stop?: AbortSignal): AsyncGenerator<Uint8Array> {
  const chunks = process.stdin[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await orStopped(chunks.next(), stop)
      if (next === STOPPED) process.stdin.destroy()
      if (next === STOPPED || next.done === true) return
      yield next.value as Uint8Array
    }
  } catch (cause) {
    throw describeSystemError('-', cause)
  }
}

/** Passes on the stream's own errors. Throws ArgumentError if it gives anything but bytes. */
async function* streamBlocks(
  stream: AsyncIterable<Uint8Array>,
  stop?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const chunks = stream[Symbol.asyncIterator]()
  let isOver = false
  try {
    for (;;) {
      const next = await orStopped(chunks.next(), stop)
      isOver = next === STOPPED || next.done === true
      if (next === STOPPED || next.done === true) return
      if (!(next.value instanceof Uint8Array)) {
        throw new ArgumentError(
          `input: expected a stream of Uint8Array, found one of ${typeof next.value}; give the stream no encoding`,
          'input',
        )
      }
      yield next.value
    }
  } finally {
    // closing a stream would wait for its next bytes
    if (!isOver) await chunks.return?.()
  }
}

const STOPPED = Symbol('stopped')

/** The result of `work`, or STOPPED if the signal is aborted before. */
function orStopped<T>(work: Promise<T>, stop: AbortSignal | undefined): Promise<T | typeof STOPPED> {
  if (stop === undefined) return work
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(STOPPED)
    if (stop.aborted) onAbort()
    stop.addEventListener('abort', onAbort)
    work.then(resolve, reject).finally(() => stop.removeEventListener('abort', onAbort))
  })
}

function readNow(handle: FileHandle, buffer: Uint8Array, failed: (cause: unknown) => never): number {
  try {
    return readSync(handle.fd, buffer, 0, buffer.length, null)
  } catch (cause) {
    return failed(cause)
  }
}

/** The readers of captures: OddFlow's own, and the package pcap-parser. */
const CAPTURE_READERS = ['oddflow', 'pcap-parser'] as const
/** One of CAPTURE_READERS. */
export type CaptureReaderName = (typeof CAPTURE_READERS)[number]
/** Fits into the L2 cache of small machines, with its decoded columns. */
const DEFAULT_BLOCK_BYTES = 131_072

/** Options of `openCapture` and `readCapture`. */
export interface OpenCaptureOptions {
  /** Default `oddflow`. */
  readonly reader?: CaptureReaderName
  /** Most frames in a batch. */
  readonly batchFrames?: number
  /** Bytes read from a file at a time, 4,096 … 16,777,216. */
  readonly blockBytes?: number
  /** Ends the input when aborted, also while a pipe's next bytes are awaited. */
  readonly stop?: AbortSignal | undefined
  /** An empty input, one of several, is a capture without packets whose `error` says so. */
  readonly emptyIsDamage?: boolean
}

/** The name of a capture without a path in errors. */
const STREAM_NAME = 'the stream'

/**
 * @param input - a path, `-` for standard input, or the capture's bytes in blocks (for example a Node stream). Errors come
 * on iteration.
 */
export function openCapture(
  input: string | AsyncIterable<Uint8Array>,
  options: OpenCaptureOptions = {},
): FrameSource {
  const reader = options.reader ?? 'oddflow'
  if (!CAPTURE_READERS.includes(reader)) {
    throw new ArgumentError(
      `reader: expected one of ${CAPTURE_READERS.join(', ')}, found ${reader}`,
      'reader',
    )
  }
  const blockBytes = options.blockBytes ?? DEFAULT_BLOCK_BYTES
  if (!Number.isInteger(blockBytes) || blockBytes < 4096 || blockBytes > 16_777_216) {
    throw new ArgumentError(
      `blockBytes: expected a whole number from 4096 to 16777216, found ${blockBytes}`,
      'blockBytes',
    )
  }
  const batchFrames = options.batchFrames ?? DEFAULT_BATCH_FRAMES
  const compression = createCompressionState()
  const { stop } = options
  const name = typeof input === 'string' ? input : STREAM_NAME
  const given =
    input === '-'
      ? standardInput(stop)
      : typeof input === 'string'
        ? fileBlocks(input, blockBytes, stop)
        : streamBlocks(input, stop)
  const blocks = unpackBlocks(given, compression)
  const finish = (end: CaptureEnd): CaptureEnd =>
    checkEnd(name, withCompression(end, compression), options.emptyIsDamage === true)
  return frameSource(
    reader === 'oddflow'
      ? readBlocks(blocks, batchFrames, finish)
      : readThroughPcapParser(blocks, batchFrames, finish),
  )
}

/** Calls `onFrames` for every batch, waiting for a promise that it returns. */
export async function readCapture(
  file: string,
  onFrames: (frames: FrameBatch) => void | Promise<void>,
  options: OpenCaptureOptions = {},
): Promise<CaptureEnd> {
  const source = openCapture(file, options)
  for await (const batch of source) {
    const pending = onFrames(batch)
    if (pending !== undefined) await pending
  }
  return source.end!
}

/** Throws CaptureFileError for an error without a packet, except an empty input that is allowed. */
function checkEnd(file: string, end: CaptureEnd, emptyIsDamage: boolean): CaptureEnd {
  if (end.packets > 0 || end.error === null || (emptyIsDamage && isEmpty(end))) return end
  const { format, detail, offsetBytes } = end.error
  const what = format === 'capture' ? detail : `${format}: ${detail}`
  const where = offsetBytes === undefined || offsetBytes === 0 ? '' : ` (byte ${offsetBytes})`
  throw new CaptureFileError(file, 'not-a-capture', what + where, {
    offsetBytes,
    truncated: end.truncated,
  })
}

/** Without a byte; other errors before the first packet have an offset. */
function isEmpty({ bytes, truncated, error }: CaptureEnd): boolean {
  return bytes === 0 && !truncated && error !== null && error.offsetBytes === undefined
}

async function* readBlocks(
  blocks: AsyncGenerator<Uint8Array>,
  batchFrames: number,
  finish: (end: CaptureEnd) => CaptureEnd,
): AsyncGenerator<FrameBatch, CaptureEnd> {
  const reader = createCaptureReader({ batchFrames })
  for await (const block of blocks) {
    reader.push(block)
    for (let batch = reader.read(); batch !== null; batch = reader.read()) yield batch
    if (reader.finished) break
  }
  return finish(reader.end())
}

async function* readThroughPcapParser(
  blocks: AsyncGenerator<Uint8Array>,
  batchFrames: number,
  finish: (end: CaptureEnd) => CaptureEnd,
): AsyncGenerator<FrameBatch, CaptureEnd> {
  // Loaded only here. The default export is module.exports in Node and in a bundle; named ones exist only in Node.
  const {
    default: { parse },
  } = await import('pcap-parser')
  const source = framesFromPcapParser(parse(Readable.from(copies(blocks), { objectMode: false })), {
    batchFrames,
  })
  yield* source
  return finish(source.end!)
}

/** pcap-parser keeps parts of its input, and a borrowed block is overwritten. */
async function* copies(blocks: AsyncGenerator<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const block of blocks) yield Buffer.from(block)
}

function withCompression(end: CaptureEnd, state: CompressionState): CaptureEnd {
  const { compression, damage, trailingBytes } = state
  const garbage = `${compression}: ${plural(trailingBytes, 'byte')} of trailing garbage behind the last member ignored`
  const warnings = trailingBytes === 0 ? end.warnings : [...end.warnings, garbage]
  const truncated = end.truncated || state.truncated
  // for a damaged stream the reader would only say that it is cut short
  const wrong =
    damage ?? (state.truncated && isEmpty(end) ? 'cut short: the stream ends before any content' : null)
  if (wrong !== null) {
    const error = new FormatError(compression ?? 'capture', wrong)
    return { ...end, warnings, truncated, error, detail: error.message }
  }
  const cut = truncated && !end.truncated ? `cut short: the ${compression} stream has no end` : null
  return { ...end, warnings, truncated, detail: end.detail ?? cut }
}

/**
 * summariseCaptureFile: CaptureSummary of a file, as `oddflow info` prints it. A file that is no capture gives a summary
 * with its error and without packets; a file that cannot be opened throws.
 */

export interface SummariseOptions extends OpenCaptureOptions, PacketDecoderOptions {
  /** Only these packets are counted. */
  readonly filter?: PacketFilter
  /** Copies of a packet are counted in `skipped` and are in no flow. */
  readonly dropDuplicates?: boolean
  /** Most flow keys held. */
  readonly maximumFlowKeys?: number
}

/** A CaptureSummary with the file's name. */
export interface CaptureFileSummary extends CaptureSummary {
  readonly file: string
}

const NOTHING_READ = { warnings: [], commentCount: 0, drops: NO_DROPS } as const

/** Throws CaptureFileError when the file cannot be opened or read. */
export async function summariseCaptureFile(
  file: string,
  options: SummariseOptions = {},
): Promise<CaptureFileSummary> {
  const packets = createPacketBatch(options.batchFrames ?? DEFAULT_BATCH_FRAMES)
  const decoder = createPacketDecoder(options)
  const summariser = createCaptureSummariser(
    options.maximumFlowKeys,
    options.hashSeed,
    options.dropDuplicates,
  )
  try {
    const end = await readCapture(
      file,
      (frames) => {
        decoder.decode(frames, packets)
        summariser.add(frames, packets, options.filter)
      },
      options,
    )
    return { file, ...summariser.finish(end) }
  } catch (error) {
    if (!(error instanceof CaptureFileError) || error.problem !== 'not-a-capture') throw error
    return {
      file,
      ...summariser.finish({ ...NOTHING_READ, truncated: error.truncated, detail: error.message, error }),
    }
  }
}
