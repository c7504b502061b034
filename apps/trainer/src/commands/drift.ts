/** `oddflow drift MODEL CAPTURE…`: whether and how traffic has drifted from a model. */
import { DataError, plural } from '@oddflow/core'
import { createDriftMonitor, type DriftReport } from '@oddflow/online'
import { createLineWriter, jsonLine, printable } from '@oddflow/program'
import type { CaptureFlags } from '../flags.js'
import { warn, warnOfBareRows, withProgress } from '../inputs.js'
import { notePackets } from '../output/verdict-lines.js'
import { complaints, inputsUnderModel, sumUnsupported } from '../pipeline/read-packets.js'
import { refuseNoRows, streamRows } from '../pipeline/score-inputs.js'

interface DriftCommandOptions extends CaptureFlags {
  readonly format: 'text' | 'json'
}

export async function drift(
  modelPath: string,
  files: readonly string[],
  options: DriftCommandOptions,
): Promise<void> {
  const { kind, saved, inputs, reading } = inputsUnderModel(modelPath, files, options)
  if (!('mixture' in saved.detector)) {
    throw new DataError(
      `${modelPath}: drift needs a model with a mixture (oc-kjl, oc-nystrom, oc-kjl-qs, oc-nystrom-qs or gmm), but its detector is ${saved.detector.kind}; score the traffic and look at the share of novel flows, or train with --detector oc-kjl-qs`,
    )
  }
  const monitor = createDriftMonitor(saved)
  const streamed = await withProgress((progress) =>
    streamRows(saved, inputs, { ...reading, progress }, (rows) => monitor.add(rows)),
  )
  const { counters, reads, withoutRow } = streamed
  for (const line of reads.flatMap(complaints)) warn(line)
  refuseNoRows(files, streamed)
  warnOfBareRows(saved, kind)
  const report = monitor.report()
  const out = createLineWriter()
  if (options.format === 'json') {
    const unsupportedLinkTypes = sumUnsupported(reads)
    out.line(jsonLine({ model: modelPath, inputs: files, withoutRow, unsupportedLinkTypes, ...report }))
  } else for (const line of describe(modelPath, report)) out.line(line)
  out.flush()
  if (report.rows < FEW_ROWS)
    warn(`only ${plural(report.rows, 'row')}: too few for a reliable result; give more traffic`)
  notePackets(counters, reads)
}

/** Fewer than this say little. */
const FEW_ROWS = 100

function describe(path: string, r: DriftReport): string[] {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const lines = [
    `${printable(path)}: ${r.drifted ? 'the traffic has drifted from the model' : 'no drift'}`,
    `  rows             ${r.rows}`,
    `  novel            ${percent(r.novelShare)} (expected: at most ${percent(r.novelBound)} of normal rows)`,
  ]
  if (r.distance !== null && r.medianP !== null) {
    lines.push(
      `  scores           ${percent(r.distance)} more rows than expected have low scores; median p ${r.medianP.toFixed(2)} (0.50 without drift)`,
    )
  }
  if (r.unseenShare !== null) lines.push(`  out of sight     ${percent(r.unseenShare)} (K ≈ 0)`)
  lines.push(`  occupancy        ${percent(r.occupancy)} of the rows in other components than in training`)
  lines.push(
    `  changes          ${r.changesCounted === 0 ? 'none within the input' : `${r.changesCounted} within the input`}`,
  )
  for (const finding of r.findings) lines.push(`  finding: ${finding}`)
  return lines
}
