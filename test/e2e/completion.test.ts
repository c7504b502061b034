/**
 * What the programs themselves print for shells and for man, and that every command in the documents and in --help is one
 * of theirs. packages/program/test/completion.test.ts tries all shells.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { listFiles } from '../../tools/checks/files.mjs'
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

/** Of each program. */
const pages = new Map<string, string>()

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
    pages.set(manifest.name, page.replaceAll('\\-', '-'))
    const [, list] = /^Commands:\n([\s\S]*?)\n\n/m.exec(printed('--help'))!
    const commands = [...list!.matchAll(/^ {2}([a-z][\w-]+) /gm)]
    const named = commands.map(([, name]) => name!).filter((name) => name !== 'help')
    expect(named).toContain('completion')
    for (const name of named) expect(page).toContain(`\n.SH ${name.replaceAll('-', '\\-').toUpperCase()}\n`)
    expect(page).toContain('Exit codes')
  },
)

it('documents and examples of the help name commands and options that exist', () => {
  expect(pages.size).toBe(apps.length)
  /** By command, such as "oddflow-agent devices list". */
  const optionsOf = new Map<string, Set<string>>()
  const texts: [string, string[]][] = []
  for (const [name, page] of pages) {
    texts.push([`${name} --help`, page.split('\n').map((line) => line.trim())])
    for (const section of page.split(/^\.SH /m).slice(1)) {
      const title = section.split('\n', 1)[0]!.toLowerCase()
      const flags = [...section.matchAll(/^\.TP\n\.B (.*)/gm)].flatMap(
        ([, terms]) => terms!.match(/--[a-z][\w-]*/g) ?? [],
      )
      optionsOf.set(title === 'options' ? name : `${name} ${title}`, new Set(['--help', ...flags]))
    }
  }
  const documents = (listFiles(root) as string[]).filter((path) => /^(?!\.|test\/).*\.md$/.test(path))
  for (const path of documents) {
    const text = readFileSync(join(root, path), 'utf8').replaceAll(/\\\n\s*/g, ' ')
    const blocks = [...text.matchAll(/^ *```(?:sh|console)\n([\s\S]*?)^ *```/gm)].flatMap(([, block]) =>
      block!.split('\n'),
    )
    const spans = [...text.matchAll(/`([^`\n]+)`/g)].map(([, span]) => span!)
    texts.push([path, [...blocks, ...spans]])
  }
  const wrong: string[] = []
  let checked = 0
  const called =
    /(?:^|\| )(?:\$ )?(?:sudo (?:-u \w+ )?)?(?:npx )?(?:npm run -s )?(oddflow(?:-agent|-bench|-fleet)?)(?: --)? ([^|#;&>]+)/g
  for (const [where, lines] of texts) {
    for (const line of lines) {
      for (const [, name, rest] of line.trim().matchAll(called)) {
        const words = rest!.trim().split(/\s+/)
        let command = name!
        while (optionsOf.has(`${command} ${words[0]}`)) command += ` ${words.shift()}`
        const options = words.flatMap((word) => /^--[a-z][\w-]*/.exec(word) ?? [])
        // a sentence, or words that stand for others: oddflow ARGS
        if (command === name && !/^[a-z][a-z-]*$/.test(words[0] ?? '')) continue
        checked++
        if (command === name) wrong.push(`${where}: ${name} has no command ${words[0]}`)
        for (const option of options) {
          if (!optionsOf.get(command)!.has(option)) wrong.push(`${where}: ${command} has no option ${option}`)
        }
      }
    }
  }
  expect(wrong).toEqual([])
  expect(checked).toBeGreaterThan(200)
})
