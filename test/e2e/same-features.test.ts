/**
 * One capture by many ways in gives the same bytes out: from a file, standard input, a named pipe, gzip,
 * pcapng (converted by Wireshark's editcap), through either reader; and rows by way of a file are scored as
 * the capture itself is.
 */
import { execFileSync } from 'node:child_process'
import { createReadStream, createWriteStream, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { readNpy } from './support/npy.js'
import {
  can,
  filesOf,
  jsonLines,
  lab,
  main,
  refuses,
  runToEnd,
  succeeds,
  temporaryFolder,
  trainLabModel,
} from './support/oddflow.js'

const hasEditcap = can('editcap')
const hasMkfifo = can('mkfifo')

const folder = temporaryFolder()
const plain = lab('normal-1.pcap').path
const inFolder = (name: string): string => join(folder, name)
const expected = inFolder('expected.npy')

beforeAll(async () => {
  await succeeds(['extract', plain, '-o', expected])
})

describe('features of one capture are byte-equal', () => {
  let count = 0
  async function expectSame(args: string[], options: Parameters<typeof succeeds>[1] = {}): Promise<void> {
    const rows = inFolder(`same-${count++}.npy`)
    await succeeds(['extract', ...args, '-o', rows], options)
    expect(readFileSync(rows).equals(readFileSync(expected))).toBe(true)
  }

  it('through standard input', () => expectSame(['-'], { stdin: readFileSync(plain) }))

  it('as gzip, from a file and through standard input', async () => {
    const bytes = gzipSync(readFileSync(plain))
    writeFileSync(inFolder('plain.pcap.gz'), bytes)
    await expectSame([inFolder('plain.pcap.gz')])
    await expectSame(['-'], { stdin: bytes })
  })

  it.skipIf(!hasEditcap)('as pcapng, plain and gzip', async () => {
    execFileSync('editcap', ['-F', 'pcapng', plain, inFolder('plain.pcapng')])
    await expectSame([inFolder('plain.pcapng')])
    await expectSame(['-'], { stdin: gzipSync(readFileSync(inFolder('plain.pcapng'))) })
  })

  it.skipIf(!hasEditcap)('from pcapng to pcap as well', async () => {
    const original = lab('normal-2.pcapng').path
    execFileSync('editcap', ['-F', 'pcap', original, inFolder('classic.pcap')])
    await succeeds(['extract', original, '-o', inFolder('original.npy')])
    await succeeds(['extract', inFolder('classic.pcap'), '-o', inFolder('classic.npy')])
    expect(readFileSync(inFolder('classic.npy')).equals(readFileSync(inFolder('original.npy')))).toBe(true)
  })

  it.skipIf(!hasMkfifo)('through a named pipe', async () => {
    const pipe = inFolder('pipe')
    execFileSync('mkfifo', [pipe])
    await Promise.all([expectSame([pipe]), pipeline(createReadStream(plain), createWriteStream(pipe))])
  })

  it.each([
    ['--features', 'stats-header', '--protocols', 'tcp,udp,icmp'],
    ['--recipe', 'authors', '--features', 'samp-size'],
    ['--decap', 'inner', '--join-fragments', '--features', 'header-bits'],
    ['--features', 'iat-size', '--iat-unit', 'us'],
  ])('in other ways too: %s %s %s %s', async (...options) => {
    const [file, stdin] = ['other-file.npy', 'other-stdin.npy'].map(inFolder)
    await succeeds(['extract', plain, '-o', file!, ...options])
    await succeeds(['extract', '-', '-o', stdin!, ...options], { stdin: gzipSync(readFileSync(plain)) })
    expect(readFileSync(stdin!).equals(readFileSync(file!))).toBe(true)
    expect(readFileSync(file!).equals(readFileSync(expected))).toBe(false)
  })

  it('and so is the model trained on them', async () => {
    await succeeds(['train', plain, '-o', inFolder('file.oddflow')])
    await succeeds(['train', '-', '-o', inFolder('stdin.oddflow')], { stdin: gzipSync(readFileSync(plain)) })
    expect(readFileSync(inFolder('stdin.oddflow')).equals(readFileSync(inFolder('file.oddflow')))).toBe(true)
  })
})

describe('rows in files', () => {
  it('are the same numbers as .npy and as .csv, to the last bit', async () => {
    await succeeds(['extract', plain, '-o', inFolder('rows.csv')])
    const [head, ...lines] = readFileSync(inFolder('rows.csv'), 'utf8').trimEnd().split('\n')
    const { rows, cols, data } = readNpy(readFileSync(expected))
    expect(head!.split(',').slice(0, 3)).toEqual([
      'initiator_bytes_log1p',
      'initiator_packets_log1p',
      'initiator_size_max_log1p',
    ])
    expect(head!.split(',')).toHaveLength(cols)
    expect(lines).toHaveLength(rows)
    expect(lines.flatMap((line) => line.split(',').map(Number))).toEqual(data)
  })

  it("made under a model's contract are scored as the captures are", async () => {
    const model = await trainLabModel(inFolder('home.oddflow'), ['--features', 'iat-size'])
    const { path } = lab('novel-scan.pcap')
    for (const rows of ['scan.npy', 'scan.csv'].map(inFolder)) {
      await succeeds(['extract', path, '-o', rows, '--model', model])
      const [ofRows, ofCapture] = await Promise.all(
        [rows, path].map(async (input) => {
          const run = await succeeds(['score', model, input, '--format', 'json'])
          const lines = jsonLines<{ score: number | null; novel: boolean; rule: string }>(run)
          return lines.flatMap(({ score, novel, rule }) => (rule === 'score' ? [`${score} ${novel}`] : []))
        }),
      )
      expect(ofRows!.length).toBeGreaterThan(400)
      expect([...ofRows!].sort()).toEqual([...ofCapture!].sort())
    }
  })

  it('are refused by name where a .csv names other features than the model has', async () => {
    const model = inFolder('home.oddflow')
    const [head, ...lines] = readFileSync(inFolder('scan.csv'), 'utf8').split('\n')
    const headed = (name: string, names: string): string => {
      writeFileSync(inFolder(name), [names, ...lines].join('\n'))
      return inFolder(name)
    }
    const micros = headed('micros.csv', head!.replace('iat2_s', 'iat2_us'))
    const says =
      /micros\.csv: column 3 is iat2_us, but the model's is iat2_s; make them of a capture for this model/
    await refuses(['score', model, micros], { code: 1, says, folder })
    await refuses(['drift', model, micros], { code: 1, says, folder })
    await refuses(['update', model, micros, '-o', inFolder('no')], { code: 1, says, folder })
    const known = ['update', model, inFolder('scan.csv'), '-o', inFolder('no'), '--known-novel', micros]
    await refuses(known, { code: 2, says: /--known-novel .*column 3 is iat2_us/, folder })
    const expectedScores = (await succeeds(['score', model, inFolder('scan.npy'), '--format', 'csv'])).stdout
    const taken = [headed('own.csv', head!.replaceAll(/_\w+/g, '')), headed('bare.csv', lines[0]!)]
    const runs = await Promise.all(taken.map((rows) => succeeds(['score', model, rows, '--format', 'csv'])))
    const scores = (text: string): string[] => text.split('\n').map((line) => line.split(',', 1)[0]!)
    expect(scores(runs[0]!.stdout)).toEqual(scores(expectedScores))
    // its first row stands in the place of names, and so comes twice
    expect(scores(runs[1]!.stdout)).toHaveLength(scores(expectedScores).length + 1)
  })

  it('and models go to standard output whole, with what is told beside them', async () => {
    const rows = await succeeds(['extract', plain, '-o', '-'])
    expect(rows.stdout).toBe(readFileSync(inFolder('rows.csv'), 'utf8'))
    expect(rows.stderr).toMatch(/^standard output: \d+ rows of D = /)
    const model = inFolder('to-stdout.oddflow')
    await runToEnd(
      'sh',
      ['-c', '"$0" "$@" > to-stdout.oddflow 2> told', process.execPath, main, 'train', plain, '-o', '-'],
      {
        cwd: folder,
      },
    )
    expect(readFileSync(inFolder('told'), 'utf8')).toContain('\n  detector ')
    await succeeds(['train', plain, '-o', inFolder('to-file.oddflow')])
    expect(readFileSync(model).equals(readFileSync(inFolder('to-file.oddflow')))).toBe(true)
  })

  it('leave nothing beside them', () => {
    expect(filesOf(folder).filter((name) => name.includes('.tmp'))).toEqual([])
  })

  it('are explained by the names of a .csv, and by numbers where it has none', async () => {
    const wave = (i: number): string => `${i % 7},${(i * 3) % 11},${(i * i) % 5}`
    const lines = Array.from({ length: 200 }, (_, i) => wave(i))
    const model = inFolder('named.oddflow')
    writeFileSync(inFolder('named.csv'), ['load,"fan speed",load', ...lines].join('\n'))
    await succeeds(['train', inFolder('named.csv'), '-o', model, '--detector', 'nearest'])
    const reasonOf = async (head: string, row: string): Promise<string> => {
      writeFileSync(inFolder('odd.csv'), `${head}\n${row}\n`)
      return (await succeeds(['score', model, inFolder('odd.csv'), '--explain'])).stdout
    }
    expect(await reasonOf('temperature,"fan speed",load', '3,90000,2')).toMatch(/\n +fan speed 90,000 \(/)
    expect(await reasonOf('temperature,"fan\u001b[31m speed",load', '3,90000,2')).not.toContain('\u001b')
    // twice, empty, or the number of another column
    expect(await reasonOf('load,load,', '3,90000,2')).toMatch(/\n +x2 90,000 \(/)
    expect(await reasonOf('a,x1,b', '3,90000,2')).toMatch(/\n +x2 90,000 \(/)
  })

  it('train and score a model of their own', async () => {
    const model = inFolder('rows.oddflow')
    const [other, seed] = [inFolder('again.oddflow'), ['--seed', '3']]
    const [npy, csv] = ['packets.npy', 'packets.csv'].map(inFolder)
    for (const rows of [npy!, csv!]) await succeeds(['extract', plain, '-o', rows, '--features', 'iat-size'])
    await succeeds(['train', npy!, '-o', model, '--detector', 'oc-nystrom-qs', ...seed])
    await succeeds(['train', csv!, '-o', other, '--detector', 'oc-nystrom-qs', ...seed])
    expect(readFileSync(other).equals(readFileSync(model))).toBe(true)
    const run = await succeeds(['score', model, npy!, '--format', 'json'])
    const lines = jsonLines<{ input: string; row: number }>(run)
    expect(lines.map(({ row }) => row)).toEqual([...lines.keys()])
    expect(new Set(lines.map(({ input }) => input))).toEqual(new Set([npy]))
  })
})
