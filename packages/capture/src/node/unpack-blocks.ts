/**
 * gzip and zstd, recognized by their magic numbers and unpacked block by block, on demand: an input that would unpack
 * to terabytes costs no memory. A cut stream gives all that it holds before it is reported as `truncated`. Node has
 * zstd from 22.15 and 23.8 on.
 */
import process from 'node:process'
import * as zlib from 'node:zlib'
import { BlockReader, type CompressionState, gunzipBlocks, readUint32, type Steps, ZlibPump } from './gzip.js'

/**
 * Where zstd frames end (RFC 8878, 3.1), so that each is fed to the decompressor alone: Node's drops what follows a
 * frame within one write (seen with 22.20) and ends a cut stream like a whole one. Only sizes are read here.
 */
const MAGIC = 0xfd2fb528
const SKIPPABLE = 0x184d2a50
const DICTIONARY_ID_BYTES = [0, 1, 2, 4]
const RUN_LENGTH_BLOCK = 1

/** Whether the input begins like a zstd frame or a skippable one. @param head - at least four bytes */
export function isZstd(head: Uint8Array): boolean {
  const magic = readUint32(head, 0)
  return magic === MAGIC || isSkippable(magic)
}

export class ZstdFrames {
  /** The last piece is part of a frame with content. */
  hasContent = true
  /** Why the bytes are no zstd; null while they are. */
  damage: string | null = null
  /** Between two frames, where the input may end. */
  atBoundary = true
  readonly #reader = new BlockReader((reader) => this.#read(reader))

  /** Where, in block[at …), the current frame ends; block.length if the frame continues. */
  advance(block: Uint8Array, from: number): number {
    return this.#reader.advance(block, from)
  }

  *#read(reader: BlockReader): Steps {
    const { field } = reader
    for (;;) {
      yield* reader.rest()
      this.atBoundary = false
      yield* reader.take(4)
      const magic = readUint32(field, 0)
      this.hasContent = magic === MAGIC
      if (magic === MAGIC) yield* this.#readFrame(reader)
      else if (isSkippable(magic)) {
        yield* reader.take(4)
        yield* reader.skip(readUint32(field, 0))
      } else {
        this.damage = 'expected the magic number of a zstd frame, found something else'
        return
      }
      this.atBoundary = true
      yield
    }
  }

  *#readFrame(reader: BlockReader): Steps {
    const { field } = reader
    yield* reader.take(1)
    const descriptor = field[0]!
    const isSingle = (descriptor & 0x20) !== 0
    const sizeFlag = descriptor >>> 6
    const sizeBytes = sizeFlag === 0 ? (isSingle ? 1 : 0) : 1 << sizeFlag
    yield* reader.skip((isSingle ? 0 : 1) + DICTIONARY_ID_BYTES[descriptor & 3]! + sizeBytes)
    for (let isLast = false; !isLast; ) {
      yield* reader.take(3)
      const block = field[0]! | (field[1]! << 8) | (field[2]! << 16)
      isLast = (block & 1) !== 0
      yield* reader.skip(((block >>> 1) & 3) === RUN_LENGTH_BLOCK ? 1 : block >>> 3)
    }
    if ((descriptor & 0x04) !== 0) yield* reader.skip(4)
  }
}

function isSkippable(magic: number): boolean {
  return (magic & 0xfffffff0) >>> 0 === SKIPPABLE
}

const OUTPUT_BYTES = 262_144
const NO_ZSTD = `not read by Node ${process.versions.node} (22.15 and 23.8 have it): decompress it first with "zstd -dc FILE" and give "-" for the file`

export function createCompressionState(): CompressionState {
  return { compression: null, truncated: false, damage: null, trailingBytes: 0 }
}

/** Plain input passes unchanged. `state` is final when the generator is done. */
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
      // as startingWith, without another generator for every block to pass
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
    createZstdDecompress?: (options: { chunkSize: number }) => zlib.InflateRaw
  }
  if (createZstdDecompress === undefined) {
    state.damage = NO_ZSTD
    return
  }
  const pump = new ZlibPump(createZstdDecompress({ chunkSize: OUTPUT_BYTES }))
  const frames = new ZstdFrames()
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

/** Feeds one block (null: the end of the input) and passes on all its output. */
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
