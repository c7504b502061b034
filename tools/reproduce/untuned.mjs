/**
 * Untuned AUC on the paper authors' feature rows, beside an independent reference.
 *
 *   node tools/reproduce/untuned.mjs [--data FOLDER] [--out docs/results/untuned-rows] [--workers 2]
 *
 * Five sets, three methods, bandwidth at the 0.3-quantile of all pair distances, 3 training repeats × 5 seeds,
 * the whole test set, novel rows positive. A cell agrees when |Δ| ≤ max(0.02, 2.5·√(s₁²/15 + s₂²/15)).
 * Writes OUT.md and OUT.json. The rows are not part of the repository: FOLDER defaults to data/paper under
 * ODDFLOW_SHARED, or ../shared beside the checkout. Build the packages first.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { createRng } from '../../packages/core/dist/index.js'
import {
  checkParameters,
  createScoreWorkspace,
  fitDetector,
  scoreSamples,
} from '../../packages/detectors/dist/index.js'
import { PAPER_ROWS, requireRows } from './paper-rows.mjs'
import { readNpy } from './read-npy.mjs'
import { runJobs } from './run-jobs.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const SETS = ['aecho', 'ctu', 'unb', 'sfrig', 'dwshr']
const REPEATS = [0, 1, 2]
const SEEDS = [1, 2, 3, 4, 5]
const QUANTILE = 0.3
const RUNS = REPEATS.length * SEEDS.length

/** Means and standard deviations of the reference (numpy, scikit-learn; 15 runs each), in the order of SETS. */
const METHODS = [
  {
    name: 'OC-KJL-QS centred',
    options: { detector: 'oc-kjl-qs', centre: true },
    reference: [
      [0.912, 0.032],
      [0.632, 0.039],
      [0.906, 0.027],
      [0.794, 0.063],
      [0.781, 0.019],
    ],
  },
  {
    name: 'OC-KJL-QS uncentred',
    options: { detector: 'oc-kjl-qs', centre: false },
    reference: [
      [0.909, 0.03],
      [0.656, 0.051],
      [0.923, 0.016],
      [0.818, 0.051],
      [0.788, 0.019],
    ],
  },
  {
    name: 'OC-Nystrom-QS',
    options: { detector: 'oc-nystrom-qs' },
    reference: [
      [0.915, 0.017],
      [0.7, 0.028],
      [0.934, 0.018],
      [0.79, 0.028],
      [0.742, 0.036],
    ],
  },
]

/** Mann–Whitney with ties: the chance that a novel row has a lower score than a normal one. */
function auc(scores, novel) {
  const order = Array.from(scores.keys()).sort((a, b) => scores[a] - scores[b])
  let rankSum = 0
  let positives = 0
  for (let i = 0; i < order.length; ) {
    let j = i
    while (j + 1 < order.length && scores[order[j + 1]] === scores[order[i]]) j++
    for (let t = i; t <= j; t++) {
      if (novel[order[t]] === 1) {
        rankSum += (i + j) / 2 + 1
        positives++
      }
    }
    i = j + 1
  }
  const negatives = order.length - positives
  return 1 - (rankSum - (positives * (positives + 1)) / 2) / (positives * negatives)
}

function runOne(data, { set, method, repeat, seed }) {
  const train = readNpy(join(data, set, `X_train_r${repeat}.npy`))
  const test = readNpy(join(data, set, 'X_test.npy'))
  const novel = readNpy(join(data, set, 'y_test.npy')).data
  const { options } = METHODS[method]
  // the paper's recipe: scores are log-densities
  const parameters = checkParameters({ ...options, bandwidthQuantile: QUANTILE, supportGuard: false })
  const model = fitDetector(train, parameters, createRng(seed))
  const scores = scoreSamples(model, test, new Float64Array(test.rows), createScoreWorkspace(model))
  const { clustersFound, clustersKept, iterations } = model.fitReport
  const { bandwidth } = model.embedding
  return {
    set,
    method: METHODS[method].name,
    repeat,
    seed,
    auc: auc(scores, novel),
    bandwidth,
    clustersFound,
    clustersKept,
    iterations,
  }
}

if (!isMainThread) {
  parentPort.on('message', (job) => parentPort.postMessage(runOne(workerData, job)))
} else {
  await main()
}

async function main() {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: PAPER_ROWS },
      out: { type: 'string', default: join(checkout, 'docs/results/untuned-rows') },
      workers: { type: 'string', default: '2' },
    },
  })
  requireRows(values.data)
  const jobs = SETS.flatMap((set) =>
    METHODS.flatMap((_, method) =>
      REPEATS.flatMap((repeat) => SEEDS.map((seed) => ({ set, method, repeat, seed }))),
    ),
  )
  const runs = await runJobs(fileURLToPath(import.meta.url), jobs, values.data, Number(values.workers))
  const key = (r) => [SETS.indexOf(r.set), r.method, r.repeat, r.seed].join(' ')
  runs.sort((a, b) => (key(a) < key(b) ? -1 : 1))
  const cells = METHODS.flatMap(({ name, reference }) =>
    SETS.map((set, i) => {
      const [referenceMean, referenceSd] = reference[i]
      const values = runs.filter((r) => r.set === set && r.method === name).map((r) => r.auc)
      const mean = values.reduce((a, b) => a + b, 0) / values.length
      const sd = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1))
      const allowed = Math.max(0.02, 2.5 * Math.sqrt((sd ** 2 + referenceSd ** 2) / RUNS))
      const difference = mean - referenceMean
      return {
        method: name,
        set,
        mean,
        sd,
        referenceMean,
        referenceSd,
        difference,
        allowed,
        agrees: Math.abs(difference) <= allowed,
      }
    }),
  )
  const versionOf = (name) =>
    JSON.parse(readFileSync(join(checkout, 'packages', name, 'package.json'), 'utf8')).version
  const setting = {
    command: 'node tools/reproduce/untuned.mjs',
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    detectors: versionOf('detectors'),
    bandwidthQuantile: QUANTILE,
    repeats: REPEATS.length,
    seeds: SEEDS.join(', '),
  }
  writeFileSync(`${values.out}.json`, `${JSON.stringify({ setting, cells, runs }, null, 2)}\n`)
  writeFileSync(`${values.out}.md`, report(setting, cells))
  console.log(table(cells))
  const outside = cells.filter((c) => !c.agrees)
  console.log(`\n${cells.length - outside.length} of ${cells.length} cells agree`)
  process.exitCode = outside.length > 1 ? 1 : 0
}

function table(cells) {
  const f = (v) => v.toFixed(3).replace(/^0/, '').replace(/^-0/, '−').replace(/^-/, '−')
  const head = `| | ${SETS.join(' | ')} |\n|---|${'---|'.repeat(SETS.length)}`
  const rows = METHODS.flatMap(({ name }) => {
    const of = SETS.map((set) => cells.find((c) => c.set === set && c.method === name))
    return [
      `| ${name} | ${of.map((c) => `${f(c.mean)}±${f(c.sd)}`).join(' | ')} |`,
      `| reference | ${of.map((c) => `${f(c.referenceMean)}±${f(c.referenceSd)}`).join(' | ')} |`,
      `| difference (allowed) | ${of.map((c) => `${f(c.difference)} (${f(c.allowed)})${c.agrees ? '' : ' **outside**'}`).join(' | ')} |`,
    ]
  })
  return [head, ...rows].join('\n')
}

function report(setting, cells) {
  const outside = cells.filter((c) => !c.agrees).length
  return `# Untuned detectors on the paper authors' rows

Mean ± sd of AUC over ${setting.repeats} training repeats × ${SEEDS.length} seeds: n = 5,000 rows to learn from, the whole test set of each device,
novel rows positive, no scaler, m = 100, d = 5, bandwidth at the ${setting.bandwidthQuantile}-quantile of all pair distances, nothing tuned. The
reference is an independent implementation in numpy and scikit-learn (15 runs a cell, random streams of its
own). A cell agrees when the difference of means is at most max(0.02, 2.5·√(s₁²/15 + s₂²/15)).

${table(cells)}

${cells.length - outside} of ${cells.length} cells agree. Each run stands in [untuned-rows.json](untuned-rows.json).

- Command: \`${setting.command}\` (the rows are not part of the repository; see \`--data\`)
- Machine: ${setting.machine}; Node ${setting.node}; @oddflow/detectors ${setting.detectors}
- Seeds: ${setting.seeds}

With a small bandwidth a far novelty has K(x) ≈ 0, embeds at the origin and may score as normal; nothing here
guards against that, as in the paper; [support-guard](support-guard.md) shows what a guard makes of it.
`
}
