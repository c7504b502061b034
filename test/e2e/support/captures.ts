/** Small captures made up for what must be refused or counted; addresses from RFC 5737. */
import { encodePcap, type PcapFrame } from '../../../packages/capture/src/index.js'

const start = 1_700_000_000_000_000

function frame(etherType: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(14 + payload.length)
  bytes.set([0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, etherType >> 8, etherType & 0xff])
  bytes.set(payload, 14)
  return bytes
}

export function arpFrame(sizeBytes = 42): Uint8Array {
  const payload = new Uint8Array(sizeBytes - 14)
  payload.set([0, 1, 8, 0, 6, 4, 0, 1])
  return frame(0x0806, payload)
}

export function udpFrame(sourcePort: number, sizeBytes = 60): Uint8Array {
  const payload = new Uint8Array(sizeBytes - 14)
  const view = new DataView(payload.buffer)
  payload.set([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2])
  view.setUint16(2, payload.length)
  view.setUint16(20, sourcePort)
  view.setUint16(22, 5683)
  view.setUint16(24, payload.length - 20)
  return frame(0x0800, payload)
}

/** One frame every millisecond. */
export function capture(frames: readonly Uint8Array[]): Uint8Array {
  return encodePcap(frames.map((bytes, i): PcapFrame => ({ timestampMicros: start + 1000 * i, bytes })))
}

/**
 * SYNs of as many sources to a thousand ports of one host, 50 microseconds apart. Where `isRefused`, the host resets each, and the
 * last one comes two seconds later, when all others have ended.
 */
export function synFlood(count: number, isRefused = false): Uint8Array {
  const frames = Array.from({ length: count }, (_, i): PcapFrame[] => {
    const payload = new Uint8Array(46)
    const view = new DataView(payload.buffer)
    payload.set([0x45, 0, 0, 46, 0, 1, 0, 0, 64, 6, 0, 0])
    view.setUint32(12, 0x0a00_0000 + (Math.imul(i, 2_654_435_761) >>> 8))
    view.setUint32(16, 0xc000_0201)
    view.setUint16(20, 1024 + ((7919 * i) % 60_000))
    view.setUint16(22, 1 + (i % 1000))
    payload.set([0x50, 2], 32)
    const isLate = isRefused && i === count - 1
    const timestampMicros = start + 50 * i + (isLate ? 2_000_000 : 0)
    const syn = { timestampMicros, bytes: frame(0x0800, payload) }
    if (!isRefused) return [syn]
    const reply = payload.slice()
    reply.set(payload.subarray(16, 20), 12)
    reply.set(payload.subarray(12, 16), 16)
    reply.set(payload.subarray(22, 24), 20)
    reply.set(payload.subarray(20, 22), 22)
    reply.set([0x50, 0x14], 32)
    return [syn, { timestampMicros: timestampMicros + 20, bytes: frame(0x0800, reply) }]
  })
  return encodePcap(frames.flat())
}
