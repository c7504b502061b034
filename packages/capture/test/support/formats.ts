/**
 * A capture in each format, in parts of which it is known whether they hold a packet: made by hand from the
 * formats' drafts, not by our writer.
 */
import { block, section, u16, u32 } from './pcapng.js'

export interface Part {
  readonly bytes: readonly number[]
  readonly isPacket: boolean
}

export interface FormatSample {
  readonly name: string
  readonly bytes: Uint8Array
  /** Where each part begins, and the end of the last one. */
  readonly boundaries: readonly number[]
  /** Packets in the parts before each boundary. */
  readonly packetsBefore: readonly number[]
}

/** Least bytes of a sample. */
const SAMPLE_BYTES = 4096

/** Lengths that come round: nothing, odd ones, a full header. */
const payload = (k: number): number[] =>
  Array.from({ length: [0, 1, 14, 54, 61, 33][k % 6]! }, (_, j) => (31 * k + 7 * j) & 255)

function sample(name: string, head: readonly Part[], packet: (k: number) => readonly Part[]): FormatSample {
  const bytes: number[] = []
  const boundaries = [0]
  const packetsBefore = [0]
  const add = (part: Part): void => {
    for (const byte of part.bytes) bytes.push(byte)
    boundaries.push(bytes.length)
    packetsBefore.push(packetsBefore.at(-1)! + (part.isPacket ? 1 : 0))
  }
  head.forEach(add)
  for (let k = 0; bytes.length < SAMPLE_BYTES; k++) packet(k).forEach(add)
  return { name, bytes: Uint8Array.from(bytes), boundaries, packetsBefore }
}

const other = (bytes: readonly number[]): Part => ({ bytes, isPacket: false })
const packetIn = (bytes: readonly number[]): Part => ({ bytes, isPacket: true })

function classic(name: string, magic: number, little: boolean): FormatSample {
  const head = [magic, 0, 0, 0, 262_144, 1].flatMap((word) => u32(word, little))
  head.splice(4, 4, ...u16(2, little), ...u16(4, little))
  const modified = magic === 0xa1b2cd34
  return sample(name, [other(head)], (k) => {
    const body = payload(k)
    const words = [1_700_000_000 + k, k, body.length, body.length + 3].flatMap((word) => u32(word, little))
    return [packetIn([...words, ...(modified ? [...u32(2, little), 8, 0, 0, 0] : []), ...body])]
  })
}

const option = (code: number, bytes: readonly number[], little: boolean): number[] => [
  ...u16(code, little),
  ...u16(bytes.length, little),
  ...bytes,
  ...new Array<number>(-bytes.length & 3).fill(0),
]

const text = (words: string): number[] => [...new TextEncoder().encode(words)]

/** All blocks that there are, in sections of both byte orders. */
function pcapng(): FormatSample {
  const parts = (k: number): readonly Part[] => {
    const little = k % 2 === 0
    const w = (value: number): number[] => u32(value, little)
    const h = (value: number): number[] => u16(value, little)
    const body = payload(k)
    const padded = [...body, ...new Array<number>(-body.length & 3).fill(0)]
    const end = [0, 0, 0, 0]
    const described = [...option(2, text('eth0'), little), ...option(9, [6], little), ...end]
    const comment = [
      ...option(1, text('a comment'), little),
      ...option(4, new Array<number>(8).fill(0), little),
      ...end,
    ]
    const ticks = [...w(0x000610c0), ...w(k)]
    return [
      other(section(little)),
      other(block(1, [...h(1), 0, 0, ...w(65_535), ...described], little)),
      other(block(4, [...h(1), ...h(8), 192, 0, 2, 1, ...text('one'), 0, ...end], little)),
      packetIn(
        block(6, [...w(0), ...ticks, ...w(body.length), ...w(body.length), ...padded, ...comment], little),
      ),
      other(block(0x40000bad, [...w(32_473), ...text('custom data')], little)),
      packetIn(block(3, [...w(body.length), ...body], little)),
      other(block(0x0bad, text('unknown block'), little)),
      packetIn(
        block(2, [...h(0), ...h(0xffff), ...ticks, ...w(body.length), ...w(body.length), ...padded], little),
      ),
      other(
        block(5, [...w(0), ...ticks, ...option(4, new Array<number>(8).fill(0), little), ...end], little),
      ),
      other(block(0x0a, [...w(0x544c534b), ...w(8), ...text('CLIENT_R')], little)),
    ]
  }
  return sample('pcapng, a section of each byte order in turn', [], parts)
}

export const FORMAT_SAMPLES: readonly FormatSample[] = [
  classic('pcap, microseconds, little-endian', 0xa1b2c3d4, true),
  classic('pcap, microseconds, big-endian', 0xa1b2c3d4, false),
  classic('pcap, nanoseconds, little-endian', 0xa1b23c4d, true),
  classic('pcap, nanoseconds, big-endian', 0xa1b23c4d, false),
  classic('modified pcap, little-endian', 0xa1b2cd34, true),
  classic('modified pcap, big-endian', 0xa1b2cd34, false),
  pcapng(),
]

/** Packets that lie whole in the first `length` bytes, and whether these end between two parts. */
export function contentOf(from: FormatSample, length: number): { packets: number; isWhole: boolean } {
  let part = 0
  while (part + 1 < from.boundaries.length && from.boundaries[part + 1]! <= length) part++
  return { packets: from.packetsBefore[part]!, isWhole: from.boundaries[part] === length }
}
