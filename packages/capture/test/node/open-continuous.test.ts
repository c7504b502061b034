import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { encodePcap, type PcapFrame } from '../../src/index.js'
import { CaptureFileError, type ContinuousEnd, openContinuous } from '../../src/node/index.js'
import { enhancedPacket, interfaceBlock, section } from '../support/pcapng.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-continuous-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function packet(micros: number, number: number): PcapFrame {
  return {
    timestampMicros: micros,
    bytes: Uint8Array.of(number >>> 8, number & 255),
    wireBytes: number + 100,
  }
}

function write(name: string, bytes: Uint8Array): string {
  const file = join(folder, name)
  writeFileSync(file, bytes)
  return file
}

async function readAll(
  files: readonly string[],
  windowFrames?: number,
  batchFrames?: number,
): Promise<{ numbers: number[]; micros: number[]; end: ContinuousEnd }> {
  const source = openContinuous(files, {
    ...(windowFrames === undefined ? {} : { windowFrames }),
    ...(batchFrames === undefined ? {} : { batchFrames }),
  })
  const numbers: number[] = []
  const micros: number[] = []
  for await (const batch of source) {
    expect(batch.firstFrame).toBe(numbers.length)
    for (let i = 0; i < batch.count; i++) {
      const at = batch.offset[i]!
      numbers.push((batch.data[at]! << 8) | batch.data[at + 1]!)
      micros.push(batch.timestampMicros[i]!)
    }
  }
  return { numbers, micros, end: source.end! }
}

describe('openContinuous', () => {
  it('gives rotated files, named in any order, as the one capture that they were', async () => {
    const packets = Array.from({ length: 5000 }, (_, k) => packet(1e15 + 1000 * Math.floor(k / 3), k))
    const cuts = [0, 1200, 1203, 1203, 3000, 4998, 5000]
    const files = cuts
      .slice(0, -1)
      .map((from, k) => write(`rotated-${k}.pcap`, encodePcap(packets.slice(from, cuts[k + 1]))))
    files[1] = write('rotated-1.pcap.gz', gzipSync(encodePcap(packets.slice(1200, 1203))))
    const { numbers, end } = await readAll([3, 1, 5, 0, 4, 2].map((k) => files[k]!))
    expect(numbers).toEqual(packets.map((_, k) => k))
    expect(end).toMatchObject({
      packets: 5000,
      latePackets: 0,
      truncated: false,
      error: null,
      format: 'pcap',
    })
    // the one without packets stands first
    expect(end.files.map(({ file }) => file)).toEqual([2, 0, 1, 3, 4, 5].map((k) => files[k]))
  })

  it('merges files that overlap as a sort of all packets would', async () => {
    const time = fc.integer({ min: 0, max: 200 })
    const times = fc.array(fc.array(time, { maxLength: 60 }), { minLength: 1, maxLength: 6 })
    let turn = 0
    await fc.assert(
      fc.asyncProperty(times, async (lists) => {
        let number = 0
        const all: { micros: number; number: number }[] = []
        const files = lists.map((list) => {
          const packets = list
            .sort((a, b) => a - b)
            .map((micros) => {
              all.push({ micros: 1e15 + micros, number })
              return packet(1e15 + micros, number++)
            })
          return write(`overlap-${turn++}.pcap`, encodePcap(packets))
        })
        const { micros, numbers, end } = await readAll(files, 1)
        expect(micros).toEqual(all.map((each) => each.micros).sort((a, b) => a - b))
        expect([...numbers].sort((a, b) => a - b)).toEqual(all.map((_, k) => k))
        // files are in order, so the merge needs no window
        expect(end.latePackets).toBe(0)
      }),
      { numRuns: sampleCount(40, 0.25) },
    )
  })

  it('puts right what is out of order within the window, and counts what is later', async () => {
    const packets = Array.from({ length: 3000 }, (_, k) => packet(1e15 + k, k))
    const moved = [...packets.slice(0, 10), ...packets.slice(11, 500), packets[10]!, ...packets.slice(500)]
    const file = write('moved.pcap', encodePcap(moved))
    const right = await readAll([file], 600)
    expect([right.numbers, right.end.latePackets]).toEqual([packets.map((_, k) => k), 0])
    const late = await readAll([file], 100)
    expect(late.end.latePackets).toBe(1)
    expect([...late.numbers].sort((a, b) => a - b)).toEqual(packets.map((_, k) => k))
  })

  it('says so where more files overlap than are read at once, and counts what comes late by it', async () => {
    const packets = Array.from({ length: 70 * 60 }, (_, k) => packet(1e15 + k, k))
    const files = Array.from({ length: 70 }, (_, f) =>
      write(`wide-${f}.pcap`, encodePcap(packets.filter((_, k) => k % 70 === f))),
    )
    const { numbers, end } = await readAll(files, 100)
    expect([...numbers].sort((a, b) => a - b)).toEqual(packets.map((_, k) => k))
    const waited = end.files.filter(({ openedLate }) => openedLate)
    expect(waited.map(({ file }) => file)).toEqual(files.slice(64))
    // the 64 files ended before these were opened, but for the last packets of some
    for (const { latePackets } of waited) expect(latePackets).toBeGreaterThan(50)
    expect(end.files.reduce((sum, { latePackets }) => sum + latePackets, 0)).toBe(end.latePackets)
    expect(end.warnings).toHaveLength(2)
    expect(end.warnings[0]).toMatch(
      new RegExp(
        `^more than 64 files overlap in time, .*: 6 files opened late, with ${end.latePackets} late packets`,
      ),
    )
    expect(end.warnings[1]).toMatch(
      /too late to be put in order; kept in the order of the file \(\d+ in .*wide-64\.pcap/,
    )
    // 64 are none too many, nor are any number that follow one another
    expect((await readAll(files.slice(0, 64), 1)).end).toMatchObject({ latePackets: 0, warnings: [] })
    const rotated = Array.from({ length: 100 }, (_, f) =>
      write(`turn-${f}.pcap`, encodePcap(packets.slice(40 * f, 40 * f + 40))),
    )
    expect((await readAll(rotated, 1)).end).toMatchObject({ latePackets: 0, warnings: [] })
  })

  it('names at most eight files', async () => {
    const files = Array.from({ length: 12 }, (_, f) =>
      write(
        `named-${f}.pcap`,
        encodePcap([91, 92, 93, 0].map((micros) => packet(1e15 + 100 * f + micros, f))),
      ),
    )
    const { end } = await readAll(files, 1)
    expect(end.latePackets).toBe(12)
    expect(end.warnings).toHaveLength(1)
    expect(end.warnings[0]).toMatch(/named-7\.pcap, others in 4 more files\)$/)
  })

  const year = 365 * 86_400_000_000
  const wrongTimes = [0, 1e15 - 2 * year, 1e15 + 80 * year]
  it.each(wrongTimes)('does not go by a single time that is wrong: %i', async (wrong) => {
    const merge = async (
      name: string,
      count: number,
      batchFrames: number,
      belongs: (k: number) => number,
    ) => {
      // the wrong time first, within, and last
      for (const at of [0, 9, 19]) {
        const packets = Array.from({ length: 20 * count }, (_, k) => packet(1e15 + 1000 * k, k))
        const files = Array.from({ length: count }, (_, f) => {
          const own = packets.filter((_, k) => belongs(k) === f)
          const isDamaged = count > 3 || f === 1
          const damaged = isDamaged
            ? own.map((frame, k) => (k === at ? { ...frame, timestampMicros: wrong } : frame))
            : own
          return write(`${name}-${at}-${f}.pcap`, encodePcap(damaged))
        })
        const { numbers, end } = await readAll(files, 1, batchFrames)
        expect([...numbers].sort((a, b) => a - b)).toEqual(packets.map((_, k) => k))
        // none is late, and those with a wrong time stand where they stood in their file
        expect(end).toMatchObject({ wrongTimes: count > 3 ? count : 1, latePackets: 0 })
        expect(Math.max(...numbers.map((number, k) => Math.abs(number - k)))).toBeLessThanOrEqual(3)
        expect(end.warnings).toHaveLength(1)
        expect(end.warnings[0]).toMatch(/with a time more than a week from those before and after it; kept/)
      }
    }
    // side by side, and more behind one another than may be open
    await merge('beside', 3, 1, (k) => k % 3)
    await merge('beside', 3, 2048, (k) => k % 3)
    await merge('behind', 70, 2048, (k) => Math.floor(k / 20))
  })

  it('has each side of a lasting step at its own time', async () => {
    const booted = Array.from({ length: 5 }, (_, k) => packet(1000 + k, k))
    const set = Array.from({ length: 5 }, (_, k) => packet(1e15 + 2 * k, 100 + 2 * k))
    const other = Array.from({ length: 5 }, (_, k) => packet(1e15 + 2 * k + 1, 101 + 2 * k))
    const step = write('step.pcap', encodePcap([...booted, ...set]))
    for (const batchFrames of [1, 2, 5, 2048]) {
      const { numbers, end } = await readAll([write('other.pcap', encodePcap(other)), step], 1, batchFrames)
      expect(numbers).toEqual([0, 1, 2, 3, 4, ...Array.from({ length: 10 }, (_, k) => 100 + k)])
      expect(end).toMatchObject({ latePackets: 0, wrongTimes: 0, warnings: [] })
    }
  })

  it('takes packets weeks apart as they are told', async () => {
    const week = 7 * 86_400_000_000
    const packets = Array.from({ length: 20 }, (_, k) => packet(1e15 + 1.5 * week * k, k))
    const files = [0, 1].map((f) =>
      write(`quiet-${f}.pcap`, encodePcap(packets.filter((_, k) => k % 2 === f))),
    )
    const { numbers, end } = await readAll(files, 1, 2)
    expect(numbers).toEqual(packets.map((_, k) => k))
    expect(end).toMatchObject({ latePackets: 0, wrongTimes: 0, warnings: [] })
  })

  it('has files of different formats and nanoseconds in one order', async () => {
    const ng = [...section(), ...interfaceBlock([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0])]
    const nanos = [1_000_000_000_000_000_100n, 1_000_000_000_000_000_300n]
    const a = write(
      'a.pcapng',
      Uint8Array.from([...ng, ...nanos.flatMap((t, k) => enhancedPacket(0, t, [0, 2 * k]))]),
    )
    const b = write(
      'b.pcap',
      encodePcap([{ timestampMicros: 1e15, timestampSubNanos: 200, bytes: Uint8Array.of(0, 1) }], {
        nanoseconds: true,
      }),
    )
    const { numbers } = await readAll([b, a])
    expect(numbers).toEqual([0, 1, 2])
  })

  it('goes on behind a file that is cut or damaged, and says which', async () => {
    const whole = encodePcap([packet(1e15, 0), packet(1e15 + 1, 1)])
    const cut = write('cut.pcap', whole.subarray(0, whole.length - 1))
    const damaged = encodePcap([packet(1e15 + 5, 2), packet(1e15 + 6, 3)])
    new DataView(damaged.buffer, damaged.byteOffset).setUint32(24 + 18 + 8, 0xffffffff, true)
    const bad = write('bad.pcap', damaged)
    const last = write('last.pcap', encodePcap([packet(1e15 + 9, 4)]))
    const { numbers, end } = await readAll([last, cut, bad])
    expect(numbers).toEqual([0, 2, 4])
    expect(end).toMatchObject({ packets: 3, truncated: true })
    expect(end.error).not.toBeNull()
    expect(end.detail).toMatch(/^.*bad\.pcap: /)
    expect(end.files.map(({ end: each }) => [each.packets, each.truncated, each.error !== null])).toEqual([
      [1, true, false],
      [1, false, true],
      [1, false, false],
    ])
  })

  it('throws where a file gives nothing at all', async () => {
    const good = write('good.pcap', encodePcap([packet(1e15, 0)]))
    const text = write('text.pcap', new TextEncoder().encode('not a capture at all'))
    for (const [files, problem] of [
      [[good, join(folder, 'missing.pcap')], 'missing'],
      [[good, folder], 'directory'],
      [[good, text], 'not-a-capture'],
      [[good, '-'], 'unreadable'],
      [[good, '/dev/null'], 'unreadable'],
    ] as const) {
      const failure = await readAll(files).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(CaptureFileError)
      expect((failure as CaptureFileError).problem).toBe(problem)
    }
    expect(() => openContinuous([])).toThrow(/files: expected at least one/)
  })

  it('closes its files when the reader stops', async () => {
    const packets = Array.from({ length: 5000 }, (_, k) => packet(1e15 + k, k))
    const files = [0, 1].map((k) => write(`early-${k}.pcap`, encodePcap(packets)))
    const source = openContinuous(files, { windowFrames: 10 })
    for await (const batch of source) {
      expect(batch.count).toBe(10)
      break
    }
    expect(source.end).toBeNull()
  })
})
