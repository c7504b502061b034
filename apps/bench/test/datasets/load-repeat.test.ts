import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMatrix, encodeNpy, type Matrix } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { loadRepeat, repeatsOf } from '../../src/datasets/load-repeat.js'
import {
  type CapturesManifest,
  manifestShape,
  OWN_MANIFESTS,
  readManifests,
} from '../../src/datasets/manifest.js'
import { hashManifest, hashMatrices } from '../../src/datasets/pools.js'
import { verifyDataset } from '../../src/datasets/prepare.js'
import { checkShape } from '../../src/files.js'
import { sharedPath } from '../support/shared.js'
import { encodeLabels, writeSmallData } from '../support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const own = readManifests(OWN_MANIFESTS)

/** Rows that hold their own number, from `first` on. */
function numbered(count: number, first: number): Matrix {
  const rows = createMatrix(count, 1)
  for (let i = 0; i < count; i++) rows.data[i] = first + i
  return rows
}

function manifestOf(name: string, changes: Partial<CapturesManifest> = {}): CapturesManifest {
  const manifest = own.find((one) => one.name === name)
  if (manifest?.kind !== 'captures') throw new Error('a manifest of captures')
  return { ...manifest, ...changes }
}

function writePools(name: string, normalRows: number, novelRows: number): void {
  const place = join(folder, name)
  mkdirSync(place, { recursive: true })
  const [normal, novel] = [numbered(normalRows, 0), numbered(novelRows, 1e6)]
  writeFileSync(join(place, 'normal.npy'), encodeNpy(normal))
  writeFileSync(join(place, 'novel.npy'), encodeNpy(novel))
  const record = {
    format: 1,
    features: 'iat-size',
    dimension: 1,
    rows: { normal: normalRows, novel: novelRows },
    rowsSha256: hashMatrices([normal, novel]),
    inputsSha256: 'a'.repeat(64),
    manifestSha256: hashManifest(manifestOf(name)),
    contract: {},
  }
  writeFileSync(join(place, 'pool.json'), JSON.stringify(record))
}

describe('a repeat from pools', () => {
  it('is drawn as the paper draws it, and labelled right', () => {
    writePools('ctu', 5600, 400)
    const ctu = manifestOf('ctu')
    const first = loadRepeat(ctu, folder, 0, 1)
    const second = loadRepeat(ctu, folder, 1, 1)
    expect(repeatsOf(ctu)).toBe(5)
    expect([first.train.rows, first.validation.rows.rows, first.tests.length]).toEqual([5000, 150, 1])
    const [test] = first.tests
    expect(test!.sample).toBe('protocol')
    expect(test!.data).toEqual(second.tests[0]!.data)
    expect(first.train).not.toEqual(second.train)
    expect(first.dataSha256).not.toBe(second.dataSha256)
    for (const { rows, isNovel } of [test!.data, first.validation]) {
      expect([...rows.data].map((value) => Number(value >= 1e6))).toEqual([...isNovel.data])
    }
    const seen = [...first.train.data, ...first.validation.rows.data, ...test!.data.rows.data]
    expect(new Set(seen).size).toBe(5000 + 150 + 600)
    expect(loadRepeat(ctu, folder, 0, 1)).toEqual(first)
    expect(loadRepeat(ctu, folder, 0, 2).dataSha256).not.toBe(first.dataSha256)
  })

  it("validates on what is left where that is less than 75 (the paper's DWSHR), and refuses too few to test", () => {
    writePools('dwshr', 5500, 335)
    const dwshr = manifestOf('dwshr')
    const { isNovel } = loadRepeat(dwshr, folder, 0, 1).validation
    expect([isNovel.rows, isNovel.data.reduce((sum, label) => sum + label, 0)]).toEqual([110, 35])
    writePools('dwshr', 5500, 300)
    expect(() => loadRepeat(dwshr, folder, 0, 1)).toThrow(
      'dwshr: too few novel rows: the protocol needs more than 300, found 300, 1 too few',
    )
  })

  it('trains on fewer rows where that is stated, and says how many there are where it is not', () => {
    writePools('ctu', 3542, 400)
    const ctu = manifestOf('ctu')
    expect(() => loadRepeat(ctu, folder, 0, 1)).toThrow(
      'ctu: too few normal rows: the protocol needs 5375 (5000 to train on, 300 + 75), found 3542, 1833 too few; to train on fewer: --train-rows 3167, or trainRows in the manifest',
    )
    const stated = loadRepeat(ctu, folder, 0, 1, 'iat-size', 3167)
    expect(stated.train.rows).toBe(3167)
    expect(loadRepeat({ ...ctu, trainRows: 3167 }, folder, 0, 1)).toEqual(stated)
    expect(() => loadRepeat(ctu, folder, 0, 1, 'iat-size', 3168)).toThrow(/needs 3543 .* 1 too few/)
    expect(verifyDataset(ctu, folder).filter(({ ok }) => !ok)).toMatchObject([
      {},
      {},
      {},
      {},
      { text: expect.stringMatching(/^iat-size: too few normal rows: .* 1833 too few/) },
    ])
    const texts = verifyDataset(ctu, folder, 3167).map(({ text }) => text)
    expect(texts.join('\n')).not.toContain('too few')
  })

  it.each<[string, Partial<CapturesManifest>]>([
    ['other hosts', { normal: { ...manifestOf('ctu').normal, addresses: ['10.0.0.1'] } }],
    [
      'other windows',
      {
        novel: {
          ...manifestOf('ctu').novel,
          timeWindows: [['2020-01-01T00:00:00Z', '2020-01-02T00:00:00Z']],
        },
      },
    ],
    ['another label rule', { labelRule: 'By another rule' }],
  ])('is refused from pools that were made for %s, by verify too', (_, changes) => {
    writePools('ctu', 5600, 400)
    const manifest = manifestOf('ctu', changes)
    const message = /ctu: the manifest's hosts, .* have changed since .*; run: .* --datasets ctu$/
    expect(() => loadRepeat(manifest, folder, 0, 1)).toThrow(message)
    const faults = verifyDataset(manifest, folder).filter(({ ok }) => !ok)
    expect(faults.at(-1)?.text).toMatch(message)
  })

  it('takes pools whatever the flows are that the manifest expects', () => {
    writePools('ctu', 5600, 400)
    const normal = { ...manifestOf('ctu').normal, expectedFlows: 7 }
    expect(loadRepeat(manifestOf('ctu', { normal }), folder, 0, 1).train.rows).toBe(5000)
  })
})

const authors = sharedPath('data/paper')

describe('a repeat from rows', () => {
  it.skipIf(authors === null)(
    'has every test row, and 300 + 300 of them that are the same in all repeats',
    () => {
      const ctu = own.find(({ name }) => name === 'ctu-rows')!
      const [first, second] = [0, 1].map((repeat) => loadRepeat(ctu, authors!, repeat, 1))
      expect(first!.tests.map(({ sample, data }) => [sample, data.rows.rows])).toEqual([
        ['all', 5000],
        ['protocol', 600],
      ])
      expect(first!.tests[1]).toEqual(second!.tests[1])
      expect(first!.validation.rows.rows).toBe(150)
      expect(first!.validation).not.toEqual(second!.validation)
    },
  )

  it.each<[string, string, Uint8Array, RegExp]>([
    ['labels for other rows', 'y_test.npy', encodeLabels([0, 1]), /y_test\.npy: expected 40 labels/],
    ['labels that are none', 'y_test.npy', encodeLabels(new Array(40).fill(2)), /labels 0 .* found 2/],
    [
      'rows of another width',
      'X_test.npy',
      encodeNpy(createMatrix(40, 2)),
      /X_test\.npy: expected rows of 3 columns/,
    ],
    [
      'a file that is cut',
      'X_train_r0.npy',
      encodeNpy(createMatrix(60, 3)).subarray(0, 500),
      /X_train_r0\.npy: npy/,
    ],
  ])('refuses %s, and names the file', (_, file, bytes, message) => {
    const { data } = writeSmallData(mkdtempSync(join(folder, 'small-')), ['blue'], 1)
    const manifest = checkShape(
      manifestShape,
      {
        format: 1,
        kind: 'rows',
        name: 'blue',
        title: 'Blue',
        paperDataset: null,
        features: 'iat-size',
        dimension: 3,
        folder: 'blue',
        repeats: 1,
        note: null,
        sha256: null,
      },
      'manifest',
    )
    expect(loadRepeat(manifest, data, 0, 1).tests.length).toBe(1)
    writeFileSync(join(data, 'blue', file), bytes)
    expect(() => loadRepeat(manifest, data, 0, 1)).toThrow(message)
  })
})
