/** The paper's figure of OC-KJL against OC-KJL-SVM, a mixture against a linear separator over the same embedding; and Nyström's. */
import * as Plot from '@observablehq/plot'
import type { Spread } from '@oddflow/evaluation'
import type { Trial } from '../run/trial.js'
import { PALETTE, renderFigure } from './figures.js'
import { fixed, formatSpread, hashTrials, markdownTable } from './table.js'
import { summarise } from './trial-figures.js'

const PAIRS = [
  ['oc-kjl', 'oc-kjl-svm'],
  ['oc-nystrom', 'oc-nystrom-svm'],
] as const
const FEATURES = 'iat-size'
const TUNINGS = { none: 'no tuning', minimal: 'minimal tuning' } as const
type TuningName = keyof typeof TUNINGS

type Comparison = ReturnType<typeof compareAll>[number]

/** None where no data set has trials of both of a pair. */
export function renderKjlAgainstSvm(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const comparisons = compareAll(trials)
  if (comparisons.length === 0) return new Map()
  const detectors = new Set<string>(PAIRS.flat())
  const behind = trials.filter((trial) => trial.features === FEATURES && detectors.has(trial.detector))
  const better = comparisons.filter(({ mixtureAuc, svmAuc }) => mixtureAuc.mean > svmAuc.mean).length
  const page = `# OC-KJL against OC-KJL-SVM

Written by \`oddflow-bench tables\` from [trials.jsonl](trials.jsonl), which \`oddflow-bench reproduce\` writes; nothing here is typed in by hand.

![AUC of a mixture and of a linear SVM over the same embedding](kjl-against-svm.svg)

The paper: a linear separator after the projection loses AUC against the mixture on every set. No scaler, no support guard;
AUC over all test rows, mean ± standard deviation over training repeats.

${markdownTable(
  ['', 'tuning', 'mixture', 'AUC', 'linear SVM', 'AUC', 'difference'],
  comparisons.map((c) => [
    c.dataset,
    TUNINGS[c.tuning],
    c.mixture,
    formatSpread(c.mixtureAuc, 3),
    c.svm,
    formatSpread(c.svmAuc, 3),
    fixed(c.mixtureAuc.mean - c.svmAuc.mean, 3),
  ]),
  3,
)}

The mixture has the higher mean in ${better} of ${comparisons.length}. SHA-256 of the trials behind it ${hashTrials(behind).trialsSha256}.
`
  return new Map([
    ['kjl-against-svm.md', page],
    ['kjl-against-svm.svg', chart(comparisons)],
  ])
}

function compareAll(trials: readonly Trial[]) {
  const datasets = [...new Set(trials.map(({ dataset }) => dataset))].sort()
  const aucOf = (dataset: string, tuning: TuningName, detector: string): Spread | null =>
    summarise(trials, { dataset, features: FEATURES, tuning, detector }, { kind: 'auc', sample: 'all' })
  return (Object.keys(TUNINGS) as TuningName[]).flatMap((tuning) =>
    PAIRS.flatMap(([mixture, svm]) =>
      datasets.flatMap((dataset) => {
        const mixtureAuc = aucOf(dataset, tuning, mixture)
        const svmAuc = aucOf(dataset, tuning, svm)
        if (mixtureAuc === null || svmAuc === null) return []
        return [{ dataset, tuning, mixture, svm, mixtureAuc, svmAuc }]
      }),
    ),
  )
}

function chart(comparisons: readonly Comparison[]): string {
  const panelOf = ({ tuning, mixture, svm }: Comparison): string =>
    `${mixture} and ${svm}, ${TUNINGS[tuning]}`
  const rows = comparisons.flatMap((c) =>
    [
      { kind: 'mixture', auc: c.mixtureAuc },
      { kind: 'linear SVM', auc: c.svmAuc },
    ].map(({ kind, auc }) => ({
      panel: panelOf(c),
      dataset: c.dataset,
      kind,
      mean: auc.mean,
      low: Math.max(0, auc.mean - (auc.sd ?? 0)),
      high: Math.min(1, auc.mean + (auc.sd ?? 0)),
    })),
  )
  const panels = [...new Set(rows.map(({ panel }) => panel))]
  const colour = ({ kind }: { kind: string }): string => (kind === 'mixture' ? PALETTE[0]! : PALETTE[1]!)
  const datasets = new Set(rows.map(({ dataset }) => dataset)).size
  return renderFigure({
    title: 'AUC of a mixture and of a linear SVM over the same embedding',
    description: rows.map((r) => `${r.panel}, ${r.dataset}, ${r.kind}: ${fixed(r.mean, 3)}`).join('; '),
    width: 860,
    height: 60 + panels.length * (30 + 26 * datasets),
    legend: [
      ['mixture', PALETTE[0]!],
      ['linear SVM', PALETTE[1]!],
    ],
    plot: {
      marginLeft: 100,
      marginRight: 280,
      marginBottom: 40,
      x: { domain: [0, 1], label: 'AUC', grid: true },
      y: { label: null },
      fy: { label: null, domain: panels },
      marks: [
        Plot.ruleX([0.5], { stroke: '#94a3b8', strokeDasharray: '4 4' }),
        Plot.ruleY(rows, {
          y: 'dataset',
          fy: 'panel',
          x1: 'low',
          x2: 'high',
          stroke: colour,
          strokeWidth: 2,
        }),
        Plot.dot(rows, { y: 'dataset', fy: 'panel', x: 'mean', fill: colour, r: 4 }),
      ],
    },
  })
}
