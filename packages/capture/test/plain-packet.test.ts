/**
 * The one-go reading of ordinary packets against the layers' functions: the same columns, whatever the frame.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeLinkLayer } from '../src/link-layer.js'
import { createPacketBatch, PACKET_OK, type PacketBatch } from '../src/packet-batch.js'
import { decodePlainPacket } from '../src/packet-decoder.js'

interface Shape {
  readonly version: 4 | 6
  readonly protocol: number
  readonly tags: number
  /** Beyond the transport's first bytes. */
  readonly payloadBytes: number
  /** Of the whole frame, that are captured; the rest is snapped off. */
  readonly capturedBytes: number
  /** [place, value], within the headers. */
  readonly changes: readonly (readonly [number, number])[]
  /** Bytes before the frame in its block. */
  readonly before: number
}

function frameOf({ version, protocol, tags, payloadBytes, changes }: Shape): Uint8Array {
  const ip = 14 + 4 * tags
  const ipHeader = version === 4 ? 20 : 40
  const frame = new Uint8Array(ip + ipHeader + 20 + payloadBytes)
  const view = new DataView(frame.buffer)
  for (let b = 0; b < frame.length; b++) frame[b] = 7 * b + 1
  for (let tag = 0; tag < tags; tag++) view.setUint32(12 + 4 * tag, 0x81000064)
  view.setUint16(ip - 2, version === 4 ? 0x0800 : 0x86dd)
  view.setUint8(ip, version === 4 ? 0x45 : 0x60)
  if (version === 4) {
    view.setUint16(ip + 2, frame.length - ip)
    view.setUint16(ip + 6, 0x4000)
    view.setUint8(ip + 9, protocol)
  } else {
    view.setUint16(ip + 4, frame.length - ip - 40)
    view.setUint8(ip + 6, protocol)
  }
  for (const [place, value] of changes) frame[place % (ip + ipHeader + 14)] = value
  return frame
}

/** The columns of packet 1, of a batch that held something else before. */
function columns(batch: PacketBatch): Record<string, number[]> {
  return Object.fromEntries(
    Object.entries(batch)
      .filter(([, column]) => typeof column !== 'number')
      .map(([name, column]) => {
        const perPacket = column.length / 3
        return [name, [...column.slice(perPacket, 2 * perPacket)]]
      }),
  )
}

function batchHolding(value: number): PacketBatch {
  const batch = createPacketBatch(3)
  for (const column of Object.values(batch)) if (typeof column !== 'number') column.fill(value)
  batch.frameBytes.fill(1500)
  batch.capturedBytes.fill(90)
  batch.timestampMicros.fill(5)
  batch.status.fill(PACKET_OK)
  return batch
}

const shape: fc.Arbitrary<Shape> = fc.record({
  version: fc.constantFrom(4, 6),
  protocol: fc.constantFrom(6, 6, 17, 17, 132, 1, 58, 44, 0, 47),
  tags: fc.constantFrom(0, 0, 1, 2),
  payloadBytes: fc.nat(40),
  capturedBytes: fc.oneof(fc.constant(1500), fc.nat(120)),
  changes: fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 3 }),
  before: fc.nat(9),
})

describe('decodePlainPacket', () => {
  it('writes what the layers write, or nothing', () => {
    let plain = 0
    let others = 0
    const numRuns = sampleCount(3000)
    fc.assert(
      fc.property(shape, (wanted) => {
        const frame = frameOf(wanted)
        // neither the frame nor its block begins where the buffer does
        const data = new Uint8Array(wanted.before + frame.length + 6).fill(0xa5).subarray(2)
        const start = wanted.before
        data.set(frame, start)
        const end = start + Math.min(frame.length, wanted.capturedBytes)
        const layers = batchHolding(0)
        layers.status[1] = decodeLinkLayer({ data, start, end, packets: layers, i: 1, depth: 0 }, 1, start)
        const once = batchHolding(0x5a)
        const untouched = columns(once)
        if (decodePlainPacket(data, start, end, once, 1)) {
          plain++
          expect(columns(once)).toEqual(columns(layers))
        } else {
          others++
          expect(columns(once)).toEqual(untouched)
        }
      }),
      { numRuns },
    )
    expect(plain).toBeGreaterThan(numRuns / 10)
    expect(others).toBeGreaterThan(numRuns / 10)
  })

  it('takes TCP and UDP of both IP versions, with a tag and without', () => {
    for (const version of [4, 6] as const) {
      for (const protocol of [6, 17]) {
        for (const tags of [0, 1]) {
          const wanted = { version, protocol, tags, payloadBytes: 0, changes: [], before: 0 }
          const frame = frameOf({ ...wanted, capturedBytes: 1500 })
          expect(decodePlainPacket(frame, 0, frame.length, createPacketBatch(1), 0)).toBe(true)
        }
      }
    }
  })
})
