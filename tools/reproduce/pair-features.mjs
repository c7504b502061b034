/**
 * The paper's other features, on captures: IAT+SIZE, STATS+HEADER, and SAMP-SIZE with windows of each of the ten
 * quantiles of flow durations that the paper's authors try, as AUC of OCSVM and of the two detectors with QuickShift++.
 *
 *   node tools/reproduce/pair-features.mjs [--data FOLDER] [--out docs/results/pair-features] [--seeds 5]
 *   node tools/reproduce/pair-features.mjs --figures docs/results/pair-features.json   (the page alone, anew)
 *
 * The pairs, and which captures are trained on and which judged, are those of capture-pairs.mjs. Two recipes, untuned and
 * without scaler: the paper's text (flows truncated at the 90th percentile of durations, times in microseconds,
 * bandwidth at the 0.25-quantile, no support guard) and OddFlow's default (split, seconds, 0.3, guard). What the
 * features are learned from (duration, number of packets, length of a window) is the training captures alone. A window
 * of no length is an error of the library; it is shown, not replaced. Writes OUT.md and OUT.json. Build the packages first.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import {
  compileFilter,
  createPacketBatch,
  decodePackets,
  packetStatusCode,
} from '../../packages/capture/dist/index.js'
import { openCapture } from '../../packages/capture/dist/node/index.js'
import { createRng, DataError } from '../../packages/core/dist/index.js'
import {
  checkParameters,
  createScoreWorkspace,
  fitDetector,
  scoreSamples,
} from '../../packages/detectors/dist/index.js'
import { auc, spread } from '../../packages/evaluation/dist/index.js'
import {
  createFlowCollector,
  extractMatrix,
  learnFeatureContract,
  SAMPLING_QUANTILES,
} from '../../packages/flows/dist/index.js'
import { CAPTURE_PAIRS, pairNames, readPair } from './pairs.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const RECIPES = [
  {
    name: "the paper's text",
    flows: { mode: 'truncate' },
    times: { iatUnit: 'microseconds' },
    bandwidthQuantile: 0.25,
    mixture: { supportGuard: false },
  },
  {
    name: "OddFlow's default",
    flows: { mode: 'split' },
    times: { iatUnit: 'seconds' },
    bandwidthQuantile: 0.3,
    mixture: { supportGuard: true },
  },
]
const METHODS = [
  { name: 'OCSVM', detector: 'ocsvm' },
  { name: 'OC-KJL-QS', detector: 'oc-kjl-qs' },
  { name: 'OC-Nyström-QS', detector: 'oc-nystrom-qs' },
]
const FEATURES = [
  { name: 'IAT+SIZE', hasTimes: true, options: { featureSet: 'iat-size' } },
  { name: 'STATS+HEADER', hasTimes: true, options: { featureSet: 'stats-header' } },
  ...SAMPLING_QUANTILES.map((samplingQuantile) => ({
    name: `SAMP-SIZE ${samplingQuantile}`,
    options: { featureSet: 'samp-size', samplingQuantile },
  })),
]
const FILTERED_OUT = packetStatusCode('filtered-out')

async function main() {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: CAPTURE_PAIRS },
      out: { type: 'string', default: join(checkout, 'docs/results/pair-features') },
      seeds: { type: 'string', default: '5' },
      figures: { type: 'string' },
    },
  })
  if (values.figures !== undefined) {
    const { about, results } = JSON.parse(readFileSync(values.figures, 'utf8'))
    writeFileSync(values.figures.replace(/\.json$/, '.md'), page(about, results))
    return
  }
  const seeds = Array.from({ length: Number(values.seeds) }, (_, i) => i + 1)
  const results = []
  for (const pair of pairNames(values.data)) {
    const { captures, normalFilter, novelFilter } = readPair(values.data, pair)
    const flows = {
      train: await flowsOf(captures.train, normalFilter),
      normal: await flowsOf(captures.normal, normalFilter),
      novel: await flowsOf(captures.novel, novelFilter),
    }
    for (const recipe of RECIPES) {
      for (const features of FEATURES) {
        const head = { recipe: recipe.name, pair, features: features.name }
        const result = { ...head, ...measure(flows, recipe, features, seeds) }
        results.push(result)
        console.error(`${Object.values(head).join('  ')}  ${JSON.stringify(result.auc ?? result.refused)}`)
      }
    }
  }
  const about = {
    command: `node tools/reproduce/pair-features.mjs${values.seeds === '5' ? '' : ` --seeds ${values.seeds}`}`,
    seeds: seeds.length,
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0],
  }
  writeFileSync(`${values.out}.json`, `${JSON.stringify({ about, results }, null, 1)}\n`)
  writeFileSync(`${values.out}.md`, page(about, results))
}

/** Flows never cross captures. */
async function flowsOf(files, filter) {
  const keeps = filter === null ? () => true : compileFilter(filter)
  const collector = createFlowCollector({ sizeMeasure: 'frame' })
  const packets = createPacketBatch(2048)
  for (const file of files) {
    for await (const frames of openCapture(file, { batchFrames: 2048 })) {
      decodePackets(frames, packets)
      for (let i = 0; i < packets.count; i++) if (!keeps(packets, i)) packets.status[i] = FILTERED_OUT
      collector.add(packets)
    }
    collector.endCapture()
  }
  return collector.finish()
}

function measure(flows, recipe, { hasTimes, options }, seeds) {
  let contract
  try {
    contract = learnFeatureContract(flows.train, {
      ...recipe.flows,
      ...(hasTimes ? recipe.times : {}),
      ...options,
    })
  } catch (error) {
    if (error instanceof DataError) return { refused: error.message }
    throw error
  }
  const rows = Object.fromEntries(
    Object.entries(flows).map(([kind, own]) => [kind, extractMatrix(own, contract)]),
  )
  const isNovel = new Uint8Array(rows.normal.rows + rows.novel.rows).fill(1, rows.normal.rows)
  const areas = METHODS.map(({ name, detector }) => {
    const { bandwidthQuantile, mixture } = recipe
    const parameters = checkParameters({
      detector,
      bandwidthQuantile,
      ...(detector === 'ocsvm' ? {} : mixture),
    })
    return [name, spread(seeds.map((seed) => areaOf(parameters, rows, isNovel, seed)))]
  })
  return {
    dimension: contract.dimension,
    windowSeconds: 'samplingIntervalMicros' in contract ? contract.samplingIntervalMicros / 1e6 : null,
    rows: [rows.train.rows, rows.normal.rows, rows.novel.rows],
    auc: Object.fromEntries(areas),
  }
}

function areaOf(parameters, { train, normal, novel }, isNovel, seed) {
  const model = fitDetector(train, parameters, createRng(seed))
  const workspace = createScoreWorkspace(model)
  const scores = new Float64Array(isNovel.length)
  scoreSamples(model, normal, scores.subarray(0, normal.rows), workspace)
  scoreSamples(model, novel, scores.subarray(normal.rows), workspace)
  return auc(scores, isNovel).value
}

const figure = ({ mean, sd }) => `${mean.toFixed(3)}${sd > 0.0005 ? ` ± ${sd.toFixed(3)}` : ''}`

function page(about, results) {
  const pairs = [...new Set(results.map(({ pair }) => pair))]
  return `# Features on captures: IAT+SIZE, STATS+HEADER, SAMP-SIZE

AUC over every judged flow, mean ± sd over ${about.seeds} seeds (none where the seed changes nothing), of the captures of
[capture-pairs.md](capture-pairs.md); untuned, no scaler. *The paper's text*: flows truncated at the 90th percentile of durations,
times in microseconds, bandwidth at the 0.25-quantile, no guard. *OddFlow's default*: flows split there, seconds, 0.3, guard.
SAMP-SIZE is bytes in windows of equal length; the length is the named quantile of flow durations, for each of the ten that
the paper's authors try. Which of the ten is best is seen on the judged flows themselves, so that column flatters.

| recipe | pair | | IAT+SIZE | STATS+HEADER | SAMP-SIZE, best window |
|---|---|---|--:|--:|--:|
${RECIPES.flatMap(({ name }) => pairs.flatMap((pair) => summaryLines(name, pair, results))).join('\n')}

${refused(results)}From the cut on (0.9 where flows are truncated) a longer window changes nothing: every flow is one number, its bytes. The paper's
own sets have IAT+SIZE alone here: of those its authors published rows and no captures, and other features cannot be made
of rows; [paper-tables.md](paper-tables.md) says *not run* there until \`oddflow-bench data prepare\` is given captures.

${RECIPES.flatMap(({ name }) => pairs.flatMap((pair) => section(name, pair, results)))
  .join('\n')
  .trimEnd()}

- Command: \`${about.command}\`; figures: [pair-features.json](pair-features.json)
- Machine: ${about.machine}; Node ${about.node}; load average ${about.loadAverage.toFixed(1)}
`
}

function refused(results) {
  if (results.every((r) => r.auc !== undefined)) return ''
  return '*refused* below: that quantile of durations is 0 (flows whose packets share one time stamp), and there is no window of no length.\n'
}

const of = (results, recipe, pair) => results.filter((r) => r.recipe === recipe && r.pair === pair)

function summaryLines(recipe, pair, results) {
  const own = of(results, recipe, pair)
  return METHODS.map(({ name }) => {
    const [iat, stats] = ['IAT+SIZE', 'STATS+HEADER'].map((f) => own.find((r) => r.features === f).auc[name])
    const [best] = own
      .filter((r) => r.features.startsWith('SAMP') && r.auc !== undefined)
      .sort((a, b) => b.auc[name].mean - a.auc[name].mean)
    const samp = best === undefined ? 'none' : `${figure(best.auc[name])} (${best.features.split(' ')[1]})`
    return `| ${recipe} | ${pair} | ${name} | ${figure(iat)} | ${figure(stats)} | ${samp} |`
  })
}

function section(recipe, pair, results) {
  const own = of(results, recipe, pair)
  const [train, normal, novel] = own[0].rows
  return [
    `## ${pair}, ${recipe}`,
    '',
    `${train} flows to train on, ${normal} normal and ${novel} novel ones to judge.`,
    '',
    `| features | window, s | D | ${METHODS.map(({ name }) => name).join(' | ')} |`,
    '|---|--:|--:|--:|--:|--:|',
    ...own.map((r) =>
      r.auc === undefined
        ? `| ${r.features} | 0 | refused | | | |`
        : `| ${r.features} | ${r.windowSeconds === null ? '' : Number(r.windowSeconds.toPrecision(4))} | ${r.dimension} | ${METHODS.map(({ name }) => figure(r.auc[name])).join(' | ')} |`,
    ),
    '',
  ]
}

await main()
