/**
 * Captures as batches of decoded packets: opens each file, decodes, applies the filter, and hands every batch
 * on. The one place where the trainer meets @oddflow/capture, so that every command reads alike.
 */
import { statSync } from 'node:fs'
import {
  type CaptureEnd,
  compileFilter,
  createPacketBatch,
  decodePackets,
  type PacketBatch,
  type PacketFilter,
  packetStatusCode,
} from '@oddflow/capture'
import { type CaptureReaderName, openCapture } from '@oddflow/capture/node'
import { ArgumentError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import type { Progress } from '../output/progress.js'

export interface ReadOptions {
  readonly filter: PacketFilter | null
  /** `oddflow` where it is left out. */
  readonly reader?: CaptureReaderName | undefined
  readonly progress: Progress
}

export interface CaptureRead {
  readonly file: string
  /** Packets in the capture, those that the filter took out included. */
  readonly packets: number
  readonly end: CaptureEnd
}

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')

/** Reads one capture. The batch is valid until `onPackets` returns. Throws CaptureFileError. */
export async function readPackets(
  file: string,
  options: ReadOptions,
  onPackets: (packets: PacketBatch) => void,
): Promise<CaptureRead> {
  const packets = createPacketBatch(BATCH_FRAMES)
  const source = openCapture(file, { reader: options.reader ?? 'oddflow', batchFrames: BATCH_FRAMES })
  const total = sizeOf(file)
  options.progress.stage(`reading ${file === '-' ? 'standard input' : file}`, total)
  let bytes = 0
  let count = 0
  for await (const frames of source) {
    decodePackets(frames, packets)
    if (options.filter !== null) markFilteredOut(options.filter, packets)
    onPackets(packets)
    count += frames.count
    for (let i = 0; i < frames.count; i++) bytes += frames.capturedBytes[i] + 16
    options.progress.update(Math.min(bytes, total))
  }
  options.progress.stop()
  const { end } = source
  if (end === null) throw new Error('a capture that was read has no end state')
  return { file, packets: count, end }
}

/** Throws UsageError that names the option, what was expected and where. */
export function filterFrom(text: string | undefined, flag = '--filter'): PacketFilter | null {
  if (text === undefined) return null
  try {
    return compileFilter(text)
  } catch (error) {
    if (error instanceof ArgumentError) throw new UsageError(`${flag}: ${error.message}`)
    throw error
  }
}

/** Oddities, damage and an early end, a line each; none for a capture that is whole. */
export function complaints({ end, file, packets }: CaptureRead): string[] {
  const name = file === '-' ? 'standard input' : file
  const lines = end.warnings.map((warning) => `${name}: ${warning}`)
  if (end.truncated || end.error !== null) {
    lines.push(`${name}: ${end.detail ?? 'cut short'}; the ${packets} packets before it were used`)
  }
  return lines
}

/** Bytes to read, for the progress bar; 0 where nobody knows. What is wrong with a file, its reader says. */
function sizeOf(file: string): number {
  if (file === '-') return 0
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}

function markFilteredOut(filter: PacketFilter, packets: PacketBatch): void {
  for (let i = 0; i < packets.count; i++) if (!filter(packets, i)) packets.status[i] = FILTERED_OUT
}
