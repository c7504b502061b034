import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FormatError, OddFlowError } from '@oddflow/core'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  type CapturesManifest,
  manifestSchema,
  manifestShape,
  OWN_MANIFESTS,
  readManifests,
} from '../../src/datasets/manifest.js'
import { verifyDataset } from '../../src/datasets/prepare.js'
import { checkShape } from '../../src/files.js'
import { sharedPath } from '../support/shared.js'
import { writeSmallData } from '../support/small-data.js'

const own = readManifests(OWN_MANIFESTS)
const captures = own.filter((manifest): manifest is CapturesManifest => manifest.kind === 'captures')
const paper = sharedPath('paper/efficient-ocsvm-iot.tex')
const figures = sharedPath('paper/tables.json')
const rows = sharedPath('data/paper')
const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the manifests that come with the program', () => {
  it("are of the paper's seven data sets, and of the authors' rows of five", () => {
    expect(captures.map(({ paperDataset }) => paperDataset).sort()).toEqual([
      'AECHO',
      'CTU',
      'DWSHR',
      'MACCDC',
      'MAWI',
      'SFRIG',
      'UNB',
    ])
    expect(own.filter(({ kind }) => kind === 'rows').length).toBe(5)
  })

  it.skipIf(paper === null)(
    "name the paper's addresses and no others, each in the row of its data set",
    () => {
      const text = readFileSync(paper!, 'utf8')
      const table = text.slice(text.indexOf('\\caption{Datasets.}'), text.indexOf('\\label{dataset_sources}'))
      const reference: Record<string, string> = {
        UNB: 'UNB IDS',
        CTU: 'CTU IoT',
        MAWI: 'MAWI\\cite',
        MACCDC: 'MACCDC\\cite',
        SFRIG: 'Lab IoT SFRIG',
        AECHO: 'Lab IoT AECHO',
        DWSHR: 'Lab IoT DWSHR',
      }
      for (const { paperDataset, normal, novel, dimension } of captures) {
        const start = table.indexOf(reference[paperDataset ?? '']!)
        expect(start, `${paperDataset}`).toBeGreaterThan(0)
        const ends = [table.indexOf('\\midrule', start), table.indexOf('\\hline', start)].filter(
          (at) => at > 0,
        )
        const row = table.slice(start, Math.min(...ends))
        const named = new Set(row.match(/\d+\.\d+\.\d+\.\d+/g))
        expect(new Set([...normal.addresses, ...novel.addresses]), `${paperDataset}`).toEqual(named)
        expect(row).toMatch(new RegExp(`& *${dimension['iat-size']}\\s*\\\\\\\\`))
      }
    },
  )

  it.skipIf(figures === null)("expect as many flows as the paper's appendix counts", () => {
    const { records } = JSON.parse(readFileSync(figures!, 'utf8')) as {
      records: { metric: string; dataset: string; mean: number }[]
    }
    const count = (metric: string, dataset: string | null) =>
      records.find((record) => record.metric === metric && record.dataset === dataset)?.mean
    for (const { paperDataset, normal, novel } of captures) {
      expect(normal.expectedFlows).toBe(count('normal_flows', paperDataset))
      expect(novel.expectedFlows).toBe(count('novel_flows', paperDataset))
    }
  })

  it.skipIf(rows === null)('of rows fit the rows, file by file', () => {
    for (const manifest of own.filter(({ kind }) => kind === 'rows')) {
      expect(verifyDataset(manifest, rows!).map(({ ok }) => ok)).toEqual([true])
    }
  })

  it('say what is missing and who offers it', () => {
    const ctu = captures.find(({ name }) => name === 'ctu')!
    const texts = verifyDataset(ctu, join(folder, 'nothing')).map(({ text }) => text)
    expect(texts.join('\n')).toMatch(
      /^no .*ctu.normal.*, no .*ctu.novel.*; its publisher is Stratosphere Laboratory/,
    )
    const sfrig = captures.find(({ name }) => name === 'sfrig')!
    expect(verifyDataset(sfrig, folder)[0]?.text).toMatch(/the paper names no place that offers it/)
  })

  it('name the files of rows that are missing, all of them or some, in one line', () => {
    const { data, manifests } = writeSmallData(join(folder, 'partial'), ['blue'], 2)
    const [blue] = readManifests(manifests)
    expect(verifyDataset(blue!, data)).toMatchObject([{ ok: true }])
    rmSync(join(data, 'blue', 'X_val_r1.npy'))
    expect(verifyDataset(blue!, data)).toEqual([
      { ok: false, text: `1 of 8 files are not in ${join(data, 'blue')}: X_val_r1.npy` },
    ])
    const [none] = verifyDataset(blue!, join(folder, 'nothing'))
    expect(none!.text).toMatch(/^no rows: expected in .*blue X_test\.npy, y_test\.npy, X_train_r0\.npy, /)
  })
})

describe('a manifest', () => {
  const sample = JSON.parse(readFileSync(join(OWN_MANIFESTS, 'ctu-rows.json'), 'utf8')) as object

  it.each<[string, object, RegExp]>([
    ['a folder outside', { folder: '../..' }, /folder/],
    ['an unknown field', { extra: 1 }, /extra/],
    ['another format', { format: 2 }, /format/],
    ['another kind', { kind: 'tables' }, /kind/],
    ['a paper data set that is none', { paperDataset: 'IRIS' }, /paperDataset/],
    ['no repeats', { repeats: 0 }, /repeats/],
    ['a hash that is none', { sha256: { 'X_test.npy': 'abc' } }, /sha256/],
    ['a file name that leads elsewhere', { sha256: { '../x': 'a'.repeat(64) } }, /sha256/],
  ])('refuses %s, by name', (_, changes, message) => {
    expect(() => checkShape(manifestShape, { ...sample, ...changes }, 'manifest')).toThrow(FormatError)
    expect(() => checkShape(manifestShape, { ...sample, ...changes }, 'manifest')).toThrow(message)
  })

  const side = { addresses: ['10.0.0.1'], timeWindows: null, files: null, expectedFlows: null }
  const ctu = JSON.parse(readFileSync(join(OWN_MANIFESTS, 'ctu.json'), 'utf8')) as object
  const window = ['2020-01-01T00:00:00Z', '2020-01-02T00:00:00Z']

  it.each<[string, object, RegExp]>([
    [
      'a file twice',
      { normal: { ...side, files: ['a.pcap', 'b.pcap', 'a.pcap'] } },
      /normal\.files: .* once/,
    ],
    ['a file spelt as a path', { novel: { ...side, files: ['a.pcap', './a.pcap'] } }, /novel\.files\.1/],
    [
      'a window that ends before it begins',
      { normal: { ...side, timeWindows: [window, [...window].reverse()] } },
      /normal\.timeWindows\.1: expected an end after the beginning/,
    ],
    [
      'a window of no length',
      { novel: { ...side, timeWindows: [[window[0], window[0]]] } },
      /novel\.timeWindows\.0/,
    ],
    ['no window', { novel: { ...side, timeWindows: [] } }, /novel\.timeWindows: .* null for all/],
    ['no rows to train on', { trainRows: 0 }, /trainRows/],
  ])('of captures refuses %s, by name', (_, changes, message) => {
    expect(
      checkShape(
        manifestShape,
        { ...ctu, trainRows: 500, normal: { ...side, timeWindows: [window] } },
        'manifest',
      ),
    ).toBeTruthy()
    expect(() => checkShape(manifestShape, { ...ctu, ...changes }, 'manifest')).toThrow(FormatError)
    expect(() => checkShape(manifestShape, { ...ctu, ...changes }, 'manifest')).toThrow(message)
  })

  it('refuses any other JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(() => checkShape(manifestShape, value, 'manifest')).toThrow(FormatError)
      }),
    )
  })
})

describe('for your own data', () => {
  it('dataset.schema.json is that of the program', () => {
    const file = new URL('../../dataset.schema.json', import.meta.url)
    if (process.env.UPDATE_README === '1')
      writeFileSync(file, `${JSON.stringify(manifestSchema(), null, 2)}\n`)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(manifestSchema())
  })

  it("the README's example is a manifest", () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    const [, example] = /```json\n(\{\n {2}"\$schema"[^`]*)```/.exec(readme)!
    expect(checkShape(manifestShape, JSON.parse(example!), 'manifest')).toMatchObject({
      kind: 'rows',
      name: 'mine',
    })
  })

  it.each([
    ['kind', { kind: 'pcap' }, "Expected 'rows' | 'captures'"],
    ['paperDataset', { paperDataset: 'MINE' }, 'expected one of UNB, CTU, .*, or null for your own data'],
    ['features', { features: 'flow' }, 'expected one of "iat-size"\\|"stats-header"\\|"samp-size"'],
  ])('an error names the allowed values of %s', (field, change, says) => {
    const rows = own.find(({ kind }) => kind === 'rows')!
    expect(() => checkShape(manifestShape, { ...rows, ...change }, 'manifest')).toThrow(
      new RegExp(`^manifest: ${field}: .*${says}`),
    )
  })
})

describe('readManifests', () => {
  it.each([
    ['not JSON', '{', 'odd'],
    ['a repeated key', '{"format":1,"format":1}', 'odd'],
    ['a name that is not the file’s', readFileSync(join(OWN_MANIFESTS, 'ctu.json'), 'utf8'), 'odd'],
  ])('refuses %s and begins with the path', (_, content, name) => {
    const place = mkdtempSync(join(folder, 'manifests-'))
    mkdirSync(place, { recursive: true })
    writeFileSync(join(place, `${name}.json`), content)
    expect(() => readManifests(place)).toThrow(OddFlowError)
    expect(() => readManifests(place)).toThrow(join(place, `${name}.json: `))
  })
})
