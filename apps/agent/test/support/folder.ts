import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** A folder that goes when the test file is done. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-agent-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Makes a folder of its own each time, all of which go when the test file is done. */
export function temporaryFolders(): () => string {
  const base = temporaryFolder()
  let folders = 0
  return () => {
    const folder = join(base, String(folders++))
    mkdirSync(folder)
    return folder
  }
}
