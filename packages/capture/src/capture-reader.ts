/**
 * Blocks of bytes in, batches of frames out. A batch points into the pushed block; only a record that straddles two
 * blocks is gathered in a carry buffer, which grows with the bytes that have arrived, never with a length that a file
 * claims.
 */
import { ArgumentError, FormatError } from '@oddflow/core'
import { type CaptureEnd, createWarningList, NO_DROPS, warnOfLargeCounters } from './capture-notes.js'
import { copyFrame, createFrameBatch, type FrameBatch } from './packet-batch.js'
import {
  describeOddRecords,
  isPcapMagic,
  PCAP_FILE_HEADER_BYTES,
  PcapRecords,
  type RecordReader,
} from './pcap.js'
import { PCAPNG_SECTION_HEADER, PcapngBlocks } from './pcapng.js'
import { aggregateAt } from './wlan.js'

/** What to do with well-known formats that are no captures, by their first bytes. */
const KNOWN: readonly { readonly bytes: readonly number[]; readonly advice: string }[] = [
  { bytes: [0x1f, 0x8b], advice: 'gzip within: decompress it once more' },
  { bytes: [0x28, 0xb5, 0x2f, 0xfd], advice: 'zstd: decompress it first with "zstd -d"' },
  { bytes: [0xfd, 0x37, 0x7a, 0x58], advice: 'xz: decompress it first with "unxz"' },
  { bytes: [0x42, 0x5a, 0x68], advice: 'bzip2: decompress it first with "bunzip2"' },
  { bytes: [0x50, 0x4b, 0x03, 0x04], advice: 'a zip archive: unpack it first with "unzip"' },
  {
    bytes: [0x73, 0x6e, 0x6f, 0x6f],
    advice: 'a snoop capture: convert it with "editcap -F pcap IN OUT"',
  },
  {
    bytes: [0x93, 0x4e, 0x55, 0x4d],
    advice: 'a NumPy array: it holds feature rows, not packets',
  },
]

/** Models are such files: a length of eight bytes, of which the last four are 0, and a JSON object. */
function isSafetensors(data: Uint8Array): boolean {
  return data[8] === 0x7b && data.subarray(4, 8).every((byte) => byte === 0)
}

/** @param data - at least four bytes */
function describeUnknownMagic(data: Uint8Array): string {
  const first = data.subarray(0, 4)
  const hex = Array.from(first, (byte) => byte.toString(16).padStart(2, '0')).join(' ')
  const text = Array.from(first, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'))
  const known = KNOWN.find(({ bytes }) => bytes.every((byte, i) => data[i] === byte))
  const advice =
    known?.advice ??
    (isSafetensors(data) ? 'a safetensors file, such as a model: it holds no packets' : null) ??
    'give a file written by tcpdump, dumpcap or Wireshark, or convert it with "editcap"'
  return `not a capture: expected a pcap or pcapng magic number, found ${hex} ("${text.join('')}"); ${advice}`
}

/**
 * Aggregates of 802.11 (A-MSDU): the first subframe stays with its frame and radio header; each other one becomes a
 * frame of LINKTYPE_ETHERNET with the time of the whole, in place.
 */

const LINKTYPE_ETHERNET = 1
const SUBFRAME_HEADER_BYTES = 14

class AggregateSplitter {
  readonly #capacity: number
  #out: FrameBatch | null = null
  #source: FrameBatch | null = null
  /** The next frame of the source, and where the next subframe of the frame before it begins; 0 for none. */
  #frame = 0
  #subframe = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** The batch, or its first part if it holds aggregates. */
  split(batch: FrameBatch): FrameBatch {
    if (!holdsSeveral(batch)) return batch
    this.#source = batch
    this.#frame = 0
    this.#subframe = 0
    return this.next()!
  }

  /** The next part; null if there is none. */
  next(): FrameBatch | null {
    const from = this.#source
    if (from === null) return null
    this.#out ??= createFrameBatch(this.#capacity)
    const out = this.#out
    out.count = 0
    out.data = from.data
    for (; out.count < this.#capacity; out.count++) {
      if (this.#subframe > 0) this.#takeSubframe(from, this.#frame - 1, out)
      else if (this.#frame < from.count) this.#takeFrame(from, this.#frame++, out)
      else {
        this.#source = null
        break
      }
    }
    return out.count > 0 ? out : null
  }

  #takeFrame(from: FrameBatch, i: number, out: FrameBatch): void {
    copyFrame(from, i, out, out.count)
    const at = from.offset[i]!
    const end = at + from.capturedBytes[i]!
    const first = aggregateAt(from.linkType[i]!, from.data, at, end)
    if (first >= 0) this.#subframe = behind(from.data, first, end)
  }

  #takeSubframe(from: FrameBatch, i: number, out: FrameBatch): void {
    const n = out.count
    const at = this.#subframe
    const end = from.offset[i]! + from.capturedBytes[i]!
    const bytes = subframeBytes(from.data, at)
    copyFrame(from, i, out, n)
    out.offset[n] = at
    out.capturedBytes[n] = Math.min(bytes, end - at)
    out.wireBytes[n] = bytes
    out.linkType[n] = LINKTYPE_ETHERNET
    this.#subframe = behind(from.data, at, end)
  }
}

function holdsSeveral({ count, linkType, data, offset, capturedBytes }: FrameBatch): boolean {
  for (let i = 0; i < count; i++) {
    if (linkType[i] === LINKTYPE_ETHERNET) continue
    const at = offset[i]!
    const end = at + capturedBytes[i]!
    const first = aggregateAt(linkType[i]!, data, at, end)
    if (first >= 0 && behind(data, first, end) > 0) return true
  }
  return false
}

function subframeBytes(data: Uint8Array, at: number): number {
  return SUBFRAME_HEADER_BYTES + ((data[at + 12]! << 8) | data[at + 13]!)
}

/** Where the subframe after the one at `at` begins, each at a multiple of four from the first; 0 if there is none. */
function behind(data: Uint8Array, at: number, end: number): number {
  const next = at + ((subframeBytes(data, at) + 3) & ~3)
  return end - next < SUBFRAME_HEADER_BYTES || subframeBytes(data, next) === SUBFRAME_HEADER_BYTES ? 0 : next
}

/** Default maximum of frames in a batch. */
export const DEFAULT_BATCH_FRAMES = 2048

/** Options of `createCaptureReader`. */
export interface CaptureReaderOptions {
  /** Most frames in a batch, 1 … 65,536. */
  readonly batchFrames?: number
}

/** Starts to read a pcap or pcapng capture. Throws ArgumentError for a batch size out of range. */
export function createCaptureReader(options: CaptureReaderOptions = {}): CaptureReader {
  const capacity = options.batchFrames ?? DEFAULT_BATCH_FRAMES
  if (!Number.isInteger(capacity) || capacity < 1 || capacity > 65_536) {
    throw new ArgumentError(
      `batchFrames: expected a whole number from 1 to 65536, found ${capacity}`,
      'batchFrames',
    )
  }
  return new CaptureReader(capacity)
}

/** Reads one capture: blocks of bytes in, batches of frames out, at the caller's pace. */
export class CaptureReader {
  readonly #warnings = createWarningList()
  readonly #batch: FrameBatch
  readonly #aggregates: AggregateSplitter
  #records: RecordReader | null = null
  #error: FormatError | null = null
  #packets = 0
  /** Bytes used so far: the capture offset of the next byte to be read. */
  #position = 0
  #block: Uint8Array = new Uint8Array(0)
  #blockView = viewOf(this.#block)
  #blockAt = 0
  #carry: Uint8Array = new Uint8Array(4096)
  #carryView = viewOf(this.#carry)
  #carryLength = 0

  constructor(capacity: number) {
    this.#batch = createFrameBatch(capacity)
    this.#aggregates = new AggregateSplitter(capacity)
  }

  /** No further input can give a frame (damage); pushing more is harmless. */
  get finished(): boolean {
    return this.#error !== null
  }

  /** Hands over the next block. It is borrowed until `read` returns null; push no other block before that. */
  push(next: Uint8Array): void {
    if (this.#blockAt < this.#block.length && this.#error === null) {
      throw new ArgumentError('push: the block before this one is not read to its end yet')
    }
    // Always the same class: a Buffer among Uint8Arrays would make every access to bytes slower.
    this.#block = new Uint8Array(next.buffer, next.byteOffset, next.byteLength)
    this.#blockView = viewOf(next)
    this.#blockAt = 0
  }

  /** The next batch, valid until the next call of `read`; null if the block is used up. */
  read(): FrameBatch | null {
    const part = this.#aggregates.next()
    if (part !== null) return this.#number(part)
    const batch = this.#batch
    batch.count = 0
    batch.firstFrame = this.#packets
    while (this.#error === null) {
      this.#skipBytes()
      if (this.#records !== null && this.#records.skip > 0) break
      if (this.#carryLength > 0) {
        const need = Math.max(this.#records?.need ?? 4, 1)
        if (this.#carryLength < need) this.#addToCarry(need)
        if (this.#carryLength < need) break
        // A delivered frame keeps its bytes where the batch points: its record fills the carry exactly.
        this.#dropFromCarry(this.#readRecords(this.#carry, this.#carryView, 0, this.#carryLength))
        if (batch.count > 0) return this.#deliver(this.#carry)
      } else {
        if (this.#blockAt >= this.#block.length) break
        this.#blockAt = this.#readRecords(this.#block, this.#blockView, this.#blockAt, this.#block.length)
        if (batch.count > 0) return this.#deliver(this.#block)
        if (!this.finished && !this.#records?.skip) this.#addToCarry(this.#block.length - this.#blockAt)
      }
    }
    if (this.#error !== null) this.#blockAt = this.#block.length
    return null
  }

  #addToCarry(wanted: number): void {
    const length = this.#carryLength
    const take = Math.min(wanted - length, this.#block.length - this.#blockAt)
    if (length + take > this.#carry.length) {
      const larger = new Uint8Array(Math.max(2 * this.#carry.length, length + take))
      larger.set(this.#carry.subarray(0, length))
      this.#carry = larger
      this.#carryView = viewOf(larger)
    }
    this.#carry.set(this.#block.subarray(this.#blockAt, this.#blockAt + take), length)
    this.#carryLength += take
    this.#blockAt += take
  }

  #dropFromCarry(bytes: number): void {
    if (bytes === 0) return
    this.#carry.copyWithin(0, bytes, this.#carryLength)
    this.#carryLength -= bytes
  }

  /** Reads from data[at … end); returns the first position not used. */
  #readRecords(data: Uint8Array, view: DataView, at: number, end: number): number {
    if (this.#records === null) {
      if (end - at < 4) return at
      this.#records = this.#detect(data, view, at)
      if (this.#records === null) return at
    }
    const next = this.#records.read(data, view, at, end, this.#position - at, this.#batch)
    this.#position += next - at
    this.#error = this.#records.error
    return next
  }

  #detect(data: Uint8Array, view: DataView, at: number): RecordReader | null {
    const magic = view.getUint32(at, false)
    if (isPcapMagic(magic)) return new PcapRecords(false, this.#warnings)
    if (isPcapMagic(view.getUint32(at, true))) return new PcapRecords(true, this.#warnings)
    if (magic === PCAPNG_SECTION_HEADER) return new PcapngBlocks(this.#warnings)
    this.#error = new FormatError('capture', describeUnknownMagic(data.subarray(at)), { offsetBytes: 0 })
    return null
  }

  #skipBytes(): void {
    const records = this.#records
    if (records === null || records.skip === 0) return
    // a skipped block's head may still be in the carry buffer
    const held = Math.min(records.skip, this.#carryLength)
    this.#dropFromCarry(held)
    const skipped = Math.min(records.skip - held, this.#block.length - this.#blockAt)
    this.#blockAt += skipped
    records.skip -= held + skipped
    this.#position += held + skipped
  }

  #deliver(data: Uint8Array): FrameBatch {
    this.#batch.data = data
    return this.#number(this.#aggregates.split(this.#batch))
  }

  #number(frames: FrameBatch): FrameBatch {
    frames.firstFrame = this.#packets
    this.#packets += frames.count
    return frames
  }

  /** Ends the input; returns the end state. Throws ArgumentError while a block is not read to its end. */
  end(): CaptureEnd {
    if (this.#blockAt < this.#block.length) {
      throw new ArgumentError('end: the last block is not read to its end yet')
    }
    const records = this.#records
    const bytes = this.#position + this.#carryLength
    let truncated = false
    let cut: string | null = null
    if (this.#error === null && records?.started) {
      cut = this.#describeCut(records)
      truncated = cut !== null
    } else if (this.#error === null) {
      truncated = bytes > 0
      this.#error = missingHeader(bytes, records?.format, records?.need)
    }
    const drops = records?.drops ?? NO_DROPS
    const largeCounters = warnOfLargeCounters(drops)
    return {
      format: records?.format ?? null,
      packets: this.#packets,
      bytes,
      truncated,
      error: this.#error,
      detail: this.#error?.message ?? cut,
      warnings: [
        ...this.#warnings.lines(),
        ...(records === null ? [] : describeOddRecords(records.odd)),
        ...(largeCounters === null ? [] : [largeCounters]),
      ],
      commentCount: records?.commentCount ?? 0,
      comments: records?.comments ?? [],
      drops,
    }
  }

  /** The incomplete record at the end of the input; null if there is none. */
  #describeCut({ skip, skippedBlockBytes, need }: RecordReader): string | null {
    const held = this.#carryLength
    if (skippedBlockBytes > 0) {
      // only the length at a skipped block's end is read
      const start = this.#position + skip + 4 - skippedBlockBytes
      const has = this.#position + held - start
      return `cut short: the block at byte ${start} has a length of ${skippedBlockBytes} bytes, the input holds ${has}`
    }
    if (held === 0) return null
    return `cut short: the record at byte ${this.#position} needs at least ${need} bytes, the input holds ${held}`
  }
}

/** The error of an input of so few bytes that its file header is not whole. */
export function missingHeader(
  foundBytes: number,
  format = 'capture',
  headerBytes: number = PCAP_FILE_HEADER_BYTES,
): FormatError {
  if (foundBytes === 0) {
    const empty = 'empty: expected a pcap or pcapng file header, found no bytes; check that the recorder ran'
    return new FormatError('capture', empty)
  }
  return new FormatError(
    format,
    `cut short: expected a file header of ${headerBytes} bytes, found ${foundBytes}; the recorder stopped too early or the file was not copied whole: record or copy it again`,
    { offsetBytes: 0 },
  )
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
