/**
 * What one input of `info` holds: a file as the capture library sums it up, or several that were rotated through,
 * read as one. In the latter a file that is no capture is an error, since nobody could say what is missing.
 */
import {
  type CaptureSummary,
  createCaptureSummariser,
  createPacketBatch,
  createPacketDecoder,
  type PacketFilter,
} from '@oddflow/capture'
import {
  type CaptureFileSummary,
  type CaptureReaderName,
  openContinuous,
  summariseCaptureFile,
} from '@oddflow/capture/node'
import type { PacketView } from '@oddflow/core'
import { hashSeed } from './hash-seed.js'
import type { CaptureInput } from './read-packets.js'

export interface InputSummary extends CaptureFileSummary {
  /** Of a continuous capture: its files in the order of their first times. */
  readonly files?: readonly string[]
  /** Packets that came too late to be put in order. */
  readonly latePackets?: number
  /** Packets with a time far from those of their neighbours, taken where they stand. */
  readonly wrongTimes?: number
}

export interface SummariseInputOptions {
  readonly filter: PacketFilter | null
  readonly reader: CaptureReaderName
  readonly view: PacketView
  readonly dropDuplicates: boolean
}

const BATCH_FRAMES = 2048

/** Throws CaptureFileError. */
export async function summariseInput(
  input: CaptureInput,
  { filter, reader, view, dropDuplicates }: SummariseInputOptions,
): Promise<InputSummary> {
  const decoding = {
    decapsulate: view.decapsulation,
    joinFragments: view.joinFragments,
    hashSeed: hashSeed(),
  }
  if (!input.continuous) {
    const kept = filter === null ? {} : { filter }
    return summariseCaptureFile(input.files[0], { reader, dropDuplicates, ...decoding, ...kept })
  }
  const source = openContinuous(input.files, { reader, batchFrames: BATCH_FRAMES })
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
