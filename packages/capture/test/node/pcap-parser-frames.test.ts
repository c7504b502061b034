import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import pcapParser from 'pcap-parser'
import { describe, expect, it } from 'vitest'
import { framesFromPcapParser, openCapture, readCapture } from '../../src/node/index.js'
import { type CaptureEnd, encodePcap, encodePcapRecord, readableMagic } from '../support/pcap-parser.js'
import { captures, goldenCaptures, hostile, sharedMissing } from '../support/shared.js'

interface Digest {
  end: CaptureEnd
  packets: number
  hash: string
}

async function digest(file: string, reader: 'oddflow' | 'pcap-parser'): Promise<Digest> {
  const hash = createHash('sha256')
  let packets = 0
  const end = await readCapture(
    file,
    (frames) => {
      for (let i = 0; i < frames.count; i++) {
        packets++
        const columns = [frames.timestampMicros[i], frames.wireBytes[i], frames.linkType[i]]
        hash.update(`${columns.join(' ')} ${frames.timestampSubNanos[i]} ${frames.capturedBytes[i]}\n`)
        hash.update(frames.data.subarray(frames.offset[i]!, frames.offset[i]! + frames.capturedBytes[i]!))
      }
    },
    { reader, batchFrames: 100 },
  )
  return { end, packets, hash: hash.digest('hex') }
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
}

describe.skipIf(sharedMissing)('pcap-parser as a second opinion', () => {
  const files = sharedMissing
    ? []
    : [captures, join(goldenCaptures, 'captures'), hostile].flatMap(filesBelow).filter(readableMagic)

  it('has captures to read', () => {
    expect(files.length).toBeGreaterThan(300)
  })

  it.each(files)('%s', async (file) => {
    let own: Digest
    try {
      own = await digest(file, 'oddflow')
    } catch (refusal) {
      await expect(digest(file, 'pcap-parser')).rejects.toThrow((refusal as Error).message.slice(-30))
      return
    }
    const other = await digest(file, 'pcap-parser')
    expect({ packets: other.packets, hash: other.hash }).toEqual({ packets: own.packets, hash: own.hash })
    expect(other.end.truncated).toBe(own.end.truncated)
    expect(other.end.error === null).toBe(own.end.error === null)
    expect(other.end.error?.offsetBytes).toBe(own.end.error?.offsetBytes)
  })
})

const frames = Array.from({ length: 3000 }, (_, k) => ({
  timestampMicros: 1_700_000_000_000_000 + k,
  bytes: new Uint8Array(40 + (k % 60)).fill(k & 255),
}))

describe('framesFromPcapParser', () => {
  it('reads a parser that the caller has, and pauses its stream', async () => {
    const capture = encodePcap(frames)
    const stream = new PassThrough({ highWaterMark: 16_384 })
    const source = framesFromPcapParser(pcapParser.parse(stream), { batchFrames: 50 })
    let written = 0
    const write = (): void => {
      while (written < capture.length) {
        const chunk = capture.subarray(written, written + 1000)
        written += chunk.length
        if (!stream.write(chunk)) {
          stream.once('drain', write)
          return
        }
      }
      stream.end()
    }
    write()
    let packets = 0
    for await (const batch of source) {
      expect(batch.count).toBeLessThanOrEqual(50)
      for (let i = 0; i < batch.count; i++) {
        expect(batch.data[batch.offset[i]!]).toBe((packets + i) & 255)
      }
      packets += batch.count
      await new Promise((resolve) => setImmediate(resolve))
      // what is waiting: a batch, the stream's buffers, a chunk
      if (packets < 2000) expect(written - packets * 80).toBeLessThan(80_000)
    }
    expect(packets).toBe(3000)
    expect(source.end).toMatchObject({ error: null, truncated: false, packets: 3000, format: 'pcap' })
  })

  it('stops at a length that cannot be before the parser gathers it', async () => {
    const bad = encodePcapRecord(frames[0]!)
    new DataView(bad.buffer).setUint32(8, 0xfffffff0, true)
    let given = 0
    const endless = Readable.from(
      (function* () {
        yield Buffer.from(encodePcap(frames.slice(0, 10)))
        yield Buffer.from(bad)
        for (; given < 10_000; given++) yield Buffer.alloc(65_536)
      })(),
      { objectMode: false },
    )
    const source = framesFromPcapParser(pcapParser.parse(endless))
    let packets = 0
    for await (const batch of source) packets += batch.count
    expect(packets).toBe(10)
    expect(source.end?.error?.message).toContain('at most 262144, found 4294967280')
    expect(given).toBeLessThan(10)
  })

  it('refuses nanosecond files and pcapng by name', async () => {
    const refusal = async (capture: Uint8Array): Promise<string> => {
      const source = framesFromPcapParser(pcapParser.parse(Readable.from([Buffer.from(capture)])))
      for await (const _ of source) throw new Error('it gave a batch')
      return source.end?.error?.message ?? ''
    }
    expect(await refusal(encodePcap(frames, { nanoseconds: true }))).toContain('found a nanosecond pcap')
    const pcapng = Uint8Array.from([0x0a, 0x0d, 0x0d, 0x0a, ...new Array<number>(40).fill(0)])
    expect(await refusal(pcapng)).toContain('found pcapng')
    expect(await refusal(new Uint8Array(0))).toContain('empty')
  })

  it('warns of a version that the parser lets pass', async () => {
    const capture = encodePcap(frames.slice(0, 2))
    capture[4] = 9
    const source = framesFromPcapParser(pcapParser.parse(Readable.from([Buffer.from(capture)])))
    for await (const batch of source) expect(batch.count).toBe(2)
    expect(source.end?.warnings).toEqual(['file version 9.4, read as 2.4'])
  })

  it('passes on what its stream throws', async () => {
    const failing = new Readable({ read: () => undefined })
    const source = framesFromPcapParser(pcapParser.parse(failing))
    setImmediate(() => failing.destroy(new Error('the disk is gone')))
    await expect(
      (async () => {
        for await (const _ of source) throw new Error('it gave a batch')
      })(),
    ).rejects.toThrow('the disk is gone')
    await expect(async () => {
      for await (const _ of openCapture('/nonexistent/file', { reader: 'pcap-parser' }));
    }).rejects.toThrow('no such file')
  })
})
