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
import { createZstdFrames, isZstd } from './zstd-frames.js'

/** What is used of zlib's streams. */
interface Unpacker {
  write(block: Uint8Array, done: () => void): unknown
  end(): unknown
  read(): unknown
  on(event: string, listener: (error: Error) => void): unknown
  off(event: string, listener: (error: Error) => void): unknown
  destroy(): unknown
}

/** How the compressed stream ended. */
export interface CompressionState {
  /** null for plain input. */
  compression: 'gzip' | 'zstd' | null
  truncated: boolean
  /** What is wrong with a damaged stream, or with one that cannot be read. */
  damage: string | null
}

const OUTPUT_BYTES = 262_144
const NO_ZSTD = `not read by Node ${process.versions.node} (22.15 and 23.8 have it): decompress it first with "zstd -dc FILE" and give "-" for the file`

export function createCompressionState(): CompressionState {
  return { compression: null, truncated: false, damage: null }
}

/** Passes plain input on as it is. `state` is final when the generator is done. */
export async function* unpackBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | null = null
  let unpacker: Unpacker | null = null
  let decided = false
  const frames = createZstdFrames()
  try {
    for await (const block of blocks) {
      let next = block
      if (!decided) {
        if (head !== null) next = Buffer.concat([head, block])
        if (next.length < 4 && !isGzip(next)) {
          head = next.slice()
          continue
        }
        head = null
        decided = true
        unpacker = openUnpacker(next, state)
        if (state.damage !== null) return
      }
      if (unpacker === null) {
        yield next
      } else if (state.compression === 'gzip') {
        yield* unpack(unpacker, next, state)
      } else {
        for (let at = 0; at < next.length && state.damage === null; ) {
          const end = frames.advance(next, at)
          if (frames.hasContent && frames.damage === null) {
            yield* unpack(unpacker, next.subarray(at, end), state)
          }
          if (frames.damage !== null) state.damage = `damaged: ${frames.damage}`
          at = end
        }
      }
      if (state.damage !== null || state.truncated) return
    }
    if (head !== null) yield head
    if (unpacker !== null) yield* unpack(unpacker, null, state)
    if (state.compression === 'zstd' && !frames.atBoundary) state.truncated = true
  } finally {
    unpacker?.destroy()
  }
}

function isGzip(head: Uint8Array): boolean {
  return head[0] === 0x1f && head[1] === 0x8b
}

/** null for plain input. */
function openUnpacker(head: Uint8Array, state: CompressionState): Unpacker | null {
  let unpacker: Unpacker | null = null
  if (isGzip(head)) {
    state.compression = 'gzip'
    unpacker = zlib.createGunzip({ chunkSize: OUTPUT_BYTES })
  } else if (isZstd(head)) {
    state.compression = 'zstd'
    const { createZstdDecompress } = zlib as {
      createZstdDecompress?: (options: { chunkSize: number }) => Unpacker
    }
    if (createZstdDecompress === undefined) state.damage = NO_ZSTD
    else unpacker = createZstdDecompress({ chunkSize: OUTPUT_BYTES })
  }
  // a late error of a stream that nobody waits for any more must not end the process
  unpacker?.on('error', () => undefined)
  return unpacker
}

/** Feeds one block (null: the end of the input) and gives all output that it makes. */
async function* unpack(
  unpacker: Unpacker,
  block: Uint8Array | null,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  let done = false
  let failure: (Error & { code?: string }) | null = null
  let wake: () => void = () => undefined
  const onReadable = (): void => wake()
  const onDone = (): void => {
    done = true
    wake()
  }
  const onError = (error: Error): void => {
    failure = error
    wake()
  }
  unpacker.on('readable', onReadable)
  unpacker.on('end', onDone)
  unpacker.on('error', onError)
  try {
    if (block === null) unpacker.end()
    else unpacker.write(block, onDone)
    for (;;) {
      const chunk = unpacker.read() as Buffer | null
      if (chunk !== null) {
        yield chunk
        continue
      }
      if (failure !== null) {
        const { code, message } = failure as Error & { code?: string }
        if (code === 'Z_BUF_ERROR') state.truncated = true
        else state.damage = `damaged: ${message}`
        return
      }
      if (done) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    unpacker.off('readable', onReadable)
    unpacker.off('end', onDone)
    unpacker.off('error', onError)
  }
}
