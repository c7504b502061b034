/**
 * The paper's other features on the capture pairs: AUC of IAT+SIZE, STATS+HEADER, and SAMP-SIZE with windows of each of the
 * ten quantiles of flow durations that the paper's authors try. The training captures alone decide durations, packets and windows.
 */
import { join } from 'node:path'
import { createRng, DataError } from '@oddflow/core'
import { checkParameters, fitDetector } from '@oddflow/detectors'
import { type Spread, spread } from '@oddflow/evaluation'
import {
  type CollectedFlows,
  type LearnContractOptions,
  learnFeatureContract,
  SAMPLING_QUANTILES,
} from '@oddflow/flows'
import { z } from 'zod'
import { count, share, text } from '../shapes.js'
import { formatSpread } from '../tables/figures.js'
import { markdownTable } from '../tables/table.js'
import { requiredPairs } from './attacks.js'
import { collectPair, rowsOf, type Sides } from './capture-pairs.js'
import { aucOf } from './judge.js'
import { defineStudy, type SeedOptions, unique, withSeeds } from './study.js'

const RECIPES = [
  {
    name: "the paper's text",
    flows: { mode: 'truncate' },
    times: { iatUnit: 'microseconds' },
    bandwidthQuantile: 0.25,
    supportGuard: false,
  },
  {
    name: "OddFlow's default",
    flows: { mode: 'split' },
    times: { iatUnit: 'seconds' },
    bandwidthQuantile: 0.3,
    supportGuard: true,
  },
] as const
const METHODS = [
  { name: 'OCSVM', detector: 'ocsvm' },
  { name: 'OC-KJL-QS', detector: 'oc-kjl-qs' },
  { name: 'OC-Nyström-QS', detector: 'oc-nystrom-qs' },
] as const
const FEATURES: readonly { name: string; hasTimes: boolean; options: LearnContractOptions }[] = [
  { name: 'IAT+SIZE', hasTimes: true, options: { featureSet: 'iat-size' } },
  { name: 'STATS+HEADER', hasTimes: true, options: { featureSet: 'stats-header' } },
  ...SAMPLING_QUANTILES.map((samplingQuantile) => ({
    name: `SAMP-SIZE ${samplingQuantile}`,
    hasTimes: false,
    options: { featureSet: 'samp-size', samplingQuantile } as const,
  })),
]

const named = {
  recipe: text,
  pair: text,
  features: text,
}
const measured = z.strictObject({
  ...named,
  dimension: count,
  /** null of features without windows. */
  windowSeconds: z.number().nullable(),
  /** To train on, normal ones and novel ones to judge. */
  rows: z.tuple([count, count, count]),
  /** Of methods, over seeds. */
  auc: z.record(text, z.strictObject({ mean: share, sd: share.nullable(), n: count })),
})
const figures = z.strictObject({
  seeds: count,
  /** `refused`: why there are no such features. */
  results: z.array(z.union([measured, z.strictObject({ ...named, refused: text })])).max(10_000),
})
type PairFeatureFigures = z.infer<typeof figures>
type Result = PairFeatureFigures['results'][number]
type Measured = z.infer<typeof measured>

function measure(
  flows: Sides<CollectedFlows>,
  recipe: (typeof RECIPES)[number],
  { hasTimes, options }: (typeof FEATURES)[number],
  seeds: number,
): Omit<Measured, keyof typeof named> | { readonly refused: string } {
  let contract: ReturnType<typeof learnFeatureContract>
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
  const { train, normal, novel } = rowsOf(flows, contract)
  const { bandwidthQuantile, supportGuard } = recipe
  const areas = METHODS.map(({ name, detector }) => {
    const guard = detector === 'ocsvm' ? {} : { supportGuard }
    const parameters = checkParameters({ detector, bandwidthQuantile, ...guard })
    const runs = Array.from({ length: seeds }, (_, i) =>
      aucOf(fitDetector(train, parameters, createRng(i + 1)), normal, novel),
    )
    return [name, spread(runs)!] as const
  })
  return {
    dimension: contract.dimension,
    windowSeconds: 'samplingIntervalMicros' in contract ? contract.samplingIntervalMicros / 1e6 : null,
    rows: [train.rows, normal.rows, novel.rows],
    auc: Object.fromEntries(areas),
  }
}

async function measurePairFeatures(
  folder: string,
  { seeds }: SeedOptions,
  tell: (what: string) => void,
): Promise<PairFeatureFigures> {
  const results: Result[] = []
  for (const pair of requiredPairs(folder)) {
    const { flows } = await collectPair(join(folder, pair))
    for (const recipe of RECIPES) {
      for (const features of FEATURES) {
        const head = { recipe: recipe.name, pair, features: features.name }
        results.push({ ...head, ...measure(flows, recipe, features, seeds) })
        tell(Object.values(head).join(', '))
      }
    }
  }
  return { seeds, results }
}

const figure = ({ mean, sd }: Pick<Spread, 'mean' | 'sd'>): string =>
  formatSpread({ mean, sd: sd !== null && sd > 0.0005 ? sd : null }, 3)

function page({ seeds, results }: PairFeatureFigures): string {
  const recipes = unique(results.map(({ recipe }) => recipe))
  const pairs = unique(results.map(({ pair }) => pair))
  const of = (recipe: string, pair: string): Result[] =>
    results.filter((r) => r.recipe === recipe && r.pair === pair)
  const all = recipes.flatMap((recipe) => pairs.map((pair) => [recipe, pair, of(recipe, pair)] as const))
  return `AUC over every judged flow, mean ± sd over ${seeds} seeds (none where the seed changes nothing), of the captures of
[capture-pairs.md](capture-pairs.md); untuned, no scaler. *The paper's text*: flows truncated at the 90th percentile of durations,
times in microseconds, bandwidth at the 0.25-quantile, no guard. *OddFlow's default*: flows split there, seconds, 0.3, guard.
SAMP-SIZE is bytes in windows of equal length; the length is the named quantile of flow durations, for each of the ten that
the paper's authors try. Which of the ten is best is seen on the judged flows themselves, so that column flatters.

${markdownTable(
  ['recipe', 'pair', '', 'IAT+SIZE', 'STATS+HEADER', 'SAMP-SIZE, best window'],
  all.flatMap(([recipe, pair, own]) => summaryLines(recipe, pair, own)),
  3,
)}

${results.every((r) => 'auc' in r) ? '' : '*refused* below: that quantile of durations is 0 (flows whose packets share one time stamp), and there is no window of no length.\n'}From the cut on (0.9 where flows are truncated) a longer window changes nothing: every flow is one number, its bytes. The paper's
own sets have IAT+SIZE alone here: of those its authors published rows and no captures, and other features cannot be made
of rows; [paper-tables.md](paper-tables.md) says *not run* there until \`oddflow-bench data prepare\` is given captures.

${all.map(([recipe, pair, own]) => section(recipe, pair, own)).join('\n\n')}`
}

function summaryLines(recipe: string, pair: string, own: readonly Result[]): string[][] {
  return METHODS.map(({ name }) => {
    const found = own.flatMap((r) => ('auc' in r ? [{ features: r.features, auc: r.auc[name]! }] : []))
    const fixed = ['IAT+SIZE', 'STATS+HEADER'].map((set) => found.find(({ features }) => features === set))
    const [best] = found
      .filter(({ features }) => features.startsWith('SAMP'))
      .sort((a, b) => b.auc.mean - a.auc.mean)
    const samp = best === undefined ? 'none' : `${figure(best.auc)} (${best.features.split(' ')[1]})`
    return [recipe, pair, name, ...fixed.map((one) => (one === undefined ? 'none' : figure(one.auc))), samp]
  })
}

function section(recipe: string, pair: string, own: readonly Result[]): string {
  const [train, normal, novel] = own.find((r) => 'auc' in r)?.rows ?? [0, 0, 0]
  return `## ${pair}, ${recipe}

${train} flows to train on, ${normal} normal and ${novel} novel ones to judge.

${markdownTable(
  ['features', 'window, s', 'D', ...METHODS.map(({ name }) => name)],
  own.map((r) =>
    'refused' in r
      ? [r.features, '0', 'refused', '', '', '']
      : [
          r.features,
          r.windowSeconds === null ? '' : String(Number(r.windowSeconds.toPrecision(4))),
          String(r.dimension),
          ...METHODS.map(({ name }) => figure(r.auc[name]!)),
        ],
  ),
  1,
)}`
}

export const pairFeatures = defineStudy<SeedOptions, PairFeatureFigures>({
  name: 'pair-features',
  title: 'Features on captures: IAT+SIZE, STATS+HEADER, SAMP-SIZE',
  description: "the paper's feature sets on three pairs of captures (data/pairs)",
  configure: withSeeds('seeds of each model', 5),
  figures,
  run: ({ data, ...options }, tell) => measurePairFeatures(join(data, 'pairs'), options, tell),
  page,
})
