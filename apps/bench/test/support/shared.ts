import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = process.env.ODDFLOW_SHARED ?? fileURLToPath(new URL('../../../../../shared', import.meta.url))

/** A file or folder of the outside evidence, or null where there is none, which is said aloud. */
export function sharedPath(path: string): string | null {
  const found = join(folder, path)
  if (existsSync(found)) return found
  console.warn(`${path} is absent (ODDFLOW_SHARED): the tests that need it are skipped`)
  return null
}
