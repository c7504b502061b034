import { linkSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { repeatedFiles } from '../../src/commands/train.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-repeated-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const write = (name: string, bytes: Uint8Array): string => {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}
const long = (last: number): Uint8Array => new Uint8Array(200_000).fill(7).fill(last, 199_999)

const first = write('first', long(1))
const copy = write('copy', long(1))
const different = write('different', long(2))
const short = write('short', Uint8Array.of(1))
const otherShort = write('other-short', Uint8Array.of(2))
const pieces = write('pieces', new Uint8Array(2 * 64 * 1024).fill(3))
const piecesCopy = write('pieces-copy', new Uint8Array(2 * 64 * 1024).fill(3))

it('finds a name given twice, another name of the same file, and a copy', () => {
  const link = join(folder, 'link')
  const symbolic = join(folder, 'symbolic')
  linkSync(first, link)
  symlinkSync(first, symbolic)
  expect(repeatedFiles([first, different, first, link, symbolic, copy])).toEqual([
    [first, first],
    [link, first],
    [symbolic, first],
    [copy, first],
  ])
  expect(repeatedFiles([pieces, piecesCopy])).toEqual([[piecesCopy, pieces]])
})

it('takes nothing else for one: other bytes at the end, empty files, standard input, what is not there', () => {
  const empty = [write('empty', Uint8Array.of()), write('empty-2', Uint8Array.of())]
  const none = join(folder, 'none')
  const paths = [first, different, short, otherShort, ...empty, '-', none, none, folder, folder]
  expect(repeatedFiles(paths)).toEqual([])
})
