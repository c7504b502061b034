/** One rule for damage in every command: what is before it is used with a warning; nothing usable is exit code 1. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { capture, udpFrame } from './support/captures.js'
import { oddflow, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
beforeAll(() => trainLabModel(model, ['--features', 'iat-size']))

function file(name: string, bytes: Uint8Array): string {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

const whole = capture([udpFrame(1), udpFrame(1), udpFrame(1)])
const record = (whole.length - 24) / 3
const good = file('good.pcap', whole)
const empty = file('empty.pcap', new Uint8Array(0))
const text = file('text.pcap', new TextEncoder().encode('no capture at all'))

/** The third record claims a length that nobody believes, or one field of it does. */
function withField(offset: number, value: number): Uint8Array {
  const bytes = whole.slice()
  new DataView(bytes.buffer).setUint32(24 + 2 * record + offset, value, true)
  return bytes
}
const damaged = file('damaged.pcap', withField(8, 0x7fffffff))

describe('damage', () => {
  it('behind the first packet is a warning, in info too, whose JSON has the error', async () => {
    const info = await oddflow(['info', damaged, '--format', 'json'])
    expect(info.code).toBe(0)
    expect(info.stderr).toMatch(
      /^oddflow: warning: .*damaged\.pcap: pcap: packet 3: expected a captured length/,
    )
    expect(JSON.parse(info.stdout)).toMatchObject({ packets: 2, error: expect.stringMatching(/packet 3/) })
    const flows = await oddflow(['extract', '--flows', damaged, '-o', '-'])
    expect(flows.code).toBe(0)
    expect(flows.stderr).toContain('the 2 packets before it were used')
  })

  it.each([
    ['info', '--format', 'json'],
    ['extract', '--flows', '-o', '-'],
  ])('with nothing before it is exit code 1: %s', async (command, ...options) => {
    for (const path of [empty, text]) {
      const run = await oddflow([command, path, ...options])
      expect(run.code).toBe(1)
      expect(run.stderr).toContain(path)
    }
  })

  it.each([[[]], [['--continuous']]])('an empty capture among several is a warning %j', async (options) => {
    const run = await oddflow(['score', model, good, empty, '--format', 'json', ...options])
    expect(run.code).toBe(0)
    expect(run.stderr).toMatch(/warning: .*empty\.pcap: .*empty.*there is no packet before it/)
    expect(run.stderr).toContain('3 packets: 3 in flows')
    expect(run.stdout.trimEnd().split('\n')).toHaveLength(1)
  })

  it('a file that is no capture takes neither verdicts nor counters from the others', async () => {
    const run = await oddflow(['score', model, good, text, good, '--format', 'json'])
    expect(run.code).toBe(1)
    expect(run.stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(run.stderr).toMatch(/text\.pcap: not a capture/)
    expect(run.stderr).toContain('6 packets: 6 in flows')
  })
})

describe('what is told of it', () => {
  const warnings = async (name: string, bytes: Uint8Array): Promise<string> =>
    (await oddflow(['info', file(name, bytes)])).stderr

  it('counts fractions of a second that are none, and lengths that no frame has', async () => {
    expect(await warnings('late.pcap', withField(4, 0xffffffff))).toContain(
      '1 packet with a fraction of a second that is a second or more, carried into the seconds',
    )
    expect(await warnings('long.pcap', withField(12, 0xffffffff))).toContain(
      '1 packet with a length on the wire of more than 1048576 bytes, used as stated',
    )
    expect(await warnings('good-2.pcap', whole)).toBe('')
  })

  it('gzip that is cut in its trailer, or in its header', async () => {
    const bytes = gzipSync(whole)
    expect(await warnings('trailer.pcap.gz', bytes.subarray(0, -6))).toContain('the gzip stream has no end')
    expect(await warnings('header.pcap.gz', bytes.subarray(0, 5))).toContain(
      'cut short: the stream ends before any content',
    )
  })

  it('a block of unknown kind that claims more than there is: where it is, and what it claims', async () => {
    const block = (type: number, body: number[], length = 12 + 4 * body.length): Uint8Array =>
      new Uint8Array(Uint32Array.of(type, length, ...body, length).buffer)
    const bytes = Buffer.concat([
      block(0x0a0d0d0a, [0x1a2b3c4d, 1, 0xffffffff, 0xffffffff]),
      block(1, [1, 0]),
      block(0xbad, [0, 0], 0xfffffff0),
    ])
    expect(await warnings('block.pcapng', bytes)).toContain(
      'cut short: the block at byte 48 has a length of 4294967280 bytes, the input holds 20',
    )
  })
})

describe('a link type that nothing decodes', () => {
  const bytes = whole.slice()
  new DataView(bytes.buffer).setUint32(20, 189, true)
  const usb = file('usb.pcap', bytes)

  it('is told by name and count wherever packets are summed up', async () => {
    for (const args of [
      ['score', model, good, usb],
      ['extract', '--flows', good, usb, '-o', '-'],
      ['drift', model, good, usb],
      ['update', model, good, usb, '--assume-normal', '-o', join(folder, 'updated.oddflow')],
    ]) {
      const run = await oddflow(args)
      expect(run.stderr).toContain('not in flows: 3 link-type-unsupported (3 LINKTYPE_USB_LINUX)')
    }
    const alone = await oddflow(['score', model, usb])
    expect(alone.code).toBe(1)
    expect(alone.stderr).toContain('3 link-type-unsupported (3 LINKTYPE_USB_LINUX)')
  })

  it('is in the JSON of what has a summary in it', async () => {
    const unsupportedLinkTypes = { LINKTYPE_USB_LINUX: 3 }
    const drift = await oddflow(['drift', model, good, usb, '--format', 'json'])
    expect(JSON.parse(drift.stdout)).toMatchObject({ unsupportedLinkTypes })
    const update = await oddflow([
      'update',
      model,
      good,
      usb,
      '-o',
      join(folder, 'u2.oddflow'),
      '--format',
      'json',
    ])
    expect(JSON.parse(update.stdout)).toMatchObject({ unsupportedLinkTypes })
    const evaluate = await oddflow([
      'evaluate',
      model,
      ...['--normal', good, '--novel', good, usb],
      ...['--format', 'json'],
    ])
    expect(JSON.parse(evaluate.stdout).inputs).toMatchObject([
      { unsupportedLinkTypes: {} },
      { unsupportedLinkTypes: {} },
      { unsupportedLinkTypes },
    ])
  })
})
