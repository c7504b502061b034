/**
 * Classic pcap: a 24-byte file header, then records of a 16-byte header and the captured bytes.
 *
 * Source: draft-ietf-opsawg-pcap and libpcap's sf-pcap.c. Read here: microsecond (a1b2c3d4) and nanosecond
 * (a1b23c4d) files in both byte orders, and the modified format of Alexey Kuznetzov's patch (a1b2cd34,
 * 24-byte record headers). Files older than 2.3 hold the two lengths in the other order, and 2.3 may: as
 * libpcap does, they are swapped back. A fraction of a second or more is carried into the
 * seconds and counted. The
 * upper bits of the link type field (FCS length) are dropped; its reserved bits must be zero, or the field
 * is no link type. Left out: the 1.0-era variants that share a magic number with the modified format.
 */
import { FormatError } from '@oddflow/core'
import {
  type CaptureDrops,
  type CaptureFormat,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_WIRE_BYTES,
  NO_DROPS,
  type WarningList,
} from './capture-notes.js'
import type { FrameBatch } from './packet-batch.js'

/**
 * RecordReader: what the capture formats have in common, seen from the block loop of capture-reader.ts.
 *
 * A record reader takes whole records from data[at … end) into a batch and stops where the batch is full,
 * where a record is not complete (`need` then says how many bytes from the returned position on would let
 * it go on), where bytes are to be passed over unread (`skip`), or at damage (`error`). It never holds
 * bytes: carrying a record over from one block to the next is the block loop's work.
 */

export interface RecordReader {
  readonly format: CaptureFormat
  /** The file header (pcapng: the first section header) has been read. */
  readonly started: boolean
  /** Bytes wanted from the position that `read` returned; 0 when it stopped because the batch is full. */
  readonly need: number
  /** Bytes to pass over before `read` is called again; the block loop sets it back to 0. */
  skip: number
  readonly error: FormatError | null
  /**
   * Returns the position of the first byte not used.
   * @param view over `data`, same bounds
   * @param base offset in the capture of data[0]
   */
  read(data: Uint8Array, view: DataView, at: number, end: number, base: number, batch: FrameBatch): number
  /** Comments seen so far, and those that were kept. */
  readonly commentCount: number
  readonly comments: readonly string[]
  /** Packets whose time is not within ±(2^53 − 1) µs and was left out. */
  readonly unusableTimes: number
  /** Packets whose fraction of a second is a second or more (pcap). */
  readonly overfullFractions: number
  /** Packets that claim more than MAXIMUM_WIRE_BYTES on the wire. */
  readonly implausibleLengths: number
  /** What the recorder says it lost, so far. */
  readonly drops: CaptureDrops
  /** The capture ends here although the reader wants more only at a record boundary. */
  readonly midRecord: boolean
  /** The length that the block being passed over claims; 0 where none is. */
  readonly skippedBlockBytes: number
}

/** `0x` and eight digits. */
export function hex32(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, '0')}`
}

export const PCAP_MAGIC_MICROS = 0xa1b2c3d4
export const PCAP_MAGIC_NANOS = 0xa1b23c4d
const PCAP_MAGIC_MODIFIED = 0xa1b2cd34
export const PCAP_FILE_HEADER_BYTES = 24
export const PCAP_RECORD_HEADER_BYTES = 16
const MODIFIED_RECORD_HEADER_BYTES = 24

/** Bits 16–25 of the link type field, which must be zero (26–31 hold the FCS length and its flag). */
const LINK_TYPE_RESERVED = 0x03ff0000

export function isPcapMagic(value: number): boolean {
  return value === PCAP_MAGIC_MICROS || value === PCAP_MAGIC_NANOS || value === PCAP_MAGIC_MODIFIED
}

/** The LINKTYPE_ value in a file header's last field. Throws FormatError when its reserved bits are set. */
export function pcapLinkType(field: number): number {
  if ((field & LINK_TYPE_RESERVED) !== 0) {
    throw new FormatError('pcap', `expected a link type below 65536, found ${hex32(field)}`, {
      offsetBytes: 20,
    })
  }
  return field & 0xffff
}

/** What a version other than 2.x deserves: no refusal (libpcap refuses, Wireshark reads), but a word. */
export function pcapVersionWarning(major: number, minor: number): string | null {
  return major === 2 ? null : `file version ${major}.${minor}, read as 2.4`
}

export function createPcapRecords(littleEndian: boolean, warnings: WarningList): RecordReader {
  return new PcapRecords(littleEndian, warnings)
}

/** A class, not closures: then what V8 has compiled for one capture serves the next. */
class PcapRecords implements RecordReader {
  readonly format = 'pcap'
  skip = 0
  readonly commentCount = 0
  readonly comments: readonly string[] = []
  /** 32 bits of seconds are always in range. */
  readonly unusableTimes = 0
  readonly drops = NO_DROPS
  readonly midRecord = false
  readonly skippedBlockBytes = 0
  started = false
  need = 0
  error: FormatError | null = null
  overfullFractions = 0
  implausibleLengths = 0
  readonly #littleEndian: boolean
  readonly #warnings: WarningList
  #recordHeaderBytes = PCAP_RECORD_HEADER_BYTES
  #linkType = 0
  #nanos = false
  /** Lengths are in the old order: 0 no, 1 yes, 2 where the captured length is the larger. */
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
      if (wire > MAXIMUM_WIRE_BYTES) this.implausibleLengths++
      if (fraction >= second) this.overfullFractions++
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

/** Whether what should be the header of an empty packet is that of a capture file: magic number and version 2. */
function isFileHeader(view: DataView, at: number): boolean {
  for (const little of [false, true]) {
    if (isPcapMagic(view.getUint32(at, little)) && view.getUint16(at + 4, little) === 2) return true
  }
  return false
}
