/** Figures of other programs, committed beside the tests (tools/golden-generators makes them). */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))

/** `path` from the test folder of the package. */
export function readTestJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(here, path), 'utf8')) as T
}
