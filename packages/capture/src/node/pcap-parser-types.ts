/** The part of the npm package pcap-parser 0.2.1 (which carries no types) that OddFlow uses. */
import type { Readable } from 'node:stream'

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
