import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  createWriteStream,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { type CaptureEnd, encodePcap, encodePcapRecord } from '../../src/index.js'
import { describeSystemError } from '../../src/node/frame-source.js'
import { CaptureFileError, openCapture, readCapture, summariseCaptureFile } from '../../src/node/index.js'
import { liveBytes } from '../support/live-bytes.js'
import { captures, goldenCaptures, hasProgram, sharedMissing } from '../support/shared.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-capture-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const small = encodePcap(
  Array.from({ length: 500 }, (_, k) => ({
    timestampMicros: 1_700_000_000_000_000 + k,
    bytes: Uint8Array.from({ length: 60 + (k % 40) }, (_, j) => (j * k) & 255),
  })),
)

function put(name: string, bytes: Uint8Array | string): string {
  const file = join(folder, name)
  writeFileSync(file, bytes)
  return file
}

/** Every column and byte of a capture, as text that can be compared. */
async function everything(file: string): Promise<{ lines: string[]; end: CaptureEnd }> {
  const lines: string[] = []
  const end = await readCapture(file, (frames) => {
    for (let i = 0; i < frames.count; i++) {
      const at = frames.offset[i]!
      const bytes = Buffer.from(frames.data.subarray(at, at + frames.capturedBytes[i]!)).toString('base64')
      lines.push(
        [
          frames.timestampMicros[i],
          frames.timestampSubNanos[i],
          frames.wireBytes[i],
          frames.linkType[i],
          bytes,
        ].join(' '),
      )
    }
  })
  return { lines, end }
}

describe('readCapture', () => {
  it('reads gzip, several members and FIFOs as it reads the plain file', async () => {
    const plain = await everything(put('plain.pcap', small))
    expect(plain.lines).toHaveLength(500)
    expect((await everything(put('one.gz', gzipSync(small)))).lines).toEqual(plain.lines)
    const half = small.length >> 1
    const members = Buffer.concat([gzipSync(small.subarray(0, half)), gzipSync(small.subarray(half))])
    expect((await everything(put('two.gz', members))).lines).toEqual(plain.lines)
    if (process.platform === 'win32') return
    const fifo = join(folder, 'fifo')
    execFileSync('mkfifo', [fifo])
    const reading = everything(fifo)
    const writer = createWriteStream(fifo)
    // the first byte alone: not even the gzip magic is whole
    writer.write(small.subarray(0, 1), () => writer.end(small.subarray(1)))
    expect((await reading).lines).toEqual(plain.lines)
  })

  it('gives the whole packets of a gzip file that is cut, and says so', async () => {
    const packed = gzipSync(small)
    const whole = await everything(put('whole.gz', packed))
    const cut = await everything(put('cut.gz', packed.subarray(0, packed.length - 200)))
    expect(cut.end).toMatchObject({ truncated: true, error: null })
    expect(cut.lines.length).toBeGreaterThan(100)
    expect(cut.lines).toEqual(whole.lines.slice(0, cut.lines.length))
    // cut behind the last byte of data: only gzip's own trailer is missing
    const trailer = await everything(put('trailer.gz', packed.subarray(0, packed.length - 4)))
    expect(trailer.lines).toEqual(whole.lines)
    expect(trailer.end).toMatchObject({ truncated: true, error: null })
  })

  it('reads hundreds of compressed blocks without a word on standard error', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => {
      warnings.push(warning)
    }
    process.on('warning', onWarning)
    const noise = new Uint8Array(2000)
    let state = 1
    const bytes = (): Uint8Array => {
      // a linear congruence: bytes that gzip cannot shorten
      for (let k = 0; k < noise.length; k++) {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
        noise[k] = state >>> 24
      }
      return noise.slice()
    }
    const capture = encodePcap(
      Array.from({ length: 600 }, (_, k) => ({ timestampMicros: k, bytes: bytes() })),
    )
    const file = put('noise.gz', gzipSync(capture))
    const plain = await everything(put('noise.pcap', capture))
    for (const reader of ['oddflow', 'pcap-parser'] as const) {
      let packets = 0
      const end = await readCapture(
        file,
        (frames) => {
          packets += frames.count
        },
        { blockBytes: 4096, reader },
      )
      expect(end).toMatchObject({ error: null, truncated: false, packets })
    }
    expect((await everything(file)).lines).toEqual(plain.lines)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(warnings.map((warning) => warning.message)).toEqual([])
  })

  it('lets the event loop turn while it reads a file', async () => {
    const frame = { timestampMicros: 0, bytes: new Uint8Array(60_000) }
    const file = put('long.pcap', encodePcap(new Array(100).fill(frame)))
    let turns = 0
    let timer: NodeJS.Immediate | null = null
    const count = (): void => {
      turns++
      timer = setImmediate(count)
    }
    let atTheLast = 0
    const end = await readCapture(file, () => {
      timer ??= setImmediate(count)
      atTheLast = turns
    })
    clearImmediate(timer!)
    expect(end.packets).toBe(100)
    expect(atTheLast).toBeGreaterThanOrEqual(4)
  })

  it('reports damage within gzip', async () => {
    const packed = gzipSync(Buffer.concat([small, Buffer.alloc(2_000_000)]))
    packed[packed.length - 6]! ^= 255
    const { end } = await everything(put('crc.gz', packed))
    expect(end.error?.message).toMatch(/^gzip: damaged: /)
    expect(end.packets).toBeGreaterThan(500)
  })

  it('holds little of a large capture, whatever the pace of its reader', async () => {
    // 400 MB of frames from 0.4 MB of gzip
    const record = gzipSync(encodePcapRecord({ timestampMicros: 0, bytes: new Uint8Array(200_000) }))
    const many = Buffer.concat([gzipSync(encodePcap([])), ...new Array<Buffer>(2000).fill(record)])
    const file = put('large.gz', many)
    const before = liveBytes()
    let worst = 0
    let packets = 0
    const end = await readCapture(file, async (frames) => {
      packets += frames.count
      if (packets % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      if (packets % 200 === 0) worst = Math.max(worst, liveBytes() - before)
    })
    expect(end).toMatchObject({ packets: 2000, error: null, truncated: false })
    expect(worst).toBeGreaterThan(0)
    expect(worst).toBeLessThan(20e6)
  })

  it('closes what it opened when the consumer stops or throws', async () => {
    const file = put('stop.pcap', small)
    const gz = put('stop.gz', gzipSync(small))
    for (const each of [file, gz]) {
      for (const reader of ['oddflow', 'pcap-parser'] as const) {
        const source = openCapture(each, { batchFrames: 10, reader })
        for await (const frames of source) {
          expect(frames.count).toBe(10)
          break
        }
        expect(source.end).toBeNull()
        await expect(
          readCapture(each, () => Promise.reject(new Error('enough')), { reader }),
        ).rejects.toThrow('enough')
      }
    }
    if (existsSync('/proc/self/fd')) {
      // a stream that is destroyed closes its file a moment later
      await vi.waitFor(() => {
        const open = spawnSync('ls', ['-l', `/proc/${process.pid}/fd`], { encoding: 'utf8' }).stdout
        expect(open).not.toContain('stop.')
      })
    }
  })

  it('reads a stream as it reads the file, also through pcap-parser and in gzip', async () => {
    const plain = await everything(put('streamed.pcap', small))
    for (const reader of ['oddflow', 'pcap-parser'] as const) {
      for (const bytes of [small, gzipSync(small)]) {
        const packets: number[] = []
        const source = openCapture(Readable.from([bytes.subarray(0, 1), bytes.subarray(1)]), { reader })
        for await (const { count } of source) packets.push(count)
        expect(packets.reduce((sum, count) => sum + count, 0)).toBe(plain.lines.length)
        expect(source.end).toMatchObject({ packets: 500, truncated: false, error: null })
      }
    }
  })

  it('ends a stream that never ends by itself when it is stopped, and refuses one of text', async () => {
    const stop = new AbortController()
    const endless = new PassThrough()
    endless.write(small)
    const source = openCapture(endless, { stop: stop.signal })
    let packets = 0
    for await (const { count } of source) {
      packets += count
      if (packets === 500) stop.abort()
    }
    expect(source.end).toMatchObject({ packets: 500 })
    const text = openCapture(Readable.from(['text']) as AsyncIterable<Uint8Array>)
    await expect(async () => {
      for await (const _ of text);
    }).rejects.toThrow(/^input: expected a stream of Uint8Array, found one of string/)
  })

  it('says in one line what is wrong with an input that gives nothing', async () => {
    const message = async (file: string): Promise<string> => {
      try {
        await readCapture(file, () => undefined)
      } catch (error) {
        expect(error).toBeInstanceOf(CaptureFileError)
        return (error as Error).message
      }
      throw new Error('it was read')
    }
    expect(await message(join(folder, 'nothing.pcap'))).toMatch(
      /nothing\.pcap: no such file; check the path$/,
    )
    expect(await message(folder)).toMatch(/: is a directory; give the capture files within it$/)
    expect(await message(put('empty.pcap', ''))).toMatch(
      /empty\.pcap: empty: expected a pcap or pcapng file header/,
    )
    expect(await message(put('notes.txt', 'Hello, world'))).toMatch(
      /notes\.txt: not a capture: expected a pcap or pcapng magic number, found 48 65 6c 6c \("Hell"\); give a file/,
    )
    expect(await message(put('one-byte', 'H'))).toMatch(
      /cut short: expected a file header of 24 bytes, found 1/,
    )
    expect(await message(put('notes.gz', gzipSync('Hello, world')))).toMatch(/found 48 65 6c 6c/)
    const secret = put('secret.pcap', small)
    chmodSync(secret, 0)
    // root reads it all the same
    if (process.getuid?.() !== 0) expect(await message(secret)).toMatch(/permission denied; make it readable/)
  })

  it('has a line for every way in which the system refuses', () => {
    const line = (code: string): string =>
      describeSystemError('x.pcap', Object.assign(new Error('why'), { code })).message
    expect(line('EACCES')).toMatch(/^x\.pcap: permission denied; make it readable/)
    expect(line('EPERM')).toMatch(/^x\.pcap: permission denied/)
    expect(line('EISDIR')).toMatch(/^x\.pcap: is a directory/)
    expect(line('EMFILE')).toMatch(/^x\.pcap: cannot be read: too many open files; close some or raise/)
    expect(line('EIO')).toBe('x.pcap: cannot be read: why')
    expect(describeSystemError('-', 'no more').message).toBe('standard input: cannot be read: no more')
  })

  it('summarises a file that is no capture by its error, and throws for one that is not there', async () => {
    const summary = await summariseCaptureFile(put('notes2.txt', 'Hello, world'))
    expect(summary).toMatchObject({ packets: 0, firstTimestampMicros: null, truncated: false })
    expect(summary.error).toContain('not a capture')
    await expect(summariseCaptureFile(join(folder, 'nothing'))).rejects.toThrow('no such file')
    const cut = await summariseCaptureFile(put('cut.pcap', small.subarray(0, 30)))
    expect(cut).toMatchObject({ packets: 0, truncated: true, error: null })
  })

  it('refuses options that cannot be', () => {
    expect(() => openCapture('x', { blockBytes: 1 })).toThrow(/blockBytes: expected/)
    expect(() => openCapture('x', { reader: 'other' as 'oddflow' })).toThrow(/reader: expected one of/)
  })
})

const built = join(dirname(fileURLToPath(import.meta.url)), '../../dist/node/index.js')
if (!existsSync(built)) console.warn('SKIPPED: standard input: the package is not built')

describe.skipIf(!existsSync(built))('standard input', () => {
  const program = `import { summariseCaptureFile } from ${JSON.stringify(built)}
    console.log(JSON.stringify(await summariseCaptureFile('-', { reader: process.argv[1] })))`

  it.each(['oddflow', 'pcap-parser'])('is read by %s as a file is, plain and gzip', async (reader) => {
    const file = put('stdin.pcap', small)
    const expected = { ...(await summariseCaptureFile(file)), file: '-' }
    for (const input of [small, gzipSync(small)]) {
      const run = spawnSync(process.execPath, ['--input-type=module', '-e', program, reader], { input })
      expect(run.stderr.toString()).toBe('')
      expect(JSON.parse(run.stdout.toString())).toEqual(expected)
    }
  })

  it('comes in pieces of any length', async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, 'oddflow'])
    let said = ''
    child.stdout.on('data', (chunk) => {
      said += chunk
    })
    for (let at = 0; at < 400; at += 7) {
      child.stdin.write(small.subarray(at, Math.min(at + 7, 400)))
      await new Promise((resolve) => setImmediate(resolve))
    }
    child.stdin.end(small.subarray(400))
    await new Promise((resolve) => child.on('close', resolve))
    expect(JSON.parse(said)).toMatchObject({ packets: 500, truncated: false, error: null })
  })
})

const noEditcap = !hasProgram('editcap', 'converted captures are not compared')

describe.skipIf(noEditcap || sharedMissing)(
  'the same capture as pcap, nanosecond pcap, pcapng and gzip',
  () => {
    it.each([
      join(goldenCaptures, 'captures/iot/botnet_test7.pcap'),
      join(goldenCaptures, 'captures/link/raw_101.pcap'),
      join(captures, 'ndpi_afp.pcap'),
    ])('%s', async (file) => {
      const plain = await everything(file)
      expect(plain.lines.length).toBeGreaterThan(0)
      for (const format of ['pcap', 'nsecpcap', 'pcapng']) {
        const converted = join(folder, `converted.${format}`)
        execFileSync('editcap', ['-F', format, file, converted], { stdio: 'ignore' })
        expect((await everything(converted)).lines).toEqual(plain.lines)
        const packed = put(`converted.${format}.gz`, gzipSync(readFileSync(converted)))
        expect((await everything(packed)).lines).toEqual(plain.lines)
      }
    })
  },
)

const noTcpdump = !hasProgram('tcpdump', 'written captures are not read by it')

describe.skipIf(noTcpdump)('a capture that the writer wrote', () => {
  it.each([
    [{ nanoseconds: false, bigEndian: false }],
    [{ nanoseconds: true, bigEndian: false }],
    [{ nanoseconds: false, bigEndian: true }],
    [{ nanoseconds: true, bigEndian: true }],
  ])('is read by tcpdump: %j', (options) => {
    const bytes = Uint8Array.from([
      2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192,
      0, 2, 2, 0, 53, 4, 0, 0, 8, 0, 0,
    ])
    const file = put(
      'written.pcap',
      encodePcap(
        [{ timestampMicros: 1_700_000_000_123_456, timestampSubNanos: 789, bytes, wireBytes: 99 }],
        options,
      ),
    )
    const said = execFileSync('tcpdump', ['-n', '-e', '-tt', '--nano', '-r', file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    expect(said).toContain(options.nanoseconds ? '1700000000.123456789' : '1700000000.123456000')
    expect(said).toContain('length 99: 192.0.2.1.53 > 192.0.2.2.1024: ')
  })
})
