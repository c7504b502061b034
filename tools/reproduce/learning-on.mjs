/**
 * Models that learn on, measured: the paper source's test plan, a mode that training lacked, drift, and a slow poisoner.
 *
 *   node tools/reproduce/learning-on.mjs [plan] [mode] [drift] [poison] [million] [--data FOLDER] [--out docs/results/learning-on]
 *   node tools/reproduce/learning-on.mjs --page   (the page and pictures alone, from the figures as they are)
 *
 * Every experiment is seeded and writes its figures to OUT.json at its end; the page OUT.md and the pictures beside it are
 * made of those. The rows are not part of the repository: FOLDER defaults to data under ODDFLOW_SHARED, or ../shared
 * beside the checkout. Build the packages first. All at once take half an hour of one core; for million say node --expose-gc.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { driftExperiment } from './learning-on/drift.mjs'
import { millionExperiment } from './learning-on/million.mjs'
import { modeExperiment } from './learning-on/mode.mjs'
import { writePage } from './learning-on/page.mjs'
import { planExperiment } from './learning-on/plan.mjs'
import { poisonExperiment } from './learning-on/poison.mjs'
import { checkout, setting } from './learning-on/shared.mjs'

const EXPERIMENTS = {
  plan: planExperiment,
  mode: modeExperiment,
  drift: driftExperiment,
  poison: poisonExperiment,
  million: millionExperiment,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    data: {
      type: 'string',
      default: join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data'),
    },
    out: { type: 'string', default: join(checkout, 'docs/results/learning-on') },
    page: { type: 'boolean', default: false },
  },
})
const unknown = positionals.find((name) => !Object.hasOwn(EXPERIMENTS, name))
if (unknown !== undefined) {
  console.error(`${unknown}: no such experiment; there are ${Object.keys(EXPERIMENTS).join(', ')}`)
  process.exit(2)
}
const out = resolve(values.out)
if (!values.page) {
  if (!existsSync(join(values.data, 'paper/ctu'))) {
    console.error(`no rows in ${values.data}: give --data the folder that holds paper/ctu/X_train_r0.npy`)
    process.exit(2)
  }
  for (const name of positionals.length > 0 ? positionals : Object.keys(EXPERIMENTS)) {
    const begun = performance.now()
    const figures = await EXPERIMENTS[name](values.data)
    const before = existsSync(`${out}.json`) ? JSON.parse(readFileSync(`${out}.json`, 'utf8')) : {}
    const seconds = Math.round((performance.now() - begun) / 1000)
    const after = { ...before, [name]: { setting: setting(name, seconds), ...figures } }
    writeFileSync(`${out}.json`, `${JSON.stringify(after, null, 1)}\n`)
    console.log(`${name}: ${seconds} s`)
  }
}
await writePage(JSON.parse(readFileSync(`${out}.json`, 'utf8')), out)
