/** The documents name every command, and none that is not there. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createProgram } from '../src/run.js'

const textOf = (path: string): string => readFileSync(fileURLToPath(new URL(path, import.meta.url)), 'utf8')
const commands = createProgram()
  .commands.map((command) => command.name())
  .sort()

it("the package's table of commands is the program's", () => {
  const rows = [...textOf('../README.md').matchAll(/^\| `([a-z]+)[^|]*\|/gm)]
  expect(rows.map(([, name]) => name).sort()).toEqual(commands)
})

it("so is the list in the root's table of packages", () => {
  const [, list = ''] = /^\| \[oddflow\]\([^)]*\) \| ([^|]*) \|$/m.exec(textOf('../../../README.md')) ?? []
  expect(list.split(', ').sort()).toEqual(commands)
})
