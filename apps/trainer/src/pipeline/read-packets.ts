/** Captures as batches of decoded and filtered packets, the same for all commands. */

import { statSync } from 'node:fs'
import {
  type CaptureEnd,
  compileFilter,
  createPacketBatch,
  createPacketDecoder,
  describeDamage,
  type FrameBatch,
  linkTypeName,
  type PacketBatch,
  PacketCheck,
  type PacketCheckCounts,
  type PacketDecoderCounters,
  type PacketFilter,
  packetCheckWarnings,
  packetStatusCode,
} from '@oddflow/capture'
import { type ContinuousEnd, type FrameSource, openCapture, openContinuous } from '@oddflow/capture/node'
import { ArgumentError, type PacketView, plural } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { learnedStateOf } from '@oddflow/online'
import { readModel, stopOnSignals, UsageError } from '@oddflow/program'
import type { Progress } from '@oddflow/program/progress'
import { CAPTURE_OPTIONS, type CaptureFlags, viewOfModel } from '../flags.js'
import { hashSeed, type InputKind, inputKindOfAll, nameInputs, refuseCaptureOptions } from '../inputs.js'
import type { FlowMemory } from './flow-plan.js'

export interface ReadOptions extends FlowMemory {
  readonly filter: PacketFilter | null
  /** Leaves out copies of a packet. */
  readonly dropDuplicates?: boolean | undefined
  readonly progress: Progress
  /** Ends the reading where it is; what was read is used. */
  readonly stop?: AbortSignal | undefined
}

/** One capture: a file, or several that a recorder rotated through. */
export interface CaptureInput {
  /** What to call it: the path, or "a.pcap and 2 more inputs". */
  readonly name: string
  readonly files: readonly string[]
  /** Whether the files are read in the order of time, as one. */
  readonly continuous: boolean
  /** Whether it is one of several, of which some may be empty. */
  readonly amongSeveral?: boolean
}

export interface CaptureRead {
  readonly name: string
  /** All packets in the capture, including filtered ones. */
  readonly packets: number
  readonly end: CaptureEnd
  readonly decoded: Readonly<PacketDecoderCounters>
  /** Doubtful packets among the ones that the filter kept. */
  readonly check: Readonly<PacketCheckCounts>
  /** Packets of link types that nothing decodes, by the types' names. */
  readonly unsupportedLinkTypes: Readonly<Record<string, number>>
  /** The signal that ended the reading. */
  readonly stoppedBy: string | null
}

/** Most packets that are read at a time. */
export const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
const LINK_TYPE_UNSUPPORTED = packetStatusCode('link-type-unsupported')

/** One input for each file, or one of all files. */
export function captureInputs(files: readonly string[], continuous: boolean | undefined): CaptureInput[] {
  if (continuous === true) return [{ name: nameInputs(files), files, continuous }]
  return files.map((file) => ({
    name: file,
    files: [file],
    continuous: false,
    amongSeveral: files.length > 1,
  }))
}

/** Aborted by Ctrl-C or SIGTERM if an input may be endless; while files are read, signals end the program. */
export function stopForStreams(files: readonly string[]): AbortSignal | undefined {
  return files.some(isStream) ? stopOnSignals() : undefined
}

function isStream(file: string): boolean {
  if (file === '-') return true
  try {
    return !statSync(file).isFile()
  } catch {
    return false
  }
}

/**
 * Reads one capture. The batch is valid until `onPackets` returns. Throws CaptureFileError.
 * @param packets - the batch, for BATCH_FRAMES packets: an extractor's own (createBatch) saves it a copy.
 */
export async function readPackets(
  input: CaptureInput,
  options: Reading,
  onPackets: (packets: PacketBatch) => void,
  packets: PacketBatch = createPacketBatch(BATCH_FRAMES),
): Promise<CaptureRead> {
  const decoder = createPacketDecoder({
    decapsulate: options.view.decapsulation,
    joinFragments: options.view.joinFragments,
    hashSeed: hashSeed(),
  })
  const check = new PacketCheck({
    dropDuplicates: options.dropDuplicates === true,
    hashSeed: hashSeed(),
  })
  const source = open(input, options)
  const total = input.files.reduce((sum, file) => sum + sizeOf(file), 0)
  options.progress.stage(`reading ${nameInputs([input.name])}`, total)
  const unsupported = new Map<number, number>()
  let bytes = 0
  let count = 0
  for await (const frames of source) {
    decoder.decode(frames, packets)
    for (let i = 0; i < packets.count; i++) {
      if (options.filter !== null && !options.filter(packets, i)) packets.status[i] = FILTERED_OUT
      else check.look(frames, packets, i)
    }
    countUnsupported(frames, packets, unsupported)
    onPackets(packets)
    count += frames.count
    for (let i = 0; i < frames.count; i++) bytes += frames.capturedBytes[i] + 16
    options.progress.update(Math.min(bytes, total))
  }
  options.progress.stop()
  const { end } = source
  if (end === null) throw new Error('a capture that was read has no end state')
  return {
    name: input.name,
    packets: count,
    end,
    decoded: { ...decoder.counters },
    check: { ...check.counts },
    unsupportedLinkTypes: Object.fromEntries(
      Array.from(unsupported, ([type, packetsOfType]) => [linkTypeName(type), packetsOfType]),
    ),
    stoppedBy: options.stop?.aborted === true ? String(options.stop.reason) : null,
  }
}

function open(
  { files, continuous, amongSeveral = false }: CaptureInput,
  { stop }: ReadOptions,
): FrameSource<CaptureEnd | ContinuousEnd> {
  const options = { batchFrames: BATCH_FRAMES, stop }
  return continuous
    ? openContinuous(files, options)
    : openCapture(files[0], { ...options, emptyIsDamage: amongSeveral })
}

/** Throws UsageError that names the option, what was expected and where. */
export function filterFrom(text: string | undefined, flag = '--filter'): PacketFilter | null {
  if (text === undefined) return null
  try {
    return compileFilter(text)
  } catch (error) {
    if (error instanceof ArgumentError) throw new UsageError(`${flag}: ${error.detail}`)
    throw error
  }
}

/** A line for each warning, damage and early end; none for a whole capture. */
export function complaints({ end, name: input, packets, decoded, check, stoppedBy }: CaptureRead): string[] {
  const name = nameInputs([input])
  const doubts = packetCheckWarnings(check, '--drop-duplicates').map(({ text }) => text)
  const lines = [...end.warnings, ...doubts].map((warning) => `${name}: ${warning}`)
  if (stoppedBy !== null)
    lines.push(`${name}: stopped by ${stoppedBy} after ${plural(packets, 'packet')}, which were used`)
  else {
    const parts: readonly { readonly file: string; readonly end: CaptureEnd }[] =
      'files' in end ? (end as ContinuousEnd).files : [{ file: name, end }]
    for (const part of parts) {
      if (!part.end.truncated && part.end.error === null) continue
      lines.push(describeDamage(part.file, part.end))
    }
  }
  if (decoded.nestingExceededPackets > 0) {
    lines.push(
      `${name}: ${plural(decoded.nestingExceededPackets, 'packet')} with more nested tunnels than are opened`,
    )
  }
  if (decoded.evictedDatagrams > 0) {
    lines.push(
      `${name}: ${plural(decoded.evictedDatagrams, 'datagram')} dropped before all their fragments arrived, for lack of memory`,
    )
  }
  return lines
}

/** What the view made of the packets, in a sentence; null where it changed nothing. */
export function describeView(reads: readonly CaptureRead[]): string | null {
  const sum = (of: (counters: Readonly<PacketDecoderCounters>) => number): number =>
    reads.reduce((total, { decoded }) => total + of(decoded), 0)
  const opened = sum((c) => c.decapsulatedPackets)
  const joined = sum((c) => c.joinedFragments)
  const unjoined = sum((c) => c.unjoinedFragments)
  const parts = []
  if (opened > 0) parts.push(`${plural(opened, 'packet')} taken out of tunnels`)
  if (joined + unjoined > 0) {
    parts.push(
      `${plural(joined, 'later fragment')} joined to their flow${unjoined > 0 ? `, ${unjoined} without a first fragment before them` : ''}`,
    )
  }
  return parts.length === 0 ? null : parts.join('; ')
}

/** Bytes to read, for the progress bar; 0 if unknown. The file's reader reports what is wrong with it. */
function sizeOf(file: string): number {
  if (file === '-') return 0
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}

function countUnsupported(frames: FrameBatch, packets: PacketBatch, into: Map<number, number>): void {
  for (let i = 0; i < packets.count; i++) {
    if (packets.status[i] !== LINK_TYPE_UNSUPPORTED) continue
    const type = frames.linkType[i]
    into.set(type, (into.get(type) ?? 0) + 1)
  }
}

/** Of several captures. */
export function sumUnsupported(reads: readonly CaptureRead[]): Record<string, number> {
  const sum: Record<string, number> = {}
  for (const { unsupportedLinkTypes } of reads) {
    for (const [name, n] of Object.entries(unsupportedLinkTypes)) sum[name] = (sum[name] ?? 0) + n
  }
  return sum
}

/** How captures are read. */
export type Reading = ReadOptions & { readonly view: PacketView }

/** What options say of it. Throws UsageError. */
export function readingFrom(
  options: CaptureFlags,
): Pick<ReadOptions, 'filter' | 'dropDuplicates' | 'flowMemoryBytes'> {
  const { dropDuplicates, flowMemory: flowMemoryBytes } = options
  return { filter: filterFrom(options.filter), dropDuplicates, flowMemoryBytes }
}

/** A model, and inputs for it. */
export interface InputsUnderModel {
  readonly kind: InputKind
  readonly saved: SavedModel
  readonly inputs: CaptureInput[]
  /** How the inputs are read. */
  readonly reading: Omit<Reading, 'progress' | 'stop'>
}

/** Throws UsageError, FileError, and what else makes a model unreadable. */
export function inputsUnderModel(
  modelPath: string,
  files: readonly string[],
  options: CaptureFlags,
): InputsUnderModel {
  const kind = inputKindOfAll(files)
  if (kind === 'rows') refuseCaptureOptions(options, CAPTURE_OPTIONS)
  const reading = readingFrom(options)
  const saved = readModel(modelPath, learnedStateOf)
  const view = viewOfModel(options, saved.contract)
  return { kind, saved, inputs: captureInputs(files, options.continuous), reading: { ...reading, view } }
}
