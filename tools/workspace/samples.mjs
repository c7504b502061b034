/**
 * What `npm test` runs of an enumeration (faults at each step, kills, cuts, random cases): a seeded tenth, the same in
 * every run. ODDFLOW_TESTS=all runs all of it, with fresh seeds, and is set by `npm run slow:tests`.
 *
 * A vitest setup file: its functions are global, since a package may import nothing of another place (samples.d.ts).
 * What was run of what there was goes into the file ODDFLOW_TEST_SAMPLES, from which `npm test` tells it.
 */
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import fc from 'fast-check'
import { root } from './layout.mjs'

const isAll = process.env.ODDFLOW_TESTS === 'all'
const SEED = 20_261_128
if (!isAll) fc.configureGlobal({ seed: SEED })

function noted(ran, of) {
  const path = process.env.ODDFLOW_TEST_SAMPLES
  // a project's workers run in its root
  const place = relative(root, process.cwd()) || 'test'
  if (path !== undefined) appendFileSync(path, `${JSON.stringify({ place, ran, of })}\n`)
}

globalThis.sampleCount = (count, share = 0.1) => {
  const ran = isAll ? count : Math.max(1, Math.ceil(count * share))
  noted(ran, count)
  return ran
}

/** Each item is kept or not by a draw of its own (mulberry32), until there are as many as there should be. */
globalThis.sampleOf = (items, share = 0.1) => {
  const all = [...items]
  const wanted = globalThis.sampleCount(all.length, share)
  let state = SEED
  const draw = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  // selection sampling: keeps the order (Knuth, volume 2, algorithm S)
  let taken = 0
  return all.filter((_, i) => (all.length - i) * draw() < wanted - taken && ++taken > 0)
}
