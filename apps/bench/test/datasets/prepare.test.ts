import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decodeNpyMatrix } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { type CapturesManifest, manifestShape } from '../../src/datasets/manifest.js'
import { poolFolder, readPools } from '../../src/datasets/pools.js'
import { bytesToPrepare, preparePools } from '../../src/datasets/prepare.js'
import { checkShape } from '../../src/files.js'
import { runBench } from '../support/run-bench.js'

const lab = fileURLToPath(new URL('../../../../test/fixtures/lab/', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const side = { timeWindows: null, files: null, expectedFlows: null }
const HOSTS = JSON.parse(readFileSync(join(lab, 'labels.json'), 'utf8')) as Record<string, unknown>
const addresses = [...new Set(JSON.stringify(HOSTS).match(/\d+\.\d+\.\d+\.\d+/g))]

function manifestWith(changes: object = {}): CapturesManifest {
  const manifest = checkShape(
    manifestShape,
    {
      format: 1,
      kind: 'captures',
      name: 'lab',
      title: 'Lab',
      paperDataset: null,
      source: { access: 'private lab', publisher: null, address: null, collected: null },
      novelty: 'Attacks',
      labelRule: 'By capture',
      normal: { ...side, addresses },
      novel: { ...side, addresses },
      dimension: {},
      ...changes,
    },
    'manifest',
  )
  if (manifest.kind !== 'captures') throw new Error('a manifest of captures')
  return manifest
}

function laidOut(): string {
  const place = mkdtempSync(join(folder, 'data-'))
  for (const [part, files] of [
    ['normal', ['normal-1.pcap', 'normal-3.pcap.gz']],
    ['novel', ['novel-scan.pcap', 'novel-dnstunnel.pcap.gz']],
  ] as const) {
    mkdirSync(join(place, part))
    for (const file of files) copyFileSync(join(lab, file), join(place, part, file))
  }
  return place
}

describe('preparePools', () => {
  it('makes rows of both sides under one contract, and leaves them alone the second time', async () => {
    const place = laidOut()
    const read: string[] = []
    const first = await preparePools(manifestWith(), place, (file) => read.push(file))
    expect(first.done).toBe('prepared')
    expect(read.length).toBe(4)
    expect(first.pools.map(({ features }) => features)).toEqual(['iat-size', 'stats-header', 'samp-size'])
    for (const { features, normal, novel, dimension } of first.pools) {
      const pools = readPools(poolFolder(place, features))
      expect([pools.normal.rows, pools.novel.rows]).toEqual([normal, novel])
      expect(normal).toBeGreaterThan(10)
      expect(novel).toBeGreaterThan(10)
      expect(pools.normal.cols).toBe(dimension)
    }
    // every flow has a row of every kind
    expect(new Set(first.pools.map(({ normal }) => normal)).size).toBe(1)
    expect(first.pools[0]!.dimension % 2).toBe(1)
    const again = await preparePools(manifestWith(), place, (file) => read.push(file))
    expect(again).toEqual({ ...first, done: 'up to date', warnings: [] })
    expect(read.length).toBe(4)
  })

  it('starts again after a stop half way, a changed capture or other hosts', async () => {
    const place = laidOut()
    const whole = await preparePools(manifestWith(), place, () => {})
    const bytes = readFileSync(join(place, 'normal.npy'))
    rmSync(join(place, 'pool.json'))
    writeFileSync(join(place, 'normal.npy'), bytes.subarray(0, 1000))
    expect(await preparePools(manifestWith(), place, () => {})).toEqual(whole)
    expect(readFileSync(join(place, 'normal.npy')).equals(bytes)).toBe(true)
    copyFileSync(join(lab, 'normal-2.pcapng'), join(place, 'normal', 'normal-2.pcapng'))
    const more = await preparePools(manifestWith(), place, () => {})
    expect(more.done).toBe('prepared')
    expect(more.pools[0]!.normal).toBeGreaterThan(whole.pools[0]!.normal)
    const fewer = manifestWith({ normal: { ...side, addresses: addresses.slice(0, 1) } })
    expect((await preparePools(fewer, place, () => {})).done).toBe('prepared')
  })

  it('makes a pool again that is gone, and leaves out one that cannot be made', async () => {
    const place = laidOut()
    const whole = await preparePools(manifestWith(), place, () => {})
    rmSync(join(place, 'stats-header'), { recursive: true })
    expect(await preparePools(manifestWith(), place, () => {})).toEqual(whole)
    const record = JSON.parse(readFileSync(join(place, 'pool.json'), 'utf8'))
    const notMade = { 'samp-size': 'windows need a length' }
    writeFileSync(join(place, 'pool.json'), JSON.stringify({ ...record, notMade }))
    const known = await preparePools(manifestWith(), place, () => {})
    expect(known.done).toBe('up to date')
    expect(known.pools.map(({ features }) => features)).toEqual(['iat-size', 'stats-header'])
  })

  it('refuses a capture that is there twice: a copy, a link', async () => {
    const place = laidOut()
    copyFileSync(join(lab, 'normal-1.pcap'), join(place, 'normal', 'again.pcap'))
    const message = /again\.pcap and .*normal-1\.pcap are the same capture/
    await expect(preparePools(manifestWith(), place, () => {})).rejects.toThrow(message)
    rmSync(join(place, 'normal', 'again.pcap'))
    symlinkSync('normal-1.pcap', join(place, 'normal', 'again.pcap'))
    await expect(preparePools(manifestWith(), place, () => {})).rejects.toThrow(message)
    rmSync(join(place, 'normal', 'again.pcap'))
    // captures without a packet are equal and count for nothing
    const header = readFileSync(join(lab, 'normal-1.pcap')).subarray(0, 24)
    for (const name of ['none-1.pcap', 'none-2.pcap']) writeFileSync(join(place, 'normal', name), header)
    expect((await preparePools(manifestWith(), place, () => {})).done).toBe('prepared')
  })

  it('tells how far it is, from nothing to all', async () => {
    const place = laidOut()
    const total = bytesToPrepare(manifestWith(), place)
    const steps: number[] = []
    await preparePools(
      manifestWith(),
      place,
      () => {},
      (bytes) => steps.push(bytes),
    )
    expect(steps.reduce((sum, step) => sum + step, 0)).toBe(total)
    expect(steps.every((step) => step >= 0)).toBe(true)
  })

  it('makes pools again that do not say which manifest they are of', async () => {
    const place = laidOut()
    const whole = await preparePools(manifestWith(), place, () => {})
    const { manifestSha256, ...record } = JSON.parse(readFileSync(join(place, 'pool.json'), 'utf8'))
    expect(manifestSha256).toMatch(/^[0-9a-f]{64}$/)
    writeFileSync(join(place, 'pool.json'), JSON.stringify(record))
    expect(await preparePools(manifestWith(), place, () => {})).toEqual(whole)
  })

  it('keeps to time windows', async () => {
    const place = laidOut()
    const none: [string, string][] = [['1990-01-01T00:00:00Z', '1990-01-02T00:00:00Z']]
    const manifest = manifestWith({ novel: { ...side, addresses, timeWindows: none } })
    await expect(preparePools(manifest, place, () => {})).rejects.toThrow(
      /^novel: no flow of two or more packets of [\d., ]+ from 1990-01-01T00:00:00Z to 1990-01-02T00:00:00Z in/,
    )
    const elsewhere = manifestWith({ normal: { ...side, addresses: ['192.0.2.77'] } })
    await expect(preparePools(elsewhere, place, () => {})).rejects.toThrow(
      /^normal: no flow of two or more packets of 192\.0\.2\.77 in its captures; compare addresses/,
    )
    const all: [string, string][] = [['1990-01-01T00:00:00Z', '2090-01-01T00:00:00Z']]
    const wide = manifestWith({ novel: { ...side, addresses, timeWindows: all } })
    const there = await preparePools(wide, place, () => {})
    expect(decodeNpyMatrix(readFileSync(join(place, 'novel.npy'))).rows).toBe(there.pools[0]!.novel)
  })

  it('refuses pools that are not those of their record', async () => {
    const place = laidOut()
    await preparePools(manifestWith(), place, () => {})
    const bytes = readFileSync(join(place, 'novel.npy'))
    bytes[bytes.length - 3] = (bytes[bytes.length - 3] ?? 0) ^ 1
    writeFileSync(join(place, 'novel.npy'), bytes)
    expect(() => readPools(place)).toThrow(/differ from pool\.json/)
  })
})

describe('oddflow-bench data prepare', () => {
  it('says in a line which captures are missing and where they are offered, and continues', async () => {
    const { code, stdout, stderr } = await runBench(['data', 'prepare', folder, '--datasets', 'ctu,maccdc'])
    expect(code).toBe(1)
    expect(stdout).toBe('')
    const lines = stderr.trimEnd().split('\n')
    expect(lines.length).toBe(2)
    expect(lines[0]).toMatch(/^oddflow-bench: ctu: no .*normal.*; its publisher is Stratosphere/)
    expect(existsSync(join(folder, 'ctu'))).toBe(false)
  })

  it.each(['verify', 'prepare'])('%s tells a folder that is none from one without captures', async (name) => {
    const outcome = await runBench(['data', name, join(folder, 'nowhere')])
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr).toMatch(/^oddflow-bench: .*nowhere: cannot read it: no such file or folder/)
  })

  it('says at once by how much pools are too small, and verify and a smaller n agree', async () => {
    const data = mkdtempSync(join(folder, 'small-'))
    const manifests = mkdtempSync(join(folder, 'manifests-'))
    renameSync(laidOut(), join(data, 'lab'))
    writeFileSync(join(manifests, 'lab.json'), JSON.stringify(manifestWith()))
    const args = (command: string, ...more: string[]): string[] =>
      ['data', command, data, '--manifests', manifests].concat(more)
    const prepared = await runBench(args('prepare'))
    expect(prepared.code).toBe(0)
    expect(prepared.stderr).toMatch(
      /^lab, iat-size: too few normal rows: the protocol needs 5375 \(5000 .*, found \d+, \d+ too few/,
    )
    const verified = await runBench(args('verify'))
    expect(verified.code).toBe(1)
    expect(verified.stdout).toMatch(/^lab: iat-size: too few normal rows: /m)
    const few = await runBench(args('verify', '--train-rows', '1'))
    expect(few.stdout).not.toMatch(/too few normal rows: the protocol needs 5375/)
  }, 60_000)

  it('says a name once of a data set that fails', async () => {
    const data = mkdtempSync(join(folder, 'fails-'))
    const manifests = mkdtempSync(join(folder, 'manifests-'))
    renameSync(laidOut(), join(data, 'lab'))
    const manifest = manifestWith({ novel: { ...side, addresses: ['192.0.2.77'] } })
    writeFileSync(join(manifests, 'lab.json'), JSON.stringify(manifest))
    const outcome = await runBench(['data', 'prepare', data, '--manifests', manifests])
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr).toMatch(
      /^oddflow-bench: lab: novel: no flow of two or more packets of 192\.0\.2\.77 /,
    )
  }, 60_000)

  it('has nothing to do for rows', async () => {
    const { code, stderr } = await runBench(['data', 'prepare', folder, '--datasets', 'ctu-rows'])
    expect([code, stderr]).toEqual([
      2,
      'oddflow-bench: ctu-rows: has feature rows already; there is nothing to prepare\n',
    ])
  })
})
