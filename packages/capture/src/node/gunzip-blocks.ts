/**
 * gzip unpacked block by block, with everything that can be had of a damaged file.
 *
 * zlib's own gunzip gives up at a wrong checksum or at bytes behind the last member with output still in its
 * buffer. Here the framing is read apart (gzip-framing.ts) and zlib sees the deflate data alone, whose end it
 * knows: all content is given before its checksum is looked at. Only where the deflate data themselves are
 * damaged is output lost, at most the piece that zlib was filling (LOST_BYTES), and it is said. A member of at
 * most SMALL_BYTES of content is held until its checksum has come, and withheld when it is wrong: what a
 * checksum covers whole need not be trusted for a moment. All this is the same however the input is cut.
 *
 * Memory: two output buffers, and one inflater whatever the number of members. Starting a stream is dear, so a
 * member at the start or behind a small one (BGZF, a member for each packet) is first tried in one call; what is not small or
 * not sound then goes through a stream after all. The shortest encoding of nothing (03 00, what gzip makes of
 * an empty input) needs neither, so that a file of a million empty members is no work.
 */
import { createInflateRaw, inflateRawSync } from 'node:zlib'
import { createGzipFraming } from './gzip-framing.js'
import { crc32 } from './zlib-crc32.js'
import { createZlibPump, type ZlibPump } from './zlib-pump.js'

/** Most output that is lost before damaged deflate data. */
export const LOST_BYTES = 16_384
const OUTPUT_BYTES = 262_144
/** Largest content of a member that is held, and piece of input that is unpacked in one call: a block of BGZF. */
const SMALL_BYTES = 65_536

/** How a compressed stream ended. */
export interface CompressionState {
  /** null for plain input. */
  compression: 'gzip' | 'zstd' | null
  truncated: boolean
  /** What is wrong with a damaged stream, or with one that cannot be read. */
  damage: string | null
  /** Bytes behind the compressed data that are no part of them. */
  trailingBytes: number
}

/** `state` is final when the generator is done. A block given is valid until the next is asked for. */
export async function* gunzipBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  const framing = createGzipFraming()
  const output = new Uint8Array(OUTPUT_BYTES)
  let filled = 0
  /** Content of a member of which it is not known yet that it is larger than this, or right. */
  const held = new Uint8Array(SMALL_BYTES)
  let heldBytes = 0
  let isSmall = true
  let checksum = 0
  let contentBytes = 0
  let pump: ZlibPump | null = null
  let expectSmall = true

  const take = (): Uint8Array => {
    const piece = output.subarray(0, filled)
    filled = 0
    return piece
  }

  const endData = (): void => {
    pump?.destroy()
    pump = null
    framing.endData(checksum, contentBytes)
    checksum = 0
    contentBytes = 0
  }

  function* put(chunk: Uint8Array): Generator<Uint8Array> {
    for (let at = 0; at < chunk.length; ) {
      if (filled === output.length) yield take()
      const fits = Math.min(chunk.length - at, output.length - filled)
      output.set(chunk.subarray(at, at + fits), filled)
      filled += fits
      at += fits
    }
  }

  function* release(): Generator<Uint8Array> {
    yield* put(held.subarray(0, heldBytes))
    heldBytes = 0
  }

  function* give(chunk: Uint8Array): Generator<Uint8Array> {
    checksum = crc32(chunk, checksum)
    contentBytes = (contentBytes + chunk.length) >>> 0
    if (isSmall && heldBytes + chunk.length <= SMALL_BYTES) {
      held.set(chunk, heldBytes)
      heldBytes += chunk.length
      return
    }
    isSmall = false
    yield* release()
    yield* put(chunk)
  }

  /** The member's trailer has come: gives what is held of it, or withholds it. */
  function* endMember(isRight: boolean): Generator<Uint8Array> {
    if (isSmall && !isRight) {
      state.damage = `damaged: ${framing.damage}; its ${heldBytes} bytes are withheld`
      heldBytes = 0
      return
    }
    yield* release()
    expectSmall = isSmall
    isSmall = true
  }

  /** Feeds the inflater and gives its output in large pieces; the last one stays in `output`. */
  async function* inflate(inflater: ZlibPump, input: Uint8Array | null): AsyncGenerator<Uint8Array> {
    inflater.feed(input)
    for (;;) {
      const chunk = inflater.read()
      if (chunk !== null) {
        yield* give(chunk)
      } else if (inflater.outcome !== null) {
        return
      } else {
        await inflater.changed()
      }
    }
  }

  try {
    for await (const block of blocks) {
      let at = 0
      while (at < block.length && state.damage === null) {
        if (!framing.inData) {
          at = framing.advance(block, at)
          const isRight = framing.takeVerdict()
          if (isRight !== null) yield* endMember(isRight)
          if (state.damage === null && framing.isLost) state.damage = `damaged: ${framing.damage}`
          continue
        }
        if (pump === null) {
          if (block[at] === 0x03 && at + 1 < block.length && (block[at + 1]! & 3) === 0) {
            at += 2
            endData()
            continue
          }
          const small = expectSmall ? inflateSmall(block.subarray(at, at + SMALL_BYTES)) : null
          if (small !== null) {
            at += small.usedBytes
            yield* give(small.content)
            endData()
            continue
          }
          pump = createZlibPump(createInflateRaw({ chunkSize: LOST_BYTES }))
        }
        const inflater: ZlibPump = pump
        const used = inflater.bytesUsed
        yield* inflate(inflater, block.subarray(at))
        at += inflater.bytesUsed - used
        if (inflater.outcome === 'ended') endData()
        else if (inflater.outcome === 'damaged') {
          state.damage = `damaged: ${inflater.message} in gzip member ${framing.members}; up to ${LOST_BYTES} bytes of content before it are lost`
          yield* release()
        } else at = block.length
      }
      // what has come is given before more is waited for
      if (filled > 0) yield take()
      if (state.damage !== null) return
    }
    if (pump !== null) {
      const inflater: ZlibPump = pump
      yield* inflate(inflater, null)
      if (inflater.outcome === 'ended') endData()
    }
    yield* release()
    if (filled > 0) yield take()
    state.truncated = !framing.atBoundary
    state.trailingBytes = framing.garbageBytes
    if (framing.damage !== null) state.damage = `damaged: ${framing.damage}`
  } finally {
    ;(pump as ZlibPump | null)?.destroy()
  }
}

/** A whole member's deflate data at the start of `input`, in one call; null where it is not that simple. */
function inflateSmall(input: Uint8Array): { content: Uint8Array; usedBytes: number } | null {
  try {
    const options = { info: true, maxOutputLength: SMALL_BYTES, chunkSize: LOST_BYTES }
    // the types do not know `info`, with which the documented answer is { buffer, engine }
    const { buffer, engine } = inflateRawSync(input, options) as unknown as {
      buffer: Uint8Array
      engine: { bytesWritten: number }
    }
    return { content: buffer, usedBytes: engine.bytesWritten }
  } catch {
    return null
  }
}
