/**
 * An evaluation → the data of the HTML report.
 */

import { type Matrix, plural } from '@oddflow/core'
import {
  createScoreWorkspace,
  embedSamples,
  type MixtureModel,
  mixtureCovariances,
  modelEmbedding,
  type SavedModel,
} from '@oddflow/detectors'
import { findDetectionLimits } from '@oddflow/program'
import type { Evaluation, Label } from '../commands/evaluate.js'
import { modelFacts, percent, promiseText } from '../commands/inspect.js'
import { limitFacts, limitWarnings } from '../output/describe-limits.js'
import type {
  FlaggedFlow,
  ReportData,
  ReportEllipse,
  ReportEmbedding,
  ReportFlagged,
} from '../report/index.js'
import { FLAGGED_LIMIT } from '../report/report-data.js'
import { VERSION } from '../version.js'
import { endpoint, type InputVerdict } from './verdict-store.js'

export function reportData(
  saved: SavedModel,
  evaluation: Evaluation,
  texts: {
    readonly title: string
    readonly subtitle: string
    readonly notes: readonly string[]
    /** Default: how many flows of each label were flagged. */
    readonly verdictLine?: string
  },
): ReportData {
  const { roc } = evaluation
  const limits = findDetectionLimits(saved)
  return {
    title: texts.title,
    subtitle: texts.subtitle,
    oddflowVersion: VERSION,
    verdictLine: texts.verdictLine ?? verdictLine(evaluation),
    model: [...modelFacts(saved), ...limitFacts(limits)],
    captures: evaluation.inputs.map(({ name, label, read, counts }) => ({
      name,
      label,
      packets: read?.packets ?? null,
      flows: counts.total,
      onePacketFlows: counts.onePacket,
      flagged: counts.novel,
    })),
    roc:
      roc === null
        ? null
        : {
            fpr: Array.from(roc.falsePositiveRates),
            tpr: Array.from(roc.truePositiveRates),
            auc: evaluation.auc ?? Number.NaN,
            tprAtFpr: evaluation.tprAtFpr,
            threshold: {
              fpr: evaluation.falsePositiveRate ?? Number.NaN,
              tpr: evaluation.truePositiveRate ?? Number.NaN,
            },
          },
    scores: {
      normal: evaluation.normalScores,
      novel: evaluation.novelScores,
      threshold: saved.threshold.value,
    },
    flagged: flaggedFlows(evaluation),
    embedding: embeddingPicture(saved, evaluation.shownRows),
    notes: [...texts.notes, ...notesFrom(saved, evaluation), ...limitWarnings(limits)],
  }
}

function verdictLine({ inputs }: Evaluation): string {
  const sum = (label: Label, key: 'novel' | 'total'): number =>
    inputs.reduce((n, input) => n + (input.label === label ? input.counts[key] : 0), 0)
  return `OddFlow flagged ${sum('novel', 'novel')} of ${plural(sum('novel', 'total'), 'novel flow')} as new, and ${sum('normal', 'novel')} of ${plural(sum('normal', 'total'), 'normal flow')} by mistake.`
}

/** Flows shown of each device, however many others have. */
const LEAST_OF_DEVICE = 3

/** Flagged flows, the most surprising first; those of one packet, which have no score, come after. */
function flaggedFlows({ inputs }: Evaluation): ReportFlagged {
  const found: { verdict: InputVerdict; capture: string; label: Label }[] = []
  const ofDevice = new Map<string, number>()
  for (const { name: capture, label, verdicts } of inputs) {
    for (const verdict of verdicts) {
      if (!verdict.novel || verdict.rule === 'not-judged') continue
      found.push({ verdict, capture, label })
      const { device } = verdict
      if (device !== undefined) ofDevice.set(device, (ofDevice.get(device) ?? 0) + 1)
    }
  }
  const bySurprise = (a: (typeof found)[number], b: (typeof found)[number]): number => {
    const [left, right] = [a.verdict.score, b.verdict.score]
    return left === null || right === null ? Number(left === null) - Number(right === null) : left - right
  }
  found.sort(bySurprise)
  // one device's flood leaves room for the others
  const share = Math.max(LEAST_OF_DEVICE, Math.floor(FLAGGED_LIMIT / Math.max(1, ofDevice.size)))
  const taken = new Map<string | undefined, number>()
  const [first, rest]: [typeof found, typeof found] = [[], []]
  for (const flow of found) {
    const before = taken.get(flow.verdict.device) ?? 0
    taken.set(flow.verdict.device, before + 1)
    if (before < share) first.push(flow)
    else rest.push(flow)
  }
  const shown = [...first, ...rest].slice(0, FLAGGED_LIMIT).sort(bySurprise)
  const rows = shown.map(({ verdict, capture, label }): FlaggedFlow => {
    const { score, rule, flow, row, device, explain } = verdict
    return {
      source: flow === null ? `row ${row}` : endpoint(flow.source, flow.sourcePort),
      destination: flow === null ? '' : endpoint(flow.destination, flow.destinationPort),
      protocol: flow?.protocol ?? '',
      startMicros: flow?.startMicros ?? null,
      durationMicros: flow?.durationMicros ?? 0,
      packets: flow?.packets ?? 0,
      bytes: flow?.bytes ?? 0,
      score,
      rule: rule === 'one-packet' ? rule : 'score',
      capture,
      label,
      device: device ?? null,
      reasons: explain?.().reasons ?? [],
    }
  })
  return { rows, total: found.length, ofDevice: Object.fromEntries(ofDevice) }
}

function embeddingPicture(
  { detector }: SavedModel,
  shown: Readonly<Record<Label, Matrix>>,
): ReportEmbedding | null {
  const embedding = modelEmbedding(detector)
  if (embedding === null || embedding.dimensions < 2) return null
  const { dimensions, mixture } = embedding
  const workspace = createScoreWorkspace(detector)
  const points = (['normal', 'novel'] as const).flatMap((group) => {
    const rows = shown[group]
    const embedded = embedSamples(detector, rows, new Float64Array(rows.rows * dimensions), workspace)
    return Array.from({ length: rows.rows }, (_, i) => ({
      x: embedded[i * dimensions],
      y: embedded[i * dimensions + 1],
      group,
    }))
  })
  return { points, ellipses: mixture === null ? [] : ellipsesOf(mixture), dimensions }
}

/** Marginal over the first two dimensions. */
function ellipsesOf(mixture: MixtureModel): ReportEllipse[] {
  const { weights, means } = mixture
  const dimensions = means.cols
  const covariances = mixtureCovariances(mixture)
  return Array.from(weights, (weight, j) => {
    const c = j * dimensions * dimensions
    return {
      mean: [means.data[j * dimensions], means.data[j * dimensions + 1]],
      covariance: [covariances[c], covariances[c + 1], covariances[c + dimensions + 1]],
      weight,
    }
  })
}

function notesFrom(saved: SavedModel, evaluation: Evaluation): string[] {
  const notes: string[] = []
  const { calibration, falsePositiveRate } = saved.threshold
  if (evaluation.falsePositiveRate !== null) {
    notes.push(
      `Expected: ${promiseText(saved.threshold)}; of these normal flows ${percent(evaluation.falsePositiveRate)} were flagged by score.`,
    )
  }
  if (!calibration.guaranteed) {
    notes.push(
      `A tolerance of ${percent(falsePositiveRate)} needs ${calibration.rowsNeeded} calibration rows, and there were ${calibration.rows}.`,
    )
  }
  const onePacket = evaluation.inputs.reduce((n, { counts }) => n + counts.onePacket, 0)
  if (onePacket > 0) {
    notes.push(
      `${plural(onePacket, 'flow')} had a single packet, and the model's features need two, so no score: such a flow is new unless one-packet flows to the same service were seen in training. The ROC is over the others.`,
    )
  }
  return [...notes, ...evaluation.complaints, ...saved.detector.fitReport.notes]
}
