/**
 * pcapng: sections of blocks, each block with its length at both ends.
 *
 * Source: draft-ietf-opsawg-pcapng. Read: Section Header (sets byte order and version, forgets interfaces), Interface
 * Description and Statistics, Enhanced Packet, Simple Packet (no time: NaN) and the obsolete Packet Block, with comments
 * and drop counts. All other blocks are skipped as they stream by, whatever their length. The section length is often
 * wrong and is not used. Left out: names and secrets.
 */
import { FormatError } from '@oddflow/core'
import {
  CaptureNotes,
  type DropCounters,
  MAXIMUM_BLOCK_BYTES,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_INTERFACES,
  MAXIMUM_WIRE_BYTES,
  NO_DROPS,
  type WarningList,
} from './capture-notes.js'
import type { FrameBatch } from './packet-batch.js'
import { createOddRecords, hex32, type RecordReader } from './pcap.js'

/** A 64-bit unsigned value as a double (exact below 2^53). */
function readUint64(view: DataView, at: number, littleEndian: boolean): number {
  const first = view.getUint32(at, littleEndian)
  const second = view.getUint32(at + 4, littleEndian)
  return littleEndian ? second * 4294967296 + first : first * 4294967296 + second
}

/**
 * Timestamps: a 64-bit count of ticks of a length that each interface states by if_tsresol (option 9: a power of ten, or
 * of two if the top bit is set; 10^-6 s by default) and if_tsoffset (option 14: seconds to add).
 *
 * The result is floor(ticks · 10^9 / resolution) nanoseconds, as whole microseconds and the rest. Decimal resolutions
 * down to the nanosecond use doubles without loss, the rare others BigInt. Times outside ±(2^53 − 1) µs (the year 2255)
 * are NaN: doubles there are microseconds apart, so differences would be noise.
 */

interface TickLength {
  /** 0 … 9: ticks are 10^-exponent s. −1: `perSecond` holds the resolution. */
  readonly decimalExponent: number
  /** Ticks in a second. */
  readonly perSecond: bigint
  /** if_tsoffset in seconds. */
  readonly offsetSeconds: bigint
  /** The same in microseconds; NaN if a double does not hold it exactly. */
  readonly offsetMicros: number
}

const MICROSECOND_TICKS: TickLength = {
  decimalExponent: 6,
  perSecond: 1_000_000n,
  offsetSeconds: 0n,
  offsetMicros: 0,
}

/** @param resolution - the byte of if_tsresol */
export function tickLength(resolution: number, offsetSeconds: bigint): TickLength {
  const exponent = resolution & 0x7f
  const micros = Number(offsetSeconds * 1_000_000n)
  const offsetMicros = Number.isSafeInteger(micros) ? micros : Number.NaN
  if ((resolution & 0x80) !== 0) {
    return { decimalExponent: -1, perSecond: 1n << BigInt(exponent), offsetSeconds, offsetMicros }
  }
  return {
    decimalExponent: exponent <= 9 ? exponent : -1,
    perSecond: 10n ** BigInt(exponent),
    offsetSeconds,
    offsetMicros,
  }
}

const POWERS_OF_TEN = [1, 10, 100, 1e3, 1e4, 1e5, 1e6]

/** Writes the time of frame n: NaN and 0 if it is out of range. */
export function writeTicks(
  micros: Float64Array,
  subNanos: Uint16Array,
  n: number,
  ticks: TickLength,
  high: number,
  low: number,
): void {
  const exponent = ticks.decimalExponent
  let whole = Number.NaN
  let rest = 0
  if (exponent >= 0 && exponent <= 6) {
    whole = (high * 4294967296 + low) * POWERS_OF_TEN[6 - exponent]!
  } else if (exponent > 6) {
    const divisor = POWERS_OF_TEN[exponent - 6]!
    const quotient = Math.floor(high / divisor)
    const below = (high - quotient * divisor) * 4294967296 + low
    const lower = Math.floor(below / divisor)
    whole = quotient * 4294967296 + lower
    rest = (below - lower * divisor) * POWERS_OF_TEN[9 - exponent]!
  }
  // Both terms are exact here; the check below finds a sum out of range, rounded or not.
  if (whole <= Number.MAX_SAFE_INTEGER && !Number.isNaN(ticks.offsetMicros)) {
    whole += ticks.offsetMicros
  } else {
    const count = (BigInt(high) << 32n) | BigInt(low)
    const nanos = (count * 1_000_000_000n) / ticks.perSecond
    whole = Number(nanos / 1000n + ticks.offsetSeconds * 1_000_000n)
    rest = Number(nanos % 1000n)
  }
  const isTime = whole <= Number.MAX_SAFE_INTEGER && whole >= -Number.MAX_SAFE_INTEGER
  micros[n] = isTime ? whole : Number.NaN
  subNanos[n] = isTime ? rest : 0
}

const OPTION_END = 0
const OPTION_COMMENT = 1
const OPTION_TSRESOL = 9
const OPTION_TSOFFSET = 14
const OPTION_RECEIVED = 4
const OPTION_DROPPED = 5
const OPTION_SYSTEM_DROPPED = 7
const OPTION_DROP_COUNT = 4
/** Value of the obsolete block's drops count if it is unknown. */
const DROPS_UNKNOWN = 0xffff

interface PcapngInterface extends DropCounters {
  readonly linkType: number
  /** 0 without a limit. */
  readonly snapLength: number
  readonly ticks: TickLength
}

export const PCAPNG_SECTION_HEADER = 0x0a0d0d0a
const INTERFACE_DESCRIPTION = 1
const PACKET_OBSOLETE = 2
const SIMPLE_PACKET = 3
const INTERFACE_STATISTICS = 5
const ENHANCED_PACKET = 6
const BYTE_ORDER_MAGIC = 0x1a2b3c4d
const BYTE_ORDER_SWAPPED = 0x4d3c2b1a

/** Type, length and the length again. */
const SMALLEST_BLOCK = 12
/** Statistics have about a hundred bytes; a block that claims more is skipped. */
const SMALLEST_STATISTICS = 24
const LARGEST_STATISTICS = 65_536

/** Smallest total length that a block of this type must have to be read; 0 for one that is skipped. */
function smallestReadLength(type: number, length: number): number {
  switch (type) {
    case PCAPNG_SECTION_HEADER:
      return 28
    case INTERFACE_DESCRIPTION:
      return 20
    case SIMPLE_PACKET:
      return 16
    case ENHANCED_PACKET:
    case PACKET_OBSOLETE:
      return 32
    case INTERFACE_STATISTICS:
      return length >= SMALLEST_STATISTICS && length <= LARGEST_STATISTICS ? SMALLEST_STATISTICS : 0
    default:
      return 0
  }
}

export class PcapngBlocks implements RecordReader {
  readonly format = 'pcapng'
  readonly odd = createOddRecords()
  skip = 0
  skippedBlockBytes = 0
  started = false
  need = 0
  error: FormatError | null = null
  readonly #warnings: WarningList
  readonly #notes = new CaptureNotes()
  #littleEndian = true
  #interfaces: PcapngInterface[] = []
  #warnedLength = false
  /** The block at hand, and its offset in the capture. */
  #data: Uint8Array = new Uint8Array(0)
  #view = new DataView(this.#data.buffer)
  #base = 0

  constructor(warnings: WarningList) {
    this.#warnings = warnings
  }

  get commentCount() {
    return this.#notes.commentCount
  }

  get comments() {
    return this.#notes.comments
  }

  get drops() {
    return this.#notes.drops(this.#interfaces)
  }

  read(data: Uint8Array, view: DataView, from: number, end: number, base: number, batch: FrameBatch): number {
    this.#data = data
    this.#view = view
    this.#base = base
    this.need = 0
    let at = from
    while (batch.count < batch.offset.length) {
      const next = this.#readBlock(at, end, batch)
      if (next === at) break
      at = next
    }
    return at
  }

  /** Returns the position after the block at `at`; `at` itself if `need`, `skip` or `error` says why not. */
  #readBlock(at: number, end: number, batch: FrameBatch): number {
    const view = this.#view
    if (this.skippedBlockBytes !== 0) {
      if (end - at < 4) return this.#wait(at, 4)
      if (!this.#isLengthAgain(at, this.skippedBlockBytes)) return at
      this.skippedBlockBytes = 0
      return at + 4
    }
    if (end - at < SMALLEST_BLOCK) return this.#wait(at, SMALLEST_BLOCK)
    const type = view.getUint32(at, this.#littleEndian)
    if (type === PCAPNG_SECTION_HEADER) {
      const magic = view.getUint32(at + 8, true)
      if (magic !== BYTE_ORDER_MAGIC && magic !== BYTE_ORDER_SWAPPED) {
        this.#fail(at + 8, `expected the byte-order magic 0x1a2b3c4d, found ${hex32(magic)}`)
        return at
      }
      this.#littleEndian = magic === BYTE_ORDER_MAGIC
    }
    const length = view.getUint32(at + 4, this.#littleEndian)
    const smallest = smallestReadLength(type, length)
    const least = Math.max(smallest, SMALLEST_BLOCK)
    if (length < least || (length & 3) !== 0) {
      const expected = `a length of at least ${least} and a multiple of 4`
      this.#fail(at + 4, `block type ${hex32(type)}: expected ${expected}, found ${length}`)
      return at
    }
    if (smallest === 0) {
      this.skip = length - 4
      this.skippedBlockBytes = length
      return at
    }
    if (length > MAXIMUM_BLOCK_BYTES) {
      const expected = `a length of at most ${MAXIMUM_BLOCK_BYTES}`
      this.#fail(at + 4, `block type ${hex32(type)}: expected ${expected}, found ${length}`)
      return at
    }
    if (end - at < length) return this.#wait(at, length)
    if (!this.#isLengthAgain(at + length - 4, length)) return at
    const isRead = this.#readBody(type, at, at + length - 4, batch)
    return isRead ? at + length : at
  }

  /** @param end - where the trailing block length begins */
  #readBody(type: number, at: number, end: number, batch: FrameBatch): boolean {
    switch (type) {
      case PCAPNG_SECTION_HEADER:
        return this.#readSection(at, end)
      case INTERFACE_DESCRIPTION:
        return this.#readInterface(at, end)
      case INTERFACE_STATISTICS:
        this.#readStatistics(at, end)
        return true
      case SIMPLE_PACKET:
        return this.#readSimplePacket(at, end, batch)
      default:
        return this.#readPacket(type, at, end, batch)
    }
  }

  #wait(at: number, bytes: number): number {
    this.need = bytes
    return at
  }

  #fail(at: number, message: string): false {
    this.error = new FormatError('pcapng', message, { offsetBytes: this.#base + at })
    return false
  }

  #isLengthAgain(at: number, length: number): boolean {
    const trailer = this.#view.getUint32(at, this.#littleEndian)
    return trailer === length || this.#fail(at, `expected the block length ${length} again, found ${trailer}`)
  }

  #readSection(at: number, end: number): boolean {
    const major = this.#view.getUint16(at + 12, this.#littleEndian)
    if (major !== 1) {
      const minor = this.#view.getUint16(at + 14, this.#littleEndian)
      return this.#fail(at + 12, `expected section version 1.x, found ${major}.${minor}`)
    }
    this.#notes.addSection(this.#interfaces)
    this.#interfaces = []
    this.started = true
    this.#walkOptions(at + 24, end, () => {})
    return true
  }

  /** if_tsresol and if_tsoffset count where they come first. */
  #readInterface(at: number, end: number): boolean {
    const view = this.#view
    const littleEndian = this.#littleEndian
    const number = this.#interfaces.length
    if (number >= MAXIMUM_INTERFACES) {
      return this.#fail(at, `expected at most ${MAXIMUM_INTERFACES} interfaces in a section, found one more`)
    }
    let resolution: number | undefined
    let offsetSeconds: bigint | undefined
    const overrun = this.#walkOptions(at + 16, end, (code, value, length) => {
      if (code === OPTION_TSRESOL && length >= 1) resolution ??= view.getUint8(value)
      if (code === OPTION_TSOFFSET && length >= 8) offsetSeconds ??= view.getBigInt64(value, littleEndian)
    })
    if (overrun >= 0) {
      this.#warnings.add(`interface ${number}: an option of ${overrun} bytes runs past its block`)
    }
    this.#interfaces.push({
      linkType: view.getUint16(at + 8, littleEndian),
      snapLength: view.getUint32(at + 12, littleEndian),
      ticks:
        resolution === undefined && offsetSeconds === undefined
          ? MICROSECOND_TICKS
          : tickLength(resolution ?? 6, offsetSeconds ?? 0n),
      ...NO_DROPS,
    })
    return true
  }

  /** Takes over the totals that the block states. */
  #readStatistics(at: number, end: number): void {
    const view = this.#view
    const littleEndian = this.#littleEndian
    const source = this.#interfaces[view.getUint32(at + 8, littleEndian)]
    this.#walkOptions(at + 20, end, (code, value, length) => {
      if (source === undefined || length < 8) return
      if (code === OPTION_RECEIVED) source.interfaceReceived = readUint64(view, value, littleEndian)
      if (code === OPTION_DROPPED) source.interfaceDropped = readUint64(view, value, littleEndian)
      if (code === OPTION_SYSTEM_DROPPED) source.systemDropped = readUint64(view, value, littleEndian)
    })
  }

  #readSimplePacket(at: number, end: number, batch: FrameBatch): boolean {
    const source = this.#sourceOf(0, at)
    if (source === null) return false
    const start = at + 12
    const room = end - start
    const wire = this.#view.getUint32(at + 8, this.#littleEndian)
    const limit = source.snapLength === 0 ? wire : source.snapLength
    const captured = Math.min(wire, limit, room)
    const n = batch.count
    if (!this.#addFrame(batch, source, at + 8, start, captured, room, wire)) return false
    batch.timestampMicros[n] = Number.NaN
    batch.timestampSubNanos[n] = 0
    return true
  }

  #readPacket(type: number, at: number, end: number, batch: FrameBatch): boolean {
    const view = this.#view
    const littleEndian = this.#littleEndian
    const isEnhanced = type === ENHANCED_PACKET
    const id = isEnhanced ? view.getUint32(at + 8, littleEndian) : view.getUint16(at + 8, littleEndian)
    const source = this.#sourceOf(id, at)
    if (source === null) return false
    const start = at + 28
    const captured = view.getUint32(at + 20, littleEndian)
    const wire = view.getUint32(at + 24, littleEndian)
    const n = batch.count
    if (!this.#addFrame(batch, source, at + 20, start, captured, end - start, wire)) return false
    const high = view.getUint32(at + 12, littleEndian)
    const low = view.getUint32(at + 16, littleEndian)
    writeTicks(batch.timestampMicros, batch.timestampSubNanos, n, source.ticks, high, low)
    if (Number.isNaN(batch.timestampMicros[n]!)) this.odd.unusableTimes++
    // most packets have no options
    const options = start + ((captured + 3) & ~3)
    if (end - options >= 4) this.#walkOptions(options, end, isEnhanced ? this.#visitPacketOption : () => {})
    if (!isEnhanced) {
      const drops = view.getUint16(at + 10, littleEndian)
      if (drops !== DROPS_UNKNOWN) this.#notes.addDropped(drops)
    }
    return true
  }

  /** Made once, as a packet may have options. */
  readonly #visitPacketOption = (code: number, at: number, length: number): void => {
    if (code !== OPTION_DROP_COUNT || length < 8) return
    this.#notes.addDropped(readUint64(this.#view, at, this.#littleEndian))
  }

  #sourceOf(id: number, at: number): PcapngInterface | null {
    const count = this.#interfaces.length
    if (id < count) return this.#interfaces[id]!
    this.#fail(
      at + 8,
      count === 0
        ? 'expected a description of an interface before the first packet, found none'
        : `expected an interface number below ${count}, found ${id}`,
    )
    return null
  }

  /** Adds all of a frame but its time. @param lengthAt - where the length is that an error names */
  #addFrame(
    batch: FrameBatch,
    source: PcapngInterface,
    lengthAt: number,
    start: number,
    captured: number,
    room: number,
    wire: number,
  ): boolean {
    const n = batch.count
    if (captured > room || captured > MAXIMUM_CAPTURED_BYTES) {
      const most = Math.min(room, MAXIMUM_CAPTURED_BYTES)
      const packet = `packet ${batch.firstFrame + n + 1}`
      return this.#fail(
        lengthAt,
        `${packet}: expected a captured length of at most ${most}, found ${captured}`,
      )
    }
    if (captured > wire && !this.#warnedLength) {
      this.#warnedLength = true
      this.#warnings.add(`packet ${batch.firstFrame + n + 1}: captured ${captured} bytes of ${wire}`)
    }
    if (wire > MAXIMUM_WIRE_BYTES) this.odd.implausibleLengths++
    batch.offset[n] = start
    batch.capturedBytes[n] = captured
    batch.wireBytes[n] = wire
    batch.linkType[n] = source.linkType
    batch.count = n + 1
    return true
  }

  /**
   * Options (section 3.5): code, length, value padded to four bytes, until opt_endofopt or the block's end. Keeps the
   * comments, and calls `visit` with each other option's place and length. Returns the length of an option that runs
   * past the block, which ends the list; −1 if there is none.
   */
  #walkOptions(from: number, end: number, visit: (code: number, at: number, length: number) => void): number {
    const view = this.#view
    for (let at = from; end - at >= 4; ) {
      const code = view.getUint16(at, this.#littleEndian)
      const length = view.getUint16(at + 2, this.#littleEndian)
      if (code === OPTION_END) break
      if (at + 4 + length > end) return length
      if (code === OPTION_COMMENT) this.#notes.addComment(this.#data, at + 4, length)
      else visit(code, at + 4, length)
      at += 4 + ((length + 3) & ~3)
    }
    return -1
  }
}
