/** All detectors on a reader's own captures and rows, by the program. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng, encodeCsvRows, encodeNpy, type Matrix, matrixOf } from '@oddflow/core'
import { DETECTOR_NAMES } from '@oddflow/detectors'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Outcome, runBench } from './support/run-bench.js'
import { encodeLabels } from './support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-compare-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const lab = (file: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/lab/${file}`, import.meta.url))
const own = (file: string): string => join(folder, file)
const compare = (...args: string[]): Promise<Outcome> => runBench(['compare', ...args])

const NORMAL = 120
const NOVEL = 30

beforeAll(() => {
  const rng = createRng(5)
  const blob = (rows: number, at: number): Matrix =>
    matrixOf(
      rows,
      3,
      Float64Array.from({ length: 3 * rows }, () => at + rng.nextNormal()),
    )
  const [train, normal, novel] = [blob(NORMAL, 0), blob(NORMAL, 0), blob(NOVEL, 6)]
  writeFileSync(own('train.npy'), encodeNpy(train))
  writeFileSync(own('normal.csv'), encodeCsvRows(normal))
  writeFileSync(own('novel.npy'), encodeNpy(novel))
  const labels = Array.from({ length: NORMAL + NOVEL }, (_, i) => (i < NORMAL ? 0 : 1))
  const all = [...normal.data, ...novel.data]
  writeFileSync(own('all.npy'), encodeNpy(matrixOf(labels.length, 3, Float64Array.from(all))))
  writeFileSync(own('labels.npy'), encodeLabels(labels))
  const labelled = labels.flatMap((label, i) => [label, ...all.slice(3 * i, 3 * i + 3)])
  const table = matrixOf(labels.length, 4, Float64Array.from(labelled))
  writeFileSync(own('all.csv'), encodeCsvRows(table, ['attack', 'a', 'b', 'c']))
  writeFileSync(own('unnamed.csv'), encodeCsvRows(table))
  writeFileSync(own('wide.npy'), encodeNpy(table))
  writeFileSync(own('words.csv'), 'bytes,attack\n5120,benign\n')
  writeFileSync(own('one.npy'), encodeLabels(labels.map(() => 0)))
})

const ROWS = ['--normal', own('normal.csv'), '--novel', own('novel.npy')]

describe('compare', () => {
  it('takes files of rows: every detector, the ensemble first, and the same text each time', async () => {
    const args = ['--train', own('train.npy'), ...ROWS, '--seeds', '2']
    const { code, stdout } = await compare(...args)
    expect(code).toBe(0)
    const names = stdout.match(/^\| [a-z][a-z-]* /gm)?.map((cell) => cell.slice(2).trim())
    expect(names).toEqual([...DETECTOR_NAMES].reverse())
    expect(names?.[0]).toBe('ensemble')
    expect(stdout).toContain(`${NORMAL} to train on, ${NORMAL} normal and ${NOVEL} novel to judge`)
    expect(stdout).not.toMatch(/NaN|failed/)
    expect((await compare(...args)).stdout).toBe(stdout)
  })

  it('takes a labelled table: by a column or by a file of labels, the same figures', async () => {
    const options = ['--detectors', 'ensemble,nearest', '--format', 'csv', '--seeds', '2']
    const byColumn = await compare(own('all.csv'), '--labels', 'attack', ...options)
    const byFile = await compare(own('all.npy'), '--labels', own('labels.npy'), ...options)
    expect(byColumn.code).toBe(0)
    expect(byFile.stdout).toBe(byColumn.stdout)
    const auc = /^compare,nearest,AUC,,,,([\d.]+),([\d.e-]+),2,/m.exec(byColumn.stdout)
    expect(Number(auc?.[1])).toBeGreaterThan(0.99)
  })

  it('takes captures, and gives LaTeX', async () => {
    const { code, stdout } = await compare(
      ...['--train', lab('normal-1.pcap'), lab('normal-2.pcapng'), '--normal', lab('normal-3.pcap.gz')],
      ...['--novel', lab('novel-scan.pcap'), '--detectors', 'ensemble,oc-kjl', '--seeds', '1'],
      ...['--format', 'tex'],
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/^ensemble & 0\.\d{3} & 0\.\d{3} /m)
    expect(stdout).toContain('Captures: 2 to train on, 1 normal and 1 novel to judge.')
  })

  it('says which detector could not be measured, and exits with 1', async () => {
    writeFileSync(
      own('few.npy'),
      encodeNpy(
        matrixOf(
          9,
          3,
          Float64Array.from({ length: 27 }, (_, i) => i),
        ),
      ),
    )
    writeFileSync(own('empty.pcap'), readFileSync(lab('normal-1.pcap')).subarray(0, 24))
    const few = await compare('--train', own('few.npy'), ...ROWS, '--seeds', '1')
    expect(few.code).toBe(1)
    expect(few.stdout).toContain('| ocsvm | failed |')
    expect(few.stderr).toContain('ocsvm: only 9 flows or rows to learn from')
    const empty = await compare(
      ...['--train', lab('normal-1.pcap'), '--normal', lab('normal-3.pcap.gz'), '--novel', own('empty.pcap')],
      ...['--detectors', 'ensemble', '--seeds', '1'],
    )
    expect(empty.code).toBe(1)
    expect(empty.stderr).toContain('ensemble: no AUC: there are no novel rows')
  })

  it.each<[what: string, code: number, says: RegExp, args: readonly string[]]>([
    ['a table without labels', 2, /expected a table with --labels, or files for/, [own('all.csv')]],
    ['labels without a table', 2, /expected a table with --labels/, ['--labels', 'a']],
    ['no novel files', 2, /for --train, --normal and --novel/, ['--train', own('train.npy')]],
    [
      'rows beside captures',
      2,
      /rows alone, found \S*train\.npy beside captures/,
      ['--train', own('train.npy'), '--normal', lab('normal-1.pcap'), '--novel', own('novel.npy')],
    ],
    [
      'an unknown detector',
      2,
      /--detectors fastest: expected names out of ocsvm, .*ensemble/,
      ['--train', own('train.npy'), ...ROWS, '--detectors', 'fastest'],
    ],
    [
      'rows of other widths',
      1,
      /wide\.npy: expected rows of 3 numbers as in \S*train\.npy, found 4/,
      ['--train', own('train.npy'), '--normal', own('wide.npy'), '--novel', own('novel.npy')],
    ],
    [
      'no such column',
      1,
      /expected a column named x, found attack, a, b, c/,
      [own('all.csv'), '--labels', 'x'],
    ],
    ['no names', 1, /expected a first line that names the columns/, [own('unnamed.csv'), '--labels', 'a']],
    [
      'other labels',
      1,
      /a: expected labels 0 \(normal\) and 1 \(novel\), found .* in row 1/,
      [own('all.csv'), '--labels', 'a'],
    ],
    [
      'labels in words',
      1,
      /words\.csv: csv: line 2: column 2: .*"benign"; all columns must be numbers, and labels 0 \(normal\) or 1 \(novel\)/,
      [own('words.csv'), '--labels', 'attack'],
    ],
    [
      'labels of one kind',
      1,
      /one\.npy: expected normal rows \(0\) and novel ones \(1\)/,
      [own('all.npy'), '--labels', own('one.npy')],
    ],
    ['a file that is absent', 1, /gone\.npy: cannot read it/, ['--train', own('gone.npy'), ...ROWS]],
  ])('refuses %s', async (_, code, says, args) => {
    const outcome = await compare(...args)
    expect(outcome).toMatchObject({ code, stdout: '' })
    expect(outcome.stderr).toMatch(says)
  })
})
