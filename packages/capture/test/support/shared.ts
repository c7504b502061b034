/** Outside evidence beside the checkout, or in ODDFLOW_SHARED; what is absent is said aloud. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const checkout = join(dirname(fileURLToPath(import.meta.url)), '../../../..')
const shared = process.env.ODDFLOW_SHARED ?? join(checkout, '../shared')
const data = join(shared, 'data')

export const cases = join(shared, 'cases')

export const captures = join(data, 'captures')
export const goldenCaptures = join(data, 'golden-captures')
export const hostile = join(data, 'hostile')

export const sharedMissing = ![captures, goldenCaptures, hostile].every((folder) => existsSync(folder))
if (sharedMissing) {
  console.warn(`SKIPPED: no captures under ${data} (set ODDFLOW_SHARED to the shared folder)`)
}

export function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'))
}

/** Whether a program is installed; says aloud when it is not. */
export function hasProgram(name: string, purpose: string): boolean {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    console.warn(`SKIPPED: ${name} is not installed: ${purpose}`)
    return false
  }
}
