/**
 * Made packets: frames of TCP and UDP with correct lengths and checksums. Payloads are zeros unless given: no feature
 * reads them, and zeros do not change checksums. A frame is borrowed until the next one.
 */

import { createFrameBatch, type FrameBatch } from '@oddflow/capture'
import { exp, log, type Rng } from '@oddflow/core'

const BATCH_BYTES_PER_FRAME = 1514
const [LINKTYPE_ETHERNET, LINKTYPE_RAW] = [1, 101]

/**
 * Returns the frames of one capture in order; all batches share one buffer, so a batch is borrowed until the next one.
 * @param isEthernet - false: frames begin with the IP header.
 */
export function createMadeBatches(
  batchFrames: number,
  isEthernet: boolean,
): (frames: Iterable<MadeFrame>) => Iterable<FrameBatch> {
  const batch = createFrameBatch(batchFrames)
  const data = new Uint8Array(batchFrames * BATCH_BYTES_PER_FRAME)
  batch.data = data
  batch.linkType.fill(isEthernet ? LINKTYPE_ETHERNET : LINKTYPE_RAW)
  return function* (frames) {
    let bytes = 0
    batch.firstFrame = 0
    batch.count = 0
    for (const frame of frames) {
      const i = batch.count++
      data.set(frame.bytes, bytes)
      batch.offset[i] = bytes
      batch.capturedBytes[i] = batch.wireBytes[i] = frame.bytes.length
      batch.timestampMicros[i] = frame.timestampMicros
      bytes += frame.bytes.length
      if (batch.count < batchFrames) continue
      yield batch
      batch.firstFrame += batch.count
      batch.count = 0
      bytes = 0
    }
    if (batch.count > 0) yield batch
  }
}

export const [FIN, SYN, RST, PSH, ACK] = [1, 2, 4, 8, 16] as const

const [TCP, UDP] = [6, 17] as const
const ETHERNET_BYTES = 14
/** Of an IP packet: the usual Ethernet MTU. */
const MAXIMUM_IP_BYTES = 1500

/** A made frame. */
export interface MadeFrame {
  timestampMicros: number
  /** Valid until the maker makes the next frame. */
  bytes: Uint8Array
}

/** One end of made traffic: a host and its port. */
export interface MadeEnd {
  /** 4 bytes, or 16 of IPv6; both ends of a packet have as many. */
  readonly address: Uint8Array
  /** 6 bytes, of the host or its router; null without a link layer. */
  readonly mac: Uint8Array | null
  readonly hopLimit: number
  readonly port: number
}

/** Packet time: made traffic never waits. */
export interface MadeClock {
  micros: number
}

/** Makes frames between two ends. */
export interface PacketMaker {
  readonly clock: MadeClock
  /** At the clock's time. @param payload - bytes, or how many zeros. */
  udp(from: MadeEnd, to: MadeEnd, payload: Uint8Array | number): MadeFrame
  /** At the clock's time, with `bytes` zeros of payload. */
  tcp(from: MadeEnd, to: MadeEnd, segment: MadeSegment): MadeFrame
}

/** The TCP part of a made frame; `bytes` is the payload's length. */
export interface MadeSegment {
  readonly flags: number
  readonly sequence: number
  readonly acknowledgement: number
  readonly bytes: number
  /** `mss`: only a SYN has an option, as from scanners and small stacks; `timestamps`: as from Linux. */
  readonly options: 'mss' | 'timestamps'
}

/** Makes frames of Ethernet, IP, TCP and UDP at a clock's time. */
export function createPacketMaker(clock: MadeClock): PacketMaker {
  const buffer = new Uint8Array(ETHERNET_BYTES + MAXIMUM_IP_BYTES)
  const frame: MadeFrame = { timestampMicros: 0, bytes: buffer }
  /** Views of the buffer by length: one a frame would be garbage. */
  const views: Uint8Array[] = []
  let identification = 0
  /** The datagram in the buffer: a flood sends it again. null for others. */
  let last: { readonly from: MadeEnd; readonly to: MadeEnd; readonly payload: number } | null = null

  /** Headers of a packet; returns where the transport header begins. The ports come first in both. */
  const begin = (from: MadeEnd, to: MadeEnd, protocol: number, bytes: number): number => {
    last = null
    if (from.address.length === 4) identification = (identification + 1) & 0xffff
    const at = writeHeaders(buffer, from, to, protocol, bytes, identification)
    put16(buffer, at, from.port)
    put16(buffer, at + 2, to.port)
    return at
  }

  /** Of a transport at `start`. @param summedEnd - from here on its bytes are zeros. */
  const transportChecksum = (
    start: number,
    summedEnd: number,
    protocol: number,
    bytes: number,
    addresses: number,
  ): number =>
    checksum(
      sumOfWords(buffer, start, summedEnd, sumOfWords(buffer, start - addresses, start, protocol + bytes)),
    )

  const finish = (end: number): MadeFrame => {
    frame.timestampMicros = clock.micros
    views[end] ??= buffer.subarray(0, end)
    frame.bytes = views[end]
    return frame
  }

  return {
    clock,
    udp(from, to, payload) {
      if (last !== null && last.from === from && last.to === to && last.payload === payload) {
        if (from.address.length === 4) {
          identification = (identification + 1) & 0xffff
          writeIdentification(
            buffer,
            from.mac !== null && to.mac !== null ? ETHERNET_BYTES : 0,
            identification,
          )
        }
        return finish(frame.bytes.length)
      }
      const payloadBytes = typeof payload === 'number' ? payload : payload.length
      const bytes = 8 + payloadBytes
      const at = begin(from, to, UDP, bytes)
      put16(buffer, at + 4, bytes)
      put16(buffer, at + 6, 0)
      if (typeof payload === 'number') buffer.fill(0, at + 8, at + bytes)
      else buffer.set(payload, at + 8)
      const summedEnd = typeof payload === 'number' ? at + 8 : at + bytes
      const sum = transportChecksum(at, summedEnd, UDP, bytes, 2 * from.address.length)
      // 0 would say that there is none
      put16(buffer, at + 6, sum === 0 ? 0xffff : sum)
      if (typeof payload === 'number') last = { from, to, payload }
      return finish(at + bytes)
    },
    tcp(from, to, { flags, sequence, acknowledgement, bytes: payloadBytes, options }) {
      const optionBytes = (flags & SYN) !== 0 ? (options === 'mss' ? 4 : 20) : options === 'mss' ? 0 : 12
      const headerBytes = 20 + optionBytes
      const bytes = headerBytes + payloadBytes
      const at = begin(from, to, TCP, bytes)
      put32(buffer, at + 4, sequence)
      put32(buffer, at + 8, (flags & ACK) === 0 ? 0 : acknowledgement)
      buffer[at + 12] = (headerBytes / 4) << 4
      buffer[at + 13] = flags
      put16(buffer, at + 14, 64_240)
      put32(buffer, at + 16, 0)
      const mss = from.address.length === 4 ? 1460 : 1440
      writeTcpOptions(buffer, at + 20, optionBytes, mss, Math.floor(clock.micros / 1000))
      buffer.fill(0, at + headerBytes, at + bytes)
      put16(buffer, at + 16, transportChecksum(at, at + headerBytes, TCP, bytes, 2 * from.address.length))
      return finish(at + bytes)
    },
  }
}

/** Writes link and IP header; returns where the transport header begins. */
function writeHeaders(
  buffer: Uint8Array,
  from: MadeEnd,
  to: MadeEnd,
  protocol: number,
  transportBytes: number,
  identification: number,
): number {
  const isIpv4 = from.address.length === 4
  let at = 0
  if (from.mac !== null && to.mac !== null) {
    copy(to.mac, buffer, 0)
    copy(from.mac, buffer, 6)
    put16(buffer, 12, isIpv4 ? 0x0800 : 0x86dd)
    at = ETHERNET_BYTES
  }
  if (!isIpv4) {
    put32(buffer, at, 0x60000000)
    put16(buffer, at + 4, transportBytes)
    buffer[at + 6] = protocol
    buffer[at + 7] = from.hopLimit
    copy(from.address, buffer, at + 8)
    copy(to.address, buffer, at + 24)
    return at + 40
  }
  put16(buffer, at, 0x4500)
  put16(buffer, at + 2, 20 + transportBytes)
  // do not fragment
  put16(buffer, at + 6, 0x4000)
  buffer[at + 8] = from.hopLimit
  buffer[at + 9] = protocol
  copy(from.address, buffer, at + 12)
  copy(to.address, buffer, at + 16)
  writeIdentification(buffer, at, identification)
  return at + 20
}

/** Of an IPv4 header whose other fields are there. */
function writeIdentification(buffer: Uint8Array, at: number, identification: number): void {
  put16(buffer, at + 4, identification)
  put16(buffer, at + 10, 0)
  put16(buffer, at + 10, checksum(sumOfWords(buffer, at, at + 20, 0)))
}

/** For a few bytes faster than `set`. */
function copy(from: Uint8Array, to: Uint8Array, at: number): void {
  for (let i = 0; i < from.length; i++) to[at + i] = from[i]!
}

/** RFC 9293 and 7323: a SYN has its maximum segment size, and where timestamps are sent SACK and window scale. */
function writeTcpOptions(
  buffer: Uint8Array,
  at: number,
  optionBytes: number,
  mss: number,
  clockMillis: number,
): void {
  let next = at
  if (optionBytes === 4 || optionBytes === 20) {
    put32(buffer, next, (0x0204 << 16) | mss)
    next += 4
  }
  if (optionBytes < 12) return
  // two bytes in front of the timestamps: SACK permitted, or no operation
  put32(buffer, next, ((optionBytes === 20 ? 0x0402 : 0x0101) << 16) | 0x080a)
  put32(buffer, next + 4, clockMillis % 2 ** 32)
  put32(buffer, next + 8, 0)
  if (optionBytes === 20) put32(buffer, next + 12, 0x01030307)
}

/** How long an end waits for data to send along with an acknowledgement (Linux). */
const DELAYED_ACKNOWLEDGEMENT_MICROS = 40_000

/** A TCP connection, frame by frame; the clock moves on with it. */
export interface MadeConnection {
  /** SYN, SYN-ACK, ACK. */
  open(): Iterable<MadeFrame>
  /** `bytes` in full segments, with an acknowledgment of every second one; the answer acknowledges the last. */
  send(side: 'client' | 'server', bytes: number): Iterable<MadeFrame>
  /** Where no answer follows soon. */
  acknowledge(): Iterable<MadeFrame>
  /** FIN of both ends, the client's first, and the last acknowledgement. */
  close(): Iterable<MadeFrame>
}

interface MadeConnectionOptions {
  readonly client: MadeEnd
  readonly server: MadeEnd
  readonly roundTripMicros: number
  /** Between the packets of one transfer. */
  readonly packetGapMicros: number
}

export function createConnection(
  maker: PacketMaker,
  rng: Rng,
  { client, server, roundTripMicros, packetGapMicros }: MadeConnectionOptions,
): MadeConnection {
  const { clock } = maker
  const next = { client: rng.nextUint32(), server: rng.nextUint32() }
  const segment = (side: 'client' | 'server', flags: number, bytes = 0): MadeFrame => {
    const other = side === 'client' ? 'server' : 'client'
    const frame = maker.tcp(side === 'client' ? client : server, side === 'client' ? server : client, {
      flags,
      sequence: next[side],
      acknowledgement: next[other],
      bytes,
      options: 'timestamps',
    })
    next[side] = (next[side] + bytes + ((flags & (SYN | FIN)) === 0 ? 0 : 1)) % 2 ** 32
    return frame
  }
  /** Time goes by: about `micros`, give or take a fifth. */
  const wait = (micros: number): void => {
    clock.micros += Math.max(1, Math.round(micros * (0.8 + 0.4 * rng.nextFloat())))
  }
  /** Which end has not acknowledged the last data. */
  let owing: 'client' | 'server' | null = null
  function* acknowledge(): Iterable<MadeFrame> {
    if (owing === null) return
    wait(DELAYED_ACKNOWLEDGEMENT_MICROS)
    yield segment(owing, ACK)
    owing = null
  }
  return {
    *open() {
      yield segment('client', SYN)
      wait(roundTripMicros)
      yield segment('server', SYN | ACK)
      wait(80)
      yield segment('client', ACK)
      wait(200)
    },
    *send(side, bytes) {
      const most = MAXIMUM_IP_BYTES - (client.address.length === 4 ? 20 : 40) - 32
      const other = side === 'client' ? 'server' : 'client'
      // the other end's last data are acknowledged by this end's first
      if (owing === other) yield* acknowledge()
      owing = other
      let unacknowledged = 0
      for (let left = bytes; left > 0; left -= most) {
        const isLast = left <= most
        yield segment(side, isLast ? PSH | ACK : ACK, Math.min(left, most))
        wait(isLast ? roundTripMicros : packetGapMicros)
        if (++unacknowledged === 2 && !isLast) {
          yield segment(other, ACK)
          wait(packetGapMicros)
          unacknowledged = 0
        }
      }
    },
    acknowledge,
    *close() {
      yield segment('client', FIN | ACK)
      wait(roundTripMicros)
      yield segment('server', FIN | ACK)
      wait(80)
      yield segment('client', ACK)
      wait(200)
    },
  }
}

/** A DNS message of one question (RFC 1035), class IN. @param answerBytes - of a TXT record; null for a query. */
export function dnsMessage(id: number, name: string, answerBytes: number | null): Uint8Array {
  const labels = name.split('.')
  const questionBytes = name.length + 2 + 4
  const out = new Uint8Array(12 + questionBytes + (answerBytes === null ? 0 : 12 + answerBytes))
  put16(out, 0, id)
  put16(out, 2, answerBytes === null ? 0x0100 : 0x8180)
  put16(out, 4, 1)
  put16(out, 6, answerBytes === null ? 0 : 1)
  let at = 12
  for (const label of labels) {
    out[at++] = label.length
    for (let i = 0; i < label.length; i++) out[at++] = label.charCodeAt(i)
  }
  at++
  put32(out, at, (DNS_TXT << 16) | 1)
  at += 4
  if (answerBytes === null) return out
  // the question's name, its type and class, 60 s to live
  put16(out, at, 0xc00c)
  put32(out, at + 2, (DNS_TXT << 16) | 1)
  put32(out, at + 6, 60)
  put16(out, at + 10, answerBytes)
  out[at + 12] = answerBytes - 1
  return out
}

const DNS_TXT = 16

/** Uniform in the logarithm, from `low` to below `high`; the same on every machine. */
export function logUniform(rng: Rng, low: number, high: number): number {
  return low * exp(rng.nextFloat() * log(high / low))
}

function put16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 8
  bytes[at + 1] = value
}

function put32(bytes: Uint8Array, at: number, value: number): void {
  put16(bytes, at, value >>> 16)
  put16(bytes, at + 2, value & 0xffff)
}

/** RFC 1071, before folding; a last odd byte counts as the high one of a word. */
function sumOfWords(bytes: Uint8Array, start: number, end: number, from: number): number {
  let sum = from
  let at = start
  for (; at + 1 < end; at += 2) sum += (bytes[at]! << 8) | bytes[at + 1]!
  return at < end ? sum + (bytes[at]! << 8) : sum
}

function checksum(sum: number): number {
  let folded = sum
  while (folded > 0xffff) folded = (folded & 0xffff) + (folded >>> 16)
  return ~folded & 0xffff
}
