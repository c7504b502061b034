/** Made frames in batches, as a capture reader gives them. */
import { createFrameBatch, type FrameBatch } from '@oddflow/capture'
import type { MadeFrame } from './made-packets.js'

const BATCH_BYTES_PER_FRAME = 1514
const [LINKTYPE_ETHERNET, LINKTYPE_RAW] = [1, 101]

/**
 * Gives one capture's frames after another; all batches share one buffer, so a batch is borrowed until the next one.
 * @param isEthernet - false: frames begin with the IP header.
 */
export function createMadeBatches(
  batchFrames: number,
  isEthernet: boolean,
): (frames: Iterable<MadeFrame>) => Iterable<FrameBatch> {
  const batch = createFrameBatch(batchFrames)
  const data = new Uint8Array(batchFrames * BATCH_BYTES_PER_FRAME)
  batch.data = data
  batch.linkType.fill(isEthernet ? LINKTYPE_ETHERNET : LINKTYPE_RAW)
  return function* (frames) {
    let bytes = 0
    batch.firstFrame = 0
    batch.count = 0
    for (const frame of frames) {
      const i = batch.count++
      data.set(frame.bytes, bytes)
      batch.offset[i] = bytes
      batch.capturedBytes[i] = batch.wireBytes[i] = frame.bytes.length
      batch.timestampMicros[i] = frame.timestampMicros
      bytes += frame.bytes.length
      if (batch.count < batchFrames) continue
      yield batch
      batch.firstFrame += batch.count
      batch.count = 0
      bytes = 0
    }
    if (batch.count > 0) yield batch
  }
}
