/**
 * createCaptureReader: bytes in, batches of frames out, in blocks of any size.
 *
 * The caller pushes a block and reads batches until there are none left, so the pace is the caller's and
 * nothing queues up. Frames are not copied: a batch points into the block that was pushed. Only a record
 * that straddles two blocks is gathered in a small buffer of the reader's own (and makes a batch of its
 * own), at one copy per byte however finely the input is cut. The first four bytes give the format.
 *
 * Memory: the carry buffer, at most one record (MAXIMUM_CAPTURED_BYTES, MAXIMUM_BLOCK_BYTES), and one batch.
 * It grows with the bytes that have arrived, never with a length that a file claims.
 */
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import {
  type CaptureEnd,
  createWarningList,
  MAXIMUM_WIRE_BYTES,
  NO_DROPS,
  warnOfLargeCounters,
} from './capture-notes.js'
import { createFrameBatch, type FrameBatch } from './packet-batch.js'
import { createPcapRecords, isPcapMagic, type RecordReader } from './pcap-records.js'
import { createPcapngBlocks, PCAPNG_SECTION_HEADER } from './pcapng.js'
import { aggregateAt } from './wlan.js'

/**
 * What to say about bytes that begin no capture: what was expected, what was found, and, where the first
 * bytes are those of a well-known format, how to go on.
 */
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

/** @param data at least four bytes */
function describeUnknownMagic(data: Uint8Array): string {
  const first = data.subarray(0, 4)
  const hex = Array.from(first, (byte) => byte.toString(16).padStart(2, '0')).join(' ')
  const text = Array.from(first, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'))
  const known = KNOWN.find(({ bytes }) => bytes.every((byte, i) => data[i] === byte))
  const advice =
    known?.advice ?? 'give a file written by tcpdump, dumpcap or Wireshark, or convert it with "editcap"'
  return `not a capture: expected a pcap or pcapng magic number, found ${hex} ("${text.join('')}"); ${advice}`
}

/**
 * Aggregates of 802.11 (A-MSDU): one frame that holds several packets, given as several frames.
 *
 * The first subframe stays with its frame, radio header and all. Each of the others is a frame as Ethernet has them
 * (two addresses, a length, LLC), and is given as one of LINKTYPE_ETHERNET with the time of the whole, where it lies.
 */

const LINKTYPE_ETHERNET = 1
const SUBFRAME_HEADER_BYTES = 14

interface AggregateSplitter {
  /** The batch, or the first part of it where it holds aggregates. */
  split(batch: FrameBatch): FrameBatch
  /** The next part; null where there is none. */
  next(): FrameBatch | null
}

function createAggregateSplitter(capacity: number): AggregateSplitter {
  let out: FrameBatch | null = null
  let source: FrameBatch | null = null
  /** The next frame of the source, and where the next subframe of the one before it begins; 0 for none. */
  let frame = 0
  let subframe = 0

  const copy = (from: FrameBatch, i: number, to: FrameBatch): number => {
    const n = to.count++
    to.offset[n] = from.offset[i]!
    to.capturedBytes[n] = from.capturedBytes[i]!
    to.wireBytes[n] = from.wireBytes[i]!
    to.timestampMicros[n] = from.timestampMicros[i]!
    to.timestampSubNanos[n] = from.timestampSubNanos[i]!
    to.linkType[n] = from.linkType[i]!
    return n
  }

  const next = (): FrameBatch | null => {
    if (source === null) return null
    const from = source
    out ??= createFrameBatch(capacity)
    out.count = 0
    out.data = from.data
    while (out.count < capacity) {
      if (subframe > 0) {
        const of = frame - 1
        const end = from.offset[of]! + from.capturedBytes[of]!
        const n = copy(from, of, out)
        const bytes = subframeBytes(from.data, subframe)
        out.offset[n] = subframe
        out.capturedBytes[n] = Math.min(bytes, end - subframe)
        out.wireBytes[n] = bytes
        out.linkType[n] = LINKTYPE_ETHERNET
        subframe = behind(from.data, subframe, end)
      } else if (frame < from.count) {
        copy(from, frame, out)
        const at = from.offset[frame]!
        const end = at + from.capturedBytes[frame]!
        const first = aggregateAt(from.linkType[frame]!, from.data, at, end)
        if (first >= 0) subframe = behind(from.data, first, end)
        frame++
      } else {
        source = null
        break
      }
    }
    return out.count > 0 ? out : null
  }

  return {
    split(batch) {
      if (!holdsSeveral(batch)) return batch
      source = batch
      frame = 0
      subframe = 0
      return next()!
    },
    next,
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

/** Where the subframe behind the one at `at` begins, each at a multiple of four from the first; 0 where there is none. */
function behind(data: Uint8Array, at: number, end: number): number {
  const next = at + ((subframeBytes(data, at) + 3) & ~3)
  return end - next < SUBFRAME_HEADER_BYTES || subframeBytes(data, next) === SUBFRAME_HEADER_BYTES ? 0 : next
}

/** Most frames in a batch unless the caller says otherwise. */
export const DEFAULT_BATCH_FRAMES = 2048

/** Options of `createCaptureReader`. */
export interface CaptureReaderOptions {
  /** Most frames in a batch, 1 … 65,536. */
  readonly batchFrames?: number
}

/** Reads one capture: blocks of bytes in, batches of frames out, at the caller's pace. */
export interface CaptureReader {
  /**
   * Hands over the next block of the capture. The block is borrowed until `read` returns null; it must not
   * be pushed before that.
   */
  push(block: Uint8Array): void
  /** The next batch, valid until the next call of `read`; null when the block is used up. */
  read(): FrameBatch | null
  /** True where no further input can give a frame (damage); pushing more is harmless. */
  readonly finished: boolean
  /** No more input: the end state. Throws ArgumentError while a block is not read to its end. */
  end(): CaptureEnd
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
  const warnings = createWarningList()
  const batch = createFrameBatch(capacity)
  const aggregates = createAggregateSplitter(capacity)
  const empty: Uint8Array = new Uint8Array(0)
  let records: RecordReader | null = null
  let error: FormatError | null = null
  let packets = 0
  /** Bytes used so far: the capture offset of the next byte to be read. */
  let position = 0
  let block = empty
  let blockView = viewOf(block)
  let blockAt = 0
  let carry: Uint8Array = new Uint8Array(4096)
  let carryView = viewOf(carry)
  let carryLength = 0

  const addToCarry = (wanted: number): void => {
    const take = Math.min(wanted - carryLength, block.length - blockAt)
    if (carryLength + take > carry.length) {
      const larger = new Uint8Array(Math.max(2 * carry.length, carryLength + take))
      larger.set(carry.subarray(0, carryLength))
      carry = larger
      carryView = viewOf(carry)
    }
    carry.set(block.subarray(blockAt, blockAt + take), carryLength)
    carryLength += take
    blockAt += take
  }

  const detect = (data: Uint8Array, view: DataView, at: number): void => {
    const big = view.getUint32(at, false)
    if (isPcapMagic(big)) records = createPcapRecords(false, warnings)
    else if (isPcapMagic(view.getUint32(at, true))) records = createPcapRecords(true, warnings)
    else if (big === PCAPNG_SECTION_HEADER) records = createPcapngBlocks(warnings)
    else error = new FormatError('capture', describeUnknownMagic(data.subarray(at)), { offsetBytes: 0 })
  }

  /** Reads from data[at … end); returns the first position not used. */
  const readRecords = (data: Uint8Array, view: DataView, at: number, end: number): number => {
    if (records === null) {
      if (end - at < 4) return at
      detect(data, view, at)
      if (records === null) return at
    }
    const reader: RecordReader = records
    const next = reader.read(data, view, at, end, position - at, batch)
    position += next - at
    error = reader.error
    return next
  }

  const passOver = (): void => {
    if (records === null || records.skip === 0) return
    // a skipped block's head may still lie in the carry buffer
    const held = Math.min(records.skip, carryLength)
    if (held > 0) {
      carry.copyWithin(0, held, carryLength)
      carryLength -= held
    }
    const pass = Math.min(records.skip - held, block.length - blockAt)
    blockAt += pass
    records.skip -= held + pass
    position += held + pass
  }

  const deliver = (data: Uint8Array): FrameBatch => {
    batch.data = data
    return number(aggregates.split(batch))
  }

  const number = (frames: FrameBatch): FrameBatch => {
    frames.firstFrame = packets
    packets += frames.count
    return frames
  }

  return {
    push(next) {
      if (blockAt < block.length && error === null) {
        throw new ArgumentError('push: the block before this one is not read to its end yet')
      }
      // always the same class: a Buffer among Uint8Arrays would make every access to bytes slower
      block = new Uint8Array(next.buffer, next.byteOffset, next.byteLength)
      blockView = viewOf(next)
      blockAt = 0
    },
    read() {
      const part = aggregates.next()
      if (part !== null) return number(part)
      batch.count = 0
      batch.firstFrame = packets
      while (error === null) {
        passOver()
        if (records !== null && records.skip > 0) break
        const need = Math.max(records?.need ?? 4, 1)
        if (carryLength > 0) {
          if (carryLength < need) addToCarry(need)
          if (carryLength < need) break
          const used = readRecords(carry, carryView, 0, carryLength)
          if (used > 0) {
            carry.copyWithin(0, used, carryLength)
            carryLength -= used
            // a delivered frame must keep its bytes where the batch points: records fill the carry exactly
          }
          if (batch.count > 0) return deliver(carry)
        } else {
          if (blockAt >= block.length) break
          blockAt = readRecords(block, blockView, blockAt, block.length)
          if (batch.count > 0) return deliver(block)
          if (error === null && (records === null || (records as RecordReader).skip === 0)) {
            addToCarry(block.length - blockAt)
          }
        }
      }
      if (error !== null) blockAt = block.length
      return null
    },
    get finished() {
      return error !== null
    },
    end() {
      if (blockAt < block.length) throw new ArgumentError('end: the last block is not read to its end yet')
      let truncated = false
      let detail: string | null = null
      if (error === null) {
        const total = position + carryLength
        if (records === null || !records.started) {
          truncated = total > 0
          error =
            total === 0
              ? new FormatError(
                  'capture',
                  'empty: expected a pcap or pcapng file header, found no bytes; check that the recorder ran',
                )
              : new FormatError(
                  records?.format ?? 'capture',
                  `cut short: expected a file header of ${records === null ? 24 : records.need} bytes, found ${total}`,
                  { offsetBytes: 0 },
                )
        } else if (carryLength > 0 || records.skip > 0 || records.midRecord) {
          truncated = true
          const blockBytes = records.skippedBlockBytes
          // of a block that is passed over only the length at its end is read
          const blockAt = position + records.skip + 4 - blockBytes
          detail =
            blockBytes > 0
              ? `cut short: the block at byte ${blockAt} has a length of ${blockBytes} bytes, the input holds ${position + carryLength - blockAt}`
              : `cut short: the record at byte ${position} needs at least ${records.need} bytes, the input holds ${carryLength}`
        }
      }
      const drops = records?.drops ?? NO_DROPS
      const closing: string[] = []
      const unusableTimes = records?.unusableTimes ?? 0
      if (unusableTimes > 0) {
        closing.push(
          `${plural(unusableTimes, 'packet')} with a time not within 2^53 - 1 microseconds of 1970, read as without a time`,
        )
      }
      const overfull = records?.overfullFractions ?? 0
      if (overfull > 0) {
        closing.push(
          `${plural(overfull, 'packet')} with a fraction of a second that is a second or more, carried into the seconds`,
        )
      }
      const implausible = records?.implausibleLengths ?? 0
      if (implausible > 0) {
        closing.push(
          `${plural(implausible, 'packet')} with a length on the wire of more than ${MAXIMUM_WIRE_BYTES} bytes, taken as told`,
        )
      }
      const largeCounters = warnOfLargeCounters(drops)
      if (largeCounters !== null) closing.push(largeCounters)
      return {
        format: records?.format ?? null,
        packets,
        bytes: position + carryLength,
        truncated,
        error,
        detail: error === null ? detail : error.message,
        warnings: [...warnings.lines(), ...closing],
        commentCount: records?.commentCount ?? 0,
        comments: records?.comments ?? [],
        drops,
      }
    },
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
