/** `oddflow update` of an ensemble: all rows at once, and all of them stated to be normal. */
import { concatRows, DataError, type Matrix, plural } from '@oddflow/core'
import { encodeModelFile, updateEnsemble } from '@oddflow/detectors'
import { hashRows, jsonLine, printable, UsageError, writeFileWhole } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { CAPTURE_FLAGS } from '../capture-flags.js'
import { flagOf } from '../flag-name.js'
import { limitsOfUpdate } from '../output/describe-limits.js'
import { percent } from '../output/describe-model.js'
import { describeEnsembleUpdate } from '../output/describe-update.js'
import { describePackets } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { tellingWriter } from '../output/model-output.js'
import type { InputsUnderModel } from '../pipeline/inputs-under-model.js'
import { createLearntFlows } from '../pipeline/learnt-flows.js'
import { complaints, describeView, sumUnsupported } from '../pipeline/read-packets.js'
import { refuseNoRows, streamRows } from '../pipeline/stream-rows.js'
import type { UpdateCommandOptions } from './update.js'

/** What an update of an ensemble takes; other options are of mixtures that learn on. */
const TAKEN: readonly string[] = ['output', 'format', 'assumeNormal']
/** Of the given rows, so many may stay novel. */
const MOST_NOVEL_SHARE = 0.05
/** Of the rows of before that the model remembers, so many may become novel. */
const MOST_FORGOTTEN_SHARE = 0.05

/** `checkUnchanged` throws where the model's file is no longer what was read. */
export async function updateEnsembleModel(
  { saved, inputs, reading }: InputsUnderModel,
  files: readonly string[],
  options: UpdateCommandOptions,
  checkUnchanged: () => void,
): Promise<void> {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !TAKEN.includes(name) && !Object.hasOwn(CAPTURE_FLAGS, name)) {
      throw new UsageError(`${flagOf(name)}: an ensemble has no such option; it learns all rows at once`)
    }
  }
  if (options.assumeNormal !== true) {
    throw new UsageError(
      'an ensemble learns on only from rows that you state to be normal: check them with oddflow score, then give --assume-normal',
    )
  }
  const progress = createProgress()
  try {
    const batches: Matrix[] = []
    const inputOfRow: number[] = []
    const deviceOfRow: number[] = []
    const learnt = createLearntFlows(saved)
    const { onFlow } = learnt
    const streamed = await streamRows(
      saved,
      inputs,
      { ...reading, progress, onFlow },
      (rows, input, devices) => {
        learnt.onRows(rows)
        batches.push(rows)
        for (let i = 0; i < rows.rows; i++) inputOfRow.push(input)
        if (devices !== null) for (const device of devices) deviceOfRow.push(device)
      },
    )
    progress.stop()
    for (const line of streamed.reads.flatMap(complaints)) warn(line)
    refuseNoRows(files, streamed)
    const given = concatRows(batches)
    const updated = updateEnsemble(saved, {
      rows: given,
      dataSha256: hashRows(given),
      inputs: Uint32Array.from(inputOfRow),
      ...(deviceOfRow.length === 0 ? {} : { devices: Uint32Array.from(deviceOfRow) }),
    })
    const { rows } = streamed
    if (updated.novelAfter > MOST_NOVEL_SHARE * rows) {
      throw new DataError(
        `${updated.novelAfter} of ${plural(rows, 'row')} (${percent(updated.novelAfter / rows)}) would stay novel${updated.oddRows === 0 ? '' : `, ${updated.oddRows} of them unlike all others`}: nothing was written; they are too different from each other to be learnt together, train on all captures anew`,
      )
    }
    if (updated.forgotten > MOST_FORGOTTEN_SHARE * updated.remembered) {
      throw new DataError(
        `${updated.forgotten} of ${plural(updated.remembered, 'remembered row')} would become novel: nothing was written; what is given is too unlike the traffic of before, train on all captures anew`,
      )
    }
    const bytes = encodeModelFile(updated.saved)
    checkUnchanged()
    writeFileWhole(options.output, bytes)
    const summary = {
      model: options.output,
      bytes: bytes.length,
      rows,
      withoutRow: streamed.withoutRow,
      learnt: rows - updated.oddRows,
      odd: updated.oddRows,
      novelBefore: updated.novelBefore,
      novelAfter: updated.novelAfter,
      threshold: updated.saved.threshold.value,
      thresholdBefore: saved.threshold.value,
    }
    const limits = limitsOfUpdate(saved, updated.saved)
    const patterns = learnt.patternsUnder(updated.saved)
    const out = tellingWriter(options.output)
    if (options.format === 'json') {
      out.line(
        jsonLine({
          ...summary,
          noLongerFound: patterns,
          ...limits.json,
          unsupportedLinkTypes: sumUnsupported(streamed.reads),
        }),
      )
    } else {
      for (const line of describeEnsembleUpdate(summary)) out.line(line)
      for (const line of limits.lines) out.line(line)
    }
    out.flush()
    if (patterns.length > 0) {
      warn(`no longer found, since they are learnt as normal: ${printable(patterns.join('; '))}`)
    }
    for (const warning of limits.warnings) warn(warning)
    if (updated.novelBefore > MOST_NOVEL_SHARE * rows) {
      warn(
        `${updated.novelBefore} of ${plural(rows, 'row')} (${percent(updated.novelBefore / rows)}) were novel before and are learnt now: if they are an attack, the model no longer finds it; see them with oddflow score --explain under the model before`,
      )
    }
    if (streamed.counters !== null) note(describePackets(streamed.counters, streamed.reads))
    const seen = describeView(streamed.reads)
    if (seen !== null) note(seen)
  } finally {
    progress.stop()
  }
}
