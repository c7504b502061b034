/** `oddflow evaluate MODEL --normal … --novel …`: how well a model tells novel from normal. */

import type { PacketFilter } from '@oddflow/capture'
import { concatRows, createMatrix, type Matrix, plural, takeRows } from '@oddflow/core'
import {
  createScoreWorkspace,
  embedSamples,
  type MixtureModel,
  mixtureCovariances,
  modelEmbedding,
  type SavedModel,
} from '@oddflow/detectors'
import { auc, type RocCurve, rocCurve, tprAtFpr } from '@oddflow/evaluation'
import {
  checkWritable,
  createLineWriter,
  findDetectionLimits,
  jsonLine,
  printable,
  readModel,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { CAPTURE_OPTIONS, type CaptureFlags, viewOfModel } from '../flags.js'
import {
  complain,
  inputKindOfAll,
  noFlowIn,
  refuseCaptureOptions,
  VERSION,
  warn,
  warnOfBareRows,
  withProgress,
} from '../inputs.js'
import { limitFacts, limitWarnings } from '../output/describe-limits.js'
import {
  type CaptureInput,
  type CaptureRead,
  captureInputs,
  complaints,
  filterFrom,
  type ReadOptions,
} from '../pipeline/read-packets.js'
import { type ScoreOptions, scoreInputs } from '../pipeline/score-inputs.js'
import { endpoint, type InputVerdict, type VerdictCounts } from '../pipeline/verdict-store.js'
import { formatBelowOne } from '../report/format.js'
import type {
  FlaggedFlow,
  ReportData,
  ReportEllipse,
  ReportEmbedding,
  ReportFlagged,
} from '../report/index.js'
import { FLAGGED_LIMIT } from '../report/report-data.js'
import { modelFacts, percent, promiseText } from './model-file.js'

// ROC and AUC are over flows and rows with a score; rates at the threshold are given with and without the other flows.

export type Label = 'normal' | 'novel'

/** One capture may be two inputs, of a name each. */
export interface LabelledInput extends CaptureInput {
  readonly label: Label
  /** Only these packets of the capture have the label. */
  readonly filter: PacketFilter | null
}

export interface LabelledResult {
  readonly name: string
  readonly label: Label
  readonly read: CaptureRead | null
  readonly verdicts: Iterable<InputVerdict>
  readonly counts: VerdictCounts
}

export interface Evaluation {
  readonly inputs: readonly LabelledResult[]
  readonly normalScores: Float64Array
  readonly novelScores: Float64Array
  /** null where a label has no scored flow. */
  readonly roc: RocCurve | null
  readonly auc: number | null
  readonly tprAtFpr: readonly { readonly fpr: number; readonly tpr: number }[]
  /** Rates at the model's threshold over flows with a score; null where a label has none. */
  readonly falsePositiveRate: number | null
  readonly truePositiveRate: number | null
  /** The same over all judged flows, those of one packet included. */
  readonly falsePositiveRateAll: number | null
  readonly truePositiveRateAll: number | null
  /** Rows behind the scores, at most `SHOWN_ROWS` a label, for the picture of the embedding. */
  readonly shownRows: Readonly<Record<Label, Matrix>>
  readonly complaints: readonly string[]
}

const SHOWN_ROWS = 5_000
const REPORTED_FPRS = [0.01, 0.05] as const

export async function evaluateLabelled(
  saved: SavedModel,
  inputs: readonly LabelledInput[],
  options: Omit<ReadOptions, 'filter'> & Pick<ScoreOptions, 'view' | 'explain'>,
): Promise<Evaluation> {
  const results: LabelledResult[] = []
  const heard = new Set<string>()
  const rows: Record<Label, Matrix[]> = { normal: [], novel: [] }
  for (const { label, filter, ...input } of inputs) {
    const { name } = input
    await scoreInputs(saved, [input], { ...options, filter, keepRows: true }, (scored) => {
      const { read, verdicts, counts } = scored
      results.push({ name, label, read, verdicts, counts })
      if (scored.rows !== null) rows[label].push(scored.rows)
      // a capture may be read once for each label, and its oddities are reported once
      for (const line of read === null ? [] : complaints(read)) heard.add(line)
    })
  }
  const normalScores = scoresOf(results, 'normal')
  const novelScores = scoresOf(results, 'novel')
  const { roc, area } = curveOf(normalScores, novelScores)
  return {
    inputs: results,
    normalScores,
    novelScores,
    roc,
    auc: area,
    tprAtFpr: roc === null ? [] : REPORTED_FPRS.flatMap((fpr) => pointAt(roc, fpr)),
    falsePositiveRate: rate(results, 'normal', (c) => [c.novelByScore, c.byScore]),
    truePositiveRate: rate(results, 'novel', (c) => [c.novelByScore, c.byScore]),
    falsePositiveRateAll: rate(results, 'normal', (c) => [c.novel, c.total - c.notJudged]),
    truePositiveRateAll: rate(results, 'novel', (c) => [c.novel, c.total - c.notJudged]),
    shownRows: { normal: thin(rows.normal, saved), novel: thin(rows.novel, saved) },
    complaints: [...heard],
  }
}

function curveOf(normal: Float64Array, novel: Float64Array): { roc: RocCurve | null; area: number | null } {
  if (normal.length === 0 || novel.length === 0) return { roc: null, area: null }
  const scores = new Float64Array(normal.length + novel.length)
  scores.set(normal)
  scores.set(novel, normal.length)
  const isNovel = new Uint8Array(scores.length).fill(1, normal.length)
  return { roc: rocCurve(scores, isNovel), area: auc(scores, isNovel).value }
}

function pointAt(roc: RocCurve, fpr: number): { fpr: number; tpr: number }[] {
  const { value } = tprAtFpr(roc, fpr)
  return value === null ? [] : [{ fpr, tpr: value }]
}

function scoresOf(results: readonly LabelledResult[], label: Label): Float64Array {
  const scores: number[] = []
  for (const result of results) {
    if (result.label !== label) continue
    for (const { score } of result.verdicts) if (score !== null) scores.push(score)
  }
  return Float64Array.from(scores)
}

function rate(
  results: readonly LabelledResult[],
  label: Label,
  pick: (counts: VerdictCounts) => [number, number],
): number | null {
  let flagged = 0
  let total = 0
  for (const { counts, label: of } of results) {
    if (of !== label) continue
    const [f, t] = pick(counts)
    flagged += f
    total += t
  }
  return total === 0 ? null : flagged / total
}

/** Every k-th row, so that the picture's cost is bounded. */
function thin(parts: readonly Matrix[], saved: SavedModel): Matrix {
  if (parts.length === 0) return createMatrix(0, saved.contract.dimension)
  const all = concatRows(parts)
  const step = Math.max(1, Math.ceil(all.rows / SHOWN_ROWS))
  const count = Math.ceil(all.rows / step)
  return step === 1
    ? all
    : takeRows(
        all,
        Array.from({ length: count }, (_, i) => i * step),
      )
}

interface EvaluateCommandOptions extends CaptureFlags {
  readonly normal: readonly string[]
  readonly novel: readonly string[]
  readonly normalFilter?: string
  readonly novelFilter?: string
  readonly report?: string
  readonly roc?: string
  readonly format: 'text' | 'json'
}

export async function evaluate(modelPath: string, options: EvaluateCommandOptions): Promise<void> {
  const { normal, novel } = options
  const kind = inputKindOfAll([...normal, ...novel])
  if (kind === 'rows') {
    refuseCaptureOptions(options, [...CAPTURE_OPTIONS, 'normalFilter', 'novelFilter'])
  }
  const inputs = [...labelled(normal, 'normal', options), ...labelled(novel, 'novel', options)]
  const saved = readModel(modelPath)
  const view = viewOfModel(options, saved.contract)
  const taken = [modelPath, ...normal, ...novel]
  for (const path of [options.report, options.roc]) {
    if (path === undefined) continue
    checkWritable(path, taken)
    taken.push(path)
  }
  const { dropDuplicates, flowMemory: flowMemoryBytes } = options
  const explain = options.report !== undefined
  const evaluation = await withProgress((progress) =>
    evaluateLabelled(saved, inputs, { dropDuplicates, flowMemoryBytes, view, progress, explain }),
  )
  for (const line of evaluation.complaints) warn(line)
  warnOfBareRows(saved, kind)
  for (const label of ['normal', 'novel'] as const) {
    const results = evaluation.inputs.filter((input) => input.label === label)
    if (results.every(({ counts }) => counts.total === 0)) {
      const packets = results.reduce((sum, { read }) => sum + (read?.packets ?? 0), 0)
      throw noFlowIn(options[label], plural(packets, 'packet'))
    }
  }
  await writePictures(evaluation)
  const out = createLineWriter()
  if (options.format === 'json') out.line(jsonLine(evaluationJson(evaluation)))
  else for (const line of describeEvaluation(evaluation)) out.line(line)
  out.flush()

  async function writePictures(result: Evaluation): Promise<void> {
    if (options.report === undefined && options.roc === undefined) return
    const { renderReport, renderRocSvg } = await import('../report/index.js')
    const data = reportData(saved, result, {
      title: 'OddFlow evaluation',
      subtitle: modelPath,
      notes: [],
    })
    if (options.report !== undefined) writeFileWhole(options.report, renderReport(data))
    if (options.roc === undefined) return
    if (data.roc === null) {
      complain(`${options.roc}: not written, since there is no ROC without scored flows of both kinds`)
      process.exitCode = 1
    } else writeFileWhole(options.roc, renderRocSvg(data.roc))
  }
}

function labelled(paths: readonly string[], label: Label, options: EvaluateCommandOptions): LabelledInput[] {
  const own = label === 'normal' ? options.normalFilter : options.novelFilter
  if (own !== undefined && options.filter !== undefined) {
    throw new UsageError(`--filter and --${label}-filter: give one of them`)
  }
  const filter = filterFrom(own ?? options.filter, own === undefined ? '--filter' : `--${label}-filter`)
  return captureInputs(paths, options.continuous).map((input) => ({ ...input, label, filter }))
}

/** For programs; the same figures as the text. */
function evaluationJson(evaluation: Evaluation): Record<string, unknown> {
  return {
    auc: evaluation.auc,
    normalScored: evaluation.normalScores.length,
    novelScored: evaluation.novelScores.length,
    tprAtFpr: evaluation.tprAtFpr,
    atThreshold: {
      falsePositiveRate: evaluation.falsePositiveRate,
      truePositiveRate: evaluation.truePositiveRate,
      falsePositiveRateWithOnePacketFlows: evaluation.falsePositiveRateAll,
      truePositiveRateWithOnePacketFlows: evaluation.truePositiveRateAll,
    },
    inputs: evaluation.inputs.map(({ name, label, read, counts }) => ({
      input: name,
      label,
      packets: read?.packets ?? null,
      unsupportedLinkTypes: read?.unsupportedLinkTypes ?? {},
      ...counts,
    })),
  }
}

export function describeEvaluation(evaluation: Evaluation): string[] {
  const { auc, normalScores, novelScores } = evaluation
  const rate = (value: number | null): string => (value === null ? 'no flows' : percent(value))
  const lines = [
    `normal: ${normalScores.length} scored flows or rows; novel: ${novelScores.length}`,
    `AUC                   ${auc === null ? 'undefined: scores of both kinds are needed' : formatBelowOne(auc, 4)}`,
  ]
  for (const { fpr, tpr } of evaluation.tprAtFpr) {
    lines.push(`TPR at FPR ${`${100 * fpr} %`.padEnd(10)} ${percent(tpr)}`)
  }
  const flagged = (normal: number | null, novel: number | null): string =>
    `${rate(normal)} of normal flagged, ${rate(novel)} of novel`
  lines.push(`at the threshold      ${flagged(evaluation.falsePositiveRate, evaluation.truePositiveRate)}`)
  if (evaluation.inputs.some(({ counts }) => counts.onePacket > 0)) {
    lines.push(
      `with one-packet flows ${flagged(evaluation.falsePositiveRateAll, evaluation.truePositiveRateAll)}`,
    )
  }
  for (const { name, label, counts } of evaluation.inputs) {
    lines.push(`  ${label.padEnd(6)} ${counts.novel} of ${counts.total} flagged  ${printable(name)}`)
  }
  return lines
}

/**
 * An evaluation → the data of the HTML report.
 */

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
