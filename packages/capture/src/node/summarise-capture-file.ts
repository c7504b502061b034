/**
 * summariseCaptureFile: CaptureSummary of a file, as `oddflow info` prints it.
 *
 * A file that is no capture gives a summary without packets and with its error, so that a list of files can
 * be gone through; a file that cannot be opened throws.
 */

import { NO_DROPS } from '../capture-notes.js'
import { DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import { type CaptureSummary, createCaptureSummariser } from '../capture-summary.js'
import type { PacketFilter } from '../filter/packet-filter.js'
import { createPacketBatch } from '../packet-batch.js'
import { createPacketDecoder, type PacketDecoderOptions } from '../packet-decoder.js'
import { CaptureFileError } from './capture-file-error.js'
import { type OpenCaptureOptions, readCapture } from './open-capture.js'

export interface SummariseOptions extends OpenCaptureOptions, PacketDecoderOptions {
  /** Only these packets are counted. */
  readonly filter?: PacketFilter
  /** Copies of a packet are counted in `skipped` and are in no flow. */
  readonly dropDuplicates?: boolean
  /** Most flow keys held. */
  readonly maximumFlowKeys?: number
}

export interface CaptureFileSummary extends CaptureSummary {
  readonly file: string
}

const NOTHING_READ = { warnings: [], commentCount: 0, drops: NO_DROPS } as const

/** Throws CaptureFileError when the file cannot be opened or read. */
export async function summariseCaptureFile(
  file: string,
  options: SummariseOptions = {},
): Promise<CaptureFileSummary> {
  const packets = createPacketBatch(options.batchFrames ?? DEFAULT_BATCH_FRAMES)
  const decoder = createPacketDecoder(options)
  const summariser = createCaptureSummariser(
    options.maximumFlowKeys,
    options.hashSeed,
    options.dropDuplicates,
  )
  try {
    const end = await readCapture(
      file,
      (frames) => {
        decoder.decode(frames, packets)
        summariser.add(frames, packets, options.filter)
      },
      options,
    )
    return { file, ...summariser.finish(end) }
  } catch (error) {
    if (!(error instanceof CaptureFileError) || error.problem !== 'not-a-capture') throw error
    return {
      file,
      ...summariser.finish({ ...NOTHING_READ, truncated: error.truncated, detail: error.message, error }),
    }
  }
}
