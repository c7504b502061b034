/** Evidence from outside, in the folder that ODDFLOW_SHARED names or beside the checkout; said aloud where absent. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../../tools/workspace/layout.mjs'

const shared = process.env.ODDFLOW_SHARED ?? join(root, '../shared')
export const golden = (...path: string[]): string => join(shared, 'golden', ...path)
export const goldenCaptures = (...path: string[]): string => join(shared, 'data/golden-captures', ...path)
export const cases = (...path: string[]): string => join(shared, 'cases', ...path)
export const sharedMissing = !existsSync(goldenCaptures())
export const NO_EVIDENCE = 'no evidence folder: set ODDFLOW_SHARED'
if (sharedMissing) console.warn(`SKIPPED: ${NO_EVIDENCE}`)

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T
}
