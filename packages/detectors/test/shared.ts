/**
 * Where the outside evidence is: ODDFLOW_SHARED, or ../shared beside the checkout. It is not part of the
 * repository; tests that need it say so when it is absent.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const beside = resolve(dirname(fileURLToPath(import.meta.url)), '../../../../shared')
export const sharedFolder = process.env.ODDFLOW_SHARED ?? beside

/** For `describe.skipIf`: true, with a line on the console, when the golden files are not there. */
export const goldenAbsent = !existsSync(join(sharedFolder, 'golden'))
if (goldenAbsent) console.warn(`golden files are absent (${sharedFolder}/golden): their tests are skipped`)

export function readGolden<T>(name: string): T {
  return JSON.parse(readFileSync(join(sharedFolder, 'golden', `${name}.json`), 'utf8')) as T
}
