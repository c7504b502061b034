import { ArgumentError, FormatError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAXIMUM_CAPTURED_BYTES } from '../src/capture-notes.js'
import {
  createCaptureReader,
  createPacketBatch,
  decodePackets,
  encodePcap,
  type PcapFrame,
} from '../src/index.js'
import { readFrames } from './support/frames.js'
import { block, enhancedPacket, interfaceBlock, section, u16, u32 } from './support/pcapng.js'

const frame: fc.Arbitrary<PcapFrame> = fc.record({
  timestampMicros: fc.integer({ min: 0, max: 4_294_967_295_999_999 }),
  timestampSubNanos: fc.integer({ min: 0, max: 999 }),
  bytes: fc.uint8Array({ maxLength: 200 }),
  wireBytes: fc.integer({ min: 200, max: 0xffffffff }),
})
const options = fc.record({
  linkType: fc.integer({ min: 0, max: 65_535 }),
  nanoseconds: fc.boolean(),
  bigEndian: fc.boolean(),
})
const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 40 })

/** A section of each byte order, all kinds of packet block, blocks to skip (one longer than a piece). */
const pcapng = Uint8Array.from([
  ...section(true),
  ...interfaceBlock(),
  ...enhancedPacket(0, 1_700_000_000_000_001n, [1, 2, 3]),
  ...block(0x0bad, new Array<number>(300).fill(7)),
  ...block(3, [...u32(5), 1, 2, 3, 4, 5]),
  ...block(5, []),
  ...section(false),
  ...interfaceBlock([...u16(9, false), ...u16(1, false), 9, 0, 0, 0, 0, 0, 0, 0], false, 101),
  ...block(0x40000bad, [1, 2, 3, 4], false),
  ...enhancedPacket(0, 1_700_000_000_000_000_123n, [0x45], false),
  ...block(2, [0, 0, 0, 0, ...[0, 5, 2, 2].flatMap((word) => u32(word, false)), 9, 9], false),
])

describe('createCaptureReader', () => {
  it('reads what the writer wrote, in every variant and however it is cut', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), options, sizes, (frames, variant, cut) => {
        const { frames: found, end } = readFrames(encodePcap(frames, variant), cut, 5)
        expect(end).toMatchObject({ format: 'pcap', error: null, truncated: false, packets: frames.length })
        expect(found).toEqual(
          frames.map((each) => ({
            ...each,
            timestampSubNanos: variant.nanoseconds ? each.timestampSubNanos : 0,
            linkType: variant.linkType,
          })),
        )
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('reads pcapng alike however it is cut', () => {
    const whole = readFrames(pcapng)
    expect(whole.end).toMatchObject({ format: 'pcapng', error: null, truncated: false, warnings: [] })
    expect(whole.frames.map(({ timestampMicros }) => timestampMicros)).toEqual([
      1_700_000_000_000_001,
      Number.NaN,
      1_700_000_000_000_000,
      0,
    ])
    expect(whole.frames.map(({ timestampSubNanos }) => timestampSubNanos)).toEqual([0, 0, 123, 5])
    expect(whole.frames.map(({ linkType }) => linkType)).toEqual([1, 1, 101, 101])
    expect(whole.frames.map(({ bytes }) => [...bytes])).toEqual([[1, 2, 3], [1, 2, 3, 4, 5], [0x45], [9, 9]])
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 4 }), (cut, batchFrames) => {
        expect(readFrames(pcapng, cut, batchFrames)).toEqual(whole)
      }),
    )
    for (let size = 1; size < pcapng.length; size++) expect(readFrames(pcapng, [size])).toEqual(whole)
  })

  it('tells a cut at every byte, with all whole packets before it', () => {
    const whole = readFrames(pcapng)
    for (let length = 0; length < pcapng.length; length++) {
      const part = readFrames(pcapng.slice(0, length), [17])
      expect(part.frames).toEqual(whole.frames.slice(0, part.frames.length))
      expect(part.end.packets).toBe(part.frames.length)
      expect(part.end.error !== null).toBe(length < 28)
    }
  })

  it('answers damage with FormatError alone, and never with memory', () => {
    const base = [
      pcapng,
      encodePcap([1, 2, 3].map((k) => ({ timestampMicros: k, bytes: new Uint8Array(60).fill(k) }))),
    ]
    const flips = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 8,
    })
    const packets = createPacketBatch(64)
    fc.assert(
      fc.property(fc.constantFrom(...base), flips, sizes, (original, changes, cut) => {
        const damaged = original.slice()
        for (const [at, value] of changes) damaged[at % damaged.length] = value
        const before = process.memoryUsage()
        const reader = createCaptureReader({ batchFrames: 64 })
        let frames = 0
        for (let at = 0, turn = 0; at < damaged.length; turn++) {
          const size = cut[turn % cut.length]!
          reader.push(damaged.subarray(at, at + size))
          at += size
          for (let batch = reader.read(); batch !== null; batch = reader.read()) {
            decodePackets(batch, packets)
            frames += batch.count
          }
        }
        const end = reader.end()
        expect(end.packets).toBe(frames)
        if (end.error !== null) expect(end.error).toBeInstanceOf(FormatError)
        const after = process.memoryUsage()
        expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8e6)
      }),
      { numRuns: sampleCount(3000) },
    )
  })

  it('takes any bytes', () => {
    const magic = fc.constantFrom(
      [],
      [0xd4, 0xc3, 0xb2, 0xa1],
      [0x0a, 0x0d, 0x0d, 0x0a],
      [0xa1, 0xb2, 0x3c, 0x4d],
    )
    fc.assert(
      fc.property(magic, fc.uint8Array({ maxLength: 300 }), sizes, (head, tail, cut) => {
        const { end } = readFrames(Uint8Array.from([...head, ...tail]), cut)
        if (end.error !== null) expect(end.error).toBeInstanceOf(FormatError)
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it('stops at a length that cannot be, saying where and what', () => {
    const capture = encodePcap([{ timestampMicros: 0, bytes: new Uint8Array(10) }])
    const bad = Uint8Array.from([
      ...capture,
      ...u32(0),
      ...u32(0),
      ...u32(MAXIMUM_CAPTURED_BYTES + 1),
      ...u32(0),
    ])
    const { frames, end } = readFrames(bad)
    expect(frames).toHaveLength(1)
    expect(end.error?.message).toBe(
      'pcap: packet 2: expected a captured length of at most 262144, found 262145 (byte 58)',
    )
    expect(end.error?.offsetBytes).toBe(58)
  })

  it('reads the largest record, and blocks far smaller than it', () => {
    const bytes = new Uint8Array(MAXIMUM_CAPTURED_BYTES).fill(5)
    const capture = encodePcap([
      { timestampMicros: 1, bytes },
      { timestampMicros: 2, bytes: bytes.subarray(0, 3) },
    ])
    const { frames } = readFrames(capture, [1000])
    expect(frames.map((each) => each.bytes.length)).toEqual([MAXIMUM_CAPTURED_BYTES, 3])
    expect(frames[0]!.bytes.every((byte) => byte === 5)).toBe(true)
  })

  it('copies a byte once however finely the input is cut', () => {
    // 40 records of 200 kB in pieces of 64 bytes: quadratic copying would move terabytes
    const bytes = new Uint8Array(200_000)
    const capture = encodePcap(Array.from({ length: 40 }, (_, k) => ({ timestampMicros: k, bytes })))
    const before = process.cpuUsage()
    const reader = createCaptureReader()
    let packets = 0
    for (let at = 0; at < capture.length; at += 64) {
      reader.push(capture.subarray(at, at + 64))
      for (let batch = reader.read(); batch !== null; batch = reader.read()) packets += batch.count
    }
    expect(packets).toBe(40)
    expect(process.cpuUsage(before).user).toBeLessThan(3e6)
  })

  it('refuses calls out of turn and batches of no size', () => {
    const capture = encodePcap([{ timestampMicros: 0, bytes: new Uint8Array(10) }])
    const reader = createCaptureReader()
    reader.push(capture)
    expect(() => reader.push(capture)).toThrow(ArgumentError)
    expect(() => reader.end()).toThrow(ArgumentError)
    expect(() => createCaptureReader({ batchFrames: 0 })).toThrow(/batchFrames: expected/)
    expect(() => decodePackets(reader.read()!, createPacketBatch(0))).toThrow(/room for 1/)
  })

  it('names well-known formats that are no captures', () => {
    const say = (bytes: readonly number[]): string => readFrames(Uint8Array.from(bytes)).end.detail ?? ''
    expect(say([0x48, 0x65, 0x6c, 0x6c, 0x6f])).toContain('found 48 65 6c 6c ("Hell")')
    expect(say([0x28, 0xb5, 0x2f, 0xfd])).toContain('zstd -d')
    expect(say([0x1f, 0x8b, 8, 0])).toContain('gzip')
    expect(say([])).toContain('empty')
    expect(say([0xd4, 0xc3])).toContain(
      'expected a file header of 24 bytes, found 2; the recorder stopped too early',
    )
  })
})

describe('captures joined end to end', () => {
  it.each([
    [false, false],
    [true, true],
    [false, true],
    [true, false],
  ])('are told of where the next one begins (big-endian: %s, then %s)', (first, second) => {
    const frames = [{ timestampMicros: 1_000_000, bytes: Uint8Array.of(1, 2, 3) }]
    const joined = Uint8Array.from([
      ...encodePcap(frames, { bigEndian: first }),
      ...encodePcap(frames, { bigEndian: second, nanoseconds: true }),
    ])
    const { warnings } = readAll(joined)
    expect(warnings.join()).toMatch(
      /packet 2 is the header of another capture file \(byte 43\): .*cat.*mergecap/,
    )
  })

  it('are not seen in an empty packet of any time', () => {
    const frames = [0xa1b2c3d4, 0xd4c3b2a1].map((seconds) => ({
      timestampMicros: seconds * 1e6 + 7,
      bytes: new Uint8Array(0),
    }))
    expect(readAll(encodePcap(frames))).toMatchObject({ packets: 2, error: null, warnings: [] })
  })
})

function readAll(bytes: Uint8Array) {
  const reader = createCaptureReader()
  reader.push(bytes)
  while (reader.read() !== null);
  return reader.end()
}
