/**
 * Bad input, through the real program: each is refused in one line that names it, with exit code 1, without a
 * word on standard output, and without a file left behind.
 */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { arpFrame, capture, udpFrame } from './support/captures.js'
import { float64, npyFile } from './support/npy.js'
import {
  filesOf,
  jsonLines,
  lab,
  oddflow,
  refuses,
  succeeds,
  temporaryFolder,
  trainLabModel,
} from './support/oddflow.js'

const folder = temporaryFolder()
const good = 'good.pcap'
const model = 'home.oddflow'
const write = (name: string, content: Uint8Array | string): void => writeFileSync(join(folder, name), content)
const expectRefusal = (
  args: readonly string[],
  says: RegExp,
  options: Parameters<typeof refuses>[2] = {},
): Promise<void> => refuses(args, { code: 1, says, folder }, options)

beforeAll(async () => {
  copyFileSync(lab('normal-1.pcap').path, join(folder, good))
  await trainLabModel(join(folder, model))
  mkdirSync(join(folder, 'folder'))
  write('empty.pcap', '')
  write('text.pcap', 'this is no capture\n')
  write('arp.pcap', capture(Array.from({ length: 8 }, () => arpFrame())))
  write('one-flow.pcap', capture([udpFrame(40_000), udpFrame(40_000), udpFrame(40_000)]))
  write('header-only.pcap', capture([]))
})

describe.each([
  ['train', (input: string) => ['train', input, '-o', 'new.oddflow']],
  ['score', (input: string) => ['score', model, input]],
  [
    'evaluate',
    (input: string) => ['evaluate', model, '--normal', good, '--novel', input, '--report', 'r.html'],
  ],
  ['extract', (input: string) => ['extract', input, '-o', 'new.npy']],
])('%s', (_, command) => {
  it.each([
    ['empty.pcap', /empty\.pcap: empty/],
    ['text.pcap', /text\.pcap: not a capture/],
    ['missing.pcap', /missing\.pcap: no such file; check/],
    ['folder', /folder: is a directory; give/],
    ['arp.pcap', /arp\.pcap: no /],
    ['header-only.pcap', /header-only\.pcap: no /],
  ])('refuses %s by name', (input, says) => expectRefusal(command(input), says))

  it('refuses standard input with nothing in it', () => {
    return expectRefusal(command('-'), /^oddflow: standard input: empty/, { stdin: new Uint8Array(0) })
  })
})

it('is refused alike by a process of its own', async () => {
  const own = { node: [] }
  await expectRefusal(['train', 'text.pcap', '-o', 'new.oddflow'], /text\.pcap: not a capture/, own)
  await expectRefusal(['score', 'missing.oddflow', good], /missing\.oddflow: cannot read it/, own)
  await refuses(['train', good, '-o', 'x', '--fpr', '2'], { code: 2, says: /--fpr 2/, folder }, own)
})

describe('a file of another kind', () => {
  it('a model as a capture', () =>
    expectRefusal(['score', model, model], /not a capture: .*; a safetensors file, such as a model/))

  it('an ensemble has no mixture whose drift could be told', () =>
    expectRefusal(
      ['drift', model, good],
      /home\.oddflow: drift needs a model with a mixture .* ensemble; score/,
    ))

  it('a capture as a journal', () => {
    write('no-journal.jsonl', '1,2,3\n')
    const args = ['replay', model, 'no-journal.jsonl', '-o', 'new.oddflow']
    return expectRefusal(args, /no-journal\.jsonl: .*; give the file that oddflow update --journal wrote/)
  })
})

describe('too little to learn from', () => {
  it('one flow only', () =>
    expectRefusal(['train', 'one-flow.pcap', '-o', 'new.oddflow'], /one-flow\.pcap: only 1 /))

  it.each([[], ['--features', 'iat-size', '--size', 'ip']])('a filter that fits nothing %j', (...features) =>
    expectRefusal(
      ['train', good, '-o', 'new.oddflow', '--filter', 'host 192.0.2.77', ...features],
      /good\.pcap: no flows \(.*: \d+ filtered-out.*\); check the capture and the filter/,
    ),
  )

  it('one bad capture among good ones', () =>
    expectRefusal(['train', good, 'text.pcap', '-o', 'new.oddflow'], /text\.pcap: not a capture/))
})

describe('info', () => {
  it('tells of a file that is no capture in its JSON line too, and goes on', async () => {
    const args = ['info', 'text.pcap', 'missing.pcap', 'arp.pcap', '--format', 'json']
    const run = await oddflow(args, { cwd: folder })
    expect(run.code).toBe(1)
    expect(run.stderr).toMatch(
      /^oddflow: text\.pcap: not a capture[^\n]*\noddflow: missing\.pcap: no such[^\n]*\n$/,
    )
    const lines = jsonLines<{ file: string; packets: number; error: string | null; skipped: object }>(run)
    expect(lines.map(({ file, packets }) => [file, packets])).toEqual([
      ['text.pcap', 0],
      ['arp.pcap', 8],
    ])
    expect(lines[0]!.error).toMatch(/not a capture/)
    expect(lines[1]).toMatchObject({ error: null, skipped: { arp: 8 }, flows: { tcp: 0, udp: 0 } })
  })
})

describe('score of several inputs', () => {
  it('keeps the verdicts of those before the one that fails', async () => {
    const alone = await succeeds(['score', model, 'one-flow.pcap', '--format', 'json'], { cwd: folder })
    const args = ['score', model, 'one-flow.pcap', 'missing.pcap', '--format', 'json']
    const run = await oddflow(args, { cwd: folder })
    expect(run).toMatchObject({ code: 1, stdout: alone.stdout })
    expect(run.stderr).toMatch(/^oddflow: missing\.pcap: [^\n]*\n\d+ flow records?: /)
  })
})

describe('damage within a capture', () => {
  const flows = (n: number): Uint8Array[] =>
    Array.from({ length: 2 * n }, (_, i) => udpFrame(40_000 + (i >> 1)))

  it('a cut is told, and what came before it is used', async () => {
    write('cut.pcap', capture(flows(30)).subarray(0, -7))
    const { code, stderr } = await oddflow(
      ['train', 'cut.pcap', '-o', 'cut.oddflow', '--features', 'iat-size'],
      { cwd: folder },
    )
    // all rows are alike, which no kernel can work with: what matters here is what is said of the capture
    expect(code).toBe(1)
    expect(stderr).toMatch(/^oddflow: warning: cut\.pcap: [^\n]*; the 59 packets before it were used$/m)
    expect(filesOf(folder)).not.toContain('cut.oddflow')
    const [line] = jsonLines<object>(
      await succeeds(['info', 'cut.pcap', '--format', 'json'], { cwd: folder }),
    )
    expect(line).toMatchObject({ packets: 59, truncated: true, error: null })
  })

  it('a length that cannot be true ends the reading and takes no memory', async () => {
    const bytes = capture(flows(2))
    new DataView(bytes.buffer).setUint32(24 + 76 + 8, 0xfffffff0, true)
    write('huge.pcap', bytes)
    const run = await oddflow(['info', 'huge.pcap', '--format', 'json'], { cwd: folder })
    expect(run.code).toBe(0)
    expect(run.stderr).toMatch(/^oddflow: warning: huge\.pcap: [^\n]*\(byte 108\)[^\n]*\n$/)
    expect(jsonLines<object>(run)[0]).toMatchObject({ packets: 1 })
  })
})

describe('models', () => {
  const damage = (name: string, change: (bytes: Buffer) => Buffer): void => {
    write(name, change(readFileSync(join(folder, model))))
  }

  it.each([
    ['cut in its header', (bytes: Buffer) => bytes.subarray(0, 500)],
    ['cut by one byte', (bytes: Buffer) => bytes.subarray(0, -1)],
    ['with a byte more', (bytes: Buffer) => Buffer.concat([bytes, Buffer.of(0)])],
    [
      'of a huge declared header',
      (bytes: Buffer) => Buffer.concat([Buffer.alloc(8, 0xff), bytes.subarray(8)]),
    ],
    ['with one bit flipped in its last number', (bytes: Buffer) => flip(bytes, bytes.length - 2)],
    ['with one bit flipped in its header', (bytes: Buffer) => flip(bytes, 300)],
    ['of text', () => Buffer.from('a model\n')],
    ['of nothing', () => Buffer.alloc(0)],
  ])('%s are refused by name', async (_, change) => {
    damage('bad.oddflow', change)
    await expectRefusal(['score', 'bad.oddflow', good], /^oddflow: bad\.oddflow: .*oddflow train/)
    await expectRefusal(['inspect', 'bad.oddflow'], /^oddflow: bad\.oddflow: /)
  })

  function flip(bytes: Buffer, at: number): Buffer {
    bytes[at]! ^= 0x10
    return bytes
  }

  it('that are missing, a directory or a capture', async () => {
    await expectRefusal(['score', 'no.oddflow', good], /^oddflow: no\.oddflow: cannot read it: no such file/)
    await expectRefusal(['score', 'folder', good], /^oddflow: folder: cannot read it: is a directory/)
    await expectRefusal(['score', good, good], /^oddflow: good\.pcap: /)
  })

  it('trained on rows do not judge captures, nor on captures rows of another width', async () => {
    await succeeds(['extract', good, '-o', 'rows.npy'], { cwd: folder })
    await succeeds(['train', 'rows.npy', '-o', 'rows.oddflow'], { cwd: folder })
    await expectRefusal(['score', 'rows.oddflow', good], /good\.pcap: the model was trained on feature rows/)
    const evaluation = ['evaluate', 'rows.oddflow', '--normal', good, '--novel', good, '--roc', 'roc.svg']
    await expectRefusal(evaluation, /good\.pcap: the model was trained on feature rows/)
    write('narrow.csv', '1,2,3\n4,5,6\n')
    await expectRefusal(
      ['score', model, 'narrow.csv'],
      /narrow\.csv: rows of 3 numbers, .* rows of \d+; make them of a capture/,
    )
  })
})

describe('rows', () => {
  const numbers = float64(Array.from({ length: 60 }, (_, i) => i))

  it.each([
    ['nan.npy', () => npyFile("'<f8'", '(1, 3)', float64([1, 2, Number.NaN])), /row 0, column 2: .*NaN/],
    [
      'inf.npy',
      () => npyFile("'<f8'", '(1, 3)', float64([1, Number.NEGATIVE_INFINITY, 3])),
      /row 0, column 1/,
    ],
    ['int.npy', () => npyFile("'<i8'", '(20, 3)', new Uint8Array(480)), /<i8/],
    ['big-endian.npy', () => npyFile("'>f8'", '(20, 3)', numbers), /big-endian; save/],
    ['pickle.npy', () => npyFile("'|O'", '(1, 1)', Buffer.from('cos\nsystem\n')), /pickled .* never loaded/],
    ['record.npy', () => npyFile("[('a', '<f8')]", '(60,)', numbers), /structured/],
    ['flat.npy', () => npyFile("'<f8'", '(60,)', numbers), /expected two dimensions/],
    ['cut.npy', () => npyFile("'<f8'", '(21, 3)', numbers), /expected 504 bytes .* found 480/],
    ['huge.npy', () => npyFile("'<f8'", '(9007199254740991, 300)', numbers), /npy: .*(byte \d+)/],
    ['no-rows.npy', () => npyFile("'<f8'", '(0, 3)', new Uint8Array(0)), /no rows/],
    ['text.npy', () => Buffer.from('not numpy at all'), /npy/],
    ['empty.npy', () => Buffer.alloc(0), /npy/],
    ['words.csv', () => Buffer.from('a,b\n1,2\n3,four\n'), /line 3: column 2: .*"four"/],
    ['ragged.csv', () => Buffer.from('1,2\n3\n'), /line 2/],
    ['nan.csv', () => Buffer.from('1,2\n3,NaN\n'), /line 2: column 2/],
    ['empty.csv', () => Buffer.alloc(0), /line 1/],
    ['escape.csv', () => Buffer.from('1,2\n3,\u001b[2J\n'), /line 2: column 2: .*\\u001b|\\\\u001b/],
    ['few.csv', () => Buffer.from('1,2\n3,4\n'), /only 2 /],
  ])('%s is refused, saying where', async (name, content, says) => {
    write(name, content())
    const named = new RegExp(`^oddflow: ${name.replace('.', '\\.')}: .*(?:${says.source})`)
    await expectRefusal(['train', name, '-o', 'new.oddflow'], named)
  })

  it('of different widths are refused together', async () => {
    write('two.csv', '1,2\n3,4\n')
    write('three.csv', '1,2,3\n')
    await expectRefusal(
      ['train', 'two.csv', 'three.csv', '-o', 'new.oddflow'],
      /^oddflow: three\.csv: rows of 3 .*two\.csv/,
    )
  })

  it('that are a directory or missing', async () => {
    mkdirSync(join(folder, 'folder.npy'))
    await expectRefusal(
      ['train', 'folder.npy', '-o', 'new.oddflow'],
      /folder\.npy: cannot read it: is a directory/,
    )
    await expectRefusal(
      ['train', 'missing.csv', '-o', 'new.oddflow'],
      /missing\.csv: cannot read it: no such file/,
    )
  })
})

describe('outputs', () => {
  it.each([
    ['no/new.oddflow', /no\/new\.oddflow: cannot write it: there is no folder no; create it first/],
    ['folder', /folder: cannot write it: is a directory/],
    ['good.pcap/new', /good\.pcap\/new: cannot write it: a part of the path is not a folder/],
    ['/proc/new.oddflow', /\/proc\/new\.oddflow: cannot write it/],
    [`${'n'.repeat(300)}`, /the name is too long/],
  ])('%s is refused before the work', (output, says) => expectRefusal(['train', good, '-o', output], says))

  it('of the other commands likewise', async () => {
    await expectRefusal(['extract', good, '-o', 'no/rows.npy'], /no\/rows\.npy: cannot write it/)
    await expectRefusal(['demo', '-o', 'no/report.html'], /no\/report\.html: cannot write it/)
    const evaluation = ['evaluate', model, '--normal', good, '--novel', good]
    await expectRefusal([...evaluation, '--report', 'no/r.html'], /no\/r\.html: cannot write it/)
    await expectRefusal([...evaluation, '--report', 'r.html', '--roc', 'folder'], /folder: cannot write it/)
  })

  it('are never an input, under whatever name', async () => {
    const before = readFileSync(join(folder, good))
    symlinkSync(good, join(folder, 'link'))
    const refused = { code: 2, says: /would be overwritten/, folder } as const
    await refuses(['train', good, '-o', good], refused)
    await refuses(['train', good, '-o', 'link'], refused)
    await refuses(['evaluate', model, '--normal', good, '--novel', good, '--report', model], refused)
    await refuses(
      ['evaluate', model, '--normal', good, '--novel', good, '--report', 'p', '--roc', './p'],
      refused,
    )
    expect(readFileSync(join(folder, good)).equals(before)).toBe(true)
  })

  it('that fail leave the old file as it was', async () => {
    write('old.oddflow', 'precious')
    await expectRefusal(['train', 'arp.pcap', '-o', 'old.oddflow'], /arp\.pcap/)
    expect(readFileSync(join(folder, 'old.oddflow'), 'utf8')).toBe('precious')
  })

  it('that go to standard output, redirected to a file, leave /dev/stdout alone', async () => {
    await succeeds(['train', good, '-o', '/dev/null'], { cwd: folder })
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true)
  })
})

describe('names', () => {
  it('are shown without what would steer a terminal', async () => {
    const name = 'a\u001b[31mred\u202e\nsecond'
    const shown = /^oddflow: a\\u001b\[31mred\\u202e\\u000asecond: no such file/
    await expectRefusal(['info', name], shown)
    await expectRefusal(['train', name, '-o', 'new.oddflow'], shown)
    await refuses(['train', good, '-o', 'x', '--sed\u001b[31m'], {
      code: 2,
      says: /--sed\\u001b\[31m/,
      folder,
    })
  })

  it('are shown so in what goes to standard output as well', async () => {
    const name = 'b\u001b[31m.pcap'
    copyFileSync(join(folder, 'one-flow.pcap'), join(folder, name))
    const out = 'm\u001b[2J'
    const runs = [
      await succeeds(['info', name], { cwd: folder }),
      await succeeds(['info', name, '--format', 'json'], { cwd: folder }),
      await succeeds(['score', model, name], { cwd: folder }),
      await succeeds(['score', model, name, '--format', 'json'], { cwd: folder }),
      await succeeds(['evaluate', model, '--normal', name, '--novel', good], { cwd: folder }),
      await succeeds(['train', good, '-o', out], { cwd: folder }),
      await succeeds(['inspect', out], { cwd: folder }),
    ]
    for (const { stdout, stderr } of runs) expect(stdout + stderr).not.toContain('\u001b')
    expect(jsonLines<{ file: string }>(runs[1]!)[0]!.file).toBe(name)
    expect(jsonLines<{ capture: string }>(runs[3]!)[0]!.capture).toBe(name)
  })
})

const probe = await oddflow(['--version'], { asNobody: process.getuid?.() === 0 }).catch(() => null)
const canDrop = probe?.code === 0
if (!canDrop) {
  console.warn('SKIPPED: no file was without permission: the user nobody cannot run node or the checkout.')
}

describe.skipIf(!canDrop)('without permission', () => {
  const asNobody = process.getuid?.() === 0

  it('captures, rows, models and folders are refused, saying so', async () => {
    for (const name of [good, 'text.pcap', 'two.csv', model]) {
      copyFileSync(join(folder, name), join(folder, `closed-${name}`))
      chmodSync(join(folder, `closed-${name}`), 0)
    }
    mkdirSync(join(folder, 'closed'))
    chmodSync(join(folder, 'closed'), 0)
    mkdirSync(join(folder, 'read-only'))
    chmodSync(join(folder, 'read-only'), 0o555)
    mkdirSync(join(folder, 'open'))
    chmodSync(join(folder, 'open'), 0o777)
    const denied = (args: string[], file: string) =>
      expectRefusal(args, new RegExp(`^oddflow: ${file.replaceAll('.', '\\.')}: .*permission denied;`), {
        asNobody,
      })
    await denied(['train', `closed-${good}`, '-o', 'open/new'], `closed-${good}`)
    await denied(['info', `closed-${good}`], `closed-${good}`)
    await denied(['train', 'closed/a.pcap', '-o', 'open/new'], 'closed/a.pcap')
    await denied(['train', 'closed-two.csv', '-o', 'open/new'], 'closed-two.csv')
    await denied(['score', `closed-${model}`, good], `closed-${model}`)
    await denied(['train', good, '-o', 'read-only/new'], 'read-only/new')
    await denied(['train', good, '-o', 'closed/new'], 'closed/new')
    await denied(['extract', good, '-o', 'closed/new.npy'], 'closed/new.npy')
    // what may be written is written
    await succeeds(['train', good, '-o', 'open/new'], { cwd: folder, asNobody })
    for (const name of ['closed', 'read-only']) chmodSync(join(folder, name), 0o755)
    expect(filesOf(join(folder, 'open'))).toEqual(['new'])
  })
})
