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
import { FormatError } from '@oddflow/core'
import {
  MAXIMUM_BLOCK_BYTES,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_INTERFACES,
  MAXIMUM_WIRE_BYTES,
  type WarningList,
} from './capture-end.js'
import { createCaptureNotes } from './capture-notes.js'
import {
  BYTE_ORDER_MAGIC,
  BYTE_ORDER_SWAPPED,
  ENHANCED_PACKET,
  INTERFACE_DESCRIPTION,
  INTERFACE_STATISTICS,
  PACKET_OBSOLETE,
  PCAPNG_SECTION_HEADER,
  SIMPLE_PACKET,
  SMALLEST_BLOCK,
  smallestReadLength,
} from './pcapng-block-types.js'
import { type PcapngInterface, readPcapngInterface, readPcapngStatistics } from './pcapng-interface.js'
import { OPTION_COMMENT, readUint64, walkPcapngOptions } from './pcapng-options.js'
import { writeTicks } from './pcapng-timestamp.js'
import { hex32, type RecordReader } from './record-reader.js'

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
