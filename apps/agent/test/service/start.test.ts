/** What the agent loads at its start: a file takes 1 ms, and http and what it imports 10 ms. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

it('the program loads no other file of its own, nor node:http, node:https and node:tls, before it uses them', () => {
  const program = readFileSync(fileURLToPath(new URL('../../dist/main.js', import.meta.url)), 'utf8')
  const imported = [...program.matchAll(/^import (?:[^"';]*? from )?["']([^"']+)["']/gm)].map(
    ([, name]) => name,
  )
  expect(imported).toContain('node:fs')
  expect(imported.filter((name) => name.startsWith('.') || /^(node:)?(https?|tls)$/.test(name))).toEqual([])
})
