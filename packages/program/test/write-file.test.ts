import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { checkWritable, FileError, UsageError, writeFileWhole } from '../src/index.js'

const failures = vi.hoisted(() => ({ call: '', code: '', writesBefore: 0, shortWrites: false }))

/** The real file system, with one call that fails and writes that take less than they are given. */
vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>()
  const failing = <A extends unknown[], R>(name: string, run: (...args: A) => R) => {
    return (...args: A): R => {
      if (failures.call === name && failures.writesBefore-- <= 0) {
        throw Object.assign(new Error(`${failures.code}: made to fail`), { code: failures.code })
      }
      return run(...args)
    }
  }
  return {
    ...real,
    writeSync: failing('writeSync', (fd: number, bytes: Uint8Array, at: number) =>
      real.writeSync(fd, bytes, at, failures.shortWrites ? Math.min(7, bytes.length - at) : undefined),
    ),
    fsyncSync: failing('fsyncSync', real.fsyncSync),
    renameSync: failing('renameSync', real.renameSync),
  }
})

let folder = ''
let path = ''
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'oddflow-write-'))
  path = join(folder, 'model')
})
afterEach(() => {
  Object.assign(failures, { call: '', code: '', writesBefore: 0, shortWrites: false })
  fs.rmSync(folder, { recursive: true, force: true })
})
const text = (file: string): string => fs.readFileSync(file, 'utf8')

describe('writeFileWhole', () => {
  it('writes text and bytes, and replaces what was there', () => {
    writeFileWhole(path, 'new é')
    expect(text(path)).toBe('new é')
    writeFileWhole(path, Uint8Array.of(1, 2, 3))
    expect([...fs.readFileSync(path)]).toEqual([1, 2, 3])
    expect(fs.readdirSync(folder)).toEqual(['model'])
  })

  it('goes on where the system takes only a part', () => {
    failures.shortWrites = true
    writeFileWhole(path, 'twenty-three characters')
    expect(text(path)).toBe('twenty-three characters')
  })

  it.each([
    ['writeSync', 'ENOSPC', 0],
    ['writeSync', 'ENOSPC', 2],
    ['fsyncSync', 'EIO', 0],
    ['renameSync', 'EACCES', 0],
  ])('leaves the old file and nothing else when %s fails with %s after %d calls', (call, code, before) => {
    fs.writeFileSync(path, 'old')
    Object.assign(failures, { call, code, writesBefore: before, shortWrites: true })
    expect(() => writeFileWhole(path, 'a text of more than one write')).toThrow(FileError)
    expect(text(path)).toBe('old')
    expect(fs.readdirSync(folder)).toEqual(['model'])
  })

  it('keeps a symbolic link and replaces the file that it names', () => {
    const real = join(folder, 'real')
    fs.writeFileSync(real, 'old')
    fs.symlinkSync(real, path)
    writeFileWhole(path, 'new')
    expect(fs.lstatSync(path).isSymbolicLink()).toBe(true)
    expect(text(real)).toBe('new')
  })

  it('writes to a device without making a file beside it', () => {
    writeFileWhole('/dev/null', 'gone')
    expect(fs.statSync('/dev/null').isCharacterDevice()).toBe(true)
    expect(() => writeFileWhole('/dev/full', 'x')).toThrow(/^\/dev\/full: cannot write it: no space left/)
  })

  it('takes a name as long as the system takes', () => {
    const long = join(folder, 'n'.repeat(255))
    writeFileWhole(long, 'x')
    expect(text(long)).toBe('x')
    expect(() => writeFileWhole(`${long}n`, 'x')).toThrow(/too long/)
  })
})

describe('checkWritable', () => {
  it('leaves nothing behind, neither where it agrees nor where it does not', () => {
    checkWritable(path)
    expect(fs.readdirSync(folder)).toEqual([])
    expect(() => checkWritable(join(folder, 'no', 'model'))).toThrow(
      /there is no folder \S+no; create it first$/,
    )
    expect(() => checkWritable(folder)).toThrow(/is a directory/)
    fs.writeFileSync(path, 'old')
    expect(() => checkWritable(join(path, 'model'))).toThrow(/not a folder/)
    fs.symlinkSync('round', join(folder, 'round'))
    expect(() => checkWritable(join(folder, 'round'))).toThrow(/form a loop/)
    expect(text(path)).toBe('old')
    expect(fs.readdirSync(folder).sort()).toEqual(['model', 'round'])
  })

  it('refuses a file that is an input, by whatever name', () => {
    fs.writeFileSync(path, 'capture')
    fs.symlinkSync(path, join(folder, 'link'))
    fs.linkSync(path, join(folder, 'hard'))
    for (const other of [path, join(folder, '.', 'model'), join(folder, 'link'), join(folder, 'hard')]) {
      expect(() => checkWritable(path, [other])).toThrow(UsageError)
    }
    expect(() => checkWritable(join(folder, 'new'), [join(folder, 'new')])).toThrow(UsageError)
    expect(() => checkWritable(path, ['-', join(folder, 'missing')])).not.toThrow()
    expect(() => checkWritable('/dev/null', ['/dev/null'])).not.toThrow()
  })
})
