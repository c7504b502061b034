/**
 * Writing classic pcap, for tests and for keeping the packets behind a verdict. `encodePcap` joins the pieces for captures
 * that fit in memory.
 */
import { ArgumentError } from '@oddflow/core'
import { MAXIMUM_CAPTURED_BYTES } from './capture-notes.js'
import {
  PCAP_FILE_HEADER_BYTES,
  PCAP_MAGIC_MICROS,
  PCAP_MAGIC_NANOS,
  PCAP_RECORD_HEADER_BYTES,
} from './pcap-records.js'

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
