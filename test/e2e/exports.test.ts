/** `oddflow export --to c`, as a user has it: the scores of `oddflow score`. And C and Python on all shared sets. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { compareExports, exportSets } from '../../apps/bench/src/studies/exports.js'
import { root } from '../../tools/workspace/layout.mjs'
import { can, jsonLines, lab, oddflow, succeeds, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const model = inFolder('home.oddflow')

beforeAll(() => trainLabModel(model))

describe('oddflow export', () => {
  it('writes a header that gives the scores and verdicts of oddflow score', async (context) => {
    if (!can('gcc')) context.skip('no gcc')
    await succeeds(['extract', lab('novel-scan.pcap').path, '-o', inFolder('rows.csv'), '--model', model])
    const run = await succeeds(['export', model, '--to', 'c', '-o', inFolder('home.h'), '--name', 'home'])
    expect(run.stderr).toMatch(/home\.h: \d+ bytes of constant tables, \d+ bytes of arrays on the stack\n$/)
    const rows = readFileSync(inFolder('rows.csv'), 'utf8').trim().split('\n').slice(1)
    writeFileSync(
      inFolder('main.c'),
      `#include <stdio.h>
#include "home.h"
int main(void) {
  double row[HOME_COLUMNS];
  int i;
  while (1) {
    for (i = 0; i < HOME_COLUMNS; i++) if (scanf("%lf%*c", row + i) != 1) return 0;
    printf("%.17g %d\\n", home_score(row), home_is_novel(home_score(row)));
  }
}
`,
    )
    const flags = ['-std=c99', '-Wall', '-Wextra', '-Werror', '-pedantic', '-ffp-contract=off']
    execFileSync('gcc', [...flags, '-o', 'main', 'main.c', '-lm'], { cwd: folder })
    const printed = execFileSync(inFolder('main'), { input: rows.join('\n'), encoding: 'utf8' })
    const found = printed
      .trim()
      .split('\n')
      .map((line) => line.split(' ').map(Number))
    const expected = jsonLines<{ score: number; novel: boolean }>(
      await succeeds(['score', model, inFolder('rows.csv'), '--format', 'json']),
    )
    expect(found).toEqual(expected.map(({ score, novel }) => [score, Number(novel)]))
    expect(found.some(([, novel]) => novel === 1)).toBe(true)
  })

  it('prints the same header to standard output, and says what it cannot do', async () => {
    const { stdout } = await succeeds(['export', model, '--to', 'c', '-o', '-'])
    expect(stdout).toContain('static inline double oddflow_score(const double row[ODDFLOW_COLUMNS])')
    const refused = async (...args: string[]) => {
      const { code, stderr } = await oddflow(['export', ...args])
      return `${code} ${stderr}`
    }
    expect(await refused(model, '-o', '-')).toMatch(/^2 .*--to <language>/)
    expect(await refused(model, '--to', 'rust', '-o', '-')).toMatch(/^2 .*rust.*c/)
    expect(await refused(model, '--to', 'c', '-o', '-', '--name', 'a b')).toMatch(
      /^2 oddflow: --name: expected/,
    )
    expect(await refused(model, '--to', 'c', '-o', model)).toMatch(/^2 /)
    expect(await refused(lab('novel-scan.pcap').path, '--to', 'c', '-o', '-')).toMatch(
      /^1 .*this is a capture/,
    )
  })
})

describe('the scores of all shared sets', () => {
  const data = join(process.env.ODDFLOW_SHARED ?? resolve(root, '../shared'), 'data')
  const sets = existsSync(data) ? exportSets(data) : []
  if (sets.length === 0)
    it('differ nowhere', (context) => context.skip('no evidence folder: set ODDFLOW_SHARED'))

  it.for(sampleOf(sets, 0.04))(
    'are the same bits in C and in Python: $set, $detector',
    { timeout: 600_000 },
    async ({ train }, context) => {
      if (!can('gcc')) context.skip('no gcc')
      if (spawnSync('python3', ['-c', 'import numpy']).status !== 0) context.skip('no python3 with numpy')
      const { saved, rows } = await train()
      const { differentInC, differentInPython } = compareExports(saved, rows, join(root, 'python'))
      expect({ differentInC, differentInPython }).toEqual({ differentInC: 0, differentInPython: 0 })
    },
  )
})
