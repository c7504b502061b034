import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLineWriter, FileError } from '../src/index.js'

describe('createLineWriter', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'oddflow-stdout-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('writes every line once, in order, over many flushes', () => {
    const path = join(folder, 'out')
    const fd = openSync(path, 'w')
    const out = createLineWriter(fd)
    const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i} é→`)
    for (const line of lines) out.line(line)
    out.flush()
    out.flush()
    closeSync(fd)
    expect(readFileSync(path, 'utf8')).toBe(`${lines.join('\n')}\n`)
  })

  it('holds lines back until there are enough of them', () => {
    const path = join(folder, 'out')
    const fd = openSync(path, 'w')
    const out = createLineWriter(fd)
    out.line('x')
    expect(readFileSync(path, 'utf8')).toBe('')
    out.line('y'.repeat(70_000))
    expect(readFileSync(path, 'utf8').length).toBe(70_003)
    closeSync(fd)
  })

  it('a device that takes no more is an error of ours, not a fault', () => {
    const fd = openSync('/dev/full', 'w')
    const out = createLineWriter(fd)
    out.line('x')
    expect(() => out.flush()).toThrow(FileError)
    closeSync(fd)
  })
})
