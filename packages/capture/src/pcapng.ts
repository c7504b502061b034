import { FormatError } from '@oddflow/core'
import {
  type CaptureNotes,
  createCaptureNotes,
  type InterfaceStatistics,
  MAXIMUM_BLOCK_BYTES,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_INTERFACES,
  MAXIMUM_WIRE_BYTES,
  type WarningList,
} from './capture-notes.js'
import { hex32, type RecordReader } from './pcap-records.js'

/**
 * Options of pcapng blocks: (code, length, value) padded to four bytes, until opt_endofopt or the block's end.
 *
 * Source: draft-ietf-opsawg-pcapng, section 3.5. An option that runs past its block ends the list: nothing
 * after it can be told from noise. Each option is at least four bytes, so the block's length bounds the walk.
 */
const OPTION_END = 0
const OPTION_COMMENT = 1

/**
 * Calls `visit` for every option between `at` and `end`, with where its value begins and how long it is.
 * Returns the length of an option that runs past the end, −1 where all of them are whole.
 */
function walkPcapngOptions(
  view: DataView,
  at: number,
  end: number,
  littleEndian: boolean,
  visit: (code: number, at: number, length: number) => void,
): number {
  let here = at
  while (end - here >= 4) {
    const code = view.getUint16(here, littleEndian)
    const length = view.getUint16(here + 2, littleEndian)
    if (code === OPTION_END) break
    if (here + 4 + length > end) return length
    visit(code, here + 4, length)
    here += 4 + ((length + 3) & ~3)
  }
  return -1
}

/** A 64-bit unsigned value as a double (exact below 2^53). */
function readUint64(view: DataView, at: number, littleEndian: boolean): number {
  const first = view.getUint32(at, littleEndian)
  const second = view.getUint32(at + 4, littleEndian)
  return littleEndian ? second * 4294967296 + first : first * 4294967296 + second
}

/**
 * Timestamps of pcapng: a 64-bit count of ticks whose length each interface states for itself.
 *
 * Source: draft-ietf-opsawg-pcapng, if_tsresol (option 9: a power of ten, or of two where the top bit is
 * set; 10^-6 s where it is absent) and if_tsoffset (option 14: whole seconds to add). The result is
 * floor(ticks · 10^9 / resolution) nanoseconds, as whole microseconds and what lies below them. Decimal
 * resolutions down to the nanosecond go through doubles without loss; the rest, which hardly occur, go
 * through BigInt. What is not within ±(2^53 − 1) µs (the year 2255) is no time but NaN: doubles there are
 * microseconds apart, and differences of such times would be noise.
 */

interface TickLength {
  /** 0 … 9: ticks are 10^-exponent s. −1: `perSecond` holds the resolution. */
  readonly decimalExponent: number
  /** Ticks in a second. */
  readonly perSecond: bigint
  /** if_tsoffset in seconds. */
  readonly offsetSeconds: bigint
  /** The same in microseconds; NaN where a double does not hold it exactly. */
  readonly offsetMicros: number
}

const MICROSECOND_TICKS: TickLength = {
  decimalExponent: 6,
  perSecond: 1_000_000n,
  offsetSeconds: 0n,
  offsetMicros: 0,
}

/** @param resolution the byte of if_tsresol */
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

/** Writes the time of frame n: NaN and 0 where it is out of range. */
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
  // both terms are exact here; a sum out of range is caught below, rounded or not
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

/**
 * The Interface Description Block of pcapng (link type, snapshot length, how its clock counts) and the
 * Interface Statistics Block that may follow it.
 *
 * Source: draft-ietf-opsawg-pcapng, sections 4.2 and 4.6. Of the options if_tsresol (9), if_tsoffset (14) and
 * comments are read, the first of each of the two counting; of the statistics isb_ifrecv (4), isb_ifdrop (5)
 * and isb_osdrop (7). An option that runs past its block ends the list with a warning.
 */

interface PcapngInterface extends InterfaceStatistics {
  readonly linkType: number
  /** 0 where there is no limit. */
  readonly snapLength: number
  readonly ticks: TickLength
}

const OPTION_TSRESOL = 9
const OPTION_TSOFFSET = 14
const OPTION_RECEIVED = 4
const OPTION_DROPPED = 5
const OPTION_SYSTEM_DROPPED = 7

/** @param end where the options end: the trailing block length is outside */
function readPcapngInterface(
  data: Uint8Array,
  view: DataView,
  body: number,
  end: number,
  littleEndian: boolean,
  number: number,
  warnings: WarningList,
  notes: CaptureNotes,
): PcapngInterface {
  let resolution = -1
  let offsetSeconds: bigint | undefined
  const overrun = walkPcapngOptions(view, body + 8, end, littleEndian, (code, at, length) => {
    if (code === OPTION_COMMENT) notes.addComment(data, at, length)
    if (code === OPTION_TSRESOL && resolution < 0 && length >= 1) resolution = view.getUint8(at)
    if (code === OPTION_TSOFFSET && offsetSeconds === undefined && length >= 8) {
      offsetSeconds = view.getBigInt64(at, littleEndian)
    }
  })
  if (overrun >= 0) warnings.add(`interface ${number}: an option of ${overrun} bytes runs past its block`)
  return {
    linkType: view.getUint16(body, littleEndian),
    snapLength: view.getUint32(body + 4, littleEndian),
    ticks:
      resolution < 0 && offsetSeconds === undefined
        ? MICROSECOND_TICKS
        : tickLength(resolution < 0 ? 6 : resolution, offsetSeconds ?? 0n),
    received: Number.NaN,
    dropped: Number.NaN,
    systemDropped: Number.NaN,
  }
}

/** Takes the totals of a statistics block over; what it does not say stays. */
function readPcapngStatistics(
  data: Uint8Array,
  view: DataView,
  options: number,
  end: number,
  littleEndian: boolean,
  source: InterfaceStatistics | undefined,
  notes: CaptureNotes,
): void {
  walkPcapngOptions(view, options, end, littleEndian, (code, at, length) => {
    if (code === OPTION_COMMENT) notes.addComment(data, at, length)
    if (source === undefined || length < 8) return
    if (code === OPTION_RECEIVED) source.received = readUint64(view, at, littleEndian)
    if (code === OPTION_DROPPED) source.dropped = readUint64(view, at, littleEndian)
    if (code === OPTION_SYSTEM_DROPPED) source.systemDropped = readUint64(view, at, littleEndian)
  })
}

/**
 * Which blocks of pcapng are read, and how short one may be.
 *
 * Source: draft-ietf-opsawg-pcapng, section 4 and appendix A (the obsolete Packet Block).
 */
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

/** Statistics have about a hundred bytes; a block that claims more is passed over rather than gathered. */
const SMALLEST_STATISTICS = 24
const LARGEST_STATISTICS = 65_536

/** Smallest total length that a block of this type must have to be read; 0 for one that is passed over. */
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

/**
 * pcapng: sections of blocks, each block with its length at both ends.
 *
 * Source: draft-ietf-opsawg-pcapng. Read: Section Header (byte order and version may change, interfaces
 * start anew), Interface Description and Statistics, Enhanced Packet, Simple Packet (no time: NaN) and the
 * obsolete Packet Block, with their comments and drop counts. All other blocks, known or not, are passed over
 * as they stream by, whatever their length, and so are statistics of a length that they do not have. The
 * section length is a hint that is often wrong and is not used. Left out: names and secrets, and the comments
 * on them.
 */

const OPTION_DROP_COUNT = 4
/** The obsolete block's drops count where it is not known. */
const DROPS_UNKNOWN = 0xffff

export function createPcapngBlocks(warnings: WarningList): RecordReader {
  let littleEndian = true
  let started = false
  let need = 0
  let error: FormatError | null = null
  let interfaces: PcapngInterface[] = []
  /** Length of a skipped block whose trailing length is still to come, 0 for none. */
  let trailerOf = 0
  let warnedLength = false
  let unusableTimes = 0
  let implausibleLengths = 0
  const notes = createCaptureNotes()
  let optionData: Uint8Array = new Uint8Array(0)
  let optionView = new DataView(optionData.buffer)
  const visitPacketOption = (code: number, at: number, length: number): void => {
    if (code === OPTION_COMMENT) notes.addComment(optionData, at, length)
    else if (code === OPTION_DROP_COUNT && length >= 8) {
      notes.addDropped(readUint64(optionView, at, littleEndian))
    }
  }
  const visitComment = (code: number, at: number, length: number): void => {
    if (code === OPTION_COMMENT) notes.addComment(optionData, at, length)
  }

  const fail = (offsetBytes: number, message: string): FormatError => {
    error = new FormatError('pcapng', message, { offsetBytes })
    return error
  }

  const reader: RecordReader = {
    format: 'pcapng',
    skip: 0,
    get commentCount() {
      return notes.commentCount
    },
    comments: notes.comments,
    get unusableTimes() {
      return unusableTimes
    },
    // times are single counts here
    overfullFractions: 0,
    get implausibleLengths() {
      return implausibleLengths
    },
    get drops() {
      return notes.drops(interfaces)
    },
    get midRecord() {
      return trailerOf !== 0
    },
    get skippedBlockBytes() {
      return trailerOf
    },
    get started() {
      return started
    },
    get need() {
      return need
    },
    get error() {
      return error
    },
    read(data, view, from, end, base, batch) {
      const { offset, capturedBytes, wireBytes, timestampMicros, timestampSubNanos, linkType } = batch
      const capacity = offset.length
      optionData = data
      optionView = view
      let at = from
      let n = batch.count
      need = 0
      while (n < capacity) {
        if (trailerOf !== 0) {
          if (end - at < 4) {
            need = 4
            break
          }
          const trailer = view.getUint32(at, littleEndian)
          if (trailer !== trailerOf) {
            fail(base + at, `expected the block length ${trailerOf} again, found ${trailer}`)
            break
          }
          trailerOf = 0
          at += 4
          continue
        }
        if (end - at < SMALLEST_BLOCK) {
          need = SMALLEST_BLOCK
          break
        }
        const type = view.getUint32(at, littleEndian)
        if (type === PCAPNG_SECTION_HEADER) {
          const magic = view.getUint32(at + 8, true)
          if (magic !== BYTE_ORDER_MAGIC && magic !== BYTE_ORDER_SWAPPED) {
            fail(base + at + 8, `expected the byte-order magic 0x1a2b3c4d, found ${hex32(magic)}`)
            break
          }
          littleEndian = magic === BYTE_ORDER_MAGIC
        }
        const length = view.getUint32(at + 4, littleEndian)
        const smallest = smallestReadLength(type, length)
        if (length < Math.max(smallest, SMALLEST_BLOCK) || (length & 3) !== 0) {
          const least = Math.max(smallest, SMALLEST_BLOCK)
          fail(
            base + at + 4,
            `block type ${hex32(type)}: expected a length of at least ${least} and a multiple of 4, found ${length}`,
          )
          break
        }
        if (smallest === 0) {
          reader.skip = length - 4
          trailerOf = length
          break
        }
        if (length > MAXIMUM_BLOCK_BYTES) {
          fail(
            base + at + 4,
            `block type ${hex32(type)}: expected a length of at most ${MAXIMUM_BLOCK_BYTES}, found ${length}`,
          )
          break
        }
        if (end - at < length) {
          need = length
          break
        }
        const trailer = view.getUint32(at + length - 4, littleEndian)
        if (trailer !== length) {
          fail(base + at + length - 4, `expected the block length ${length} again, found ${trailer}`)
          break
        }
        if (type === PCAPNG_SECTION_HEADER) {
          const major = view.getUint16(at + 12, littleEndian)
          if (major !== 1) {
            const minor = view.getUint16(at + 14, littleEndian)
            fail(base + at + 12, `expected section version 1.x, found ${major}.${minor}`)
            break
          }
          notes.addSection(interfaces)
          interfaces = []
          started = true
          walkPcapngOptions(view, at + 24, at + length - 4, littleEndian, visitComment)
          at += length
          continue
        }
        if (type === INTERFACE_DESCRIPTION) {
          if (interfaces.length >= MAXIMUM_INTERFACES) {
            fail(base + at, `expected at most ${MAXIMUM_INTERFACES} interfaces in a section, found one more`)
            break
          }
          interfaces.push(
            readPcapngInterface(
              data,
              view,
              at + 8,
              at + length - 4,
              littleEndian,
              interfaces.length,
              warnings,
              notes,
            ),
          )
          at += length
          continue
        }
        if (type === INTERFACE_STATISTICS) {
          const described = interfaces[view.getUint32(at + 8, littleEndian)]
          readPcapngStatistics(data, view, at + 20, at + length - 4, littleEndian, described, notes)
          at += length
          continue
        }
        // a packet: where its bytes begin, whose interface, how long
        const simple = type === SIMPLE_PACKET
        const id = simple
          ? 0
          : type === ENHANCED_PACKET
            ? view.getUint32(at + 8, littleEndian)
            : view.getUint16(at + 8, littleEndian)
        const source = interfaces[id]
        if (source === undefined) {
          fail(
            base + at + 8,
            interfaces.length === 0
              ? 'expected a description of an interface before the first packet, found none'
              : `expected an interface number below ${interfaces.length}, found ${id}`,
          )
          break
        }
        const start = at + (simple ? 12 : 28)
        const room = at + length - 4 - start
        const wire = view.getUint32(at + (simple ? 8 : 24), littleEndian)
        let captured: number
        if (simple) {
          captured = source.snapLength === 0 ? wire : Math.min(wire, source.snapLength)
          captured = Math.min(captured, room)
        } else {
          captured = view.getUint32(at + 20, littleEndian)
        }
        if (captured > room || captured > MAXIMUM_CAPTURED_BYTES) {
          fail(
            base + at + (simple ? 8 : 20),
            `packet ${batch.firstFrame + n + 1}: expected a captured length of at most ${Math.min(room, MAXIMUM_CAPTURED_BYTES)}, found ${captured}`,
          )
          break
        }
        if (captured > wire && !warnedLength) {
          warnedLength = true
          warnings.add(`packet ${batch.firstFrame + n + 1}: captured ${captured} bytes of ${wire}`)
        }
        if (wire > MAXIMUM_WIRE_BYTES) implausibleLengths++
        if (simple) {
          timestampMicros[n] = Number.NaN
          timestampSubNanos[n] = 0
        } else {
          const high = view.getUint32(at + 12, littleEndian)
          const low = view.getUint32(at + 16, littleEndian)
          writeTicks(timestampMicros, timestampSubNanos, n, source.ticks, high, low)
          if (Number.isNaN(timestampMicros[n]!)) unusableTimes++
        }
        if (!simple) {
          // most packets have no options
          const options = start + ((captured + 3) & ~3)
          const optionsEnd = at + length - 4
          if (optionsEnd - options >= 4) {
            walkPcapngOptions(
              view,
              options,
              optionsEnd,
              littleEndian,
              type === ENHANCED_PACKET ? visitPacketOption : visitComment,
            )
          }
          if (type === PACKET_OBSOLETE) {
            const drops = view.getUint16(at + 10, littleEndian)
            if (drops !== DROPS_UNKNOWN) notes.addDropped(drops)
          }
        }
        offset[n] = start
        capturedBytes[n] = captured
        wireBytes[n] = wire
        linkType[n] = source.linkType
        n++
        at += length
      }
      batch.count = n
      return at
    },
  }
  return reader
}
