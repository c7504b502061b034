/**
 * Captures from files, FIFOs and standard input, plain, gzip or zstd, through either reader.
 *
 * Two shapes of one thing: `openCapture` to iterate over, `readCapture` with a callback. Both hold one batch
 * and a few blocks, at the pace of the consumer. An input that gives no packet and an error (missing,
 * a directory, no capture at all) throws CaptureFileError; damage behind the first packet ends the reading
 * and stands in the end state, with everything before it delivered.
 */
import { Readable } from 'node:stream'
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import type { CaptureEnd } from '../capture-end.js'
import { createCaptureReader, DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import type { FrameBatch } from '../frame-batch.js'
import { CaptureFileError } from './capture-file-error.js'
import { fileBlocks } from './file-blocks.js'
import { type FrameSource, frameSource } from './frame-source.js'
import type { CompressionState } from './gunzip-blocks.js'
import { framesFromPcapParser } from './pcap-parser-frames.js'
import { createCompressionState, unpackBlocks } from './unpack-blocks.js'

export const CAPTURE_READERS = ['oddflow', 'pcap-parser'] as const
export type CaptureReaderName = (typeof CAPTURE_READERS)[number]
/** In the second cache of small machines too, with what is made of it: see file-blocks.ts. */
export const DEFAULT_BLOCK_BYTES = 131_072

export interface OpenCaptureOptions {
  /** `oddflow` where it is left out. */
  readonly reader?: CaptureReaderName
  /** Most frames in a batch. */
  readonly batchFrames?: number
  /** Bytes read from a file at a time, 4,096 … 16,777,216. */
  readonly blockBytes?: number
  /** Ends the input where it is when it is aborted: of a pipe, also while its next bytes are waited for. */
  readonly stop?: AbortSignal | undefined
  /** An input without a byte is a capture without packets, with that as its `error`: one of several that is missing. */
  readonly emptyIsDamage?: boolean
}

/** @param file a path, or `-` for standard input. Errors come when it is iterated. */
export function openCapture(file: string, options: OpenCaptureOptions = {}): FrameSource {
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
  const blocks = unpackBlocks(fileBlocks(file, blockBytes, options.stop), compression)
  const finish = (end: CaptureEnd): CaptureEnd =>
    checkEnd(file, withCompression(end, compression), options.emptyIsDamage === true)
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

/** Throws CaptureFileError where there is no packet and an error, but for an empty input that is allowed. */
function checkEnd(file: string, end: CaptureEnd, emptyIsDamage: boolean): CaptureEnd {
  if (end.packets > 0 || end.error === null || (emptyIsDamage && isEmpty(end))) return end
  const message = end.error.message.replace(/^capture: /, '').replace(/ \(byte 0\)$/, '')
  throw new CaptureFileError(file, 'not-a-capture', message, {
    offsetBytes: end.error.offsetBytes,
    truncated: end.truncated,
  })
}

/** Not a byte: other errors before the first packet have a place. */
function isEmpty({ bytes, truncated, error }: CaptureEnd): boolean {
  return bytes === 0 && !truncated && error !== null && /^capture: empty: /.test(error.message)
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
  // loaded where it is wanted: it brings streams and events along
  // by its default, which is what module.exports is for Node and for a bundler; names Node alone finds
  const {
    default: { parse },
  } = await import('pcap-parser')
  const source = framesFromPcapParser(parse(Readable.from(copies(blocks), { objectMode: false })), {
    batchFrames,
  })
  yield* source
  return finish(source.end!)
}

/** pcap-parser keeps parts of what it is given, and a borrowed block is overwritten. */
async function* copies(blocks: AsyncGenerator<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const block of blocks) yield Buffer.from(block)
}

function withCompression(end: CaptureEnd, state: CompressionState): CaptureEnd {
  const warnings =
    state.trailingBytes === 0
      ? end.warnings
      : [
          ...end.warnings,
          `${state.compression}: ${plural(state.trailingBytes, 'byte')} of trailing garbage behind the last member ignored`,
        ]
  const truncated = end.truncated || state.truncated
  // the reader's own word on a stream that zlib gave up on would only be that it is cut short
  if (state.damage !== null) {
    const error = new FormatError(state.compression ?? 'capture', state.damage)
    return { ...end, warnings, truncated, error, detail: error.message }
  }
  if (state.truncated && isEmpty(end)) {
    const error = new FormatError(
      state.compression ?? 'capture',
      'cut short: the stream ends before any content',
    )
    return { ...end, warnings, truncated, error, detail: error.message }
  }
  if (state.truncated && !end.truncated) {
    const detail = end.detail ?? `cut short: the ${state.compression} stream has no end`
    return { ...end, warnings, truncated, detail }
  }
  return { ...end, warnings }
}
