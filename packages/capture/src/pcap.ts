/**
 * Classic pcap: a 24-byte file header, then records of a 16-byte header and the captured bytes.
 *
 * Source: draft-ietf-opsawg-pcap and libpcap's sf-pcap.c. Read: microsecond (a1b2c3d4) and nanosecond (a1b23c4d) files in
 * both byte orders, and the modified format of Alexey Kuznetzov's patch (a1b2cd34, 24-byte record headers). Files older
 * than 2.3 hold the two lengths in the other order, and 2.3 may; as in libpcap they are swapped back. A fraction of a
 * second or more is carried into the seconds and counted. The upper bits of the link type field (FCS length) are ignored;
 * its reserved bits must be zero. Left out: 1.0-era variants that share a magic number with the modified format.
 */
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import {
  type CaptureEnd,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_WIRE_BYTES,
  NO_DROPS,
  type WarningList,
} from './capture-notes.js'
import type { FrameBatch } from './packet-batch.js'

/** Packets whose record is odd but readable. */
export interface OddRecords {
  /** Their time is not within ±(2^53 − 1) µs and was left out (pcapng). */
  unusableTimes: number
  /** Their fraction of a second is a second or more (pcap). */
  overfullFractions: number
  /** They claim more than MAXIMUM_WIRE_BYTES on the wire. */
  implausibleLengths: number
}

export function createOddRecords(): OddRecords {
  return { unusableTimes: 0, overfullFractions: 0, implausibleLengths: 0 }
}

/** A line for each kind that occurred. */
export function describeOddRecords(odd: OddRecords): string[] {
  const lines: [number, string][] = [
    [odd.unusableTimes, 'a time not within 2^53 - 1 microseconds of 1970, read as without a time'],
    [odd.overfullFractions, 'a fraction of a second that is a second or more, carried into the seconds'],
    [odd.implausibleLengths, `a length on the wire of more than ${MAXIMUM_WIRE_BYTES} bytes, used as stated`],
  ]
  return lines
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${plural(count, 'packet')} with ${what}`)
}

/**
 * RecordReader: the capture formats as the block loop of capture-reader.ts sees them.
 *
 * It takes whole records from data[at … end) into a batch and stops if the batch is full, a record is incomplete
 * (`need`), bytes are to be skipped unread (`skip`), or at damage (`error`). It never holds bytes.
 */
export interface RecordReader extends Pick<CaptureEnd, 'commentCount' | 'comments' | 'drops'> {
  readonly format: NonNullable<CaptureEnd['format']>
  /** The file header (pcapng: the first section header) has been read. */
  readonly started: boolean
  /** Bytes wanted from the position that `read` returned; 0 if the batch is full. */
  readonly need: number
  /** Bytes to skip before `read` is called again; the block loop counts it down to 0. */
  skip: number
  readonly error: FormatError | null
  readonly odd: OddRecords
  /** Length of the block that is being skipped, until its trailing length is read; otherwise 0. */
  readonly skippedBlockBytes: number
  /**
   * Returns the position of the first byte not used.
   * @param view - over `data`, same bounds
   * @param base - offset in the capture of data[0]
   */
  read(data: Uint8Array, view: DataView, at: number, end: number, base: number, batch: FrameBatch): number
}

/** `0x` and eight digits. */
export function hex32(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, '0')}`
}

const PCAP_MAGIC_MICROS = 0xa1b2c3d4
const PCAP_MAGIC_NANOS = 0xa1b23c4d
const PCAP_MAGIC_MODIFIED = 0xa1b2cd34
export const PCAP_FILE_HEADER_BYTES = 24
export const PCAP_RECORD_HEADER_BYTES = 16
const MODIFIED_RECORD_HEADER_BYTES = 24

/** Bits 16–25 of the link type field, which must be zero (26–31 hold the FCS length and its flag). */
const LINK_TYPE_RESERVED = 0x03ff0000

export function isPcapMagic(value: number): boolean {
  return value === PCAP_MAGIC_MICROS || value === PCAP_MAGIC_NANOS || value === PCAP_MAGIC_MODIFIED
}

/** The LINKTYPE_ value in a file header's last field. Throws FormatError if its reserved bits are set. */
export function pcapLinkType(field: number): number {
  if ((field & LINK_TYPE_RESERVED) !== 0) {
    throw new FormatError('pcap', `expected a link type below 65536, found ${hex32(field)}`, {
      offsetBytes: 20,
    })
  }
  return field & 0xffff
}

/** A version other than 2.x is read, as by Wireshark, with a warning (libpcap refuses it). */
export function pcapVersionWarning(major: number, minor: number): string | null {
  return major === 2 ? null : `file version ${major}.${minor}, read as 2.4`
}

/** A class, not closures, so that V8's compiled code for one capture serves the next. */
export class PcapRecords implements RecordReader {
  readonly format = 'pcap'
  skip = 0
  readonly commentCount = 0
  readonly comments: readonly string[] = []
  readonly odd = createOddRecords()
  readonly drops = NO_DROPS
  readonly skippedBlockBytes = 0
  started = false
  need = 0
  error: FormatError | null = null
  readonly #littleEndian: boolean
  readonly #warnings: WarningList
  #recordHeaderBytes = PCAP_RECORD_HEADER_BYTES
  #linkType = 0
  #nanos = false
  /** Lengths are in the old order: 0 no, 1 yes, 2 if the captured length is the larger. */
  #swapped = 0
  #warnedLength = false

  constructor(littleEndian: boolean, warnings: WarningList) {
    this.#littleEndian = littleEndian
    this.#warnings = warnings
  }

  read(
    _data: Uint8Array,
    view: DataView,
    from: number,
    end: number,
    base: number,
    batch: FrameBatch,
  ): number {
    let at = from
    if (!this.started) {
      if (end - at < PCAP_FILE_HEADER_BYTES) {
        this.need = PCAP_FILE_HEADER_BYTES
        return at
      }
      try {
        this.#readFileHeader(view, at)
      } catch (refusal) {
        if (!(refusal instanceof FormatError)) throw refusal
        this.error = refusal
        return at
      }
      at += PCAP_FILE_HEADER_BYTES
    }
    const { offset, capturedBytes, wireBytes, timestampMicros, timestampSubNanos, linkType: types } = batch
    const littleEndian = this.#littleEndian
    const recordHeaderBytes = this.#recordHeaderBytes
    const linkType = this.#linkType
    const nanos = this.#nanos
    const swapped = this.#swapped
    const capacity = offset.length
    let n = batch.count
    const second = nanos ? 1e9 : 1e6
    this.need = 0
    while (n < capacity) {
      if (end - at < recordHeaderBytes) {
        this.need = recordHeaderBytes
        break
      }
      const fraction = view.getUint32(at + 4, littleEndian)
      let captured = view.getUint32(at + 8, littleEndian)
      let wire = view.getUint32(at + 12, littleEndian)
      if (swapped !== 0 && (swapped === 1 || captured > wire)) {
        const t = captured
        captured = wire
        wire = t
      }
      if (captured > MAXIMUM_CAPTURED_BYTES) {
        this.error = new FormatError(
          'pcap',
          `packet ${batch.firstFrame + n + 1}: expected a captured length of at most ${MAXIMUM_CAPTURED_BYTES}, found ${captured}`,
          { offsetBytes: base + at + 8 },
        )
        break
      }
      if (captured === 0 && wire === 0 && isFileHeader(view, at)) {
        this.#warnings.add(
          `packet ${batch.firstFrame + n + 1} is the header of another capture file (byte ${base + at}): files joined end to end (cat) cannot be read on from there; join them with mergecap, or give each by itself`,
        )
      }
      const size = recordHeaderBytes + captured
      if (end - at < size) {
        this.need = size
        break
      }
      if (captured > wire && !this.#warnedLength) {
        this.#warnedLength = true
        this.#warnings.add(`packet ${batch.firstFrame + n + 1}: captured ${captured} bytes of ${wire}`)
      }
      if (wire > MAXIMUM_WIRE_BYTES) this.odd.implausibleLengths++
      if (fraction >= second) this.odd.overfullFractions++
      const seconds = view.getUint32(at, littleEndian) * 1e6
      if (nanos) {
        const micros = Math.floor(fraction / 1000)
        timestampMicros[n] = seconds + micros
        timestampSubNanos[n] = fraction - 1000 * micros
      } else {
        timestampMicros[n] = seconds + fraction
        timestampSubNanos[n] = 0
      }
      offset[n] = at + recordHeaderBytes
      capturedBytes[n] = captured
      wireBytes[n] = wire
      types[n] = linkType
      n++
      at += size
    }
    batch.count = n
    return at
  }

  #readFileHeader(view: DataView, at: number): void {
    const littleEndian = this.#littleEndian
    const magic = view.getUint32(at, littleEndian)
    this.#nanos = magic === PCAP_MAGIC_NANOS
    if (magic === PCAP_MAGIC_MODIFIED) this.#recordHeaderBytes = MODIFIED_RECORD_HEADER_BYTES
    const major = view.getUint16(at + 4, littleEndian)
    const minor = view.getUint16(at + 6, littleEndian)
    const warning = pcapVersionWarning(major, minor)
    if (warning !== null) this.#warnings.add(warning)
    else if (minor < 3) this.#swapped = 1
    else if (minor === 3) this.#swapped = 2
    this.#linkType = pcapLinkType(view.getUint32(at + 20, littleEndian))
    this.started = true
  }
}

/** Whether the header of an empty packet is that of a capture file: magic number and version 2. */
function isFileHeader(view: DataView, at: number): boolean {
  for (const little of [false, true]) {
    if (isPcapMagic(view.getUint32(at, little)) && view.getUint16(at + 4, little) === 2) return true
  }
  return false
}

/**
 * Writing classic pcap, for tests and for keeping the packets behind a verdict. `encodePcap` joins the pieces for captures
 * that fit in memory.
 */

/** How a pcap file is written. */
export interface PcapOptions {
  /** LINKTYPE_ value of tcpdump.org. Default 1 (Ethernet). */
  readonly linkType?: number
  /** Keep nanoseconds. Default false. */
  readonly nanoseconds?: boolean
  /** Default false. */
  readonly bigEndian?: boolean
}

/** A frame to be written to a pcap file. */
export interface PcapFrame {
  /** Whole microseconds since 1970, 0 ≤ t < 2^32 s. */
  readonly timestampMicros: number
  /** 0 … 999 ns; dropped unless `nanoseconds` is set. */
  readonly timestampSubNanos?: number
  readonly bytes: Uint8Array
  /** Length on the wire. Default the length of `bytes`. */
  readonly wireBytes?: number
}

/** The 24 bytes that begin a classic pcap file. Throws ArgumentError for a link type out of range. */
export function encodePcapFileHeader(options: PcapOptions = {}): Uint8Array {
  const linkType = options.linkType ?? 1
  if (!Number.isInteger(linkType) || linkType < 0 || linkType > 65_535) {
    throw new ArgumentError(`linkType: expected a whole number below 65536, found ${linkType}`, 'linkType')
  }
  const little = options.bigEndian !== true
  const out = new Uint8Array(PCAP_FILE_HEADER_BYTES)
  const view = new DataView(out.buffer)
  view.setUint32(0, options.nanoseconds === true ? PCAP_MAGIC_NANOS : PCAP_MAGIC_MICROS, little)
  view.setUint16(4, 2, little)
  view.setUint16(6, 4, little)
  view.setUint32(16, MAXIMUM_CAPTURED_BYTES, little)
  view.setUint32(20, linkType, little)
  return out
}

/** Throws ArgumentError for a time that the format cannot hold, or more than MAXIMUM_CAPTURED_BYTES. */
export function encodePcapRecord(frame: PcapFrame, options: PcapOptions = {}): Uint8Array {
  const { timestampMicros, bytes } = frame
  const wireBytes = frame.wireBytes ?? bytes.length
  const seconds = Math.floor(timestampMicros / 1e6)
  if (!(seconds >= 0 && seconds <= 0xffffffff) || !Number.isInteger(timestampMicros)) {
    throw new ArgumentError(
      `timestampMicros: expected whole microseconds from 0 to 2^32 seconds, found ${timestampMicros}`,
      'timestampMicros',
    )
  }
  if (bytes.length > MAXIMUM_CAPTURED_BYTES) {
    throw new ArgumentError(
      `bytes: expected at most ${MAXIMUM_CAPTURED_BYTES}, found ${bytes.length}`,
      'bytes',
    )
  }
  if (!Number.isInteger(wireBytes) || wireBytes < 0 || wireBytes > 0xffffffff) {
    throw new ArgumentError(`wireBytes: expected a whole number below 2^32, found ${wireBytes}`, 'wireBytes')
  }
  const little = options.bigEndian !== true
  const out = new Uint8Array(PCAP_RECORD_HEADER_BYTES + bytes.length)
  const view = new DataView(out.buffer)
  const micros = timestampMicros - seconds * 1e6
  view.setUint32(0, seconds, little)
  view.setUint32(
    4,
    options.nanoseconds === true ? micros * 1000 + (frame.timestampSubNanos ?? 0) : micros,
    little,
  )
  view.setUint32(8, bytes.length, little)
  view.setUint32(12, wireBytes, little)
  out.set(bytes, PCAP_RECORD_HEADER_BYTES)
  return out
}

/** A whole classic pcap file of `frames`. Throws ArgumentError for a time or a length that it cannot hold. */
export function encodePcap(frames: Iterable<PcapFrame>, options: PcapOptions = {}): Uint8Array {
  const parts = [encodePcapFileHeader(options)]
  for (const frame of frames) parts.push(encodePcapRecord(frame, options))
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}
