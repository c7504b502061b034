/**
 * Minimally tuned AUC on the paper authors' feature rows, beside an independent reference: the search of
 * `oddflow train --select-normal … --select-novel …` (@oddflow/evaluation) as the paper uses it.
 *
 *   node tools/reproduce/tuned.mjs [--sets sfrig] [--data FOLDER] [--out docs/results/tuned-rows] [--workers 2]
 *   node tools/reproduce/tuned.mjs --figures docs/results/tuned-rows.json   (the page alone, anew)
 *
 * Bandwidth over ten quantiles, k over ten numbers where a method has one, chosen by the AUC on 75 + 75 rows drawn
 * from each repeat's validation rows; then the whole test set, novel rows positive. 3 training repeats, the paper's
 * recipe (no scaler, no guard). A cell agrees when |Δ| ≤ max(0.02, 2.5·√(s₁²/3 + s₂²/5)).
 * Writes OUT.md and OUT.json. The rows are not part of the repository: FOLDER defaults to data/paper under
 * ODDFLOW_SHARED, or ../shared beside the checkout. Build the packages first. A set takes some ten minutes.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isMainThread } from 'node:worker_threads'
import { createRng, takeRows } from '../../packages/core/dist/index.js'
import { createScoreWorkspace, fitDetector, scoreSamples } from '../../packages/detectors/dist/index.js'
import {
  applicableGrid,
  auc,
  drawLabelled,
  gridCandidates,
  selectParameters,
  spread,
  validationRows,
} from '../../packages/evaluation/dist/index.js'
import { runInWorkers, serveJobs } from '../../packages/program/dist/index.js'
import { PAPER_ROWS } from './paper-rows.mjs'
import { readNpy } from './read-npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const REPEATS = [0, 1, 2]
const REFERENCE_RUNS = 5
const VALIDATION = 75

/** As the reference has them. */
const METHODS = [
  { name: 'OCSVM', options: { detector: 'ocsvm' } },
  { name: 'OC-KJL centred', options: { detector: 'oc-kjl', centre: true, supportGuard: false } },
  { name: 'OC-KJL-QS', options: { detector: 'oc-kjl-qs', ...clusterStart() } },
  { name: 'OC-Nystrom', options: { detector: 'oc-nystrom', supportGuard: false } },
  { name: 'OC-Nystrom-QS', options: { detector: 'oc-nystrom-qs', ...clusterStart() } },
]

/** The paper's text: EM starts from the clusters of QuickShift++, and nothing guards the origin. */
function clusterStart() {
  return { mixtureStart: 'clusters', supportGuard: false }
}

function runOne(data, { set, method, repeat }) {
  const train = readNpy(join(data, set, `X_train_r${repeat}.npy`))
  const labelled = readNpy(join(data, set, `X_val_r${repeat}.npy`))
  const isNovel = readNpy(join(data, set, `y_val_r${repeat}.npy`)).data
  const test = readNpy(join(data, set, 'X_test.npy'))
  const testIsNovel = Uint8Array.from(readNpy(join(data, set, 'y_test.npy')).data)
  const numbers = (label) => Array.from(isNovel.keys()).filter((row) => isNovel[row] === label)
  const [normal, novel] = [numbers(0), numbers(1)]
  const counts = { normal: VALIDATION, novel: VALIDATION }
  const rng = createRng(repeat + 1)
  const drawn = drawLabelled({ normal: normal.length, novel: novel.length }, counts, rng.fork('validation'))
  const part = (rows, positions) =>
    takeRows(
      labelled,
      Array.from(positions, (position) => rows[position]),
    )
  const validation = validationRows(part(normal, drawn.normal), part(novel, drawn.novel), train.cols)
  const { options } = METHODS[method]
  const candidates = gridCandidates(options, applicableGrid(options))
  const fitRng = rng.fork('fit')
  const started = process.cpuUsage()
  const { best, results } = selectParameters(train, validation, candidates, fitRng)
  const { user, system } = process.cpuUsage(started)
  const { choice, parameters } = candidates[best]
  const model = fitDetector(train, parameters, fitRng)
  const scores = scoreSamples(model, test, new Float64Array(test.rows), createScoreWorkspace(model))
  return {
    set,
    method: METHODS[method].name,
    repeat,
    ...choice,
    candidates: candidates.length,
    failed: results.filter((result) => result.auc === null).length,
    validationAuc: results[best].auc,
    auc: auc(scores, testIsNovel).value,
    cpuSeconds: Number(((user + system) / 1e6).toFixed(1)),
  }
}

async function main() {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: PAPER_ROWS },
      out: { type: 'string', default: join(checkout, 'docs/results/tuned-rows') },
      sets: { type: 'string', default: 'sfrig' },
      workers: { type: 'string', default: '2' },
      figures: { type: 'string' },
    },
  })
  if (values.figures !== undefined) {
    const { setting, cells, runs } = JSON.parse(readFileSync(values.figures, 'utf8'))
    const sets = [...new Set(cells.map(({ set }) => set))]
    writeFileSync(values.figures.replace(/\.json$/, '.md'), page(setting, sets, cells, runs))
    return
  }
  const sets = values.sets.split(',')
  for (const set of sets) {
    if (existsSync(join(values.data, set, 'X_train_r0.npy'))) continue
    console.error(`no ${set}/X_train_r0.npy in ${values.data}: give --data the folder that holds it`)
    process.exit(2)
  }
  const jobs = sets.flatMap((set) =>
    METHODS.flatMap((_, method) => REPEATS.map((repeat) => ({ set, method, repeat }))),
  )
  const runs = []
  await runInWorkers(jobs, {
    script: new URL(import.meta.url),
    workers: Number(values.workers),
    data: values.data,
    onSaid(run) {
      runs.push(run)
      console.error(
        `${runs.length} of ${jobs.length}: ${run.set} ${run.method} ${run.repeat}: ${run.auc.toFixed(3)}`,
      )
    },
  })
  const order = ({ set, method, repeat }) =>
    (sets.indexOf(set) * METHODS.length + METHODS.findIndex(({ name }) => name === method)) * REPEATS.length +
    repeat
  runs.sort((a, b) => order(a) - order(b))
  const reference = JSON.parse(
    readFileSync(join(checkout, 'apps/bench/published/reference-auc.json'), 'utf8'),
  ).rows
  const cells = METHODS.flatMap(({ name, options }) =>
    sets.flatMap((set) => {
      const row = reference.find((r) => r.tuning === 'minimal' && r.detector === `${options.detector}${options.centre ? '-centred' : ''}`)
      const [referenceMean, referenceSd] = row.figures[`${set}-rows`]
      const { mean, sd } = spread(runs.filter((r) => r.set === set && r.method === name).map((r) => r.auc))
      const allowed = Math.max(
        0.02,
        2.5 * Math.sqrt(sd ** 2 / REPEATS.length + referenceSd ** 2 / REFERENCE_RUNS),
      )
      const difference = mean - referenceMean
      return [
        {
          method: name,
          set,
          mean,
          sd,
          referenceMean,
          referenceSd,
          difference,
          allowed,
          agrees: Math.abs(difference) <= allowed,
        },
      ]
    }),
  )
  const setting = {
    command: `node tools/reproduce/tuned.mjs --sets ${values.sets}`,
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0],
    validationRows: `${VALIDATION} + ${VALIDATION}`,
  }
  writeFileSync(`${values.out}.json`, `${JSON.stringify({ setting, cells, runs }, null, 2)}\n`)
  writeFileSync(`${values.out}.md`, page(setting, sets, cells, runs))
  console.log(table(sets, cells))
}

const figure = (v) => v.toFixed(3).replace(/^0/, '').replace(/^-0/, '−')

function table(sets, cells) {
  const line = (label, show) => `| ${label} | ${show.join(' | ')} |`
  return [
    line('', sets),
    line(
      '---',
      sets.map(() => '---'),
    ),
    ...METHODS.flatMap(({ name }) => {
      const of = sets.map((set) => cells.find((c) => c.set === set && c.method === name))
      return [
        line(
          name,
          of.map((c) => `${figure(c.mean)}±${figure(c.sd)}`),
        ),
        line(
          'reference',
          of.map((c) => `${figure(c.referenceMean)}±${figure(c.referenceSd)}`),
        ),
        line(
          'difference (allowed)',
          of.map((c) => `${figure(c.difference)} (${figure(c.allowed)})${c.agrees ? '' : ' **outside**'}`),
        ),
      ]
    }),
  ].join('\n')
}

function page(setting, sets, cells, runs) {
  const choices = runs.map((r) => {
    const k = r.k === undefined ? '' : `, k ${r.k}`
    return `| ${r.set} | ${r.method} | ${r.repeat} | ${r.bandwidthQuantile}${k} | ${figure(r.validationAuc)} | ${figure(r.auc)} | ${r.failed} of ${r.candidates} | ${r.cpuSeconds} |`
  })
  return `# Minimally tuned detectors on the paper authors' rows

Mean ± sd of AUC over ${REPEATS.length} training repeats of n = 5,000 rows: parameters chosen by the AUC on ${setting.validationRows} labelled rows
(bandwidth over ten quantiles, k over ten numbers where a method has one: the paper's grids), then the whole test set,
novel rows positive; m = 100, d = 5, no scaler, no support guard, EM started from the clusters of QuickShift++ in the -QS
methods. The reference is an independent implementation in numpy and
scikit-learn: ${REFERENCE_RUNS} repeats, with draws of its own. A cell agrees when the difference of means is at most
max(0.02, 2.5·√(s₁²/${REPEATS.length} + s₂²/${REFERENCE_RUNS})).

${table(sets, cells)}

${cells.filter((c) => c.agrees).length} of ${cells.length} cells agree.

| set | method | repeat | chosen | validation AUC | test AUC | failed | CPU s of the search |
| --- | --- | --- | --- | --- | --- | --- | --- |
${choices.join('\n')}

- Command: \`${setting.command}\` (the rows are not part of the repository; see \`--data\`); each run stands in
  [tuned-rows.json](tuned-rows.json)
- Machine: ${setting.machine}; Node ${setting.node}; load average ${setting.loadAverage.toFixed(1)}, so times are upper bounds
`
}

if (isMainThread) await main()
else serveJobs((data) => (job, say) => say(runOne(data, job)))
