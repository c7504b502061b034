/** `oddflow replay MODEL JOURNAL -o MODEL`: the steps of a journal again, all or the first of them. */
import { FormatError, plural } from '@oddflow/core'
import { encodeModelFile } from '@oddflow/detectors'
import { learnedStateOf, replayJournal } from '@oddflow/online'
import { inFile, jsonLine, printable, readFileBounded, readModel, writeFileWhole } from '@oddflow/program'
import { checkModelOutput, tellingWriter } from '../output/verdict-lines.js'

interface ReplayCommandOptions {
  readonly output: string
  readonly steps?: number
  readonly format: 'text' | 'json'
}

const MAXIMUM_JOURNAL_BYTES = 2 ** 31 - 1
/** Longest line that is made a text of. */
const MAXIMUM_LINE_BYTES = 2 ** 28

export function replay(modelPath: string, journalPath: string, options: ReplayCommandOptions): void {
  checkModelOutput(options.output, [journalPath, modelPath])
  const saved = readModel(modelPath, learnedStateOf)
  const bytes = readFileBounded(journalPath, { maximumBytes: MAXIMUM_JOURNAL_BYTES })
  let steps = -1
  function* lines(): Generator<string> {
    for (const line of linesOf(bytes)) {
      if (line !== '' && steps < (options.steps ?? Number.POSITIVE_INFINITY)) steps++
      yield line
    }
  }
  try {
    const replayed = replayJournal(saved, lines(), options.steps)
    const file = encodeModelFile(replayed)
    writeFileWhole(options.output, file)
    const out = tellingWriter(options.output)
    if (options.format === 'json') {
      out.line(jsonLine({ model: options.output, bytes: file.length, steps: Math.max(0, steps) }))
    } else
      out.line(
        `${printable(options.output)}: ${file.length} bytes after ${plural(Math.max(0, steps), 'step')}`,
      )
    out.flush()
  } catch (error) {
    throw inFile(
      journalPath,
      error,
      error instanceof FormatError ? '; give the file that oddflow update --journal wrote' : '',
    )
  }
}

function* linesOf(bytes: Uint8Array): Generator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (let at = 0; at < bytes.length; ) {
    const found = bytes.indexOf(0x0a, at)
    const end = found < 0 ? bytes.length : found
    if (end - at > MAXIMUM_LINE_BYTES)
      throw new FormatError('journal', 'a line is too long', { offsetBytes: at })
    try {
      yield decoder.decode(bytes.subarray(at, end))
    } catch (error) {
      if (!(error instanceof TypeError)) throw error
      throw new FormatError('journal', 'a line is not UTF-8 text', { offsetBytes: at })
    }
    at = end + 1
  }
}
