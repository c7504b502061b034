/** `oddflow evaluate MODEL --normal … --novel …`: how well a model tells novel from normal. */

import type { PacketFilter } from '@oddflow/capture'
import { concatRows, createMatrix, type Matrix, plural, takeRows } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { auc, type RocCurve, rocCurve, tprAtFpr } from '@oddflow/evaluation'
import {
  checkWritable,
  createLineWriter,
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
  warn,
  warnOfBareRows,
  withProgress,
} from '../inputs.js'
import {
  type CaptureInput,
  type CaptureRead,
  captureInputs,
  complaints,
  filterFrom,
  type ReadOptions,
} from '../pipeline/read-packets.js'
import { reportData } from '../pipeline/report-data.js'
import { type ScoreOptions, scoreInputs } from '../pipeline/score-inputs.js'
import type { InputVerdict, VerdictCounts } from '../pipeline/verdict-store.js'
import { formatBelowOne } from '../report/format.js'
import { percent } from './inspect.js'

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
