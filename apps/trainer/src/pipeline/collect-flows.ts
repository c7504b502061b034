/**
 * Captures → whole flows, for the commands that learn from them (train, extract).
 */

import type { SizeMeasure } from '@oddflow/core'
import { type CollectedFlows, createFlowCollector } from '@oddflow/flows'
import { hashSeed } from './hash-seed.js'
import { type CaptureRead, type ReadOptions, readPackets } from './read-packets.js'

export interface CollectOptions extends ReadOptions {
  readonly sizeMeasure: SizeMeasure
  readonly idleTimeoutMicros: number
}

export interface CollectedCaptures {
  readonly flows: CollectedFlows
  readonly reads: readonly CaptureRead[]
}

/** Reads every capture into one collection; flows never cross files. */
export async function collectFlows(
  files: readonly string[],
  options: CollectOptions,
): Promise<CollectedCaptures> {
  const collector = createFlowCollector({
    sizeMeasure: options.sizeMeasure,
    idleTimeoutMicros: options.idleTimeoutMicros,
    hashSeed: hashSeed(),
  })
  const reads: CaptureRead[] = []
  for (const file of files) {
    reads.push(await readPackets(file, options, (packets) => collector.add(packets)))
    collector.endCapture()
  }
  return { flows: collector.finish(), reads }
}
