import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { decodeModelFile, encodeModelFile } from '../../src/index.js'
import { workedExample } from './worked-example.js'

const docs = readFileSync(fileURLToPath(new URL('../../../../docs/model-file.md', import.meta.url)), 'utf8')
const bytes = encodeModelFile(workedExample)

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
    const headerBytes = new DataView(bytes.buffer).getUint32(0, true)
    const header = JSON.parse(Buffer.from(bytes.subarray(8, 8 + headerBytes)).toString()) as object
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
