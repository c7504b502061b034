import { expect, it } from 'vitest'
import { oneLineErrors } from '../src/index.js'

const line = (text: string): string => {
  let written = ''
  oneLineErrors('oddflow train --help').outputError?.(text, (part) => {
    written += part
  })
  return written
}

it('makes one line of a complaint and its suggestion', () => {
  expect(line("error: unknown option '--sed'\n(Did you mean --seed?)\n")).toBe(
    "oddflow: unknown option '--sed' (Did you mean --seed?); try: oddflow train --help\n",
  )
})

it('shows control characters of what was typed', () => {
  expect(line("error: unknown command 'a\n\u001b[2Jb'\n")).toBe(
    "oddflow: unknown command 'a\\u000a\\u001b[2Jb'; try: oddflow train --help\n",
  )
})
