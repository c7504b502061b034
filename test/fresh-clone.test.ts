/** What a fresh clone does on its first command. It installs and builds, so that `npm run slow:tests` alone runs it. */
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listFiles } from '../tools/checks/files.mjs'
import { root } from '../tools/workspace/layout.mjs'
import { makeTemporaryFolder, runOrThrow, runProgram } from './support/packed-packages.js'

const isRun = process.env.ODDFLOW_TESTS === 'all'
const skipped = 'installs and builds a fresh clone: npm run slow:tests'
const folder = makeTemporaryFolder()
const clone = join(folder, 'clone')

beforeAll(() => {
  if (!isRun) return
  for (const path of listFiles(root) as string[]) {
    mkdirSync(dirname(join(clone, path)), { recursive: true })
    copyFileSync(join(root, path), join(clone, path))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a fresh clone', () => {
  it('packs a package with its code', async (context) => {
    if (!isRun) context.skip(skipped)
    const place = join(folder, 'packed')
    const args = [
      'run',
      '-s',
      'pnpm',
      '--',
      '--filter',
      '@oddflow/capture',
      'pack',
      '--pack-destination',
      place,
    ]
    await runOrThrow('npm', args, clone)
    const [tarball] = readdirSync(place)
    const names = (await runOrThrow('tar', ['-tzf', join(place, tarball!)], folder)).split('\n')
    expect(names).toEqual(expect.arrayContaining(['package/dist/index.js', 'package/dist/node/index.d.ts']))
  })

  it('starts with the demonstration, and tells its stages where there is no terminal', async (context) => {
    if (!isRun) context.skip(skipped)
    const { code, stdout, stderr } = await runProgram('npm', ['start', '-s'], clone)
    expect(code, stderr).toBe(0)
    expect(stdout).toContain(`Report: ${join(clone, 'oddflow-report.html')}`)
    expect(stderr).toMatch(/^building …$/m)
    for (const stage of ['install', 'build', 'demo'])
      expect(stderr).toMatch(new RegExp(`^${stage} +ok +[\\d.]+ s$`, 'm'))
  })
})
