/**
 * Inputs whose label is known → rates, curves and what a report is drawn from. The path that `evaluate` and
 * `demo` share.
 *
 * The ROC and the AUC are over flows and rows that have a score. Flows of one packet have none: how many were
 * flagged stands beside, and the rates at the model's own threshold are given with and without them.
 */

import type { PacketFilter } from '@oddflow/capture'
import { concatRows, type Matrix, takeRows } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { auc, type RocCurve, rocCurve, tprAtFpr } from '@oddflow/evaluation'
import { type CaptureInput, type CaptureRead, complaints, type ReadOptions } from './read-packets.js'
import { type ScoreOptions, scoreInputs } from './score-inputs.js'
import type { Verdict, VerdictCounts } from './verdict.js'

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
  readonly verdicts: Iterable<Verdict>
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
      results.push({
        name,
        label,
        read: scored.read,
        verdicts: scored.verdicts,
        counts: scored.counts,
      })
      if (scored.rows !== null) rows[label].push(scored.rows)
      // one capture may be read once a label: its oddities are told once
      for (const line of scored.read === null ? [] : complaints(scored.read)) heard.add(line)
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
  if (parts.length === 0) return { rows: 0, cols: saved.contract.dimension, data: new Float64Array(0) }
  const all = concatRows(parts)
  const step = Math.max(1, Math.ceil(all.rows / SHOWN_ROWS))
  const chosen: number[] = []
  for (let i = 0; i < all.rows; i += step) chosen.push(i)
  return step === 1 ? all : takeRows(all, chosen)
}
