/**
 * Where should EM start: from the clusters of QuickShift++, or from as many of k-means++?
 *
 *   node tools/reproduce/mixture-starts.mjs [--data FOLDER] [--out docs/results/mixture-starts] [--workers 2]
 *   node tools/reproduce/mixture-starts.mjs --figures docs/results/mixture-starts.json   (the page alone, anew)
 *
 * The paper authors' five sets, OC-KJL-QS and OC-Nystrom-QS, 3 training repeats × 5 seeds, the whole test set, novel rows
 * positive. Each pair of fits has landmarks, embedding, clusters and k in common and differs in the start alone. The
 * settings: the default (q = 0.3, support guard), and the paper's (q = 0.25, log-density).
 * Writes OUT.md and OUT.json; its words on what follows are about the figures that they stand beside, so read them
 * again when those change.
 * The rows are not part of the repository: FOLDER defaults to data/paper under ODDFLOW_SHARED, or ../shared beside the
 * checkout. Build the packages first.
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
  DEFAULT_OPTIONS,
  fitDetector,
  scoreSamples,
} from '../../packages/detectors/dist/index.js'
import { auc } from '../../packages/evaluation/dist/index.js'
import { PAPER_ROWS, requireRows } from './paper-rows.mjs'
import { readNpy } from './read-npy.mjs'
import { runJobs } from './run-jobs.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const SETS = ['aecho', 'ctu', 'unb', 'sfrig', 'dwshr']
const DETECTORS = ['oc-kjl-qs', 'oc-nystrom-qs']
const STARTS = ['clusters', 'k-means++']
const SETTINGS = [
  { name: 'default (q = 0.3, guard)', options: { bandwidthQuantile: 0.3, supportGuard: true } },
  { name: 'paper (q = 0.25, log-density)', options: { bandwidthQuantile: 0.25, supportGuard: false } },
]
const REPEATS = [0, 1, 2]
const SEEDS = [1, 2, 3, 4, 5]
const RUNS = REPEATS.length * SEEDS.length

function runOne(data, { set, detector, setting, repeat, seed }) {
  const train = readNpy(join(data, set, `X_train_r${repeat}.npy`))
  const test = readNpy(join(data, set, 'X_test.npy'))
  const novel = Uint8Array.from(readNpy(join(data, set, 'y_test.npy')).data)
  const of = {}
  for (const mixtureStart of STARTS) {
    const options = { detector, mixtureStart, ...SETTINGS[setting].options }
    const model = fitDetector(train, checkParameters(options), createRng(seed))
    const scores = scoreSamples(model, test, new Float64Array(test.rows), createScoreWorkspace(model))
    const { clustersKept, iterations, meanLogLikelihood } = model.fitReport
    of[mixtureStart] = { auc: auc(scores, novel).value, clustersKept, iterations, meanLogLikelihood }
  }
  return { set, detector, setting: SETTINGS[setting].name, repeat, seed, of }
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
      out: { type: 'string', default: join(checkout, 'docs/results/mixture-starts') },
      workers: { type: 'string', default: '2' },
      figures: { type: 'string' },
    },
  })
  if (values.figures !== undefined) {
    const { setting, cells } = JSON.parse(readFileSync(values.figures, 'utf8'))
    writeFileSync(`${values.out}.md`, report(setting, cells))
    return
  }
  requireRows(values.data)
  const jobs = SETTINGS.flatMap((_, setting) =>
    DETECTORS.flatMap((detector) =>
      SETS.flatMap((set) =>
        REPEATS.flatMap((repeat) => SEEDS.map((seed) => ({ set, detector, setting, repeat, seed }))),
      ),
    ),
  )
  const runs = await runJobs(fileURLToPath(import.meta.url), jobs, values.data, Number(values.workers))
  const cells = SETTINGS.flatMap(({ name: setting }) =>
    DETECTORS.flatMap((detector) =>
      SETS.map((set) => {
        const own = runs.filter((r) => r.setting === setting && r.detector === detector && r.set === set)
        const differences = own.map((r) => r.of['k-means++'].auc - r.of.clusters.auc)
        return {
          setting,
          detector,
          set,
          clusters: mean(own.map((r) => r.of.clusters.auc)),
          kMeans: mean(own.map((r) => r.of['k-means++'].auc)),
          difference: mean(differences),
          standardError: deviation(differences) / Math.sqrt(differences.length),
          kMeansBetter: differences.filter((v) => v > 0).length,
          clustersBetter: differences.filter((v) => v < 0).length,
          k: mean(own.map((r) => r.of.clusters.clustersKept)),
        }
      }),
    ),
  )
  const { version } = JSON.parse(readFileSync(join(checkout, 'packages/detectors/package.json'), 'utf8'))
  const setting = {
    command: 'node tools/reproduce/mixture-starts.mjs',
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    detectors: version,
    repeats: REPEATS.length,
    seeds: SEEDS.join(', '),
  }
  writeFileSync(`${values.out}.json`, `${JSON.stringify({ setting, cells, runs }, null, 2)}\n`)
  writeFileSync(`${values.out}.md`, report(setting, cells))
  console.log(table(cells))
}

function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length
}

function deviation(values) {
  const m = mean(values)
  return Math.sqrt(values.reduce((a, b) => a + (b - m) ** 2, 0) / (values.length - 1))
}

function fraction(value) {
  return value.toFixed(3).replace(/^0/, '').replace(/^-0/, '−')
}

function table(cells) {
  const head = `| clusters → k-means++ (difference ± standard error) | ${SETS.join(' | ')} | mean |\n|---|${'---|'.repeat(SETS.length + 1)}`
  const rows = SETTINGS.flatMap(({ name }) =>
    DETECTORS.map((detector) => {
      const own = SETS.map((set) =>
        cells.find((c) => c.setting === name && c.detector === detector && c.set === set),
      )
      const text = own.map(
        (c) =>
          `${fraction(c.clusters)} → ${fraction(c.kMeans)} (${fraction(c.difference)} ± ${fraction(c.standardError)})`,
      )
      const means = `${fraction(mean(own.map((c) => c.clusters)))} → ${fraction(mean(own.map((c) => c.kMeans)))}`
      return `| ${detector}, ${name} | ${text.join(' | ')} | ${means} |`
    }),
  )
  return [head, ...rows].join('\n')
}

function verdict(cells) {
  return SETTINGS.map(({ name }) => {
    const own = cells.filter((c) => c.setting === name)
    const clear = own.filter((c) => Math.abs(c.difference) > 2 * c.standardError)
    const forKMeans = clear.filter((c) => c.difference > 0).length
    const runsFor = own.reduce((sum, c) => sum + c.kMeansBetter, 0)
    const runsAgainst = own.reduce((sum, c) => sum + c.clustersBetter, 0)
    return `- ${name}: mean of all cells ${fraction(mean(own.map((c) => c.clusters)))} from clusters, ${fraction(mean(own.map((c) => c.kMeans)))} from k-means++. By more than two standard errors k-means++ is better in ${forKMeans} of ${own.length} cells and worse in ${clear.length - forKMeans}; of the single pairs of fits it is better in ${runsFor} and worse in ${runsAgainst}.`
  }).join('\n')
}

/** Over the cells of the default setting, which are independent of each other, with its standard error. */
function meanDifference(cells) {
  const own = cells.filter((c) => c.setting === SETTINGS[0].name)
  const error = Math.sqrt(own.reduce((sum, c) => sum + c.standardError ** 2, 0)) / own.length
  return `${fraction(mean(own.map((c) => c.difference)))} ± ${fraction(error)}`
}

function report(setting, cells) {
  return `# Where EM starts: from QuickShift++'s clusters or from as many of k-means++

Mean AUC over ${setting.repeats} training repeats × ${SEEDS.length} seeds (${RUNS} pairs of fits a cell): n = 5,000 rows to learn from, the whole test set of each
device, novel rows positive, no scaler, m = 100, d = 5. The two fits of a pair have landmarks, embedding, clusters and
k in common; the standard error is that of their difference.

${table(cells)}

${verdict(cells)}

The rule for the default: the start with the larger mean AUC over all sets and both detectors in the default setting
wins, for that is what users run; where the means are within two standard errors of each other, the paper's text decides,
which starts from the clusters. The mean difference there is ${meanDifference(cells)}, so the default is \`${DEFAULT_OPTIONS.mixtureStart}\`: the two are level in
the mean, k-means++ is better in more cells by less, and the clusters where the two differ most, on unb. Without the guard,
as in the paper, k-means++ is clearly better.
The option \`mixtureStart\` (\`--mixture-start\`) takes the other; the recipe \`paper\` keeps the clusters, as the text has it.
Each pair stands in [mixture-starts.json](mixture-starts.json).

- Command: \`${setting.command}\` (the rows are not part of the repository; see \`--data\`)
- Machine: ${setting.machine}; Node ${setting.node}; @oddflow/detectors ${setting.detectors}
- Seeds: ${setting.seeds}
`
}
