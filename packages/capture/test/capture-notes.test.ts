import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { MAXIMUM_COMMENT_BYTES, MAXIMUM_COMMENTS, NO_DROPS } from '../src/capture-notes.js'
import { readCapture } from '../src/node/index.js'
import { readFrames } from './support/frames.js'
import { block, interfaceBlock, u16, u32 } from './support/pcapng.js'
import { captures, hasProgram, sharedMissing } from './support/shared.js'

function option(code: number, value: readonly number[], little: boolean): number[] {
  const padded = [...value, ...new Array<number>(-value.length & 3).fill(0)]
  return [...u16(code, little), ...u16(value.length, little), ...padded]
}
function u64(value: bigint, little: boolean): number[] {
  const words = [u32(Number(value & 0xffffffffn), little), u32(Number(value >> 32n), little)]
  return (little ? words : words.reverse()).flat()
}
function text(value: string): number[] {
  return [...new TextEncoder().encode(value)]
}
function sectionWith(options: readonly number[], little: boolean): number[] {
  const head = [...u32(0x1a2b3c4d, little), ...u16(1, little), ...u16(0, little), ...u32(-1), ...u32(-1)]
  return block(0x0a0d0d0a, [...head, ...options], little)
}
function statistics(id: number, options: readonly number[], little: boolean): number[] {
  return block(5, [...u32(id, little), ...u32(0), ...u32(0), ...options], little)
}
function packet(options: readonly number[], little: boolean, bytes = [1, 2, 3]): number[] {
  const head = [0, 0, 5, bytes.length, bytes.length].flatMap((word) => u32(word, little))
  const padded = [...bytes, ...new Array<number>(-bytes.length & 3).fill(0)]
  return block(6, [...head, ...padded, ...options], little)
}
function obsoletePacket(drops: number, options: readonly number[], little: boolean): number[] {
  const head = [
    ...u16(0, little),
    ...u16(drops, little),
    ...[0, 5, 1, 1].flatMap((word) => u32(word, little)),
  ]
  return block(2, [...head, 9, 0, 0, 0, ...options], little)
}

describe.each([true, false])('notes of pcapng, little-endian: %s', (little) => {
  const capture = Uint8Array.from([
    ...sectionWith(option(1, text('a section'), little), little),
    ...interfaceBlock(option(1, text('an interface'), little), little),
    ...interfaceBlock([], little),
    ...packet([...option(1, text('a packet'), little), ...option(4, u64(7n, little), little)], little),
    ...packet([], little),
    ...packet(option(4, u64(0x1_0000_0002n, little), little), little),
    ...obsoletePacket(3, option(1, text('an old packet'), little), little),
    ...obsoletePacket(0xffff, [], little),
    // totals: the last one of each interface counts
    ...statistics(0, option(5, u64(10n, little), little), little),
    ...statistics(
      0,
      [...option(4, u64(100n, little), little), ...option(5, u64(11n, little), little)],
      little,
    ),
    ...statistics(
      1,
      [...option(7, u64(5n, little), little), ...option(1, text('statistics'), little)],
      little,
    ),
    ...statistics(9, option(5, u64(1000n, little), little), little),
    // a new section
    ...sectionWith([], little),
    ...interfaceBlock([], little),
    ...statistics(0, option(5, u64(20n, little), little), little),
  ])

  it('are read, however the capture is cut', () => {
    for (const size of [capture.length, 13, 1]) {
      const { end, frames } = readFrames(capture, [size])
      expect(end).toMatchObject({ error: null, truncated: false, packets: 5, commentCount: 5 })
      expect(frames).toHaveLength(5)
      expect(end.comments).toEqual(['a section', 'an interface', 'a packet', 'an old packet', 'statistics'])
      expect(end.drops).toEqual({
        interfaceReceived: 100,
        interfaceDropped: 31,
        systemDropped: 5,
        betweenPackets: 7 + 0x1_0000_0002 + 3,
      })
    }
  })

  it('give counters that a double cannot hold as 2^53 − 1, with a warning', () => {
    const { end } = readFrames(
      Uint8Array.from([
        ...sectionWith([], little),
        ...interfaceBlock([], little),
        ...interfaceBlock([], little),
        ...packet(option(4, u64(3n, little), little), little),
        ...statistics(0, option(4, u64(2n ** 64n - 1n, little), little), little),
        ...statistics(0, option(5, u64(2n ** 53n - 2n, little), little), little),
        ...statistics(1, option(7, u64(2n ** 52n, little), little), little),
        ...sectionWith([], little),
        ...interfaceBlock([], little),
        ...statistics(0, option(7, u64(2n ** 52n, little), little), little),
      ]),
    )
    expect(end.drops).toEqual({
      interfaceReceived: Number.MAX_SAFE_INTEGER,
      interfaceDropped: 2 ** 53 - 2,
      systemDropped: Number.MAX_SAFE_INTEGER,
      betweenPackets: 3,
    })
    expect(end.warnings).toEqual([
      'drop counters of 2^53 - 1 or more, given as 9007199254740991: interfaceReceived, systemDropped',
    ])
  })

  it('of a damaged shape do not stop the reading', () => {
    const { end, frames } = readFrames(
      Uint8Array.from([
        ...sectionWith([...u16(1, little), ...u16(999, little), 1, 2, 3, 4], little),
        ...interfaceBlock([], little),
        ...packet([...u16(4, little), ...u16(2, little), 1, 2, 0, 0], little),
        ...packet([...u16(1, little), ...u16(60_000, little), 1, 2, 0, 0], little),
        ...block(5, [], little),
        ...block(5, new Array<number>(70_000).fill(1), little),
        ...packet([], little),
      ]),
    )
    expect(end).toMatchObject({ error: null, truncated: false, commentCount: 0, drops: NO_DROPS })
    expect(frames).toHaveLength(3)
  })

  it('are kept in bounded number and length, and all counted', () => {
    const long = option(1, new Array<number>(5000).fill(65), little)
    const many = Array.from({ length: 40 }, () => packet(long, little)).flat()
    const { end } = readFrames(
      Uint8Array.from([...sectionWith([], little), ...interfaceBlock([], little), ...many]),
    )
    expect(end.commentCount).toBe(40)
    expect(end.comments).toHaveLength(MAXIMUM_COMMENTS)
    expect(end.comments[0]).toBe('A'.repeat(MAXIMUM_COMMENT_BYTES))
  })
})

const noWireshark =
  !hasProgram('tshark', 'comments are not compared with it') ||
  !hasProgram('capinfos', 'comments are not compared with it')

describe.skipIf(noWireshark || sharedMissing)('comments equal those of Wireshark’s tools', () => {
  const files = [
    'ndpi_egd.pcapng',
    'ndpi_sonos.pcapng',
    'ndpi_whois.pcapng',
    'pcapng_test008.pcapng',
    'pcapng_test014.pcapng',
    'pcapng_test015.pcapng',
    'pcapng_test101.pcapng',
    'pcapng_test200.pcapng',
    'pcapng_test202.pcapng',
    'tcpdump_icmp-length-zero.pcapng',
  ]
  const run = (program: string, args: readonly string[]): string =>
    execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1e8 })

  it.each(files)('%s', async (name) => {
    const file = join(captures, name)
    const info = run('capinfos', ['-M', file])
    const shown = [
      ...[...info.matchAll(/^Capture comment:\s+(.*)$/gm)].map((match) => match[1]!),
      ...[...info.matchAll(/^\s+Comment = (.*)$/gm)].map((match) => match[1]!),
      ...run('tshark', ['-n', '-r', file, '-T', 'fields', '-e', 'frame.comment']).split('\n'),
    ].filter((line) => line !== '')
    const statisticsBlocks = [...info.matchAll(/Number of stat entries = (\d+)/g)].reduce(
      (sum, match) => sum + Number(match[1]),
      0,
    )
    const end = await readCapture(file, () => undefined)
    // the tools do not show the comments of statistics blocks
    expect(end.commentCount).toBeGreaterThanOrEqual(shown.length)
    expect(end.commentCount).toBeLessThanOrEqual(shown.length + statisticsBlocks)
    const words = (line: string): string => line.replace(/\s+/g, ' ').trim()
    if (end.commentCount <= MAXIMUM_COMMENTS) {
      const found = words(end.comments.join(' '))
      for (const line of shown) expect(found).toContain(words(line))
    }
  })
})
