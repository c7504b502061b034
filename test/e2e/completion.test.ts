/** What the programs themselves print for shells and for man. packages/program/test/completion.test.ts tries all shells. */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readJson, readWorkspaces, root } from '../../tools/workspace/layout.mjs'

interface Workspace {
  directory: string
  manifest: { name: string; bin?: Record<string, string> }
}
const apps = (readWorkspaces() as Workspace[]).filter(({ manifest }) => manifest.bin !== undefined)
/** What is typed, and what bash offers. */
const TYPED: Record<string, [string, string]> = {
  oddflow: ['train --recipe pa', 'paper'],
  'oddflow-agent': ['incidents ans', 'answer'],
  'oddflow-bench': ['compare --format te', 'tex'],
  'oddflow-fleet': ['submit --capt', '--captures'],
}

it.each(apps)(
  '$manifest.name completes in bash, and has a manual page of every command',
  ({ directory, manifest }) => {
    const main = join(
      root,
      directory,
      Object.values(readJson(join(root, directory, 'package.json')).bin as object)[0],
    )
    const printed = (...args: string[]) =>
      execFileSync(process.execPath, [main, ...args], { encoding: 'utf8' })
    const [words, offered] = TYPED[manifest.name]!
    const code = `eval "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    $(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); echo "\${COMPREPLY[@]}"`
    const args = ['-c', code, printed('completion', 'bash'), manifest.name, ...words.split(' ')]
    expect(spawnSync('bash', args, { encoding: 'utf8' })).toMatchObject({
      stderr: '',
      stdout: `${offered}\n`,
    })

    const page = printed('completion', 'man')
    const [, list] = /^Commands:\n([\s\S]*?)\n\n/m.exec(printed('--help'))!
    const commands = [...list!.matchAll(/^ {2}([a-z][\w-]+) /gm)]
    const named = commands.map(([, name]) => name!).filter((name) => name !== 'help')
    expect(named).toContain('completion')
    for (const name of named) expect(page).toContain(`\n.SH ${name.replaceAll('-', '\\-').toUpperCase()}\n`)
    expect(page).toContain('Exit codes')
  },
)
