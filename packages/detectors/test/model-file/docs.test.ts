import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { decodeModelFile, encodeModelFile } from '../../src/index.js'
import { workedExample } from './worked-example.js'

/** Set, as for the README's examples: the section is written anew from what is really written. */
const UPDATE = process.env.UPDATE_README !== undefined

const path = fileURLToPath(new URL('../../../../docs/model-file.md', import.meta.url))
const bytes = encodeModelFile(workedExample)
const headerLength = new DataView(bytes.buffer).getUint32(0, true)
const headerText = Buffer.from(bytes.subarray(8, 8 + headerLength)).toString()

/** The lines of `hexdump -C`. */
function hexdump(file: Uint8Array): string[] {
  const lines: string[] = []
  for (let at = 0; at < file.length; at += 16) {
    const piece = [...file.subarray(at, at + 16)]
    const hex = piece.map((byte) => byte.toString(16).padStart(2, '0'))
    const text = piece.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('')
    lines.push(
      `${at.toString(16).padStart(8, '0')}  ${hex.slice(0, 8).join(' ').padEnd(23)}  ${hex.slice(8).join(' ').padEnd(23)}  |${text}|`,
    )
  }
  return lines
}

/** The page with its numbers, dumps and header replaced; the words around them are left to people. */
function updated(page: string): string {
  const header = JSON.parse(headerText) as { __metadata__: { checksum: string } }
  const lines = hexdump(bytes)
  const dumps = [lines.slice(0, 5), lines.slice(Math.floor((8 + headerLength - 40) / 16))]
  const words = [
    'no spaces',
    'a space',
    'two spaces',
    'three spaces',
    'four spaces',
    'five spaces',
    'six spaces',
  ]
  const padding = [...words, 'seven spaces'][headerText.length - headerText.trimEnd().length]
  const start = 8 + headerLength
  return page
    .replace(
      /```text\n[0-9a-f]{8} {2}[\s\S]*?\n```/g,
      () => `\`\`\`text\n${dumps.shift()!.join('\n')}\n\`\`\``,
    )
    .replace(/is N = 0x[0-9a-f]+ = \d+/, `is N = 0x${headerLength.toString(16)} = ${headerLength}`)
    .replace(
      /\w+ spaces? of padding up to byte 8 \+ \d+ = 0x[0-9a-f]+/,
      `${padding} of padding up to byte 8 + ${headerLength} = 0x${start.toString(16)}`,
    )
    .replace(/one component; \d+ bytes/, `one component; ${bytes.length} bytes`)
    .replace(/checksum `[0-9a-f]{8}`/, `checksum \`${header.__metadata__.checksum}\``)
    .replace(/```json\n[^`]*```/, () => `\`\`\`json\n${JSON.stringify(header, null, 2)}\n\`\`\``)
}

if (UPDATE) writeFileSync(path, updated(readFileSync(path, 'utf8')))
const docs = readFileSync(path, 'utf8')

describe('docs/model-file.md', () => {
  it('shows the bytes that are written', () => {
    const shown = docs.match(/^[0-9a-f]{8} {2}.*\|$/gm) ?? []
    expect(shown.length).toBeGreaterThan(8)
    const real = hexdump(bytes)
    for (const line of shown) expect(real).toContain(line)
    expect(docs).toContain(`${bytes.length} bytes`)
    expect(decodeModelFile(bytes)).toEqual(workedExample)
  })

  it('shows the header that is written', () => {
    const header = JSON.parse(headerText) as object
    const shown = /```json\n([^`]*)```/.exec(docs)
    expect(JSON.parse(shown?.[1] ?? '')).toEqual(header)
  })

  const snippet = /```python\n([^`]*struct[^`]*)```/.exec(docs)?.[1] ?? ''
  const hasPython = (() => {
    try {
      execFileSync('python3', ['-c', 'pass'])
      return true
    } catch {
      console.warn('python3 is not installed: the Python of docs/model-file.md is not run')
      return false
    }
  })()
  it.skipIf(!hasPython)('has Python that prints what it says', () => {
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-docs-'))
    writeFileSync(join(folder, 'model.oddflow'), bytes)
    const printed = execFileSync('python3', ['-c', snippet], { cwd: folder, encoding: 'utf8' })
    rmSync(folder, { recursive: true })
    expect(docs).toContain(`prints\n\n\`\`\`text\n${printed}\`\`\``)
    expect(printed).toContain('embedding.landmarks [2, 3]')
  })
})
