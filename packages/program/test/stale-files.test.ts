import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { temporaryName } from '../src/files.js'
import { writeFileWhole } from '../src/index.js'

let folder = ''
let target = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'oddflow-stale-'))
  target = join(folder, 'rows.csv')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A process that has ended: its number is not given to another so soon. */
const gone = spawnSync(process.execPath, ['--version']).pid
const left = (of = target, id = gone): string => temporaryName(of).replace(`-${process.pid}-`, `-${id}-`)
const age = (path: string, minutes: number): void => {
  const seconds = Date.now() / 1000 - 60 * minutes
  utimesSync(path, seconds, seconds)
}

it('a write removes what a killed one left over an hour ago', () => {
  const stale = left()
  writeFileSync(stale, 'half')
  age(stale, 61)
  writeFileWhole(target, 'whole')
  expect(readdirSync(folder)).toEqual([basename(target)])
})

it('and nothing else', () => {
  const recent = left()
  const running = left(target, process.pid)
  const ofAnother = left(join(folder, 'rows.npy'))
  const likeIt = `${left()}.bak`
  const elsewhere = join(folder, 'kept')
  for (const path of [recent, running, ofAnother, likeIt, elsewhere]) {
    writeFileSync(path, 'kept')
    age(path, path === recent ? 59 : 600)
  }
  const link = left()
  symlinkSync(elsewhere, link)
  writeFileWhole(target, 'whole')
  const kept = [recent, running, ofAnother, likeIt, elsewhere, link]
  expect(kept.filter((path) => !existsSync(path))).toEqual([])
})

it('names have the length of no file name, however long the target is called', () => {
  expect(basename(temporaryName(join(folder, 'x'.repeat(255)))).length).toBeLessThan(64)
})
