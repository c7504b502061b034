/**
 * framesFromPcapParser: the npm package pcap-parser as a source of frame batches.
 *
 * pcap-parser emits an event per packet as fast as its stream flows. Packets that are not asked for yet
 * wait, and the stream is paused while they do, so that no more waits than one block of the stream holds.
 * What the package passes over in silence is guarded here as far as events and its public fields show it:
 * a captured length above MAXIMUM_CAPTURED_BYTES stops the reading before the package gathers (and copies,
 * block by block) what such a length asks for; bytes left at the end are reported as `truncated`; a version
 * other than 2.x makes a warning. What it cannot read, nanosecond files and pcapng, is refused by name.
 */
import { FormatError } from '@oddflow/core'
import { type CaptureEnd, createWarningList, MAXIMUM_CAPTURED_BYTES, NO_DROPS } from '../capture-notes.js'
import { DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import { createFrameBatch, type FrameBatch } from '../packet-batch.js'
import {
  PCAP_FILE_HEADER_BYTES,
  PCAP_RECORD_HEADER_BYTES,
  pcapLinkType,
  pcapVersionWarning,
} from '../pcap-records.js'
import { type FrameSource, frameSource } from './frame-source.js'
import type { PcapParserLike, PcapParserPacket } from './pcap-parser-types.js'

/** Options of `framesFromPcapParser`. */
export interface PcapParserOptions {
  /** Most frames in a batch. */
  readonly batchFrames?: number
}

/**
 * Listens from the call on, so it must be made in the same turn as `pcapParser.parse(…)`, before the parser
 * starts its stream. Iterating throws what the stream throws.
 */
export function framesFromPcapParser(parser: PcapParserLike, options: PcapParserOptions = {}): FrameSource {
  return frameSource(listen(parser, options.batchFrames ?? DEFAULT_BATCH_FRAMES))
}

function listen(parser: PcapParserLike, batchFrames: number): AsyncGenerator<FrameBatch, CaptureEnd> {
  const warnings = createWarningList()
  let waiting: PcapParserPacket[] = []
  let linkType = 0
  let started = false
  let inRecord = false
  let finished = false
  let error: FormatError | null = null
  let failure: Error | null = null
  let bytes = 0
  let wake: () => void = () => undefined

  const finish = (): void => {
    finished = true
    wake()
  }
  const refuse = (refusal: FormatError): void => {
    error ??= refusal
    parser.errored = true
    parser.stream.destroy()
    finish()
  }
  parser.on('globalHeader', (header) => {
    started = true
    bytes = PCAP_FILE_HEADER_BYTES
    const warning = pcapVersionWarning(header.majorVersion, header.minorVersion)
    if (warning !== null) warnings.add(warning)
    try {
      linkType = pcapLinkType(header.linkLayerType)
    } catch (refusal) {
      if (refusal instanceof FormatError) refuse(refusal)
      else throw refusal
    }
  })
  parser.on('packetHeader', ({ capturedLength }) => {
    if (error !== null) return
    inRecord = true
    if (capturedLength > MAXIMUM_CAPTURED_BYTES) {
      refuse(
        new FormatError(
          'pcap',
          `expected a captured length of at most ${MAXIMUM_CAPTURED_BYTES}, found ${capturedLength}`,
          { offsetBytes: bytes + 8 },
        ),
      )
    }
  })
  parser.on('packet', (packet) => {
    if (error !== null) return
    inRecord = false
    bytes += PCAP_RECORD_HEADER_BYTES + packet.data.length
    waiting.push(packet)
    if (waiting.length >= batchFrames) parser.stream.pause()
    wake()
  })
  parser.on('error', (cause) => {
    if (error !== null) return
    const magic = /^unknown magic number: ([0-9a-f]{8})$/.exec(cause.message)?.[1]
    if (magic !== undefined) refuse(new FormatError('pcap', describeMagic(magic), { offsetBytes: 0 }))
    else if (/^unsupported version/.test(cause.message)) refuse(new FormatError('pcap', cause.message))
    else failure = cause
    finish()
  })
  parser.on('end', finish)
  parser.stream.on('close', finish)

  const endState = (packets: number): CaptureEnd => {
    const left = parser.buffer?.length ?? 0
    let truncated = false
    let detail: string | null = null
    if (error === null && !started) {
      truncated = left > 0
      error =
        left === 0
          ? new FormatError('capture', 'empty: expected a pcap file header, found no bytes')
          : new FormatError(
              'pcap',
              `cut short: expected a file header of ${PCAP_FILE_HEADER_BYTES} bytes, found ${left}`,
              { offsetBytes: 0 },
            )
    } else if (error === null && (inRecord || left > 0)) {
      truncated = true
      detail = `cut short: the record at byte ${bytes} is not complete`
    }
    return {
      format: started ? 'pcap' : null,
      packets,
      bytes: bytes + left,
      truncated,
      error,
      detail: error === null ? detail : error.message,
      warnings: warnings.lines(),
      commentCount: 0,
      comments: [],
      drops: NO_DROPS,
    }
  }

  return (async function* () {
    const batch = createFrameBatch(batchFrames)
    let packets = 0
    try {
      for (;;) {
        while (waiting.length === 0 && !finished) {
          const woken = new Promise<void>((resolve) => {
            wake = resolve
          })
          if (parser.stream.isPaused()) parser.stream.resume()
          await woken
        }
        if (waiting.length === 0) break
        const taken = waiting
        waiting = []
        for (let from = 0; from < taken.length; from += batchFrames) {
          fillBatch(batch, taken, from, packets, linkType)
          packets += batch.count
          yield batch
        }
      }
      if (failure !== null) throw failure
      return endState(packets)
    } finally {
      parser.stream.destroy()
    }
  })()
}

/** Gathers the bytes of a batch in one block, as a FrameBatch has them. */
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

function describeMagic(magic: string): string {
  const what =
    magic === '4d3cb2a1' || magic === 'a1b23c4d'
      ? 'a nanosecond pcap'
      : magic === '0a0d0d0a'
        ? 'pcapng'
        : magic === '34cdb2a1' || magic === 'a1b2cd34'
          ? 'a modified pcap'
          : 'no pcap'
  return `expected a microsecond pcap, the only format that pcap-parser reads, found ${what} (magic ${magic}); use the oddflow reader`
}
