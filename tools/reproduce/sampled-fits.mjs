/**
 * What a fit loses by sampling: clusters searched in some of the rows, the bandwidth ranked over pairs of some of them.
 *
 *   node tools/reproduce/sampled-fits.mjs [--data FOLDER] [--out docs/results/sampled-fits] [--workers 1]
 *   node tools/reproduce/sampled-fits.mjs --figures docs/results/sampled-fits.json   (the page alone, anew)
 *
 * n = 15,000: the three training samples of each of the authors' sets one after another, with the rows that they have in
 * common. OC-KJL-QS and OC-Nystrom-QS, defaults otherwise (support guard), 3 seeds, the whole test set, novel rows
 * positive. Fits of one seed differ in the sampling and in nothing else. Writes OUT.md and OUT.json. The rows are not
 * part of the repository: FOLDER defaults to data/paper under ODDFLOW_SHARED, or ../shared beside the checkout. Build
 * the packages first.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isMainThread } from 'node:worker_threads'
import { concatRows, createRng } from '../../packages/core/dist/index.js'
import {
  checkParameters,
  createFitter,
  createScoreParts,
  createScoreWorkspace,
  scoreParts,
} from '../../packages/detectors/dist/index.js'
import { auc, spread } from '../../packages/evaluation/dist/index.js'
import { runInWorkers, serveJobs } from '../../packages/program/dist/index.js'
import { PAPER_ROWS, requireRows } from './paper-rows.mjs'
import { readNpy } from './read-npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const SETS = ['aecho', 'ctu', 'unb', 'sfrig', 'dwshr']
const DETECTORS = ['oc-kjl-qs', 'oc-nystrom-qs']
const SEEDS = [1, 2, 3]
const ALL = 15_000
const SEARCH_ROWS = [500, 1000, 2000, 5000, 10_000, ALL]
const QUANTILE_ROWS = [500, 1000, 2000, 5000, ALL]
const DEFAULTS = { clusterSearchRows: 10_000, quantileRows: 5000 }

function runOne(data, { set, detector, seed }, say) {
  const train = concatRows([0, 1, 2].map((r) => readNpy(join(data, set, `X_train_r${r}.npy`))))
  if (train.rows !== ALL) throw new Error(`${set}: expected ${ALL} training rows, found ${train.rows}`)
  const test = readNpy(join(data, set, 'X_test.npy'))
  const novel = Uint8Array.from(readNpy(join(data, set, 'y_test.npy')).data)
  const settings = [
    ...SEARCH_ROWS.map((clusterSearchRows) => ({ ...DEFAULTS, clusterSearchRows })),
    // the default stands among those above
    ...QUANTILE_ROWS.filter((rows) => rows !== DEFAULTS.quantileRows).map((quantileRows) => ({
      ...DEFAULTS,
      quantileRows,
    })),
  ]
  const candidates = settings.map((options) => checkParameters({ detector, ...options }))
  const learn = createFitter(train, createRng(seed), candidates)
  settings.forEach((setting, i) => {
    const at = {}
    const began = (stage) => {
      at[stage] ??= cpuMillis()
    }
    began('bandwidth')
    const model = learn(candidates[i], { onProgress: ({ stage }) => began(stage) })
    const end = cpuMillis()
    const parts = scoreParts(model, test, createScoreParts(test.rows), createScoreWorkspace(model))
    const guarded = parts.densityTerm.map((term, row) => term + parts.supportTerm[row])
    say({
      set,
      detector,
      seed,
      ...setting,
      bandwidth: model.embedding.bandwidth,
      components: model.mixture.weights.length,
      auc: auc(guarded, novel).value,
      density: auc(parts.unguarded, novel).value,
      // shared with the fit before where only the search differs
      bandwidthMillis: at.embedding - at.bandwidth,
      searchMillis: at.mixture - at.clusters,
      mixtureMillis: end - at.mixture,
    })
  })
}

function cpuMillis() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

async function main() {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: PAPER_ROWS },
      out: { type: 'string', default: join(checkout, 'docs/results/sampled-fits') },
      workers: { type: 'string', default: '1' },
      figures: { type: 'string' },
    },
  })
  if (values.figures !== undefined) {
    const { setting, runs } = JSON.parse(readFileSync(values.figures, 'utf8'))
    writeFileSync(values.figures.replace(/\.json$/, '.md'), page(setting, runs))
    return
  }
  requireRows(values.data)
  const jobs = SETS.flatMap((set) =>
    SEEDS.flatMap((seed) => DETECTORS.map((detector) => ({ set, detector, seed }))),
  )
  const runs = []
  await runInWorkers(jobs, {
    script: new URL(import.meta.url),
    workers: Number(values.workers),
    data: values.data,
    onSaid(run) {
      runs.push(run)
      console.error(`${runs.length}: ${run.set} ${run.detector} ${run.seed} ${run.auc.toFixed(3)}`)
    },
  })
  const order = (r) => (SETS.indexOf(r.set) * 2 + DETECTORS.indexOf(r.detector)) * SEEDS.length + r.seed
  runs.sort((a, b) => order(a) - order(b))
  const setting = {
    command: 'node tools/reproduce/sampled-fits.mjs',
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0],
    seeds: SEEDS.join(', '),
  }
  writeFileSync(`${values.out}.json`, `${JSON.stringify({ setting, runs }, null, 1)}\n`)
  writeFileSync(`${values.out}.md`, page(setting, runs))
  console.log(page(setting, runs))
}

const fraction = (v) => v.toFixed(3).replace(/^0/, '').replace(/^-0/, '−')
const count = (v) => v.toLocaleString('en')
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1]

/** One line a setting: mean ± sd over the seeds for each set, and the mean over all. */
function table(runs, detector, key, sizes, measure) {
  const other = key === 'clusterSearchRows' ? 'quantileRows' : 'clusterSearchRows'
  const lines = sizes.map((size) => {
    const own = runs.filter((r) => r.detector === detector && r[key] === size && r[other] === DEFAULTS[other])
    const cells = SETS.map((set) => {
      const { mean: m, sd } = spread(own.filter((r) => r.set === set).map((r) => r[measure]))
      return `${fraction(m)}±${fraction(sd)}`
    })
    const times =
      key === 'clusterSearchRows'
        ? ['searchMillis', 'mixtureMillis'].map((t) => median(own.map((r) => r[t])).toFixed(0))
        : [median(firstWith(runs, detector, size).map((r) => r.bandwidthMillis)).toFixed(0)]
    const what = key === 'clusterSearchRows' ? ` | ${mean(own.map((r) => r.components)).toFixed(1)}` : ''
    return `| ${detector}, ${size === ALL ? 'all 15,000' : count(size)} | ${cells.join(' | ')} | ${fraction(mean(own.map((r) => r[measure])))}${what} | ${times.join(' | ')} |`
  })
  return lines
}

/** Runs that ranked the pairs themselves: the first of those with as many rows, which the others share. */
function firstWith(runs, detector, quantileRows) {
  const search = quantileRows === DEFAULTS.quantileRows ? SEARCH_ROWS[0] : DEFAULTS.clusterSearchRows
  return runs.filter(
    (r) => r.detector === detector && r.quantileRows === quantileRows && r.clusterSearchRows === search,
  )
}

function head(more) {
  const columns = ['', ...SETS, 'mean', ...more]
  return `| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|`
}

/** How far the bandwidths of samples are from that of all pairs. */
function bandwidthLines(runs) {
  return QUANTILE_ROWS.filter((rows) => rows !== ALL).map((rows) => {
    const cells = SETS.map((set) => {
      const of = (size) =>
        runs.filter(
          (r) =>
            r.set === set &&
            r.detector === 'oc-kjl-qs' &&
            r.quantileRows === size &&
            r.clusterSearchRows === DEFAULTS.clusterSearchRows,
        )
      const whole = of(ALL)[0].bandwidth
      const worst = Math.max(...of(rows).map((r) => Math.abs(r.bandwidth / whole - 1)))
      return `${(100 * worst).toFixed(1)} %`
    })
    return `| ${count(rows)} | ${cells.join(' | ')} |`
  })
}

function page(setting, runs) {
  const search = (measure) =>
    DETECTORS.flatMap((d) => table(runs, d, 'clusterSearchRows', SEARCH_ROWS, measure)).join('\n')
  const pairs = DETECTORS.flatMap((d) => table(runs, d, 'quantileRows', QUANTILE_ROWS, 'auc')).join('\n')
  return `# What a fit loses by sampling

n = 15,000 rows (the three training samples of each set, one after another), the whole test set, novel rows positive,
mean ± sd of AUC over ${SEEDS.length} seeds, defaults otherwise; fits of one seed differ in the sampling alone. Times are medians of CPU
milliseconds; the first line's include compiling, since it is fitted first. Each run stands in [sampled-fits.json](sampled-fits.json); what follows from it in
[decision 0011](../decisions/0011-sampling.md).

## Rows that clusters are searched in

${head(['components', 'search ms', 'EM and guard ms'])}
${search('auc')}

The same models by the mixture's log-density alone, as the paper scores:

${head(['components', 'search ms', 'EM and guard ms'])}
${search('density')}

## Rows whose pairs the bandwidth is a quantile of

${head(['bandwidth ms'])}
${pairs}

Largest deviation of the bandwidth from that of all pairs, over the seeds:

| rows | ${SETS.join(' | ')} |
|${['', ...SETS].map(() => '---').join('|')}|
${bandwidthLines(runs).join('\n')}

- Command: \`${setting.command}\` (the rows are not part of the repository; see \`--data\`)
- Machine: ${setting.machine}; Node ${setting.node}; load average ${setting.loadAverage.toFixed(1)}, so times are upper bounds
- Seeds: ${setting.seeds}
`
}

if (isMainThread) await main()
else serveJobs((data) => (job, say) => runOne(data, job, say))
