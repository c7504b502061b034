/** Capture pairs, from captures to AUC, beside scikit-learn's one-class SVM. A setting serves all pairs. */

import { join } from 'node:path'
import { DataError, type FlowContract, type Matrix } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { spread } from '@oddflow/evaluation'
import { type CollectedFlows, extractMatrix, learnFeatureContract } from '@oddflow/flows'
import { trainingSetOf } from '@oddflow/program'
import { z } from 'zod'
import { count, list, share, text } from '../files.js'
import { note } from '../output.js'
import { findPython, runPython } from '../peers/run-peers.js'
import { fixed, formatSpread, tableOf } from '../tables/table.js'
import { pairsIn, readPair } from './attacks.js'
import { aucOf, type Capture, collectFlows, novelShare, trainOnSet, variantNamed } from './flows.js'
import { defineStudy, type SeedOptions, three, withSeeds } from './study.js'

const DETECTORS = ['oc-kjl-qs', 'oc-nystrom-qs'] as const
const OCSVM_QUANTILES = [0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.95]

/** The first is the one setting that the comparison is about; the others show what it depends on. */
const SETTINGS = [
  { name: 'default (split, q = 0.3)', mode: 'split', quantile: 0.3, supportGuard: true },
  { name: 'truncate, q = 0.5', mode: 'truncate', quantile: 0.5, supportGuard: true },
  { name: 'truncate, q = 0.3', mode: 'truncate', quantile: 0.3, supportGuard: true },
  { name: 'truncate, q = 0.25', mode: 'truncate', quantile: 0.25, supportGuard: true },
  { name: 'truncate, q = 0.5, no guard', mode: 'truncate', quantile: 0.5, supportGuard: false },
] as const
type Setting = (typeof SETTINGS)[number]

/** As options of `oddflow train`. */
function optionsOf({ mode, quantile, supportGuard }: Setting): string {
  return [
    '--features iat-size --detector oc-kjl-qs|oc-nystrom-qs',
    ...(mode === 'split' ? [] : ['--truncation truncate']),
    ...(quantile === 0.3 ? [] : [`--bandwidth-quantile ${quantile}`]),
    ...(supportGuard ? [] : ['--no-support-guard']),
  ].join(' ')
}

const overSeeds = z.strictObject({ mean: share, sd: share.nullable() })
const byDetector = z.strictObject({ 'oc-kjl-qs': overSeeds, 'oc-nystrom-qs': overSeeds })
const figures = z.strictObject({
  seeds: count,
  /** Of scikit-learn and its kin. */
  peers: text,
  results: list({
    setting: text,
    pair: text,
    rows: z.strictObject({ train: count, normal: count, novel: count }),
    dimension: count,
    calibrationRows: count,
    bound: share,
    auc: byDetector,
    falsePositives: byDetector,
    /** AUC of scikit-learn's OCSVM by bandwidth quantile; none where the bandwidth is 0. */
    ocsvm: z.record(text, share),
    /** AUC of an OCSVM made elsewhere, on another split; null where the pair has none. */
    baseline: z.strictObject({ '0.25': share, best: share }).nullable(),
  }),
})
type CapturePairFigures = z.infer<typeof figures>
type Result = CapturePairFigures['results'][number]
type Sides<T> = Readonly<Record<'train' | 'normal' | 'novel', T>>

const ocsvmAnswer = z.object({ versions: text, auc: z.record(z.string(), share) })

/** Flows of the sides of a pair, and its baseline. */
async function collectPair(folder: string) {
  const { train, normal, novel, baseline } = readPair(folder)
  // whole flows with frame sizes: what the paper's feature sets are made from
  const flowsOf = (captures: readonly Capture[]) => collectFlows(captures, variantNamed('before'))
  const flows = {
    train: await flowsOf(train),
    normal: await flowsOf(normal),
    novel: await flowsOf(novel),
  }
  return { flows, baseline }
}

function rowsOf({ train, normal, novel }: Sides<CollectedFlows>, contract: FlowContract): Sides<Matrix> {
  return {
    train: extractMatrix(train, contract),
    normal: extractMatrix(normal, contract),
    novel: extractMatrix(novel, contract),
  }
}

function measureDetectors(
  flows: CollectedFlows,
  contract: FlowContract,
  { normal, novel }: Sides<Matrix>,
  { quantile: bandwidthQuantile, supportGuard }: Setting,
  seeds: number,
): Pick<Result, 'auc' | 'falsePositives' | 'calibrationRows' | 'bound'> {
  const set = trainingSetOf(flows, contract)
  const models = DETECTORS.map((detector) =>
    Array.from({ length: seeds }, (_, i) =>
      trainOnSet(set, { detector, bandwidthQuantile, supportGuard }, i + 1),
    ),
  )
  const over = (of: (model: SavedModel) => number) => {
    const [kjl, nystrom] = models.map((own) => {
      const { mean, sd } = spread(own.map(of))!
      return { mean, sd }
    })
    return { 'oc-kjl-qs': kjl!, 'oc-nystrom-qs': nystrom! }
  }
  const { rows, bound } = models[1]!.at(-1)!.threshold.calibration
  return {
    calibrationRows: rows,
    bound,
    auc: over(({ detector }) => aucOf(detector, normal, novel)),
    falsePositives: over((model) => novelShare(model, normal)),
  }
}

async function measureCapturePairs(folder: string, { seeds }: SeedOptions): Promise<CapturePairFigures> {
  const pairs = pairsIn(folder)
  if (pairs.length === 0) throw new DataError(`${folder}: expected the capture pairs`)
  const python = await findPython()
  if (python === null) throw new DataError('expected a Python with scikit-learn and scipy, found none')
  const results: Result[] = []
  let peers = ''
  for (const pair of pairs) {
    const { flows, baseline } = await collectPair(join(folder, pair))
    for (const mode of ['split', 'truncate'] as const) {
      const contract = learnFeatureContract(flows.train, { featureSet: 'iat-size', mode })
      const rows = rowsOf(flows, contract)
      const incumbent = await runPython(
        ...([python, 'ocsvm_quantiles.py', rows, OCSVM_QUANTILES.map(String)] as const),
        (stdout) => ocsvmAnswer.parse(JSON.parse(stdout)),
      )
      peers = incumbent.versions
      for (const setting of SETTINGS.filter((one) => one.mode === mode)) {
        results.push({
          setting: setting.name,
          pair,
          rows: { train: rows.train.rows, normal: rows.normal.rows, novel: rows.novel.rows },
          dimension: contract.dimension,
          ...measureDetectors(flows.train, contract, rows, setting, seeds),
          ocsvm: incumbent.auc,
          baseline:
            baseline === null
              ? null
              : { '0.25': baseline['0.25']!, best: Math.max(...Object.values(baseline)) },
        })
        const { auc } = results.at(-1)!
        note(`${pair}, ${setting.name}: AUC ${DETECTORS.map((d) => three(auc[d].mean)).join(', ')}`)
      }
    }
  }
  return { seeds, peers, results }
}

function section(setting: Setting, results: readonly Result[]): string {
  const { name, quantile } = setting
  const own = results.filter((result) => result.setting === name)
  const betterThanOcsvm = ({ auc, ocsvm }: Result): string => {
    const same = ocsvm[quantile]
    if (same === undefined) return ''
    const gain = Math.max(...DETECTORS.map((d) => auc[d].mean)) - same
    return `${gain < 0 ? '' : '+'}${three(gain)}`
  }
  const percent = (value: number): string => `${fixed(100 * value, 2)} %`
  const optional = (value: number | undefined): string => (value === undefined ? '' : three(value))
  return `## ${name}

\`oddflow train … ${optionsOf(setting)}\`

${tableOf(own, 2, [
  ['pair', ({ pair }) => pair],
  ['rows: train, normal, novel', ({ rows }) => `${rows.train}, ${rows.normal}, ${rows.novel}`],
  ['D', ({ dimension }) => `${dimension}`],
  ['OC-KJL-QS', ({ auc }) => formatSpread(auc['oc-kjl-qs'], 3)],
  ['OC-Nyström-QS', ({ auc }) => formatSpread(auc['oc-nystrom-qs'], 3)],
  ['OCSVM, same q', ({ ocsvm }) => optional(ocsvm[quantile])],
  ['better − OCSVM', betterThanOcsvm],
  ['OCSVM, q = 0.25', ({ ocsvm }) => optional(ocsvm[0.25])],
  ['best q', ({ ocsvm }) => three(Math.max(...Object.values(ocsvm)))],
  ['baseline q = 0.25', ({ baseline }) => optional(baseline?.['0.25'])],
  ['best', ({ baseline }) => optional(baseline?.best)],
])}

${tableOf(own, 1, [
  ['pair', ({ pair }) => pair],
  ['calibration rows', ({ calibrationRows }) => `${calibrationRows}`],
  ['bound', ({ bound }) => percent(bound)],
  [
    'false positives on unseen normal captures: OC-KJL-QS',
    ({ falsePositives }) => percent(falsePositives['oc-kjl-qs'].mean),
  ],
  ['OC-Nyström-QS', ({ falsePositives }) => percent(falsePositives['oc-nystrom-qs'].mean)],
])}`
}

function page({ seeds, peers, results }: CapturePairFigures): string {
  return `Three pairs of real captures. Trained on the normal captures of odd number, judged on the even ones and on the
novel ones; mean ± sd of AUC over ${seeds} seeds. OCSVM is scikit-learn's (nu = 0.5) on the rows that the same
captures give under the same feature contract, at the same bandwidth quantile and at the best of
${OCSVM_QUANTILES.join(', ')} (chosen on the test data, so it flatters). The baseline columns are OCSVM figures made elsewhere
on another split of the same captures. One list of options serves all pairs of a table; a fifth of the training
rows is kept from the fit to set the threshold at \`--fpr 0.01\`, whole captures where there are five or more. How much of the novel flows passes that
threshold is another matter than the AUC: nothing on two of the three pairs ([the agent's page](agent.md) has the figures).

${SETTINGS.map((setting) => section(setting, results)).join('\n\n')}

## What the figures say

The first setting is the default of \`--features iat-size\`, and the one that the comparison is about. On all three pairs the
better of the two detectors is above OCSVM on the same rows at the same quantile and at 0.25; on aecho it is .001 below
OCSVM's best quantile, on the others above it. Flows cut as in the paper (\`truncate\`) give OCSVM, and the baseline, shorter rows
and higher figures. There q = 0.5 keeps within 0.04 of the best OCSVM on every pair. At q = 0.3 and 0.25 the smallest pair
(aecho, 205 rows to fit on) falls about a tenth below it: most of so few rows are far from most landmarks, five dimensions keep
little of them, and the runs differ by as much from seed to seed.

OCSVM: ${peers}.`
}

export const capturePairs = defineStudy<SeedOptions, CapturePairFigures>({
  name: 'capture-pairs',
  title: 'Capture pairs: from captures to AUC, beside OCSVM',
  description:
    "the paper's detectors on three pairs of captures, compared with scikit-learn's one-class SVM (data/pairs)",
  configure: withSeeds('seeds of each model', 5),
  figures,
  run: ({ data, ...options }) => measureCapturePairs(join(data, 'pairs'), options),
  page,
})
