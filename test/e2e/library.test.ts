/**
 * The library of the package `oddflow`: the same bytes and verdicts as the program gives, rows and captures in every
 * form that a user has, and errors that name the argument.
 */
import { createReadStream, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import * as oddflow from '../../apps/trainer/dist/index.js'
import {
  ArgumentError,
  type CaptureBytes,
  ContractMismatchError,
  DataError,
  type FitOptions,
  type Flow,
  loadModel,
  type MatrixLike,
  OddFlowError,
  type Place,
  type ReadFlowsOptions,
  type Rows,
  readFlows,
  saveModel,
} from '../../apps/trainer/dist/index.js'
import { encodePcap } from '../../packages/capture/dist/index.js'
import { createRng, encodeCsvRows, matrixFromRows } from '../../packages/core/dist/index.js'
import { root } from '../../tools/workspace/layout.mjs'
import {
  jsonLines,
  lab,
  succeeds,
  temporaryFolder,
  trainingCaptures,
  trainLabModel,
} from './support/oddflow.js'

const { Matrix: MlMatrix } = createRequire(join(root, 'packages/linalg/package.json'))('ml-matrix') as {
  Matrix: new (rows: number[][]) => MatrixLike
}

const folder = temporaryFolder()
const at = (name: string): string => join(folder, name)

/** Rows about two centres, exact in float32. */
function makeRows(count: number, seed: number): number[][] {
  const rng = createRng(seed)
  return Array.from({ length: count }, (_, i) =>
    [0, 1, 2].map((column) => Math.fround(5 * (i % 2) + column + rng.nextNormal())),
  )
}

const rows = makeRows(200, 7)
const flowsOf = (
  source: Place | CaptureBytes | readonly (Place | CaptureBytes)[],
  options: ReadFlowsOptions = {},
): Promise<Flow[]> => readFlows(source, { onWarning: () => {}, ...options }).toArray()

describe('fit on rows', () => {
  it.each<[string, FitOptions, string[]]>([
    ['chosen by the rows', {}, []],
    ['another seed', { seed: 5 }, ['--seed', '5']],
    ['an option that some detectors take', { k: 3 }, ['--k', '3']],
    ['gmm', { detector: 'gmm', scaler: 'standard' }, ['--detector', 'gmm', '--scaler', 'standard']],
    [
      'oc-kjl-qs',
      { detector: 'oc-kjl-qs', calibrationShare: 0.3 },
      ['--detector', 'oc-kjl-qs', '--calibration-share', '0.3'],
    ],
    ['ocsvm', { detector: 'ocsvm', nu: 0.1 }, ['--detector', 'ocsvm', '--nu', '0.1']],
    [
      'ensemble',
      { detector: 'ensemble', falsePositiveRate: 0.05 },
      ['--detector', 'ensemble', '--fpr', '0.05'],
    ],
  ])('makes the bytes that oddflow train makes: %s', async (_, options, flags) => {
    writeFileSync(at('rows.csv'), encodeCsvRows(matrixFromRows(rows)))
    await succeeds(['train', at('rows.csv'), '-o', at('cli.oddflow'), ...flags])
    saveModel(oddflow.fit(rows, options), at('library.oddflow'))
    expect(readFileSync(at('library.oddflow')).equals(readFileSync(at('cli.oddflow')))).toBe(true)
  })

  it('makes the bytes of several files of rows, when it is told which row is of which', async () => {
    const parts = [makeRows(60, 1), makeRows(50, 2), makeRows(40, 3), makeRows(30, 4), makeRows(30, 5)]
    const files = parts.map((part, i) => {
      writeFileSync(at(`part-${i}.csv`), encodeCsvRows(matrixFromRows(part)))
      return at(`part-${i}.csv`)
    })
    await succeeds(['train', ...files, '-o', at('cli.oddflow')])
    const inputs = parts.flatMap((part, i) => part.map(() => i))
    const bytes = oddflow.fit(parts.flat(), { inputs }).toBytes()
    expect(readFileSync(at('cli.oddflow')).equals(bytes)).toBe(true)
  })

  it('takes rows in every form, and gives one model and the same scores', () => {
    const matrix = matrixFromRows(rows)
    const forms: [Rows, FitOptions][] = [
      [rows, {}],
      [rows.map((row) => Float32Array.from(row)), {}],
      [matrix, {}],
      [new MlMatrix(rows), {}],
      [matrix.data, { columns: 3 }],
      [Float32Array.from(matrix.data), { columns: 3 }],
    ]
    const models = forms.map(([form, options]) => oddflow.fit(form, options))
    const scores = models[0]!.score(rows)
    forms.forEach(([form], i) => {
      expect(Buffer.from(models[i]!.toBytes()).equals(models[0]!.toBytes())).toBe(true)
      expect(models[i]!.score(form)).toEqual(scores)
    })
    expect(models[0]!.score([])).toEqual(new Float64Array(0))
  })

  it('gives verdicts by the threshold', () => {
    const model = oddflow.fit(rows)
    const scores = model.score(rows)
    expect(Array.from(model.predict(rows))).toEqual(
      Array.from(scores, (s) => (s <= model.threshold ? -1 : 1)),
    )
    expect(model.columns).toBe(3)
    expect(model.isNovel([500, -500, 500])).toBe(true)
    expect(model.predict([[500, -500, 500], rows[0]!])).toEqual(Int8Array.of(-1, 1))
  })

  it('says what could not be promised', () => {
    const model = oddflow.fit(rows.slice(0, 50), { detector: 'gmm', k: 2 })
    expect(model.notes).toEqual([
      'falsePositiveRate 0.01 needs 99 calibration rows, and there are 10: expect up to 9.09 % false alarms',
    ])
  })

  it('leaves the rows of the caller as they are', () => {
    const mine = matrixFromRows(rows)
    const before = mine.data.slice()
    oddflow.fit(mine, { scaler: 'standard', detector: 'gmm' }).score(mine)
    expect(mine.data).toEqual(before)
  })
})

describe('a model', () => {
  it('is the same from a path, a file URL, bytes, an ArrayBuffer and a Blob', async () => {
    const model = oddflow.fit(rows)
    saveModel(model, pathToFileURL(at('m.oddflow')))
    const bytes = model.toBytes()
    const sources = [at('m.oddflow'), pathToFileURL(at('m.oddflow')), bytes, bytes.buffer, new Blob([bytes])]
    for (const source of sources) {
      const loaded = await loadModel(source)
      expect(loaded.score(rows)).toEqual(model.score(rows))
      expect(Buffer.from(loaded.toBytes()).equals(bytes)).toBe(true)
      expect([loaded.detector, loaded.threshold, loaded.columns]).toEqual([
        model.detector,
        model.threshold,
        model.columns,
      ])
    }
  })

  it('that the program trained scores and judges flows as the program does', async () => {
    for (const [name, ...flags] of [
      ['summary'],
      ['packets', '--features', 'iat-size', '--protocols', 'tcp,udp,icmp'],
    ]) {
      const path = at(`${name}.oddflow`)
      await trainLabModel(path, flags)
      const model = await loadModel(path)
      for (const capture of [lab('novel-scan.pcap').path, lab('novel-bruteforce.pcap.gz').path]) {
        const told = jsonLines<{ score: number | null; novel: boolean; start: number }>(
          await succeeds(['score', path, capture, '--format', 'json']),
        )
        const flows = await flowsOf(capture, { model })
        const scores = model.score(flows)
        const verdicts = model.predict(flows)
        const mine = flows.map(
          (_, i) => `${Number.isNaN(scores[i]) ? null : scores[i]} ${verdicts[i] === -1}`,
        )
        expect(mine.sort()).toEqual(told.map(({ score, novel }) => `${score} ${novel}`).sort())
        expect(mine.some((line) => line.endsWith('true'))).toBe(true)
      }
    }
  })
})

describe('fit on flows', () => {
  it('makes the bytes that oddflow train makes of the captures', async () => {
    await trainLabModel(at('cli.oddflow'))
    const model = oddflow.fit(await flowsOf(trainingCaptures))
    expect(readFileSync(at('cli.oddflow')).equals(model.toBytes())).toBe(true)
    // in any order, and as any list
    const turned = new Set((await flowsOf(trainingCaptures)).reverse())
    expect(readFileSync(at('cli.oddflow')).equals(oddflow.fit(turned).toBytes())).toBe(true)
  })

  it('refuses flows that were cut short for lack of memory', async () => {
    const frames = Array.from({ length: 30_000 }, (_, i) => ({
      timestampMicros: 1e15 + i,
      bytes: udpFrame(i),
    }))
    const flows = await flowsOf(encodePcap(frames), { memoryBytes: 2 ** 20 })
    expect(flows.length).toBe(30_000)
    expect(() => oddflow.fit(flows)).toThrow(/^rows: some flows were cut short for lack of memory/)
  })
})

/** A UDP datagram without payload from one of many hosts. */
function udpFrame(i: number): Uint8Array {
  const ip = [
    0x45,
    0,
    0,
    28,
    0,
    0,
    0,
    0,
    64,
    17,
    0,
    0,
    10,
    (i >> 16) & 255,
    (i >> 8) & 255,
    i & 255,
    10,
    0,
    0,
    53,
  ]
  return Uint8Array.of(2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, ...ip, 0xc3, 0x50, 0, 53, 0, 8, 0, 0)
}

describe('readFlows', () => {
  it('reads the same flows from every kind of source', async () => {
    const path = lab('normal-2.pcapng').path
    const bytes = readFileSync(path)
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
    const expected = await flowsOf(path)
    expect(expected.length).toBeGreaterThan(100)
    const sources: (Place | CaptureBytes)[] = [
      pathToFileURL(path),
      bytes,
      buffer,
      new Blob([bytes]),
      createReadStream(path, { highWaterMark: 1000 }),
      Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>,
      gzipSync(bytes),
      new Blob([gzipSync(bytes)]).stream(),
    ]
    for (const source of sources) expect(await flowsOf(source)).toEqual(expected)
  })

  it('counts every packet, and numbers the sources', async () => {
    const flows = readFlows(trainingCaptures)
    expect(flows.counters).toBeNull()
    const sources = new Set<number>()
    let packets = 0
    for await (const { source, initiator, responder } of flows) {
      sources.add(source)
      packets += initiator.packets + responder.packets
    }
    const { counters } = flows
    const dropped = (Object.values(counters!.dropped) as number[]).reduce((sum, count) => sum + count, 0)
    expect([...sources]).toEqual([...trainingCaptures.keys()])
    expect(packets).toBe(counters!.packetsInFlows)
    expect(counters!.packetsInFlows + dropped).toBe(counters!.packets)
    // each iteration begins at the start
    let again = 0
    for await (const _ of flows) again++
    expect(again).toBe(counters!.records)
  })

  it('sees only the packets that the filter accepts', async () => {
    const flows = await flowsOf(trainingCaptures, { filter: 'udp port 53' })
    expect(flows.length).toBeGreaterThan(10)
    expect(flows.every(({ protocol, responder }) => protocol === 'udp' && responder.port === 53)).toBe(true)
  })

  it('warns of a capture that is cut short, and gives the flows before the cut', async () => {
    const bytes = readFileSync(lab('normal-1.pcap').path)
    for (const cut of [bytes.subarray(0, 20_000), gzipSync(bytes).subarray(0, 20_000)]) {
      const onWarning = vi.fn()
      const flows = await flowsOf(cut, { onWarning })
      expect(flows.length).toBeGreaterThan(10)
      expect(onWarning).toHaveBeenCalledTimes(1)
      expect(onWarning.mock.calls[0]![0]).toMatch(/^source 0: .*cut short.*packets before it were used$/)
    }
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    for await (const _ of readFlows(bytes.subarray(0, 20_000)));
    expect(warn).toHaveBeenCalledTimes(1)
    warn.mockRestore()
  })

  it('closes what it reads when the caller stops early', async () => {
    const stream = createReadStream(lab('normal-1.pcap').path, { highWaterMark: 4096 })
    for await (const _ of readFlows(stream)) break
    expect(stream.destroyed).toBe(true)
  })
})

describe('a wrong call', () => {
  const model = oddflow.fit(rows)
  const anything = (value: unknown): never => value as never
  const calls: [string, () => unknown, RegExp][] = [
    ['no rows', () => oddflow.fit(anything(undefined)), /^rows: expected rows such as .*, found undefined$/],
    ['null', () => oddflow.fit(anything(null)), /^rows: .*found null$/],
    ['a number', () => oddflow.fit(anything(3)), /^rows: .*found 3$/],
    ['a path', () => oddflow.fit(anything('rows.csv')), /^rows: .*found "rows\.csv"$/],
    ['an object', () => oddflow.fit(anything({})), /^rows: .*found an object$/],
    ['one row', () => oddflow.fit(anything([1, 2, 3])), /^rows: .*found an array of 1$/],
    [
      'a matrix of another array',
      () => oddflow.fit(anything({ rows: 1, cols: 1, data: [1] })),
      /^rows\.data: .*found Array of 1$/,
    ],
    [
      'a ragged row',
      () => oddflow.fit([[1, 2], [3]]),
      /^rows\[1\]: expected 2 numbers as in rows\[0\], found 1$/,
    ],
    ['a hole', () => oddflow.fit(anything([[1, 2], undefined])), /^rows\[1\]: .*found undefined$/],
    [
      'text in a row',
      () =>
        oddflow.fit(
          anything([
            [1, 2],
            [3, '4'],
          ]),
        ),
      /^rows\[1\]\[1\]: expected a number, found "4"$/,
    ],
    [
      'NaN',
      () => oddflow.fit(rows.map((row, i) => (i === 3 ? [1, Number.NaN, 2] : row))),
      /^rows: row 3, column 1: .*NaN$/,
    ],
    [
      'numbers without columns',
      () => oddflow.fit(new Float64Array(30)),
      /^columns: .*found a Float64Array of 30$/,
    ],
    [
      'a bad width',
      () => oddflow.fit(new Float64Array(30), { columns: 7 }),
      /^rows: expected a multiple of 7 numbers/,
    ],
    ['no columns', () => oddflow.fit(new Float64Array(30), { columns: 0 }), /^columns: .*found 0$/],
    ['a promise of flows', () => oddflow.fit(anything(Promise.resolve([]))), /^rows: .*found Promise$/],
    [
      'flows not read yet',
      () => oddflow.fit(anything(readFlows(lab('normal-1.pcap').path))),
      /^rows: .*found an object$/,
    ],
    ['no options', () => oddflow.fit(rows, anything(null)), /^options: expected an object, found null$/],
    ['a seed alone', () => oddflow.fit(rows, anything(7)), /^options: expected an object, found 7$/],
    [
      'a misspelt option',
      () => oddflow.fit(rows, anything({ sed: 1 })),
      /^sed: no such option; expected some of seed, /,
    ],
    [
      'memory of another type',
      () => oddflow.readFlows(lab('normal-1.pcap').path, { memoryBytes: anything(Symbol('s')) }),
      /^memoryBytes: expected a number/,
    ],
    [
      'a warning that cannot be called',
      () => oddflow.readFlows(lab('normal-1.pcap').path, { onWarning: anything('log') }),
      /^onWarning: expected a function/,
    ],
    ['no inputs', () => oddflow.fit(rows, { inputs: anything(null) }), /^inputs: expected \d+ numbers/],
    ['a symbol as seed', () => oddflow.fit(rows, { seed: anything(Symbol('s')) }), /^seed: expected a whole/],
    ['a seed of text', () => oddflow.fit(rows, { seed: anything('1') }), /^seed: expected a whole number/],
    [
      'a detector of no name',
      () => oddflow.fit(rows, { detector: anything('svm') }),
      /^detector: expected one of .*, found "svm"$/,
    ],
    ['an option of another detector', () => oddflow.fit(rows, { detector: 'gmm', nu: 0.5 }), /^nu: /],
    [
      'an option out of range',
      () => oddflow.fit(rows, { detector: 'gmm', k: 0 }),
      /^k: expected a whole number from 1/,
    ],
    [
      'options of no detector for rows',
      () => oddflow.fit(rows, { nu: 0.1 }),
      /^nu: no detector that rows are tried with/,
    ],
    [
      'a rate of percent',
      () => oddflow.fit(rows, { falsePositiveRate: 1 }),
      /^falsePositiveRate: .*found 1$/,
    ],
    ['a share', () => oddflow.fit(rows, { calibrationShare: 2 }), /^calibrationShare: .*found 2$/],
    [
      'a share of an ensemble',
      () => oddflow.fit(rows, { detector: 'ensemble', calibrationShare: 0.2 }),
      /^calibrationShare: does not apply/,
    ],
    [
      'a share of nothing',
      () => oddflow.fit(rows, { detector: 'gmm', calibrationShare: 1e-6 }),
      /^calibrationShare: 0\.000001 keeps none/,
    ],
    [
      'inputs of another length',
      () => oddflow.fit(rows, { inputs: [0] }),
      /^inputs: expected 200 numbers, one a row, found 1$/,
    ],
    [
      'inputs of text',
      () => oddflow.fit(rows, { inputs: anything(rows.map(() => 'a')) }),
      /^inputs\[0\]: .*found "a"$/,
    ],
    [
      'rows of another width',
      () => model.score([[1, 2]]),
      /^rows: expected 3 columns as in training, found 2$/,
    ],
    ['nothing to score', () => model.score(anything(undefined)), /^rows: .*found undefined$/],
    ['nothing to judge', () => model.predict(anything(undefined)), /^rows: .*found undefined$/],
    ['no row to judge', () => model.isNovel(anything(undefined)), /^rows: .*found an array of undefined$/],
    [
      'no model to save',
      () => saveModel(anything(undefined), at('x')),
      /^model: expected a model of fit or loadModel, found undefined$/,
    ],
    ['bytes to save', () => saveModel(anything(model.toBytes()), at('x')), /^model: .*found Uint8Array of /],
    [
      'no path',
      () => saveModel(model, anything(undefined)),
      /^path: expected a path or a file URL, found undefined$/,
    ],
    ['a web address', () => saveModel(model, new URL('https://example.org/m')), /^path: expected a file URL/],
    ['no source', () => readFlows(anything(undefined)), /^source: .*found undefined$/],
    ['an empty list', () => readFlows([]), /^source: expected at least one, found an empty list$/],
    [
      'a hole in a list',
      () => readFlows([lab('normal-1.pcap').path, anything(null)]),
      /^source: .*found null$/,
    ],
    ['a misspelt option', () => readFlows('a.pcap', anything({ modle: model })), /^modle: no such option/],
    ['a filter that is none', () => readFlows('a.pcap', { filter: 'hst 1' }), /expected/],
    [
      'a filter of another kind',
      () => readFlows('a.pcap', { filter: anything(3) }),
      /^filter: expected a text, found 3$/,
    ],
    [
      'a model of rows',
      () => readFlows('a.pcap', { model }),
      /^model: expected a model that was trained on flows/,
    ],
    [
      'no model',
      () => readFlows('a.pcap', { model: anything({}) }),
      /^model: expected a model of fit or loadModel/,
    ],
  ]
  it.each(calls)('names the argument: %s', (_, call, message) => {
    expect(call).toThrow(message)
    expect(call).toThrow(OddFlowError)
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['no model file', () => loadModel(at('none')), /none: cannot read it: no such file/],
    ['nothing', () => loadModel(anything(undefined)), /^source: .*found undefined$/],
    ['a capture', () => loadModel(lab('normal-1.pcap').path), /this is a capture/],
    ['no bytes', () => loadModel(new Uint8Array(0)), /expected at least 10 bytes, found 0/],
    ['no capture', () => flowsOf(at('none')), /none: no such file/],
    ['text', () => flowsOf(new TextEncoder().encode('hello, this is text')), /^the stream: /],
    ['no byte', () => flowsOf(new Uint8Array(0)), /^the stream: empty/],
    [
      'a stream of text',
      () => flowsOf(anything(Readable.from(['abc']))),
      /expected a stream of Uint8Array, found one of string/,
    ],
    [
      'too little memory',
      () => flowsOf(lab('normal-1.pcap').path, { memoryBytes: 1 }),
      /^memoryBytes: expected at least/,
    ],
  ])('says what was wrong with a file or a stream: %s', async (_, call, message) => {
    await expect(call()).rejects.toThrow(message)
    await expect(call()).rejects.toBeInstanceOf(OddFlowError)
  })

  it('tells rows from flows', async () => {
    const flows = await flowsOf(lab('normal-1.pcap').path)
    const ofFlows = oddflow.fit(flows)
    expect(() => model.score(flows)).toThrow(ContractMismatchError)
    expect(() => ofFlows.score(flows.map((flow) => ({ ...flow })) as never)).toThrow(
      /^rows: .*found an array of an object$/,
    )
    expect(() => oddflow.fit([...flows, [1]] as never)).toThrow(
      /^rows\[\d+\]: expected a flow of readFlows, found Array of 1$/,
    )
    expect(() => oddflow.fit(flows, { columns: 20 })).toThrow(/^columns: does not apply to flows/)
    expect(() => oddflow.fit(new Set<Flow>())).toThrow(DataError)
    await succeeds(['train', lab('normal-1.pcap').path, '-o', at('iat.oddflow'), '--features', 'iat-size'])
    const ofPackets = await flowsOf(lab('normal-1.pcap').path, { model: await loadModel(at('iat.oddflow')) })
    expect(() => oddflow.fit(ofPackets)).toThrow(/^rows: expected flows that were read without a model/)
    expect(() => ofFlows.predict(ofPackets)).toThrow(/readFlows\(source, \{ model \}\)/)
  })

  it('never throws anything but an error of ours, whatever is given for rows', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        try {
          oddflow.fit(value as never)
          model.score(value as never)
        } catch (error) {
          expect(error).toBeInstanceOf(OddFlowError)
          expect((error as Error).message).toMatch(/^(?:rows|columns|only \d)/)
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it('leaves no file of a model that cannot be written', () => {
    expect(() => saveModel(model, at('no/such/folder/m'))).toThrow(OddFlowError)
    expect(existsSync(at('no'))).toBe(false)
    expect(() => oddflow.fit(rows, { k: -1, detector: 'gmm' })).toThrow(ArgumentError)
  })
})
