/**
 * The npm package pcap-parser as a source of frame batches. It emits packets as fast as its stream flows, so the
 * stream is paused while packets wait here. What it ignores is checked as far as its events show it: captured lengths,
 * bytes left at the end, the version. Nanosecond files and pcapng, which it cannot read, are refused by name.
 */

import type { Readable } from 'node:stream'
import { FormatError } from '@oddflow/core'
import { type CaptureEnd, createWarningList, MAXIMUM_CAPTURED_BYTES, NO_DROPS } from '../capture-notes.js'
import { DEFAULT_BATCH_FRAMES, missingHeader } from '../capture-reader.js'
import { createFrameBatch, type FrameBatch } from '../packet-batch.js'
import {
  PCAP_FILE_HEADER_BYTES,
  PCAP_RECORD_HEADER_BYTES,
  pcapLinkType,
  pcapVersionWarning,
} from '../pcap.js'
import { type FrameSource, frameSource } from './frame-source.js'

/** Options of `framesFromPcapParser`. */
export interface PcapParserOptions {
  /** Most frames in a batch. */
  readonly batchFrames?: number
}

/**
 * Listens from the call on, so call it in the same turn as `pcapParser.parse(…)`, before the parser starts its stream.
 * Iterating throws what the stream throws.
 */
export function framesFromPcapParser(parser: PcapParserLike, options: PcapParserOptions = {}): FrameSource {
  const batchFrames = options.batchFrames ?? DEFAULT_BATCH_FRAMES
  return frameSource(new PcapParserPackets(parser, batchFrames).batches())
}

class PcapParserPackets {
  readonly #parser: PcapParserLike
  readonly #batchFrames: number
  readonly #warnings = createWarningList()
  #waiting: PcapParserPacket[] = []
  #linkType = 0
  #isStarted = false
  #isInRecord = false
  #isFinished = false
  #error: FormatError | null = null
  #failure: Error | null = null
  #bytes = 0
  #wake: () => void = () => undefined

  constructor(parser: PcapParserLike, batchFrames: number) {
    this.#parser = parser
    this.#batchFrames = batchFrames
    parser.on('globalHeader', (header) => {
      this.#isStarted = true
      this.#bytes = PCAP_FILE_HEADER_BYTES
      const warning = pcapVersionWarning(header.majorVersion, header.minorVersion)
      if (warning !== null) this.#warnings.add(warning)
      try {
        this.#linkType = pcapLinkType(header.linkLayerType)
      } catch (refusal) {
        if (!(refusal instanceof FormatError)) throw refusal
        this.#refuse(refusal)
      }
    })
    parser.on('packetHeader', ({ capturedLength }) => {
      if (this.#error !== null) return
      this.#isInRecord = true
      if (capturedLength <= MAXIMUM_CAPTURED_BYTES) return
      const expected = `a captured length of at most ${MAXIMUM_CAPTURED_BYTES}`
      const place = { offsetBytes: this.#bytes + 8 }
      this.#refuse(new FormatError('pcap', `expected ${expected}, found ${capturedLength}`, place))
    })
    parser.on('packet', (packet) => {
      if (this.#error !== null) return
      this.#isInRecord = false
      this.#bytes += PCAP_RECORD_HEADER_BYTES + packet.data.length
      this.#waiting.push(packet)
      if (this.#waiting.length >= batchFrames) parser.stream.pause()
      this.#wake()
    })
    parser.on('error', (cause) => {
      if (this.#error !== null) return
      const magic = /^unknown magic number: ([0-9a-f]{8})$/.exec(cause.message)?.[1]
      if (magic !== undefined) {
        this.#refuse(new FormatError('pcap', describeMagic(magic), { offsetBytes: 0 }))
      } else if (/^unsupported version/.test(cause.message)) {
        this.#refuse(new FormatError('pcap', cause.message))
      } else this.#failure = cause
      this.#finish()
    })
    parser.on('end', () => this.#finish())
    parser.stream.on('close', () => this.#finish())
  }

  async *batches(): AsyncGenerator<FrameBatch, CaptureEnd> {
    const { stream } = this.#parser
    const batch = createFrameBatch(this.#batchFrames)
    let packets = 0
    try {
      for (;;) {
        while (this.#waiting.length === 0 && !this.#isFinished) {
          const woken = new Promise<void>((resolve) => {
            this.#wake = resolve
          })
          if (stream.isPaused()) stream.resume()
          await woken
        }
        const taken = this.#waiting
        if (taken.length === 0) break
        this.#waiting = []
        for (let from = 0; from < taken.length; from += this.#batchFrames) {
          fillBatch(batch, taken, from, packets, this.#linkType)
          packets += batch.count
          yield batch
        }
      }
      if (this.#failure !== null) throw this.#failure
      return this.#end(packets)
    } finally {
      stream.destroy()
    }
  }

  #finish(): void {
    this.#isFinished = true
    this.#wake()
  }

  #refuse(refusal: FormatError): void {
    this.#error ??= refusal
    this.#parser.errored = true
    this.#parser.stream.destroy()
    this.#finish()
  }

  #end(packets: number): CaptureEnd {
    const left = this.#parser.buffer?.length ?? 0
    const isCut = this.#error === null && (this.#isStarted ? this.#isInRecord || left > 0 : left > 0)
    if (!this.#isStarted) this.#error ??= missingHeader(left, 'pcap')
    const cut = isCut ? `cut short: the record at byte ${this.#bytes} is not complete` : null
    return {
      format: this.#isStarted ? 'pcap' : null,
      packets,
      bytes: this.#bytes + left,
      truncated: isCut,
      error: this.#error,
      detail: this.#error?.message ?? cut,
      warnings: this.#warnings.lines(),
      commentCount: 0,
      comments: [],
      drops: NO_DROPS,
    }
  }
}

/** Gathers the bytes of a batch in one block. */
function fillBatch(
  batch: FrameBatch,
  packets: readonly PcapParserPacket[],
  from: number,
  firstFrame: number,
  linkType: number,
): void {
  const count = Math.min(packets.length - from, batch.offset.length)
  let size = 0
  for (let i = 0; i < count; i++) size += packets[from + i]!.data.length
  if (batch.data.length < size) batch.data = new Uint8Array(size)
  batch.count = count
  batch.firstFrame = firstFrame
  let at = 0
  for (let i = 0; i < count; i++) {
    const { header, data } = packets[from + i]!
    batch.data.set(data, at)
    batch.offset[i] = at
    batch.capturedBytes[i] = data.length
    batch.wireBytes[i] = header.originalLength
    batch.timestampMicros[i] = header.timestampSeconds * 1e6 + header.timestampMicroseconds
    batch.timestampSubNanos[i] = 0
    batch.linkType[i] = linkType
    at += data.length
  }
}

const MAGIC_NAMES: Readonly<Record<string, string>> = {
  '4d3cb2a1': 'a nanosecond pcap',
  a1b23c4d: 'a nanosecond pcap',
  '0a0d0d0a': 'pcapng',
  '34cdb2a1': 'a modified pcap',
  a1b2cd34: 'a modified pcap',
}

function describeMagic(magic: string): string {
  const found = MAGIC_NAMES[magic] ?? 'no pcap'
  return `expected a microsecond pcap, the only format that pcap-parser reads, found ${found} (magic ${magic}); use the oddflow reader`
}

/** The part of the npm package pcap-parser 0.2.1 (which carries no types) that OddFlow uses. */

/** The header of a pcap file, as pcap-parser gives it. */
export interface PcapParserGlobalHeader {
  readonly magicNumber: string
  readonly majorVersion: number
  readonly minorVersion: number
  readonly snapshotLength: number
  readonly linkLayerType: number
}

/** The header of a packet, as pcap-parser gives it; lengths in bytes. */
export interface PcapParserPacketHeader {
  readonly timestampSeconds: number
  readonly timestampMicroseconds: number
  readonly capturedLength: number
  readonly originalLength: number
}

/** A packet, as pcap-parser gives it. */
export interface PcapParserPacket {
  readonly header: PcapParserPacketHeader
  readonly data: Uint8Array
}

/** What `pcapParser.parse(…)` gives. */
export interface PcapParserLike {
  /** The stream that it reads. */
  readonly stream: Readable
  /** Bytes that it holds and has not used yet. */
  readonly buffer: Uint8Array | null
  /** While true, it ignores its stream. */
  errored?: boolean
  on(event: 'globalHeader', listener: (header: PcapParserGlobalHeader) => void): unknown
  on(event: 'packetHeader', listener: (header: PcapParserPacketHeader) => void): unknown
  on(event: 'packet', listener: (packet: PcapParserPacket) => void): unknown
  on(event: 'end', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
}
