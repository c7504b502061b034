/** A folder of the program's own among the system's temporary ones, which is gone when the program is. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEnd } from './at-end.js'

export interface ScratchFolder {
  readonly path: string
  /** With all that is in it. */
  remove(): void
}

/** `prefix` says whose it is. */
export function openScratchFolder(prefix: string): ScratchFolder {
  const path = mkdtempSync(join(tmpdir(), `${prefix}-`))
  return { path, remove: atEnd(() => rmSync(path, { recursive: true, force: true })) }
}
