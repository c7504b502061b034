/** `oddflow info CAPTURE…`: what is in a capture, without learning anything from it. */
import { type CaptureFileSummary, type CaptureReaderName, summariseCaptureFile } from '@oddflow/capture/node'
import { inputKindOfAll } from '../input/input-kind.js'
import { createLineWriter, type LineWriter, printable } from '../output/stdout.js'
import { timeText } from '../output/verdict-lines.js'
import { UsageError } from '../usage-error.js'

export interface InfoCommandOptions {
  readonly format: 'text' | 'json'
  readonly reader: CaptureReaderName
}

export async function info(files: readonly string[], options: InfoCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: info reads captures, and this is rows`)
  const out = createLineWriter()
  let bad = 0
  for (const file of files) {
    const summary = await summariseCaptureFile(file, { reader: options.reader })
    if (summary.error !== null) bad++
    if (options.format === 'json') out.line(JSON.stringify(summary))
    else describe(summary, out)
  }
  out.flush()
  if (bad > 0) process.exitCode = 1
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
  if (summary.error !== null) out.line(`  error       ${printable(String(summary.error))}`)
}

function linkTypes(types: CaptureFileSummary['linkTypes']): string {
  return Array.isArray(types)
    ? types.join(', ')
    : Object.entries(types)
        .map(([name, n]) => `${name} (${n})`)
        .join(', ')
}
