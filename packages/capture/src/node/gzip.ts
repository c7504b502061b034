/**
 * gzip block by block, with everything that can be read of a damaged file (docs/decisions/0026). zlib's gunzip gives up at a
 * wrong checksum or at bytes after the last member, with output in its buffer, so the framing is read here and zlib
 * sees only deflate data. Damage there loses at most LOST_BYTES; a member of at most SMALL_BYTES is withheld if its
 * checksum is wrong. Starting a stream is expensive, so small members (BGZF) are unpacked in one call.
 */
import * as zlib from 'node:zlib'
import { crc32 as ownCrc32 } from '@oddflow/core'

/**
 * A decompressing stream of node:zlib, fed one block at a time and read on demand: `feed`, `read` until null, then
 * `outcome`; if that is null too, wait for `changed`.
 */
export class ZlibPump {
  /**
   * Of the last block: used up; the compressed data ended within it; the input ended before the compressed data; damaged.
   * null while zlib works on it.
   */
  outcome: 'used' | 'ended' | 'cut' | 'damaged' | null = null
  /** zlib's description of the damage. */
  message = ''
  readonly #stream: zlib.InflateRaw
  #wake: () => void = () => undefined

  constructor(stream: zlib.InflateRaw) {
    this.#stream = stream
    stream.on('readable', () => this.#wake())
    stream.on('end', () => this.#settle('ended'))
    // Never removed: a late error of an abandoned stream must not end the process.
    stream.on('error', (error: Error & { code?: string }) => {
      this.message = error.message
      this.#settle(error.code === 'Z_BUF_ERROR' ? 'cut' : 'damaged')
    })
  }

  get bytesUsed(): number {
    return this.#stream.bytesWritten
  }

  /** Hands over a block, or null for the end of the input. It stays borrowed until there is an outcome. */
  feed(block: Uint8Array | null): void {
    this.outcome = null
    if (block === null) {
      this.#stream.end()
      return
    }
    const goal = this.bytesUsed + block.length
    // zlib leaves alone what follows the end of its data
    this.#stream.write(block, () => this.#settle(this.bytesUsed < goal ? 'ended' : 'used'))
  }

  /** Available output; null if there is none. */
  read(): Buffer | null {
    return this.#stream.read() as Buffer | null
  }

  changed(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  destroy(): void {
    this.#stream.destroy()
  }

  #settle(next: NonNullable<ZlibPump['outcome']>): void {
    // a failed stream still calls the writer back
    if (this.outcome !== 'damaged' && this.outcome !== 'cut') this.outcome = next
    this.#wake()
  }
}

const { crc32: zlibCrc32 } = zlib as { crc32?: (bytes: Uint8Array, previous?: number) => number }

/** The checksum of `bytes` after `previous`: zlib's if Node has it (20.15 and 22.2 on; several times as fast). */
const crc32: (bytes: Uint8Array, previous?: number) => number = zlibCrc32 ?? ownCrc32

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
  /** The error of a damaged or unreadable stream. */
  damage: string | null
  /** Bytes after the compressed data that are no part of them. */
  trailingBytes: number
}

/** `state` is final when the generator is done. A block is valid until the next is asked for. */
export async function* gunzipBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: CompressionState,
): AsyncGenerator<Uint8Array> {
  const gunzip = new Gunzip(state)
  try {
    for await (const block of blocks) {
      yield* gunzip.unpack(block)
      // deliver what has come before waiting for more
      yield* gunzip.flush()
      if (state.damage !== null) return
    }
    yield* gunzip.finish()
  } finally {
    gunzip.destroy()
  }
}

class Gunzip {
  readonly #state: CompressionState
  readonly #framing = new GzipFraming()
  readonly #output = new Uint8Array(OUTPUT_BYTES)
  #filled = 0
  /** Content of a member that may still turn out to be small and wrong. */
  readonly #held = new Uint8Array(SMALL_BYTES)
  #heldBytes = 0
  #isSmall = true
  #expectsSmall = true
  #checksum = 0
  #contentBytes = 0
  #pump: ZlibPump | null = null

  constructor(state: CompressionState) {
    this.#state = state
  }

  async *unpack(block: Uint8Array): AsyncGenerator<Uint8Array> {
    const framing = this.#framing
    for (let at = 0; at < block.length && this.#state.damage === null; ) {
      if (framing.inData) {
        const pump = this.#pump
        if (pump === null) at = yield* this.#startData(block, at)
        else at = yield* this.#continueData(pump, block, at)
        continue
      }
      at = framing.advance(block, at)
      yield* this.#endMember()
      if (this.#state.damage === null && framing.isLost) this.#state.damage = `damaged: ${framing.damage}`
    }
  }

  *flush(): Generator<Uint8Array> {
    if (this.#filled > 0) yield this.#take()
  }

  async *finish(): AsyncGenerator<Uint8Array> {
    if (this.#pump !== null) {
      yield* this.#inflate(this.#pump, null)
      if (this.#pump.outcome === 'ended') this.#endData()
    }
    yield* this.#release()
    yield* this.flush()
    const { atBoundary, garbageBytes, damage } = this.#framing
    this.#state.truncated = !atBoundary
    this.#state.trailingBytes = garbageBytes
    if (damage !== null) this.#state.damage = `damaged: ${damage}`
  }

  destroy(): void {
    this.#pump?.destroy()
  }

  /** Begins a member's deflate data at `at`, all of them if they are small; returns the first byte not used. */
  *#startData(block: Uint8Array, at: number): Generator<Uint8Array, number> {
    if (block[at] === 0x03 && at + 1 < block.length && (block[at + 1]! & 3) === 0) {
      this.#endData()
      return at + 2
    }
    const small = this.#expectsSmall ? inflateSmall(block.subarray(at, at + SMALL_BYTES)) : null
    if (small === null) {
      this.#pump = new ZlibPump(zlib.createInflateRaw({ chunkSize: LOST_BYTES }))
      return at
    }
    yield* this.#give(small.content)
    this.#endData()
    return at + small.usedBytes
  }

  async *#continueData(pump: ZlibPump, block: Uint8Array, at: number): AsyncGenerator<Uint8Array, number> {
    const used = pump.bytesUsed
    yield* this.#inflate(pump, block.subarray(at))
    const next = at + pump.bytesUsed - used
    if (pump.outcome === 'ended') {
      this.#endData()
      return next
    }
    if (pump.outcome !== 'damaged') return block.length
    const lost = `up to ${LOST_BYTES} bytes of content before it are lost`
    this.#state.damage = `damaged: ${pump.message} in gzip member ${this.#framing.members}; ${lost}`
    yield* this.#release()
    return next
  }

  /** Feeds the inflater and passes on its output. */
  async *#inflate(pump: ZlibPump, input: Uint8Array | null): AsyncGenerator<Uint8Array> {
    pump.feed(input)
    for (;;) {
      const chunk = pump.read()
      if (chunk !== null) yield* this.#give(chunk)
      else if (pump.outcome !== null) return
      else await pump.changed()
    }
  }

  #endData(): void {
    this.#pump?.destroy()
    this.#pump = null
    this.#framing.endData(this.#checksum, this.#contentBytes)
    this.#checksum = 0
    this.#contentBytes = 0
  }

  /** Once the member's trailer has come, delivers what is held of the member, or withholds it. */
  *#endMember(): Generator<Uint8Array> {
    const isRight = this.#framing.takeVerdict()
    if (isRight === null) return
    if (this.#isSmall && !isRight) {
      this.#state.damage = `damaged: ${this.#framing.damage}; its ${this.#heldBytes} bytes are withheld`
      this.#heldBytes = 0
      return
    }
    yield* this.#release()
    this.#expectsSmall = this.#isSmall
    this.#isSmall = true
  }

  *#give(chunk: Uint8Array): Generator<Uint8Array> {
    this.#checksum = crc32(chunk, this.#checksum)
    this.#contentBytes = (this.#contentBytes + chunk.length) >>> 0
    if (this.#isSmall && this.#heldBytes + chunk.length <= SMALL_BYTES) {
      this.#held.set(chunk, this.#heldBytes)
      this.#heldBytes += chunk.length
      return
    }
    this.#isSmall = false
    yield* this.#release()
    yield* this.#put(chunk)
  }

  *#release(): Generator<Uint8Array> {
    yield* this.#put(this.#held.subarray(0, this.#heldBytes))
    this.#heldBytes = 0
  }

  *#put(chunk: Uint8Array): Generator<Uint8Array> {
    const output = this.#output
    for (let at = 0; at < chunk.length; ) {
      if (this.#filled === output.length) yield this.#take()
      const fits = Math.min(chunk.length - at, output.length - this.#filled)
      output.set(chunk.subarray(at, at + fits), this.#filled)
      this.#filled += fits
      at += fits
    }
  }

  #take(): Uint8Array {
    const piece = this.#output.subarray(0, this.#filled)
    this.#filled = 0
    return piece
  }
}

/** A whole member's deflate data at the start of `input`, in one call; null if they are not that simple. */
function inflateSmall(input: Uint8Array): { content: Uint8Array; usedBytes: number } | null {
  try {
    const options = { info: true, maxOutputLength: SMALL_BYTES, chunkSize: LOST_BYTES }
    // the types lack `info`, with which the documented result is { buffer, engine }
    const { buffer, engine } = zlib.inflateRawSync(input, options) as unknown as {
      buffer: Uint8Array
      engine: { bytesWritten: number }
    }
    return { content: buffer, usedBytes: engine.bytesWritten }
  } catch {
    return null
  }
}

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

/**
 * The framing of a gzip file (RFC 1952, 2.3): header and trailer of each member, and what follows the last one:
 * another member, zero bytes, or trailing garbage. Only the fixed fields are kept, so a name of gigabytes costs only
 * time.
 */
class GzipFraming {
  /** Members started. */
  members = 0
  /** Bytes after the last member that are neither gzip nor zero padding. */
  garbageBytes = 0
  /** The first thing that is wrong; wrong checksums do not end the reading. */
  damage: string | null = null
  /** The headers make no sense: nothing that follows can be unpacked. */
  isLost = false
  readonly #field = new Uint8Array(10)
  #fieldBytes = 0
  #stage: Stage = 'magic'
  #flags = 0
  #extraLeft = 0
  #headerCrc = 0
  #verdict: boolean | null = null
  #contentCrc = 0
  #contentBytes = 0

  /** The next byte is deflate data: the caller unpacks them and then calls `endData`. */
  get inData(): boolean {
    return this.#stage === 'data' && !this.isLost
  }

  /** The input may end here. */
  get atBoundary(): boolean {
    const stage = this.#stage
    return (stage === 'magic' && this.#fieldBytes === 0) || stage === 'padding' || stage === 'garbage'
  }

  /** Whether the trailer of the member that ended last was right, once; otherwise null. */
  takeVerdict(): boolean | null {
    const verdict = this.#verdict
    this.#verdict = null
    return verdict
  }

  /**
   * The deflate data of the member have ended.
   * @param checksum - CRC-32 of the content. @param contentBytes - its length modulo 2^32
   */
  endData(checksum: number, contentBytes: number): void {
    this.#contentCrc = checksum
    this.#contentBytes = contentBytes
    this.#begin('trailer')
  }

  /** Reads framing from block[at …) to the next deflate data or the end; returns the first byte not used. */
  advance(block: Uint8Array, from: number): number {
    let at = from
    for (;;) {
      const stage = this.#stage
      if (this.isLost) return block.length
      if (stage === 'data') return at
      // an extra field may be empty, so this comes before the check for the block's end
      if (stage === 'extra') {
        const pass = Math.min(this.#extraLeft, block.length - at)
        this.#addToHeaderCrc(block, at, at + pass)
        at += pass
        this.#extraLeft -= pass
        if (this.#extraLeft > 0) return at
        this.#continueHeader(FLAG_NAME)
        continue
      }
      if (at >= block.length) return at
      if (stage === 'name' || stage === 'comment') {
        const zero = block.indexOf(0, at)
        const end = zero < 0 ? block.length : zero + 1
        this.#addToHeaderCrc(block, at, end)
        at = end
        if (zero >= 0) this.#continueHeader(stage === 'name' ? FLAG_COMMENT : FLAGS_RESERVED)
      } else if (stage === 'padding') {
        while (at < block.length && block[at] === 0) at++
        if (at < block.length) this.#begin('garbage')
      } else if (stage === 'garbage') {
        this.garbageBytes += block.length - at
        return block.length
      } else if (stage === 'magic' && this.#fieldBytes === 0 && this.members > 0 && block[at] !== 0x1f) {
        this.#begin(block[at] === 0 ? 'padding' : 'garbage')
      } else {
        this.#field[this.#fieldBytes++] = block[at++]!
        if (this.#fieldBytes === STAGE_BYTES[stage]) this.#takeField(stage)
      }
    }
  }

  #takeField(stage: Stage): void {
    if (stage === 'magic') this.#takeMagic()
    else if (stage === 'fixed') this.#takeFixed()
    else if (stage === 'header-crc') this.#takeHeaderCrc()
    else if (stage === 'trailer') this.#takeTrailer()
    else {
      this.#addToHeaderCrc(this.#field, 0, 2)
      this.#extraLeft = this.#field[0]! | (this.#field[1]! << 8)
      this.#begin('extra')
    }
  }

  #begin(stage: Stage): void {
    this.#stage = stage
    this.#fieldBytes = 0
  }

  #fail(message: string): void {
    this.damage ??= message
    this.isLost = true
  }

  #addToHeaderCrc(bytes: Uint8Array, from: number, to: number): void {
    if ((this.#flags & FLAG_HEADER_CRC) !== 0) {
      this.#headerCrc = crc32(bytes.subarray(from, to), this.#headerCrc)
    }
  }

  /** Continues with the next part of the header that the flags announce, from `part` on. */
  #continueHeader(part: number): void {
    const flags = this.#flags
    if (part <= FLAG_EXTRA && (flags & FLAG_EXTRA) !== 0) this.#begin('extra-length')
    else if (part <= FLAG_NAME && (flags & FLAG_NAME) !== 0) this.#begin('name')
    else if (part <= FLAG_COMMENT && (flags & FLAG_COMMENT) !== 0) this.#begin('comment')
    else if (part <= FLAGS_RESERVED && (flags & FLAG_HEADER_CRC) !== 0) this.#begin('header-crc')
    else this.#begin('data')
  }

  #takeMagic(): void {
    if (this.#field[0] === 0x1f && this.#field[1] === 0x8b) {
      // the fixed part of the header begins with the magic number
      this.members++
      this.#stage = 'fixed'
    } else if (this.members === 0) {
      this.#fail('expected the magic number of gzip, found something else')
    } else {
      this.garbageBytes = 2
      this.#begin('garbage')
    }
  }

  #takeFixed(): void {
    const [, , method, flags] = this.#field
    this.#flags = flags!
    if (method !== DEFLATE) {
      this.#fail(`gzip member ${this.members}: expected compression method 8 (deflate), found ${method}`)
    } else if ((flags! & FLAGS_RESERVED) !== 0) {
      this.#fail(`gzip member ${this.members}: expected flags below 0x20, found ${hex(flags!, 2)}`)
    } else {
      this.#headerCrc = 0
      this.#addToHeaderCrc(this.#field, 0, 10)
      this.#continueHeader(FLAG_EXTRA)
    }
  }

  #takeHeaderCrc(): void {
    const stated = this.#field[0]! | (this.#field[1]! << 8)
    const found = this.#headerCrc & 0xffff
    if (stated !== found) {
      const where = `checksum of the header of gzip member ${this.members}`
      this.damage ??= `${where}: expected ${hex(stated, 4)}, found ${hex(found, 4)}`
    }
    this.#begin('data')
  }

  #takeTrailer(): void {
    const crc = readUint32(this.#field, 0)
    const bytes = readUint32(this.#field, 4)
    const found = this.#contentBytes
    if (crc !== this.#contentCrc) {
      const where = `checksum of gzip member ${this.members}`
      this.damage ??= `${where}: expected CRC-32 ${hex(crc, 8)}, found ${hex(this.#contentCrc, 8)}`
    } else if (bytes !== found) {
      const where = `checksum right, length of gzip member ${this.members} wrong`
      this.damage ??= `${where}: expected ${bytes} bytes (modulo 2^32), found ${found}`
    }
    this.#verdict = crc === this.#contentCrc && bytes === found
    this.#begin('magic')
  }
}

const hex = (value: number, digits: number): string => `0x${value.toString(16).padStart(digits, '0')}`

/** In little-endian order. */
export function readUint32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}
