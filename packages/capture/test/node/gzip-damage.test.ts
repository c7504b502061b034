/** gzip around a real capture, damaged in every small way; gzip(1) says what can still be had. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { constants, deflateRawSync, gzipSync } from 'node:zlib'
import { crc32 } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { type CaptureEnd, encodePcap, encodePcapFileHeader, encodePcapRecord } from '../../src/index.js'
import { CaptureFileError, readCapture } from '../../src/node/index.js'
import { createCompressionState, unpackBlocks } from '../../src/node/unpack-blocks.js'
import { goldenCaptures, hasProgram, sharedMissing } from '../support/shared.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-gzip-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const made = encodePcap(
  Array.from({ length: 400 }, (_, k) => ({
    timestampMicros: 1_700_000_000_000_000 + k,
    bytes: Uint8Array.from({ length: 60 + (k % 40) }, (_, j) => (j * k) & 255),
  })),
)
const real = sharedMissing
  ? made
  : readFileSync(join(goldenCaptures, 'captures/iot/botnet_test7.pcap')).subarray(0, 64_000)
const gzipMissing = !hasProgram('gzip', 'damaged files are not compared with it')

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)

async function unpack(packed: Uint8Array, pieceBytes = packed.length) {
  const state = createCompressionState()
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < packed.length; at += pieceBytes) yield packed.slice(at, at + pieceBytes)
  }
  const parts: Buffer[] = []
  for await (const part of unpackBlocks(pieces(), state)) parts.push(Buffer.from(part))
  return { content: Buffer.concat(parts), state }
}

async function read(bytes: Uint8Array): Promise<{ packets: number; bytes: number; end: CaptureEnd }> {
  const file = join(folder, 'file')
  writeFileSync(file, bytes)
  const end = await readCapture(file, () => undefined)
  return { packets: end.packets, bytes: end.bytes, end }
}

function expectAsGzip(packed: Uint8Array, content: Buffer): void {
  if (gzipMissing) return
  const run = spawnSync('gzip', ['-dc'], { input: packed, maxBuffer: 1e8 })
  expect(content.equals(run.stdout)).toBe(true)
}

describe.each([
  ['a capture', real],
  ['small packets', made],
])('gzip of %s', (_, plain) => {
  const packed = gzipSync(plain)
  const content = Buffer.from(plain)

  it('with 1 to 64 bytes of junk behind it gives all, with a warning', async () => {
    const whole = await read(plain)
    for (const length of sampleOf(range(1, 64))) {
      const junk = Buffer.from('junk'.repeat(16)).subarray(0, length)
      const damaged = Buffer.concat([packed, junk])
      const seen = await read(damaged)
      expect(seen).toMatchObject({ packets: whole.packets, bytes: whole.bytes })
      expect(seen.end).toMatchObject({ error: whole.end.error, truncated: whole.end.truncated })
      expect(seen.end.warnings.at(-1)).toBe(
        `gzip: ${length} byte${length === 1 ? '' : 's'} of trailing garbage behind the last member ignored`,
      )
      const found = await unpack(damaged, 997 + (length % 7) * 1000)
      expect(found.state).toMatchObject({ damage: null, truncated: false, trailingBytes: length })
      expectAsGzip(damaged, found.content)
    }
  })

  it('with any bit of the trailer flipped gives the error, and all but a member small enough to withhold', async () => {
    const whole = await read(plain)
    const small = plain.length <= 65_536
    for (const bit of sampleOf(range(0, 63))) {
      const damaged = Buffer.from(packed)
      damaged[packed.length - 8 + (bit >> 3)]! ^= 1 << (bit & 7)
      const found = await unpack(damaged)
      expect(found.state.damage).toMatch(/^damaged: checksum /)
      if (small) {
        expect(found.content.length).toBe(0)
        await expect(read(damaged)).rejects.toThrow(/damaged: checksum .* bytes are withheld/)
        continue
      }
      const { end } = await read(damaged)
      expect(end.packets).toBe(whole.packets)
      expect(end.error?.message).toMatch(/^gzip: damaged: checksum /)
      expect(found.content.equals(content)).toBe(true)
      expectAsGzip(damaged, found.content)
    }
  })

  it('cut anywhere in its last 100 bytes is truncated, with all that gzip gives', async () => {
    for (const cut of sampleOf(range(1, 100))) {
      const damaged = packed.subarray(0, packed.length - cut)
      const found = await unpack(damaged)
      expect(found.state).toMatchObject({ damage: null, truncated: true })
      if (!gzipMissing) {
        // gzip looks further ahead than it must, and may stop some bytes earlier
        const { stdout } = spawnSync('gzip', ['-dc'], { input: damaged, maxBuffer: 1e8 })
        expect(found.content.subarray(0, stdout.length).equals(stdout)).toBe(true)
      }
      expect(found.content.equals(content.subarray(0, found.content.length))).toBe(true)
      if (cut <= 8) expect(found.content.length).toBe(content.length)
    }
  })

  it('of several members, with padding and with every header field is one stream, however it is cut', async () => {
    const fields = (flags: number, parts: readonly number[][]): Buffer => {
      const head = Buffer.from([0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255, ...parts.flat()])
      const sum = crc32(head)
      const check = (flags & 2) === 0 ? [] : [sum & 255, (sum >>> 8) & 255]
      return Buffer.concat([head, Buffer.from(check), deflateRawSync(content), packed.subarray(-8)])
    }
    const extra = [5, 0, 1, 2, 0, 4, 5]
    const name = [...Buffer.from('name.pcap'), 0]
    const cases: [Buffer, number][] = [
      [Buffer.concat([packed, packed]), 2],
      [Buffer.concat([packed, gzipSync(''), gzipSync(''), packed, packed]), 3],
      [Buffer.concat([packed, Buffer.alloc(1000)]), 1],
      [fields(4, [extra]), 1],
      [fields(4, [[0, 0]]), 1],
      [fields(8, [name]), 1],
      [fields(16, [name]), 1],
      [Buffer.concat([fields(0x1f, [extra, name, [0]]), fields(2, [])]), 2],
    ]
    for (const [file, times] of cases) {
      const whole = Buffer.concat(new Array<Buffer>(times).fill(content))
      expectAsGzip(file, whole)
      for (const pieceBytes of [file.length, packed.length, 1009, 8]) {
        const found = await unpack(file, pieceBytes)
        expect(found.state).toMatchObject({ damage: null, truncated: false, trailingBytes: 0 })
        expect(found.content.equals(whole)).toBe(true)
      }
    }
  })

  it('with damaged deflate data loses at most 16 KiB before the damage, and says so', async () => {
    for (const k of sampleOf(range(1, 11), 0.3)) {
      const before = content.subarray(0, Math.floor((k * content.length) / 12))
      // a flushed stream ends at a byte, and 7 begins a block of the type that is reserved
      const sound = deflateRawSync(before, { finishFlush: constants.Z_SYNC_FLUSH })
      const damaged = Buffer.concat([packed.subarray(0, 10), sound, Buffer.alloc(100, 7)])
      for (const pieceBytes of [damaged.length, 4096]) {
        const found = await unpack(damaged, pieceBytes)
        expect(found.state.damage).toMatch(/^damaged: invalid block type in gzip member 1; up to 16384 bytes/)
        expect(found.content.length).toBeGreaterThanOrEqual(before.length - 16_384)
        expect(found.content.equals(before.subarray(0, found.content.length))).toBe(true)
      }
    }
  })
})

describe('gzip', () => {
  it('reads on behind a member with a wrong checksum', async () => {
    const large = Buffer.concat([made, made])
    const first = gzipSync(large)
    first[first.length - 8]! ^= 1
    const { content, state } = await unpack(Buffer.concat([first, gzipSync(made)]))
    expect(content.length).toBe(large.length + made.length)
    expect(state.damage).toMatch(/^damaged: checksum of gzip member 1: expected CRC-32 0x/)
  })

  it('refuses a method and flags that do not exist, and tells a wrong header checksum', async () => {
    const bent = (at: number, value: number): Buffer => {
      const copy = Buffer.from(gzipSync(made))
      copy[at] = value
      return copy
    }
    expect((await unpack(bent(2, 7))).state.damage).toContain('expected compression method 8')
    expect((await unpack(bent(3, 0x80))).state.damage).toContain('expected flags below 0x20')
    const packed = gzipSync(made)
    const checked = Buffer.concat([packed.subarray(0, 10), Buffer.from([1, 2]), packed.subarray(10)])
    checked[3] = 2
    const found = await unpack(checked)
    expect(found.state.damage).toContain('checksum of the header of gzip member 1')
    expect(found.content.length).toBe(made.length)
    await expect(read(bent(2, 7))).rejects.toThrow(CaptureFileError)
  })

  it('gives the same of a damaged file however it is cut', async () => {
    const members = [
      gzipSync(made.subarray(0, 20_000)),
      gzipSync(Buffer.concat([made, made, made])),
      gzipSync(''),
    ]
    const wrong = (k: number, byte: number): Buffer[] =>
      members.map((member, m) => {
        const copy = Buffer.from(member)
        if (m === k) copy[copy.length - byte]! ^= 4
        return copy
      })
    const files = [0, 1, 2].flatMap((k) => [Buffer.concat(wrong(k, 8)), Buffer.concat(wrong(k, 1))])
    files.push(
      Buffer.concat(members).subarray(0, -3),
      Buffer.concat(members).subarray(0, members[0]!.length - 5),
    )
    for (const file of files) {
      const whole = await unpack(file)
      for (const pieceBytes of [97, 1009, 4096, file.length - 1]) {
        const found = await unpack(file, pieceBytes)
        expect(found.state).toEqual(whole.state)
        expect(found.content.equals(whole.content)).toBe(true)
      }
    }
  })

  it('takes small members one after another, among large ones and many empty ones', async () => {
    const records = Array.from({ length: 3000 }, (_, k) =>
      gzipSync(encodePcapRecord({ timestampMicros: k, bytes: new Uint8Array(k === 1500 ? 200_000 : 40) })),
    )
    const empty = Buffer.concat(new Array<Buffer>(100_000).fill(gzipSync('')))
    const { end } = await read(Buffer.concat([gzipSync(encodePcapFileHeader()), empty, ...records]))
    expect(end).toMatchObject({ packets: 3000, error: null, truncated: false, warnings: [] })
  })
})
