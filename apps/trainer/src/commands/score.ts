/** `oddflow score MODEL INPUT…`: a verdict on each flow or row. */
import { createLineWriter, UsageError } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import type { CaptureFlags } from '../capture-flags.js'
import { warnOfBareRows } from '../input/bare-rows.js'
import { noFlowIn } from '../input/name-inputs.js'
import {
  describeGroupLevel,
  describePackets,
  describeThreshold,
  describeVerdicts,
} from '../output/describe-verdicts.js'
import { complain, note, warn } from '../output/messages.js'
import { createGroupWriter, createVerdictWriter } from '../output/verdict-lines.js'
import { inputsUnderModel } from '../pipeline/inputs-under-model.js'
import { type CaptureRead, complaints, describeView, stopForStreams } from '../pipeline/read-packets.js'
import { type GroupKind, scoreGroups } from '../pipeline/score-groups.js'
import { scoreInputs } from '../pipeline/score-inputs.js'
import type { VerdictCounts } from '../pipeline/verdict.js'

export interface ScoreCommandOptions extends CaptureFlags {
  readonly novelOnly?: boolean
  readonly explain?: boolean
  readonly group?: GroupKind
  readonly format: 'table' | 'json' | 'csv'
}

export async function score(
  modelPath: string,
  files: readonly string[],
  options: ScoreCommandOptions,
): Promise<void> {
  if (options.explain === true && options.group !== undefined) {
    throw new UsageError('--explain: explains flows and rows; leave out one of --explain and --group')
  }
  const { kind, saved, inputs, reading } = inputsUnderModel(modelPath, files, options)
  const progress = createProgress()
  const out = createLineWriter()
  const scoring = {
    ...reading,
    progress,
    stop: stopForStreams(files),
    // one input that cannot be read takes nothing from the others
    onUnreadable:
      files.length === 1
        ? undefined
        : (error: Error) => {
            complain(error.message)
            process.exitCode = 1
          },
  }
  const totals: VerdictCounts[] = []
  try {
    const reads: CaptureRead[] = []
    if (options.group !== undefined) {
      const writer = createGroupWriter(options.format, out)
      let flows = 0
      const { counters } = await scoreGroups(saved, inputs, options.group, scoring, ({ groups, read }) => {
        for (const line of read === null ? [] : complaints(read)) warn(line)
        if (read !== null) reads.push(read)
        for (const group of groups) {
          flows += group.flows
          // an empty capture is no normal one
          if (group.flows > 0 && (options.novelOnly !== true || group.novel)) writer.write(group)
        }
        out.flush()
      })
      progress.stop()
      if (counters !== null && reads.length > 0 && flows === 0) {
        throw noFlowIn(files, describePackets(counters, reads))
      }
      if (counters !== null) note(describePackets(counters, reads))
      note(describeGroupLevel(saved, options.group))
      return
    }
    const writer = createVerdictWriter(options.format, kind, out, options.explain === true ? saved : null)
    const { counters } = await scoreInputs(
      saved,
      inputs,
      { ...scoring, keepRows: false, novelOnly: options.novelOnly, explain: options.explain },
      ({ verdicts, release, counts, read }) => {
        for (const line of read === null ? [] : complaints(read)) warn(line)
        if (read !== null) reads.push(read)
        totals.push(counts)
        for (const verdict of verdicts) writer.write(verdict)
        release()
        // what is known of one input is not lost if the next cannot be read
        out.flush()
      },
    )
    out.flush()
    progress.stop()
    if (counters !== null && reads.length > 0 && totals.every(({ total }) => total === 0)) {
      throw noFlowIn(files, describePackets(counters, reads))
    }
    warnOfBareRows(saved, kind)
    note(describeVerdicts(totals, kind))
    if (counters !== null) note(describePackets(counters, reads))
    const seen = describeView(reads)
    if (seen !== null) note(seen)
    note(describeThreshold(saved))
  } finally {
    progress.stop()
  }
}
