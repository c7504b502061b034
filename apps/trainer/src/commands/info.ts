/** `oddflow info CAPTURE…`: what is in a capture, without learning anything from it. */
import {
  CaptureFileError,
  type CaptureFileSummary,
  type CaptureReaderName,
  summariseCaptureFile,
} from '@oddflow/capture/node'
import { jsonLine, printable, UsageError } from '@oddflow/program'
import { inputKindOfAll } from '../input/input-kind.js'
import { complain, warn } from '../output/messages.js'
import { createLineWriter, type LineWriter } from '../output/stdout.js'
import { timeText } from '../output/verdict-lines.js'
import { hashSeed } from '../pipeline/hash-seed.js'

export interface InfoCommandOptions {
  readonly format: 'text' | 'json'
  readonly reader?: CaptureReaderName
}

export async function info(files: readonly string[], options: InfoCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: info reads captures, and this is rows`)
  const out = createLineWriter()
  for (const file of files) {
    let summary: CaptureFileSummary
    try {
      summary = await summariseCaptureFile(file, {
        reader: options.reader ?? 'oddflow',
        hashSeed: hashSeed(),
      })
    } catch (error) {
      // one file that cannot be opened does not hide the others
      if (!(error instanceof CaptureFileError)) throw error
      complain(error.message)
      process.exitCode = 1
      continue
    }
    if (options.format === 'json') out.line(jsonLine(summary))
    else describe(summary, out)
    out.flush()
    const name = file === '-' ? 'standard input' : file
    for (const warning of summary.warnings) warn(`${name}: ${warning}`)
    if (summary.error !== null) {
      complain(summary.error.startsWith(`${name}: `) ? summary.error : `${name}: ${summary.error}`)
      process.exitCode = 1
    }
  }
}

function describe(summary: CaptureFileSummary, out: LineWriter): void {
  const time = (micros: number | null): string => (micros === null ? 'none' : `${timeText(micros)} UTC`)
  const counts = (record: Readonly<Record<string, number>>): string =>
    Object.entries(record)
      .filter(([, n]) => n > 0)
      .map(([name, n]) => `${n} ${name}`)
      .join(', ') || 'none'
  out.line(printable(summary.file))
  out.line(`  packets     ${summary.packets} (${summary.wireBytes} bytes on the wire)`)
  out.line(`  first       ${time(summary.firstTimestampMicros)}`)
  out.line(`  last        ${time(summary.lastTimestampMicros)}`)
  out.line(`  link types  ${printable(linkTypes(summary.linkTypes))}`)
  out.line(`  flows       ${counts(summary.flows)}`)
  out.line(`  skipped     ${counts(summary.skipped)}`)
  if (summary.truncated) out.line('  truncated   yes: the last record is not whole')
  if (summary.flowOverflowPackets > 0) {
    out.line(`  not counted ${summary.flowOverflowPackets} packets of flows beyond the most that are held`)
  }
  if (summary.error !== null) out.line(`  error       ${printable(summary.error)}`)
}

function linkTypes(types: CaptureFileSummary['linkTypes']): string {
  const names = Object.entries(types).map(([name, n]) => `${name} (${n})`)
  return names.join(', ') || 'none'
}
