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

/** Steps of reading that wait, by `yield`, wherever the block is used up. */
export type Steps = Generator<undefined, void>

/** Framing that is read in steps, as if the blocks of the input were one. */
export class BlockReader {
  /** What was taken last. */
  readonly field = new Uint8Array(16)
  /** Called with the bytes that are skipped. */
  onSkipped: (bytes: Uint8Array) => void = () => undefined
  #block: Uint8Array = new Uint8Array(0)
  #at = 0
  readonly #steps: Steps

  constructor(steps: (reader: BlockReader) => Steps) {
    this.#steps = steps(this)
  }

  /** Goes on at block[from …) until the steps wait; returns the first byte not used. */
  advance(block: Uint8Array, from: number): number {
    this.#block = block
    this.#at = from
    this.#steps.next()
    return this.#at
  }

  /** What is left of the block, once it is not empty. */
  *rest(): Generator<undefined, Uint8Array> {
    while (this.#at === this.#block.length) yield
    return this.#block.subarray(this.#at)
  }

  /** Takes bytes to field[at …). */
  *take(count: number, at = 0): Steps {
    for (let i = at; i < at + count; i++) {
      while (this.#at === this.#block.length) yield
      this.field[i] = this.#block[this.#at++]!
    }
  }

  /** Skips bytes; null: up to a zero, and that. */
  *skip(count: number | null): Steps {
    for (let left = count ?? Number.POSITIVE_INFINITY; left > 0; ) {
      const rest = yield* this.rest()
      const zero = count === null ? rest.indexOf(0) : -1
      const pass = zero < 0 ? Math.min(left, rest.length) : zero + 1
      this.onSkipped(rest.subarray(0, pass))
      this.#at += pass
      left = zero < 0 ? left - pass : 0
    }
  }
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
  /** The next byte is deflate data: the caller unpacks them and then calls `endData`. */
  inData = false
  /** The input may end here. */
  atBoundary = true
  readonly #reader = new BlockReader((reader) => this.#read(reader))
  #verdict: boolean | null = null
  #contentCrc = 0
  #contentBytes = 0

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
    this.inData = false
    this.#contentCrc = checksum
    this.#contentBytes = contentBytes
  }

  /** Reads framing from block[at …) to the next deflate data or the end; returns the first byte not used. */
  advance(block: Uint8Array, at: number): number {
    const next = this.#reader.advance(block, at)
    return this.isLost ? block.length : next
  }

  *#read(reader: BlockReader): Steps {
    const { field } = reader
    for (;;) {
      this.atBoundary = true
      const [first] = yield* reader.rest()
      if (first !== 0x1f && this.members > 0) break
      this.atBoundary = false
      yield* reader.take(2)
      if (field[0] !== 0x1f || field[1] !== 0x8b) {
        if (this.members === 0) return this.#lose('expected the magic number of gzip, found something else')
        this.garbageBytes = 2
        break
      }
      this.members++
      yield* this.#readHeader(reader)
      if (this.isLost) return
      this.inData = true
      yield
      yield* reader.take(8)
      this.#checkTrailer(field)
    }
    this.atBoundary = true
    for (;;) {
      const rest = yield* reader.rest()
      const zeros = this.garbageBytes > 0 ? 0 : rest.findIndex((byte) => byte !== 0)
      if (zeros >= 0) this.garbageBytes += rest.length - zeros
      yield* reader.skip(rest.length)
    }
  }

  *#readHeader(reader: BlockReader): Steps {
    const { field } = reader
    yield* reader.take(8, 2)
    const method = field[2]!
    const flags = field[3]!
    const member = `gzip member ${this.members}`
    if (method !== DEFLATE) {
      return this.#lose(`${member}: expected compression method 8 (deflate), found ${method}`)
    }
    if ((flags & FLAGS_RESERVED) !== 0) {
      return this.#lose(`${member}: expected flags below 0x20, found ${hex(flags, 2)}`)
    }
    let checksum = 0
    const hasChecksum = (flags & FLAG_HEADER_CRC) !== 0
    const add = (bytes: Uint8Array): void => {
      if (hasChecksum) checksum = crc32(bytes, checksum)
    }
    add(field.subarray(0, 10))
    reader.onSkipped = add
    if ((flags & FLAG_EXTRA) !== 0) {
      yield* reader.take(2)
      add(field.subarray(0, 2))
      yield* reader.skip(field[0]! | (field[1]! << 8))
    }
    if ((flags & FLAG_NAME) !== 0) yield* reader.skip(null)
    if ((flags & FLAG_COMMENT) !== 0) yield* reader.skip(null)
    reader.onSkipped = () => undefined
    if (!hasChecksum) return
    yield* reader.take(2)
    const stated = field[0]! | (field[1]! << 8)
    const found = checksum & 0xffff
    if (stated === found) return
    this.damage ??= `checksum of the header of ${member}: expected ${hex(stated, 4)}, found ${hex(found, 4)}`
  }

  #lose(message: string): void {
    this.damage ??= message
    this.isLost = true
  }

  #checkTrailer(field: Uint8Array): void {
    const crc = readUint32(field, 0)
    const bytes = readUint32(field, 4)
    const found = this.#contentBytes
    if (crc !== this.#contentCrc) {
      const where = `checksum of gzip member ${this.members}`
      this.damage ??= `${where}: expected CRC-32 ${hex(crc, 8)}, found ${hex(this.#contentCrc, 8)}`
    } else if (bytes !== found) {
      const where = `checksum right, length of gzip member ${this.members} wrong`
      this.damage ??= `${where}: expected ${bytes} bytes (modulo 2^32), found ${found}`
    }
    this.#verdict = crc === this.#contentCrc && bytes === found
  }
}

const hex = (value: number, digits: number): string => `0x${value.toString(16).padStart(digits, '0')}`

/** In little-endian order. */
export function readUint32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}
