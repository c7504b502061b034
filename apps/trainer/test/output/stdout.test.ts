import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FileError } from '../../src/output/file-error.js'
import { createLineWriter, jsonLine, printable } from '../../src/output/stdout.js'

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

describe('printable', () => {
  it('shows what would move a cursor, recolour a screen or reorder what is read', () => {
    expect(printable('a\u001b[31mb\n\u0000\u007f\u009b\u202e\u2066\u061c\u200f\ufeffé→')).toBe(
      'a\\u001b[31mb\\u000a\\u0000\\u007f\\u009b\\u202e\\u2066\\u061c\\u200f\\ufeffé→',
    )
  })

  it('leaves no control or format character of the bidirectional algorithm, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(printable(text)).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u)
      }),
    )
  })
})

it('jsonLine: a program reads the same value from it, and a terminal sees no control character', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const line = jsonLine(value)
      expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u)
    }),
  )
})
