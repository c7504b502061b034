/**
 * gzip and zstd, told by their magic numbers and unpacked block by block.
 *
 * Output is taken as it is asked for: zlib stops while its small output buffer is full, so an input that
 * would unpack to terabytes costs time and no memory, and a caller who stops reading stops the work. Every
 * output block of an input block is taken before the next is fed, so a stream that is cut gives all that it
 * holds before its end is told as `truncated`. Several gzip members or zstd frames are one stream, as gzip(1)
 * and zstd(1) have it. zstd is in Node from 22.15 and 23.8 on; before, it is refused with the way round it.
 */
import process from 'node:process'
import * as zlib from 'node:zlib'
import { type CompressionState, gunzipBlocks } from './gunzip-blocks.js'
import { createZlibPump, type ZlibPump, type ZlibStream } from './zlib-pump.js'
import { createZstdFrames, isZstd } from './zstd-frames.js'

const OUTPUT_BYTES = 262_144
const NO_ZSTD = `not read by Node ${process.versions.node} (22.15 and 23.8 have it): decompress it first with "zstd -dc FILE" and give "-" for the file`

export function createCompressionState(): CompressionState {
  return { compression: null, truncated: false, damage: null, trailingBytes: 0 }
}

/** Passes plain input on as it is. `state` is final when the generator is done. */
export async function* unpackBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  const source = blocks[Symbol.asyncIterator]()
  try {
    let head: Uint8Array = new Uint8Array(0)
    while (head.length < 4 && !isGzip(head)) {
      const next = await source.next()
      if (next.done === true) break
      head = head.length === 0 ? next.value : Buffer.concat([head, next.value])
      // the block is borrowed
      if (head.length < 4 && !isGzip(head)) head = head.slice()
    }
    if (isGzip(head)) {
      state.compression = 'gzip'
      yield* gunzipBlocks(startingWith(head, source), state)
    } else if (head.length >= 4 && isZstd(head)) {
      state.compression = 'zstd'
      yield* unzstdBlocks(startingWith(head, source), state)
    } else {
      // as startingWith, without a generator more for every block to pass through
      if (head.length > 0) yield head
      for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value
    }
  } finally {
    await source.return?.()
  }
}

async function* startingWith(
  head: Uint8Array,
  source: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (head.length > 0) yield head
  for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value
}

function isGzip(head: Uint8Array): boolean {
  return head[0] === 0x1f && head[1] === 0x8b
}

async function* unzstdBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  const { createZstdDecompress } = zlib as {
    createZstdDecompress?: (options: { chunkSize: number }) => ZlibStream
  }
  if (createZstdDecompress === undefined) {
    state.damage = NO_ZSTD
    return
  }
  const pump = createZlibPump(createZstdDecompress({ chunkSize: OUTPUT_BYTES }))
  const frames = createZstdFrames()
  try {
    for await (const block of blocks) {
      for (let at = 0; at < block.length && state.damage === null; ) {
        const end = frames.advance(block, at)
        if (frames.hasContent && frames.damage === null) {
          yield* unpack(pump, block.subarray(at, end), state)
        }
        if (frames.damage !== null) state.damage = `damaged: ${frames.damage}`
        at = end
      }
      if (state.damage !== null || state.truncated) return
    }
    yield* unpack(pump, null, state)
    if (!frames.atBoundary) state.truncated = true
  } finally {
    pump.destroy()
  }
}

/** Feeds one block (null: the end of the input) and gives all output that it makes. */
async function* unpack(
  pump: ZlibPump,
  block: Uint8Array | null,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  pump.feed(block)
  for (;;) {
    const chunk = pump.read()
    if (chunk !== null) {
      yield chunk
    } else if (pump.outcome !== null) {
      if (pump.outcome === 'cut') state.truncated = true
      else if (pump.outcome === 'damaged') state.damage = `damaged: ${pump.message}`
      return
    } else {
      await pump.changed()
    }
  }
}
