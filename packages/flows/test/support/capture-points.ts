/** The same packets as another place of capture would give them: other link layers, tags, padding, lengths. */
import { createCaptureReader, type PcapFrame } from '@oddflow/capture'

/** The IP packets of an Ethernet capture, as Ethernet frames without padding. */
export function ipFrames(capture: Uint8Array): PcapFrame[] {
  const frames: PcapFrame[] = []
  const reader = createCaptureReader()
  reader.push(capture)
  for (let batch = reader.read(); batch !== null; batch = reader.read()) {
    for (let i = 0; i < batch.count; i++) {
      const at = batch.offset[i]
      const bytes = batch.data.slice(at, at + batch.capturedBytes[i])
      const type = (bytes[12] << 8) | bytes[13]
      if (type !== 0x0800 && type !== 0x86dd) continue
      const ip = type === 0x0800 ? (bytes[16] << 8) | bytes[17] : 40 + ((bytes[18] << 8) | bytes[19])
      frames.push({ timestampMicros: batch.timestampMicros[i], bytes: bytes.subarray(0, 14 + ip) })
    }
  }
  reader.end()
  return frames
}

const bytesOf = (...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => [...part]))
const ipOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(14)
const typeOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(12, 14)

/** IP length 0, as in front of a card that segments; what is shorter than a frame is not segmented. */
function beforeSegmentation(bytes: Uint8Array): Uint8Array {
  const isTcp4 = bytes[12] === 8 && bytes[13] === 0 && bytes[23] === 6
  const out = bytes.slice()
  if (isTcp4) out.fill(0, 16, 18)
  return out
}

export type CapturePoint = readonly [
  name: string,
  linkType: number,
  rewrite: (bytes: Uint8Array) => Uint8Array,
]

export const CAPTURE_POINTS: readonly CapturePoint[] = [
  ['Linux cooked', 113, (b) => bytesOf([0, 0, 0, 1, 0, 6], b.subarray(6, 12), [0, 0], typeOf(b), ipOf(b))],
  [
    'Linux cooked, version 2',
    276,
    (b) => bytesOf(typeOf(b), [0, 0, 0, 0, 0, 2, 0, 1, 0, 6], b.subarray(6, 12), [0, 0], ipOf(b)),
  ],
  ['a VLAN tag', 1, (b) => bytesOf(b.subarray(0, 12), [0x81, 0, 0, 10], b.subarray(12))],
  [
    'two VLAN tags',
    1,
    (b) => bytesOf(b.subarray(0, 12), [0x88, 0xa8, 0, 20, 0x81, 0, 0, 10], b.subarray(12)),
  ],
  ['no link layer', 101, ipOf],
  ['a frame check sequence', 1, (b) => bytesOf(b, [1, 2, 3, 4])],
  ['padding', 1, (b) => bytesOf(b, new Array(Math.max(0, 60 - b.length)).fill(0))],
  [
    'padding and a frame check sequence',
    1,
    (b) => bytesOf(b, new Array(Math.max(0, 60 - b.length) + 4).fill(0)),
  ],
  ['lengths not yet filled in', 1, beforeSegmentation],
]
