/** CRC-32 by zlib where Node has it (20.15 and 22.2 on; several times as fast), else by core's own. */
import * as zlib from 'node:zlib'
import { createInflateRaw, inflateRawSync } from 'node:zlib'
import { crc32 as ownCrc32 } from '@oddflow/core'

/**
 * A decompressing stream of node:zlib, fed one block at a time and read as its output is wanted.
 *
 * zlib works in another thread and stops while its small output buffer is full, so what is not read is not
 * unpacked. The order for the caller: `feed`, then `read` until it is null, then look at `outcome`; while that
 * is null too, wait for `changed`.
 */

/** What is used of zlib's streams. */
export interface ZlibStream {
  /** Bytes of input that were used. */
  readonly bytesWritten: number
  write(block: Uint8Array, done: () => void): unknown
  end(): unknown
  read(): unknown
  on(event: string, listener: (error: Error) => void): unknown
  destroy(): unknown
}

type ZlibOutcome =
  /** The block is used up. */
  | 'used'
  /** The compressed data have ended; what is left of the block is no part of them. */
  | 'ended'
  /** The input ended before the compressed data did. */
  | 'cut'
  | 'damaged'

export interface ZlibPump {
  readonly bytesUsed: number
  /** Of the block that was fed last, null while zlib works on it. */
  readonly outcome: ZlibOutcome | null
  /** What zlib says of the damage. */
  readonly message: string
  /** Hands over a block, or null for the end of the input. It stays borrowed until there is an outcome. */
  feed(block: Uint8Array | null): void
  /** Output that is there. */
  read(): Buffer | null
  changed(): Promise<void>
  destroy(): void
}

export function createZlibPump(stream: ZlibStream): ZlibPump {
  let outcome: ZlibOutcome | null = null
  let message = ''
  let wake: () => void = () => undefined
  const settle = (next: ZlibOutcome): void => {
    // a failed stream still calls the writer back
    if (outcome !== 'damaged' && outcome !== 'cut') outcome = next
    wake()
  }
  stream.on('readable', () => wake())
  stream.on('end', () => settle('ended'))
  // it stays for good: a late error of a stream that nobody waits for must not end the process
  stream.on('error', (error: Error & { code?: string }) => {
    message = error.message
    settle(error.code === 'Z_BUF_ERROR' ? 'cut' : 'damaged')
  })
  return {
    get bytesUsed() {
      return stream.bytesWritten
    },
    get outcome() {
      return outcome
    },
    get message() {
      return message
    },
    feed(block) {
      outcome = null
      if (block === null) {
        stream.end()
        return
      }
      const goal = stream.bytesWritten + block.length
      // zlib leaves alone what follows the end of its data
      stream.write(block, () => settle(stream.bytesWritten < goal ? 'ended' : 'used'))
    },
    read: () => stream.read() as Buffer | null,
    changed: () =>
      new Promise<void>((resolve) => {
        wake = resolve
      }),
    destroy() {
      stream.destroy()
    },
  }
}

const { crc32: zlibCrc32 } = zlib as { crc32?: (bytes: Uint8Array, previous?: number) => number }

/** The checksum of `bytes`; pass the checksum so far as `previous` to go on with the next piece. */
const crc32: (bytes: Uint8Array, previous?: number) => number = zlibCrc32 ?? ownCrc32

/**
 * gzip unpacked block by block, with everything that can be had of a damaged file.
 *
 * zlib's own gunzip gives up at a wrong checksum or at bytes behind the last member with output still in its
 * buffer. Here the framing is read apart and zlib sees the deflate data alone, whose end it
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

/** Most output that is lost before damaged deflate data. */
const LOST_BYTES = 16_384
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

/**
 * What stands around the deflate data of a gzip file: the header and trailer of each member, and what follows
 * the last one.
 *
 * Source: RFC 1952, section 2.3: magic, method, flags, then as flagged an extra field, a name, a comment and
 * a CRC-16 of the header; behind the data the CRC-32 and the length (modulo 2^32) of the content. Bytes come
 * in pieces of any size and none is kept but the fixed fields, so a name of gigabytes costs only time. What
 * follows a member is told as gzip(1) does: another member, zero bytes (padding of a tape block), or
 * trailing garbage, from which there is no way back.
 */

const DEFLATE = 8
const FLAG_HEADER_CRC = 0x02
const FLAG_EXTRA = 0x04
const FLAG_NAME = 0x08
const FLAG_COMMENT = 0x10
const FLAGS_RESERVED = 0xe0

type Stage =
  | 'magic'
  | 'fixed'
  | 'extra-length'
  | 'extra'
  | 'name'
  | 'comment'
  | 'header-crc'
  | 'data'
  | 'trailer'
  | 'padding'
  | 'garbage'

/** Bytes of the stages that have a fixed length. */
const STAGE_BYTES: Readonly<Partial<Record<Stage, number>>> = {
  magic: 2,
  fixed: 10,
  'extra-length': 2,
  'header-crc': 2,
  trailer: 8,
}

interface GzipFraming {
  /** The next byte is deflate data: the caller's to unpack, who then calls `endData`. */
  readonly inData: boolean
  /** The input may end here. */
  readonly atBoundary: boolean
  /** Members begun. */
  readonly members: number
  /** Bytes behind the last member that are neither gzip nor zero padding. */
  readonly garbageBytes: number
  /** First thing that is not as it should be; the checksums do not end the reading. */
  readonly damage: string | null
  /** The headers make no sense: nothing that follows can be unpacked. */
  readonly isLost: boolean
  /** Whether the trailer of the member that ended last was right, told once; null while it has not come. */
  takeVerdict(): boolean | null
  /** Reads framing from block[at …) to the next deflate data or the end; returns the first byte not used. */
  advance(block: Uint8Array, at: number): number
  /**
   * The deflate data of the member have ended.
   * @param checksum CRC-32 of the content
   * @param contentBytes its length modulo 2^32
   */
  endData(checksum: number, contentBytes: number): void
}

function createGzipFraming(): GzipFraming {
  const field = new Uint8Array(10)
  let fieldBytes = 0
  let stage: Stage = 'magic'
  let flags = 0
  let left = 0
  let headerCrc = 0
  let members = 0
  let garbageBytes = 0
  let damage: string | null = null
  let isLost = false
  let verdict: boolean | null = null
  let contentCrc = 0
  let contentLength = 0

  const begin = (next: Stage): void => {
    stage = next
    fieldBytes = 0
  }
  const fail = (message: string): void => {
    damage ??= message
    isLost = true
  }
  const addToHeaderCrc = (bytes: Uint8Array, from: number, to: number): void => {
    if ((flags & FLAG_HEADER_CRC) !== 0) headerCrc = crc32(bytes.subarray(from, to), headerCrc)
  }
  /** On to the next part of the header that the flags announce, from `part` on. */
  const continueHeader = (part: number): void => {
    if (part <= FLAG_EXTRA && (flags & FLAG_EXTRA) !== 0) begin('extra-length')
    else if (part <= FLAG_NAME && (flags & FLAG_NAME) !== 0) begin('name')
    else if (part <= FLAG_COMMENT && (flags & FLAG_COMMENT) !== 0) begin('comment')
    else if (part <= FLAGS_RESERVED && (flags & FLAG_HEADER_CRC) !== 0) begin('header-crc')
    else begin('data')
  }

  const takeMagic = (): void => {
    if (field[0] === 0x1f && field[1] === 0x8b) {
      // the fixed part of the header begins with the magic number
      members++
      stage = 'fixed'
    } else if (members === 0) {
      fail('expected the magic number of gzip, found something else')
    } else {
      garbageBytes = 2
      begin('garbage')
    }
  }
  const takeHeaderCrc = (): void => {
    const told = field[0]! | (field[1]! << 8)
    const found = headerCrc & 0xffff
    if (told !== found) {
      damage ??= `checksum of the header of gzip member ${members}: expected ${hex(told, 4)}, found ${hex(found, 4)}`
    }
    begin('data')
  }
  const takeFixed = (): void => {
    flags = field[3]!
    if (field[2] !== DEFLATE) {
      fail(`gzip member ${members}: expected compression method 8 (deflate), found ${field[2]}`)
    } else if ((flags & FLAGS_RESERVED) !== 0) {
      fail(`gzip member ${members}: expected flags below 0x20, found ${hex(flags, 2)}`)
    } else {
      headerCrc = 0
      addToHeaderCrc(field, 0, 10)
      continueHeader(FLAG_EXTRA)
    }
  }
  const takeExtraLength = (): void => {
    addToHeaderCrc(field, 0, 2)
    left = field[0]! | (field[1]! << 8)
    begin('extra')
  }
  const takeTrailer = (): void => {
    const toldCrc = readUint32(field, 0)
    const toldLength = readUint32(field, 4)
    if (toldCrc !== contentCrc) {
      damage ??= `checksum of gzip member ${members}: expected CRC-32 ${hex(toldCrc, 8)}, found ${hex(contentCrc, 8)}`
    } else if (toldLength !== contentLength) {
      damage ??= `checksum right, length of gzip member ${members} wrong: expected ${toldLength} bytes (modulo 2^32), found ${contentLength}`
    }
    verdict = toldCrc === contentCrc && toldLength === contentLength
    begin('magic')
  }

  return {
    get inData() {
      return stage === 'data' && !isLost
    },
    get atBoundary() {
      return (stage === 'magic' && fieldBytes === 0) || stage === 'padding' || stage === 'garbage'
    },
    get members() {
      return members
    },
    get garbageBytes() {
      return garbageBytes
    },
    get damage() {
      return damage
    },
    get isLost() {
      return isLost
    },
    takeVerdict() {
      const told = verdict
      verdict = null
      return told
    },
    advance(block, from) {
      let at = from
      for (;;) {
        if (isLost) return block.length
        if (stage === 'data') return at
        // an extra field may be empty, so this comes before the check for the block's end
        if (stage === 'extra') {
          const pass = Math.min(left, block.length - at)
          addToHeaderCrc(block, at, at + pass)
          at += pass
          left -= pass
          if (left > 0) return at
          continueHeader(FLAG_NAME)
          continue
        }
        if (at >= block.length) return at
        if (stage === 'name' || stage === 'comment') {
          const zero = block.indexOf(0, at)
          const end = zero < 0 ? block.length : zero + 1
          addToHeaderCrc(block, at, end)
          at = end
          if (zero >= 0) continueHeader(stage === 'name' ? FLAG_COMMENT : FLAGS_RESERVED)
        } else if (stage === 'padding') {
          while (at < block.length && block[at] === 0) at++
          if (at < block.length) begin('garbage')
        } else if (stage === 'garbage') {
          garbageBytes += block.length - at
          return block.length
        } else if (stage === 'magic' && fieldBytes === 0 && members > 0 && block[at] !== 0x1f) {
          begin(block[at] === 0 ? 'padding' : 'garbage')
        } else {
          field[fieldBytes++] = block[at++]!
          if (fieldBytes < STAGE_BYTES[stage]!) continue
          if (stage === 'magic') takeMagic()
          else if (stage === 'fixed') takeFixed()
          else if (stage === 'extra-length') takeExtraLength()
          else if (stage === 'header-crc') takeHeaderCrc()
          else takeTrailer()
        }
      }
    },
    endData(checksum, contentBytes) {
      contentCrc = checksum
      contentLength = contentBytes
      begin('trailer')
    },
  }
}

function hex(value: number, digits: number): string {
  return `0x${value.toString(16).padStart(digits, '0')}`
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}
