/** `oddflow info CAPTURE…`: what is in a capture, without learning anything from it. */

import {
  type CaptureSummary,
  createCaptureSummariser,
  createPacketBatch,
  createPacketDecoder,
  describeOrder,
  describePacketCheck,
  type PacketFilter,
  packetCheckWarnings,
} from '@oddflow/capture'
import {
  CaptureFileError,
  type CaptureFileSummary,
  openContinuous,
  summariseCaptureFile,
} from '@oddflow/capture/node'
import { type PacketView, plural } from '@oddflow/core'
import { createLineWriter, jsonLine, type LineWriter, printable, UsageError } from '@oddflow/program'
import { type CaptureFlags, viewFrom } from '../flags.js'
import { complain, hashSeed, inputKindOfAll, nameInputs, warn } from '../inputs.js'
import { timeText } from '../output/verdict-lines.js'
import { BATCH_FRAMES, type CaptureInput, captureInputs, filterFrom } from '../pipeline/read-packets.js'

interface InputSummary extends CaptureFileSummary {
  /** Of a continuous capture: its files in the order of their first times. */
  readonly files?: readonly string[]
  /** Packets that came too late to be put in order. */
  readonly latePackets?: number
  /** Packets with a time far from those of their neighbours, taken where they stand. */
  readonly wrongTimes?: number
}

interface SummariseInputOptions {
  readonly filter: PacketFilter | null
  readonly view: PacketView
  readonly dropDuplicates: boolean
}

/** Throws CaptureFileError. */
async function summariseInput(
  input: CaptureInput,
  { filter, view, dropDuplicates }: SummariseInputOptions,
): Promise<InputSummary> {
  const decoding = {
    decapsulate: view.decapsulation,
    joinFragments: view.joinFragments,
    hashSeed: hashSeed(),
  }
  if (!input.continuous) {
    const kept = filter === null ? {} : { filter }
    return summariseCaptureFile(input.files[0], { dropDuplicates, ...decoding, ...kept })
  }
  const source = openContinuous(input.files, { batchFrames: BATCH_FRAMES })
  const packets = createPacketBatch(BATCH_FRAMES)
  const decoder = createPacketDecoder(decoding)
  const summariser = createCaptureSummariser(undefined, decoding.hashSeed, dropDuplicates)
  for await (const frames of source) {
    decoder.decode(frames, packets)
    summariser.add(frames, packets, filter ?? undefined)
  }
  const { end } = source
  if (end === null) throw new Error('a capture that was read has no end state')
  const summary: CaptureSummary = summariser.finish(end)
  return {
    file: input.name,
    ...summary,
    files: end.files.map(({ file }) => file),
    latePackets: end.latePackets,
    wrongTimes: end.wrongTimes,
  }
}

interface InfoCommandOptions extends CaptureFlags {
  readonly format: 'text' | 'json'
}

export async function info(files: readonly string[], options: InfoCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: info reads captures, and this is a file of rows`)
  const out = createLineWriter()
  const reading = {
    filter: filterFrom(options.filter),
    view: viewFrom(options),
    dropDuplicates: options.dropDuplicates === true,
  }
  for (const input of captureInputs(files, options.continuous)) {
    let summary: InputSummary
    try {
      summary = await summariseInput(input, reading)
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
    const name = nameInputs([input.name])
    for (const warning of summary.warnings) warn(`${name}: ${warning}`)
    for (const { text } of packetCheckWarnings(summary.check, '--drop-duplicates')) {
      warn(`${name}: ${text}`)
    }
    if (summary.order.clockSteps + summary.order.futurePackets > 0) {
      for (const line of describeOrder(summary.order)) warn(`${name}: ${line}`)
    }
    if (summary.error === null && !summary.truncated) continue
    const detail = summary.error ?? summary.detail ?? 'cut short'
    const text = detail.startsWith(`${name}: `) ? detail : `${name}: ${detail}`
    // damage behind the first packet is a warning, as everywhere
    if (summary.readPackets > 0) warn(text)
    else {
      complain(text)
      process.exitCode = 1
    }
  }
}

function describe(summary: InputSummary, out: LineWriter): void {
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
  for (const line of describeOrder(summary.order)) out.line(`  times       ${line}`)
  for (const line of describePacketCheck(summary.check)) out.line(`  checks      ${line}`)
  if (summary.files !== undefined) {
    out.line(`  files       ${printable(summary.files.join(', '))}`)
    out.line(`  late        ${plural(summary.latePackets ?? 0, 'packet')} that could not be put in order`)
  }
  if (summary.truncated)
    out.line(`  truncated   yes: ${printable(summary.detail ?? 'the last record is not whole')}`)
  if (summary.flowOverflowPackets > 0) {
    out.line(
      `  not counted ${plural(summary.flowOverflowPackets, 'packet')} of flows beyond the most that are held`,
    )
  }
  // a cut file header is damage too, and the line above has described it
  if (summary.error !== null && !(summary.truncated && summary.error === summary.detail))
    out.line(`  error       ${printable(summary.error)}`)
}

function linkTypes(types: InputSummary['linkTypes']): string {
  const names = Object.entries(types).map(([name, n]) => `${name} (${n})`)
  return names.join(', ') || 'none'
}
