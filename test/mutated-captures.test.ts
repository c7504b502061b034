/**
 * The first few hundred of the mutated captures that `npm run -s slow:fuzz` reads by the hundred thousand: in a
 * child that holds each of them to a second of processor time and 256 MB, and a watchdog over it.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const fuzz = (...args: string[]) =>
  spawnSync(process.execPath, [join(root, 'tools/slow/fuzz-captures.mjs'), ...args], {
    encoding: 'utf8',
    timeout: 50_000,
  })

it('hold to their accounts, a second and 256 MB each', { timeout: 60_000 }, () => {
  const { status, stdout, stderr } = fuzz('--files', '400', '--seed', '5')
  expect(stderr).not.toContain('file ')
  expect(stdout).toMatch(/^400 mutated files of \d+ captures, seed 5, numbers 0 to 399, .*; 0 findings\n$/)
  expect(status).toBe(0)
})

it('a run that was stopped says how to go on, and a wrong number is refused', { timeout: 60_000 }, () => {
  const stopped = fuzz('--files', '1000000', '--seed', '5', '--first', '400', '--minutes', '0.05')
  const [, next] = /numbers 400 to (\d+)/.exec(stopped.stdout) ?? []
  expect(Number(next)).toBeGreaterThan(400)
  expect(stopped.stdout).toContain(
    `to go on: npm run -s slow:fuzz -- --files ${1_000_400 - Number(next) - 1} --seed 5 --first ${Number(next) + 1}\n`,
  )
  expect(fuzz('--files', 'many')).toMatchObject({
    status: 2,
    stderr: '--files: expected a number, found "many"\n',
  })
})
