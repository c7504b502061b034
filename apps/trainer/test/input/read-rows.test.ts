/** Feature rows from files: what is refused, and in which words. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { readRows } from '../../src/input/read-rows.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-rows-'))
afterAll(() => rmSync(folder, { recursive: true }))
const cases = join(process.env.ODDFLOW_SHARED ?? join(import.meta.dirname, '../../../../../shared'), 'cases')

function csv(text: string): string {
  const file = join(folder, 'rows.csv')
  writeFileSync(file, text)
  return file
}

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

it.for([
  ['rows-pandas-index.csv', /index=False/],
  ['rows-int64.npy', /astype\('<f8'\)/],
] as const)('refuses %s and says what helps', ([name, words], context) => {
  const file = join(cases, name)
  if (!existsSync(file)) return context.skip(`no ${file}: set ODDFLOW_SHARED`)
  expect(() => readRows(file)).toThrow(words)
})
