/** `oddflow evaluate MODEL --normal … --novel …`: how well a model tells novel from normal. */
import { plural } from '@oddflow/core'
import {
  checkWritable,
  createLineWriter,
  jsonLine,
  printable,
  readModel,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { CAPTURE_FLAGS, type CaptureFlags, viewOfModel } from '../capture-flags.js'
import { warnOfBareRows } from '../input/bare-rows.js'
import { inputKindOfAll, refuseCaptureOptions } from '../input/input-kind.js'
import { noFlowIn } from '../input/name-inputs.js'
import { percent } from '../output/describe-model.js'
import { complain, warn } from '../output/messages.js'
import {
  type Evaluation,
  evaluateLabelled,
  type Label,
  type LabelledInput,
} from '../pipeline/evaluate-labelled.js'
import { captureInputs, filterFrom } from '../pipeline/read-packets.js'
import { reportData } from '../pipeline/report-data.js'
import { formatBelowOne } from '../report/format.js'

export interface EvaluateCommandOptions extends CaptureFlags {
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
    refuseCaptureOptions(
      { ...options },
      { ...CAPTURE_FLAGS, normalFilter: '--normal-filter', novelFilter: '--novel-filter' },
    )
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
  const progress = createProgress()
  let evaluation: Evaluation
  try {
    evaluation = await evaluateLabelled(saved, inputs, {
      reader: options.reader,
      dropDuplicates: options.dropDuplicates,
      flowMemoryBytes: options.flowMemory,
      view,
      progress,
      explain: options.report !== undefined,
    })
  } finally {
    progress.stop()
  }
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
export function evaluationJson(evaluation: Evaluation): Record<string, unknown> {
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
  const rate = (value: number | null): string => (value === null ? 'none to tell from' : percent(value))
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
