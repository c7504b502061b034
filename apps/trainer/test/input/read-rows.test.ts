/** Feature rows from files: what is refused, and in which words. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { columnLabel, type FlowSummaryContract, featureColumns } from '@oddflow/core'
import { afterAll, expect, it } from 'vitest'
import { readRows, readRowsUnder, readTrainingRows } from '../../src/pipeline/read-rows.js'

const summaryContract: FlowSummaryContract = {
  featureSet: 'flow-summary',
  featureSetVersion: 1,
  dimension: 20,
  sizeMeasure: 'payload',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 300_000_000,
  activeTimeoutMicros: 300_000_000,
  minimumPackets: 1,
  scaler: 'none',
}

const folder = mkdtempSync(join(tmpdir(), 'oddflow-rows-'))
afterAll(() => rmSync(folder, { recursive: true }))
const cases = join(process.env.ODDFLOW_SHARED ?? join(import.meta.dirname, '../../../../../shared'), 'cases')

function csv(text: string): string {
  const file = join(folder, 'rows.csv')
  writeFileSync(file, text)
  return file
}

it('says where rows of the wrong width come from', () => {
  const rows = { featureSet: 'rows', featureSetVersion: 1, dimension: 3, scaler: 'none' } as const
  expect(() => readRowsUnder(rows, csv('1,2'))).toThrow(/rows of 3; give rows with the columns that it was/)
  expect(() => readRowsUnder(summaryContract, csv('1,2'))).toThrow(/rows of 20; make them .*extract --model/)
})

it("refuses a table's index as a feature", () => {
  for (const first of [0, 1]) {
    const rows = Array.from({ length: 5 }, (_, i) => `${first + i},${i / 7},3`)
    expect(() => readRows(csv([',a,b', ...rows].join('\n')))).toThrow(
      /first column has no name and counts the rows.*index=False/,
    )
    expect(() => readRows(csv(['"",a,b', ...rows].join('\n')))).toThrow(/index=False/)
    // With a name, or where it does not count, it is a feature.
    expect(readRows(csv(['n,a,b', ...rows].join('\n'))).cols).toBe(3)
    expect(readRows(csv([',a,b', ...rows, '9,1,3'].join('\n'))).cols).toBe(3)
  }
})

const SUMMARY_NAMES = featureColumns(summaryContract).map(columnLabel)

/** Rows of a flow summary in a file, their service last. */
function summaryFile(name: string, names: readonly string[] | null, service = 600_443): string {
  const file = join(folder, name)
  const rows = Array.from({ length: 4 }, (_, i) => [...Array.from({ length: 19 }, (_x, j) => i + j), service])
  const lines = [...(names === null ? [] : [names]), ...rows].map((fields) => fields.join(','))
  writeFileSync(file, lines.join('\n'))
  return file
}

it('knows the service column of flow summaries by the names of extract', () => {
  const warnings: string[] = []
  const read = (...files: string[]) => readTrainingRows(files, (text) => warnings.push(text)).columns
  const named = summaryFile('a.csv', SUMMARY_NAMES)
  expect(read(named)).toEqual({ categoryColumn: 19, minimumScale: 0.1 })
  expect(read(named, summaryFile('b.csv', SUMMARY_NAMES))).toEqual({ categoryColumn: 19, minimumScale: 0.1 })
  // with columns left out or moved, too
  const some = [SUMMARY_NAMES[19], ...SUMMARY_NAMES.slice(0, 3)]
  expect(read(csv([some.join(), '600443,1,2,3', '600443,2,2,3'].join('\n')))).toEqual({
    categoryColumn: 0,
    minimumScale: 0.1,
  })
  // names of others are theirs
  expect(read(csv('service,size\n1,2\n3,4'))).toBeNull()
  expect(warnings).toEqual([])
})

it('warns of services without names, and refuses files that differ in them', () => {
  const warnings: string[] = []
  const read = (...files: string[]) => readTrainingRows(files, (text) => warnings.push(text)).columns
  const [named, bare] = [summaryFile('a.csv', SUMMARY_NAMES), summaryFile('bare.csv', null)]
  expect(read(bare)).toBeNull()
  expect(warnings).toEqual([
    expect.stringMatching(/bare\.csv: its last column looks like the service .*: train on/),
  ])
  read(summaryFile('other.csv', null, 7.5))
  expect(warnings).toHaveLength(1)
  for (const files of [
    [named, bare],
    [bare, named],
  ]) {
    expect(() => read(...files)).toThrow(
      /bare\.csv: its service column is missing, or in another place than in .*a\.csv/,
    )
  }
  expect(() => read(named, csv('a,b\n1,2'))).toThrow(/rows of 2 numbers, but .*a\.csv has rows of 20/)
})

it.for([
  ['rows-pandas-index.csv', /index=False/],
  ['rows-int64.npy', /astype\('<f8'\)/],
] as const)('refuses %s and says what helps', ([name, words], context) => {
  const file = join(cases, name)
  if (!existsSync(file)) return context.skip(`no ${file}: set ODDFLOW_SHARED`)
  expect(() => readRows(file)).toThrow(words)
})
