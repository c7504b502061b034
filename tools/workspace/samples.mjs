/**
 * What `npm test` runs of an enumeration (faults at each step, kills, cuts, random cases): a seeded tenth, the same in
 * every run. ODDFLOW_TESTS=all runs all of it, with fresh seeds, and is set by `npm run slow:tests`.
 *
 * A vitest setup file: its functions are global, since a package may import nothing of another place (samples.d.ts).
 * How many cases ran, and the processor time of each test file, go to the file ODDFLOW_TEST_SAMPLES, which `npm test` sums up.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect } from 'vitest'
import { root } from './layout.mjs'

const isAll = process.env.ODDFLOW_TESTS === 'all'
const SEED = 20_261_128
if (!isAll) fc.configureGlobal({ seed: SEED })

function note(record) {
  const path = process.env.ODDFLOW_TEST_SAMPLES
  if (path !== undefined) appendFileSync(path, `${JSON.stringify(record)}\n`)
}

/** Processor time of this worker and of the programs that it has waited for. */
function processorSeconds() {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ').slice(11, 15)
  return fields.reduce((sum, ticks) => sum + Number(ticks), 0) / 100
}

if (existsSync('/proc/self/stat')) {
  const before = processorSeconds()
  afterAll(() =>
    note({ file: relative(root, expect.getState().testPath), processorSeconds: processorSeconds() - before }),
  )
}

globalThis.sampleCount = (count, share = 0.1) => {
  const ran = isAll ? count : Math.max(1, Math.ceil(count * share))
  // a project's workers run in its root
  note({ place: relative(root, process.cwd()) || 'test', ran, of: count })
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
