/**
 * A recording that broke off: every format cut at every byte of its first 4 kB, plain and compressed.
 *
 * Whole records before the cut are delivered; a record that is cut is reported as truncated; the only
 * error is that there is no whole file header. How many bytes of content a cut gzip file still holds is asked of zlib.
 */

import * as zlib from 'node:zlib'
import { constants, gunzipSync, gzipSync } from 'node:zlib'
import { FormatError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { createCaptureReader } from '../src/index.js'
import { createCompressionState, unpackBlocks } from '../src/node/unpack-blocks.js'
import { contentOf, FORMAT_SAMPLES } from './support/formats.js'

function read(bytes: Uint8Array) {
  const reader = createCaptureReader()
  reader.push(bytes)
  let packets = 0
  for (let batch = reader.read(); batch !== null; batch = reader.read()) packets += batch.count
  return { packets, end: reader.end() }
}

/** What differs, said once for all cuts: thousands of expectations take longer than the reading. */
function differences() {
  const lines: string[] = []
  return {
    lines,
    hold(length: number, what: string, found: unknown, expected: unknown) {
      if (found !== expected) lines.push(`${length} bytes: ${what} ${found}, not ${expected}`)
    },
  }
}

async function readCompressed(bytes: Uint8Array) {
  const state = createCompressionState()
  const reader = createCaptureReader()
  const blocks = (async function* () {
    if (bytes.length > 0) yield bytes
  })()
  let packets = 0
  for await (const block of unpackBlocks(blocks, state)) {
    reader.push(block)
    for (let batch = reader.read(); batch !== null; batch = reader.read()) packets += batch.count
  }
  return { packets, end: reader.end(), state }
}

/** Ends of the pieces, and 0. */
function endsOf(pieces: readonly Uint8Array[]): readonly number[] {
  const ends = [0]
  for (const { length } of pieces) ends.push(ends.at(-1)! + length)
  return ends
}

describe.each(FORMAT_SAMPLES.map((each) => [each.name, each] as const))('%s', (_, whole) => {
  const headerBytes = whole.boundaries[1]!

  it('gives what lies before a cut, wherever the cut is', () => {
    const { lines, hold } = differences()
    for (let length = 0; length <= whole.bytes.length; length++) {
      const expected = contentOf(whole, length)
      const { packets, end } = read(whole.bytes.subarray(0, length))
      hold(length, 'packets', packets, expected.packets)
      hold(length, 'packets at the end', end.packets, expected.packets)
      hold(length, 'truncated', end.truncated, !expected.isWhole)
      hold(length, 'error', end.error?.name, length < headerBytes ? FormatError.name : undefined)
      hold(length, 'has detail', end.detail !== null, length === 0 || !expected.isWhole)
    }
    expect(lines).toEqual([])
  })
})

describe('gzip', () => {
  const sample = FORMAT_SAMPLES[0]!
  it('of three members gives what lies before a cut, wherever the cut is', async () => {
    const cuts = [0, 700, 1500, sample.bytes.length]
    const members = cuts.slice(1).map((to, k) => sample.bytes.subarray(cuts[k], to))
    const { lines, hold } = differences()
    const packed = members.map((member) => gzipSync(member, { level: 1 }))
    const file = Buffer.concat(packed)
    const ends = endsOf(packed)
    for (let length = 0; length <= file.length; length++) {
      const cut = file.subarray(0, length)
      const content = length < 18 ? 0 : gunzipSync(cut, { finishFlush: constants.Z_SYNC_FLUSH }).length
      const { packets, end, state } = await readCompressed(new Uint8Array(cut))
      hold(length, 'packets', packets, contentOf(sample, content).packets)
      // two bytes tell a gzip file
      if (length >= 2) hold(length, 'truncated', state.truncated, !ends.includes(length))
      hold(length, 'compression', state.compression, length < 2 ? null : 'gzip')
      hold(length, 'error', end.error?.name, content < 24 ? FormatError.name : undefined)
      hold(length, 'damage', state.damage, null)
    }
    expect(lines).toEqual([])
  })
})

describe('zstd', () => {
  const { zstdCompressSync } = zlib as { zstdCompressSync?: (bytes: Uint8Array) => Buffer }
  const sample = FORMAT_SAMPLES[6]!
  it('of many frames gives the frames before a cut, wherever the cut is', async (context) => {
    if (zstdCompressSync === undefined) return context.skip(`Node ${process.version} has no zstd`)
    const { lines, hold } = differences()
    const cuts = [0, 300, 301, 1000, 1800, 2500, 3333, sample.bytes.length]
    const packed = cuts.slice(1).map((to, k) => zstdCompressSync(sample.bytes.subarray(cuts[k], to)))
    const file = Buffer.concat(packed)
    const ends = endsOf(packed)
    for (let length = 0; length <= file.length; length++) {
      const frames = ends.filter((end) => end <= length).length - 1
      const { packets } = contentOf(sample, cuts[frames]!)
      const found = await readCompressed(new Uint8Array(file.subarray(0, length)))
      // a small frame is one block, of which nothing is known before its end
      hold(length, 'packets', found.packets, packets)
      if (length >= 4) hold(length, 'truncated', found.state.truncated, ends[frames] !== length)
      hold(length, 'damage', found.state.damage, null)
    }
    expect(lines).toEqual([])
  })
})
