import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as zlib from 'node:zlib'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { encodePcap } from '../../src/index.js'
import { readCapture, summariseCaptureFile } from '../../src/node/index.js'
import { isZstd, ZstdFrames } from '../../src/node/unpack-blocks.js'
import { hasProgram } from '../support/shared.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-zstd-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const noZstd = !hasProgram('zstd', 'zstd captures are not made')
const inNode = 'createZstdDecompress' in zlib
if (!inNode) console.warn(`SKIPPED: Node ${process.version} has no zstd: only its refusal is tested`)

function zstd(bytes: Uint8Array, ...args: string[]): Uint8Array {
  return new Uint8Array(
    execFileSync('zstd', ['-qc', ...args], {
      input: bytes,
      maxBuffer: 1e8,
      stdio: ['pipe', 'pipe', 'ignore'],
    }),
  )
}
function write(bytes: Uint8Array): string {
  const file = join(folder, `${Math.floor(performance.now() * 1e6)}.zst`)
  writeFileSync(file, bytes)
  return file
}
const capture = encodePcap(
  Array.from({ length: 4000 }, (_, k) => ({
    timestampMicros: 1e15 + k,
    bytes: Uint8Array.from({ length: 60 }, (_unused, n) => (k * n * 7919) >>> 3),
  })),
)
const skippable = Uint8Array.of(0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3)

describe.skipIf(noZstd)('ZstdFrames', () => {
  const random = Uint8Array.from({ length: 300_000 }, (_, k) => (Math.imul(k, 2_654_435_761) >>> 13) & 255)
  const frames = noZstd
    ? []
    : [
        zstd(capture),
        skippable,
        zstd(new Uint8Array(0)),
        zstd(random, '--no-check'),
        zstd(new Uint8Array(500_000), '-19'),
        zstd(Uint8Array.of(1), '--no-content-size'),
      ]

  it('finds the end of every frame, however the input is cut', () => {
    const whole = Uint8Array.from(frames.flatMap((frame) => [...frame]))
    const expected: number[] = []
    for (const frame of frames) expected.push((expected.at(-1) ?? 0) + frame.length)
    expect(isZstd(whole) && isZstd(skippable)).toBe(true)
    expect(isZstd(capture)).toBe(false)
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 9 }), (sizes) => {
        const reader = new ZstdFrames()
        const ends: number[] = []
        for (let from = 0, turn = 0; from < whole.length; turn++) {
          const block = whole.subarray(from, from + sizes[turn % sizes.length]!)
          for (let at = 0; at < block.length; ) {
            at = reader.advance(block, at)
            if (reader.atBoundary) ends.push(from + at)
          }
          from += block.length
        }
        expect(reader.damage).toBeNull()
        expect(ends).toEqual(expected)
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('tells what is no frame', () => {
    const reader = new ZstdFrames()
    reader.advance(Uint8Array.of(1, 2, 3, 4), 0)
    expect(reader.damage).toMatch(/expected the magic number/)
  })

  it('ends on any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const reader = new ZstdFrames()
        const input = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, ...bytes)
        for (let at = 0; at < input.length && reader.damage === null; ) {
          const next = reader.advance(input, at)
          expect(next).toBeGreaterThan(at)
          at = next
        }
      }),
    )
  })
})

describe.skipIf(noZstd || inNode)('zstd where Node lacks it', () => {
  it('is refused with the way round it', async () => {
    const file = write(zstd(capture))
    await expect(readCapture(file, () => undefined)).rejects.toThrow(
      /zstd: not read by Node .*"zstd -dc FILE"/,
    )
    expect(await summariseCaptureFile(file)).toMatchObject({ packets: 0, comments: 0 })
  })
})

describe.skipIf(noZstd || !inNode)('zstd where Node has it', () => {
  const half = Math.floor(capture.length / 2)

  it('is read, in one frame or in several', async () => {
    const parts = [zstd(capture.subarray(0, half)), skippable, zstd(capture.subarray(half))]
    for (const bytes of [zstd(capture), Uint8Array.from(parts.flatMap((part) => [...part]))]) {
      expect(await readCapture(write(bytes), () => undefined)).toMatchObject({
        packets: 4000,
        truncated: false,
        error: null,
      })
    }
  })

  it('tells a cut from damage', async () => {
    const whole = zstd(capture)
    const cut = await readCapture(write(whole.subarray(0, whole.length - 20)), () => undefined)
    expect(cut).toMatchObject({ truncated: true, error: null })
    const damaged = await readCapture(write(Uint8Array.from([...whole, 1, 2, 3, 4, 5])), () => undefined)
    expect(damaged.packets).toBe(4000)
    expect(damaged.error?.message).toMatch(/^zstd: damaged/)
  })
})
