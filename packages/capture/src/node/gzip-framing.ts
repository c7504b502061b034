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
import { crc32 } from './zlib-crc32.js'

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

export interface GzipFraming {
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

export function createGzipFraming(): GzipFraming {
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
