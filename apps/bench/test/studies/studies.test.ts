/** Studies by the program, on captures of the repository, and the files that they leave. */
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createMatrix, createRng, encodeNpy } from '@oddflow/core'
import { FileError } from '@oddflow/program'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OWN_MANIFESTS, readManifests } from '../../src/datasets/manifest.js'
import { findPython } from '../../src/peers/run-peers.js'
import { labAttacks, labNormal } from '../../src/studies/attacks.js'
import { secondsToFirstFlag, trainOn, variantNamed } from '../../src/studies/flows.js'
import { STUDIES } from '../../src/studies/registry.js'
import { type Outcome, runBench } from '../support/run-bench.js'
import { encodeLabels } from '../support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-study-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const lab = fileURLToPath(new URL('../../../../test/fixtures/lab/', import.meta.url))
const data = join(folder, 'data')
const out = join(folder, 'out')
const absent = join(folder, 'absent')
const WATCHED = {
  house: ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz', 'normal-4.pcap.gz'],
  intruder: ['novel-scan.pcap', 'novel-bruteforce.pcap.gz'],
}

beforeAll(() => {
  const put = (file: string, place: string, name = file): void => {
    mkdirSync(place, { recursive: true })
    copyFileSync(join(lab, file), join(place, name))
  }
  const devices = Object.entries(WATCHED).map(([name, files]) => {
    for (const file of files) put(file, join(data, 'watch', name))
    const starts = Object.fromEntries([...files, 'gone.pcap'].map((file, i) => [file, i]))
    return [name, { family: name, watched: name === 'house', starts }]
  })
  writeFileSync(join(data, 'watch', 'devices.json'), JSON.stringify(Object.fromEntries(devices)))
  for (let day = 1; day <= 4; day++) put('normal-1.pcap', join(data, 'week', 'house'), `day${day}.pcap`)
})

const study = (name: string, ...more: string[]): Promise<Outcome> => studyOf(data, name, ...more)
const figuresOf = (name: string) => JSON.parse(readFileSync(join(out, `${name}.json`), 'utf8')).figures
const studyOf = (from: string, name: string, ...more: string[]): Promise<Outcome> =>
  runBench([name, '--data', from, '--out', out, ...more])
/** Page and pictures of the figures are those that the run left. */
const expectRedrawn = async (name: string): Promise<void> => {
  const files = await named(name).draw(out)
  expect(files.has(`${name}.md`)).toBe(true)
  for (const [file, content] of files) {
    expect(content).not.toMatch(/NaN|undefined|Infinity/)
    expect(readFileSync(join(out, file), 'utf8')).toBe(content)
  }
}
const named = (name: string) => STUDIES.find((one) => one.name === name)!

/** A folder with one capture pair, of the lab's captures. */
function withPair(): string {
  const place = join(folder, 'with-pair')
  const pair = join(place, 'pairs', 'huebridge_vs_wemolink')
  mkdirSync(pair, { recursive: true })
  const side = (files: readonly string[]) => {
    for (const file of files) copyFileSync(join(lab, file), join(pair, file))
    return { files: files.map((file) => ({ file })), filter: {} }
  }
  // one capture to train on, one to judge
  const manifest = { normal: side(WATCHED.house.slice(0, 2)), novel: side(WATCHED.intruder.slice(0, 1)) }
  writeFileSync(join(pair, 'manifest.json'), JSON.stringify(manifest))
  return place
}

/** A folder with small rows in the place of each of the authors' sets: two blobs. */
function withRows(trainRows: number): string {
  const place = join(folder, `with-${trainRows}-rows`)
  for (const manifest of readManifests(OWN_MANIFESTS)) {
    if (manifest.kind !== 'rows') continue
    const { dimension } = manifest
    const rng = createRng(3).fork(manifest.folder)
    const blobs = (normal: number, novel: number) => {
      const rows = createMatrix(normal + novel, dimension)
      for (let i = 0; i < rows.data.length; i++) {
        rows.data[i] = rng.nextNormal() + (i < dimension * normal ? 0 : 3)
      }
      return encodeNpy(rows)
    }
    const labels = encodeLabels(Array.from({ length: 80 }, (_, i) => (i < 40 ? 0 : 1)))
    const set = join(place, 'paper', manifest.folder)
    mkdirSync(set, { recursive: true })
    writeFileSync(join(set, 'X_train_r0.npy'), blobs(trainRows, 0))
    for (const stem of ['val_r0', 'test']) {
      writeFileSync(join(set, `X_${stem}.npy`), blobs(40, 40))
      writeFileSync(join(set, `y_${stem}.npy`), labels)
    }
  }
  return place
}

/** Studies of several seconds of processor time; the others show that a study runs and is redrawn. */
const itIsSlow = it.runIf(process.env.ODDFLOW_TESTS === 'all')

describe('a study', () => {
  it('exports: keeps its figures and draws its page', { timeout: 300_000 }, async (context) => {
    const can = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
    if (!can('gcc', '--version') || !can('python3', '-c', 'import numpy')) {
      context.skip('no gcc, or no python3 with numpy')
    }
    const python = fileURLToPath(new URL('../../../../python', import.meta.url))
    expect(await study('exports', '--python', python)).toMatchObject({ code: 0, stdout: '' })
    const { models } = figuresOf('exports')
    expect(models.map(({ set }: { set: string }) => set)).toEqual([
      'watch/house',
      'watch/intruder',
      'week/house',
    ])
    for (const model of models) {
      expect(model).toMatchObject({ detector: 'ensemble', differentInC: 0, differentInPython: 0 })
      expect(model.rows).toBeGreaterThan(100)
    }
    await expectRedrawn('exports')
    const refused = await study('exports', '--python', absent)
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.stderr).toMatch(/expected oddflow\.py in it; name its folder with --python/)
  })

  it('watch: keeps its figures and draws its page', async () => {
    expect(await study('watch', '--seeds', '1')).toMatchObject({ code: 0, stdout: '' })
    expect(figuresOf('watch').splits).toMatchObject([
      { device: 'house', order: '1' },
      { device: 'house', order: 'time' },
    ])
    const page = readFileSync(join(out, 'watch.md'), 'utf8')
    expect(page).toMatch(/^# Devices watched one by one\n/)
    expect(page).toContain('- Command: `npm run -s oddflow-bench -- watch --seeds 1`')
    expect(page).not.toContain('NaN')
    expect(await named('watch').draw(out)).toEqual(new Map([['watch.md', page]]))
  })

  it('watch: prints the page of a variant and keeps nothing', async () => {
    const outcome = await runBench([
      ...['watch', '--data', data, '--out', absent, '--seeds', '1', '--variant', 'pca'],
    ])
    expect(outcome.code).toBe(0)
    expect(outcome.stdout).toContain('--detector pca')
    expect(existsSync(absent)).toBe(false)
  })

  it('week: the days after the first three, and says which attacks are not there', async () => {
    const outcome = await study('week')
    expect(outcome.code).toBe(0)
    expect(outcome.stderr).toContain('dlinkhomehub_vs_synflood not found')
    const [device, ...others] = figuresOf('week').devices
    expect(others).toEqual([])
    expect(device.days).toMatchObject([{ day: 'day4' }])
    // what the model was trained on
    const [{ flows, flagged }] = device.days
    expect(flagged / flows).toBeLessThan(0.03)
    expect(device.attacks).toHaveLength(5)
  })

  it('attacks: without the pairs it has the lab alone', async () => {
    const outcome = await study('attacks')
    expect(outcome.code).toBe(0)
    expect(outcome.stderr).toContain('huebridge_vs_wemolink not found')
    const { pairs, lab: kinds } = figuresOf('attacks')
    expect(pairs).toEqual([])
    expect(kinds.attacks).toHaveLength(5)
    expect(kinds.normalFlows).toBeGreaterThanOrEqual(565)
  })

  itIsSlow(
    'capture-pairs: five settings beside an OCSVM, redrawn as they were',
    async (context) => {
      if ((await findPython()) === null) context.skip('no Python with scikit-learn')
      expect((await studyOf(withPair(), 'capture-pairs', '--seeds', '1')).code).toBe(0)
      const { peers, results } = figuresOf('capture-pairs')
      expect(peers).toMatch(/scikit-learn \d/)
      expect(results).toHaveLength(5)
      for (const { auc, ocsvm, baseline } of results) {
        expect(auc['oc-kjl-qs'].sd).toBeNull()
        expect(Object.keys(ocsvm)).toContain('0.25')
        expect(baseline).toBeNull()
      }
      await expectRedrawn('capture-pairs')
    },
    180_000,
  )

  itIsSlow('support-guard: every detector and quantile of each set, redrawn as they were', async () => {
    const outcome = await studyOf(withRows(200), 'support-guard', '--repeats', '1', '--seeds', '2')
    expect(outcome.code).toBe(0)
    const { runs, cost } = figuresOf('support-guard')
    expect(cost.ratio).toBeGreaterThan(0)
    // five sets, four quantiles: two mixtures with two seeds, two SVMs with one
    expect(runs).toHaveLength(5 * 4 * (2 * 2 + 2))
    for (const { detector, supportAlone, ...run } of runs) {
      expect(supportAlone === null).toBe(detector.endsWith('-svm'))
      expect(run.with).toBeGreaterThan(0.5)
    }
    await expectRedrawn('support-guard')
  })

  it('learning-poison: a stream without the poisoner, and four with them, redrawn as they were', async () => {
    expect((await studyOf(withRows(1600), 'learning-poison', '--days', '1')).code).toBe(0)
    const { sets } = figuresOf('learning-poison')
    expect(sets).toMatchObject([{ set: 'sfrig' }, { set: 'aecho' }])
    for (const { runs } of sets) {
      expect(runs).toHaveLength(5)
      const [clean, poisoned] = runs
      expect(clean.days).toMatchObject([{ reached: 0 }])
      expect(poisoned.days[0].reached).toBeGreaterThan(0)
    }
    await expectRedrawn('learning-poison')
  }, 180_000)

  itIsSlow(
    'learning-mode: each large cluster of two sets is left out once a seed, redrawn as they were',
    async () => {
      expect((await studyOf(withRows(2500), 'learning-mode', '--seeds', '1')).code).toBe(0)
      const { cases } = figuresOf('learning-mode')
      expect(new Set(cases.map(({ set }: { set: string }) => set))).toEqual(new Set(['aecho', 'sfrig']))
      for (const { seed, modeShare, updated } of cases) {
        expect(seed).toBe(1)
        expect(modeShare).toBeGreaterThan(0)
        expect(modeShare).toBeLessThanOrEqual(0.7)
        expect(updated.auc).toBeGreaterThan(0.9)
      }
      await expectRedrawn('learning-mode')
    },
    180_000,
  )

  it('learning-million: as many rows as asked, twice to the same bytes, redrawn as they were', async () => {
    expect((await studyOf(withRows(1600), 'learning-million', '--rows', '1000')).code).toBe(0)
    const { updates, models } = figuresOf('learning-million')
    expect(updates).toBe(1000)
    expect(models).toHaveLength(3)
    for (const { sameBytes, notPositiveDefinite, memory } of models) {
      expect(sameBytes).toBe(true)
      expect(notPositiveDefinite).toBe(0)
      expect(memory.at(-1).updates).toBe(1000)
    }
    await expectRedrawn('learning-million')
  }, 180_000)

  it('incidents dns: counts the names that the lab asks for, and how long they are', async () => {
    const outcome = await runBench(['incidents', 'dns', 'DNS tunnel'])
    expect(outcome).toMatchObject({ code: 0, stderr: '' })
    expect(outcome.stdout).toBe('DNS tunnel: 170 DNS queries; the longest name has 141 characters\n')
    const refused = await runBench(['incidents', 'dns', 'tunnel'])
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toContain('expected one of week, watch, DNS tunnel; found tunnel')
  })

  itIsSlow(
    'incidents learning: the first model after an answered attack finds none of its flows normal',
    async () => {
      const outcome = await runBench(['incidents', 'learning', '240'])
      expect(outcome).toMatchObject({ code: 0, stderr: '' })
      expect(outcome.stdout.match(/ opened medium scan /g)).toHaveLength(3)
      expect(outcome.stdout).toMatch(/: (\d+) of \1 flows that the answers keep are novel to it\n$/)
    },
    120_000,
  )

  it.each([
    ['rows', /paper: expected the rows of aecho, /],
    ['plain-rows', /paper: expected the rows of aecho, /],
    ['support-guard', /paper: expected the rows of aecho, /],
    ['capture-pairs', /pairs: expected the capture pairs/],
    ['week', /week: cannot read it: no such file/],
    ['watch', /devices\.json: cannot read it: no such file/],
  ])('%s: says what is not there', async (name, says) => {
    const outcome = await runBench([name, '--data', join(folder, 'nothing'), '--out', absent])
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr).toMatch(says)
    expect(existsSync(absent)).toBe(false)
  })

  it.each([
    ['no JSON', '{'],
    [
      'a figure that is none',
      '{"format":1,"study":"watch","command":"","machine":"","versions":"","figures":{"splits":1}}',
    ],
    ['of another study', '{"format":1,"study":"week"}'],
  ])('refuses figures with their path: %s', async (_, text) => {
    const place = mkdtempSync(join(folder, 'damaged-'))
    const path = join(place, 'watch.json')
    writeFileSync(path, text)
    const drawn = named('watch').draw(place)
    await expect(drawn).rejects.toThrow(FileError)
    await expect(drawn).rejects.toThrow(path)
  })
})

it('a scan is flagged when its first refused connection closes, by a watcher that looks once a second', async () => {
  const { detector } = variantNamed('nearest')
  const recipe = { features: 'flow-summary', idleSeconds: 300, activeSeconds: 300, detector } as const
  const model = await trainOn(labNormal().slice(0, 3), recipe, 1)
  const seconds = await secondsToFirstFlag(model, labAttacks()[0]!.attack)
  expect(seconds).toBeGreaterThanOrEqual(0)
  expect(seconds).toBeLessThanOrEqual(2.1)
  // UDP has no end but silence
  expect(await secondsToFirstFlag(model, labAttacks()[4]!.attack)).toBeGreaterThanOrEqual(300)
})
