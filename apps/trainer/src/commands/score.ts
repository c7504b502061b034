/** `oddflow score MODEL INPUT…`: a verdict on each flow or row. */
import type { CaptureReaderName } from '@oddflow/capture/node'
import { readModel } from '@oddflow/program'
import { warnOfBareRows } from '../input/bare-rows.js'
import { inputKindOfAll, refuseCaptureOptions } from '../input/input-kind.js'
import { nothingToJudge } from '../input/name-inputs.js'
import { describePackets, describeVerdicts } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import { createLineWriter } from '../output/stdout.js'
import { createVerdictWriter } from '../output/verdict-lines.js'
import { complaints, filterFrom } from '../pipeline/read-packets.js'
import { scoreInputs } from '../pipeline/score-inputs.js'
import { countVerdicts, type VerdictCounts } from '../pipeline/verdict.js'

export interface ScoreCommandOptions {
  readonly novelOnly?: boolean
  readonly filter?: string
  readonly reader?: CaptureReaderName
  readonly format: 'table' | 'json' | 'csv'
}

export async function score(
  modelPath: string,
  files: readonly string[],
  options: ScoreCommandOptions,
): Promise<void> {
  const kind = inputKindOfAll(files)
  if (kind === 'rows') refuseCaptureOptions({ ...options }, { filter: '--filter', reader: '--reader' })
  const filter = filterFrom(options.filter)
  const saved = readModel(modelPath)
  const progress = createProgress()
  const out = createLineWriter()
  const writer = createVerdictWriter(options.format, kind, out)
  const totals: VerdictCounts[] = []
  try {
    const { counters } = await scoreInputs(
      saved,
      files,
      { filter, reader: options.reader, progress, keepRows: false },
      ({ verdicts, read }) => {
        for (const line of read === null ? [] : complaints(read)) warn(line)
        totals.push(countVerdicts(verdicts))
        for (const verdict of verdicts) if (verdict.novel || options.novelOnly !== true) writer.write(verdict)
        // what is known of one input is not lost if the next cannot be read
        out.flush()
      },
    )
    out.flush()
    progress.stop()
    if (counters !== null && totals.every(({ total }) => total === 0)) {
      throw nothingToJudge(files, describePackets(counters))
    }
    warnOfBareRows(saved, kind)
    note(describeVerdicts(totals, kind))
    if (counters !== null) note(describePackets(counters))
  } finally {
    progress.stop()
  }
}
