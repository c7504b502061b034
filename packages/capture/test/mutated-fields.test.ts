/**
 * Captures whose lengths, counts and options lie: what each field may say, and how far it is believed.
 *
 * Packets before the field are given whatever it says. A length that no record may have ends the reading at its
 * byte; one that the input does not hold is a truncated record; an option's length costs nothing but options.
 */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAXIMUM_CAPTURED_BYTES } from '../src/capture-notes.js'
import { type CaptureEnd, createCaptureReader } from '../src/index.js'
import { FORMAT_SAMPLES, type FormatSample } from './support/formats.js'
import { u32 } from './support/pcapng.js'

function read(bytes: Uint8Array): { packets: number; end: CaptureEnd } {
  const reader = createCaptureReader()
  reader.push(bytes)
  let packets = 0
  for (let batch = reader.read(); batch !== null; batch = reader.read()) packets += batch.count
  return { packets, end: reader.end() }
}

function withWord(bytes: Uint8Array, at: number, value: number, little: boolean): Uint8Array {
  const changed = bytes.slice()
  changed.set(u32(value, little), at)
  return changed
}

/** Any 32 bits, edges more often than chance has it. */
const word = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }),
  fc.integer({ min: 0, max: 300 }),
  fc.constantFrom(0x40000, 0x40001, 0xffffff, 0x1000000, 0x1000001, 0x7fffffff, 0x80000000, 0xfffffffc),
)
/** Any part of a sample but its first. */
const part = (of: FormatSample) => fc.integer({ min: 1, max: of.boundaries.length - 2 })

describe('the captured length of a pcap record', () => {
  const samples = FORMAT_SAMPLES.filter(({ name }) => !name.startsWith('pcapng'))
  it.each(samples.map((sample) => [sample.name, sample] as const))('%s', (name, sample) => {
    const little = name.endsWith('little-endian')
    const header = name.startsWith('modified') ? 24 : 16
    fc.assert(
      fc.property(part(sample), word, (record, value) => {
        const at = sample.boundaries[record]!
        const { packets, end } = read(withWord(sample.bytes, at + 8, value, little))
        expect(packets).toBe(end.packets)
        expect(packets).toBeGreaterThanOrEqual(record - 1)
        if (value > MAXIMUM_CAPTURED_BYTES) {
          expect(packets).toBe(record - 1)
          expect(end).toMatchObject({ truncated: false, error: { offsetBytes: at + 8 } })
        } else if (at + header + value > sample.bytes.length) {
          expect(packets).toBe(record - 1)
          expect(end).toMatchObject({ truncated: true, error: null })
        } else expect(packets).toBeGreaterThanOrEqual(record)
      }),
      { numRuns: sampleCount(400) },
    )
  })
})

describe('the fields of a pcapng block', () => {
  const sample = FORMAT_SAMPLES.find(({ name }) => name.startsWith('pcapng'))!
  const PARTS_A_SECTION = 10
  const littleAt = (which: number): boolean => Math.floor(which / PARTS_A_SECTION) % 2 === 0
  const whole = read(sample.bytes).packets
  /** Number `kind` of each section's parts. */
  const kindOf = (kind: number) =>
    fc
      .integer({ min: 0, max: Math.floor((sample.boundaries.length - 2) / PARTS_A_SECTION) - 1 })
      .map((s) => PARTS_A_SECTION * s + kind)

  it('its length, at the front', () => {
    fc.assert(
      fc.property(part(sample), word, (which, value) => {
        const at = sample.boundaries[which]!
        const isRight = value === sample.boundaries[which + 1]! - at
        const { packets, end } = read(withWord(sample.bytes, at + 4, value, littleAt(which)))
        expect(packets).toBe(isRight ? whole : sample.packetsBefore[which])
        if (isRight) return
        // not a length, not that at its end, or not all there
        expect(end.error !== null || end.truncated).toBe(true)
        if (value < 12 || value % 4 !== 0) expect(end.error).toMatchObject({ offsetBytes: at + 4 })
      }),
      { numRuns: sampleCount(600) },
    )
  })

  it('its length, at the end', () => {
    fc.assert(
      fc.property(part(sample), word, (which, value) => {
        const next = sample.boundaries[which + 1]!
        const isRight = value === next - sample.boundaries[which]!
        const { packets, end } = read(withWord(sample.bytes, next - 4, value, littleAt(which)))
        expect(packets).toBe(isRight ? whole : sample.packetsBefore[which])
        if (!isRight) expect(end.error).toMatchObject({ offsetBytes: next - 4 })
      }),
    )
  })

  it('the captured length of an enhanced packet', () => {
    fc.assert(
      fc.property(kindOf(3), word, (which, value) => {
        const at = sample.boundaries[which]!
        const room = sample.boundaries[which + 1]! - at - 32
        const { packets, end } = read(withWord(sample.bytes, at + 20, value, littleAt(which)))
        expect(packets).toBe(value <= room ? whole : sample.packetsBefore[which])
        if (value > room) expect(end.error).toMatchObject({ offsetBytes: at + 20 })
      }),
    )
  })

  it('the interface of an enhanced packet', () => {
    fc.assert(
      fc.property(kindOf(3), word, (which, value) => {
        const at = sample.boundaries[which]!
        const { packets, end } = read(withWord(sample.bytes, at + 8, value, littleAt(which)))
        expect(packets).toBe(value === 0 ? whole : sample.packetsBefore[which])
        if (value > 0) expect(end.error?.message).toContain(`found ${value}`)
      }),
    )
  })

  it('code and length of any option: packets are there all the same', () => {
    const places = [2, 4, 5, 6, 8, 9].flatMap((kind) =>
      sample.boundaries.slice(0, -1).flatMap((_, which) => (which % PARTS_A_SECTION === kind ? [which] : [])),
    )
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.nat(), word, (which, offset, value) => {
        const at = sample.boundaries[which]!
        const length = sample.boundaries[which + 1]! - at
        // of these blocks no more than the two lengths, and what stands before a packet's data, is believed
        const believed = [3, 5, 7].includes(which % PARTS_A_SECTION) ? 28 : 8
        if (length - 4 - believed < 4) return
        const place = at + believed + 4 * (offset % Math.floor((length - 4 - believed) / 4))
        const { packets, end } = read(withWord(sample.bytes, place, value, littleAt(which)))
        expect([packets, end.error, end.truncated]).toEqual([whole, null, false])
      }),
      { numRuns: sampleCount(600) },
    )
  })

  it('options of an interface and of an enhanced packet', () => {
    fc.assert(
      fc.property(fc.constantFrom(1, 3), kindOf(0), fc.nat(), word, (kind, section, offset, value) => {
        const which = section + kind
        const at = sample.boundaries[which]!
        const little = littleAt(which)
        const view = new DataView(sample.bytes.buffer)
        const first = kind === 1 ? 16 : 28 + ((view.getUint32(at + 20, little) + 3) & ~3)
        const room = sample.boundaries[which + 1]! - at - 4 - first
        const place = at + first + 4 * (offset % (room / 4))
        const { packets, end } = read(withWord(sample.bytes, place, value, little))
        expect([packets, end.error, end.truncated]).toEqual([whole, null, false])
      }),
      { numRuns: sampleCount(600) },
    )
  })
})
