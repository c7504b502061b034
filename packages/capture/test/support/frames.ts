/** Frames of a capture held in memory, copied out of their borrowed batches. */
import { type CaptureEnd, createCaptureReader } from '../../src/index.js'

export interface Frame {
  timestampMicros: number
  timestampSubNanos: number
  wireBytes: number
  linkType: number
  bytes: Uint8Array
}

/** Pushes `capture` in pieces of the lengths that `sizes` gives in turn (the last one repeats). */
export function readFrames(
  capture: Uint8Array,
  sizes: readonly number[] = [capture.length],
  batchFrames = 64,
): { frames: Frame[]; end: CaptureEnd } {
  const reader = createCaptureReader({ batchFrames })
  const frames: Frame[] = []
  let at = 0
  for (let turn = 0; at < capture.length || turn === 0; turn++) {
    const size = Math.max(1, sizes[Math.min(turn, sizes.length - 1)]!)
    // a block of its own, wiped afterwards: nothing may be kept of it
    const block = capture.slice(at, at + size)
    at += size
    reader.push(block)
    for (let batch = reader.read(); batch !== null; batch = reader.read()) {
      if (batch.firstFrame !== frames.length) throw new Error('frames are not numbered in order')
      for (let i = 0; i < batch.count; i++) {
        frames.push({
          timestampMicros: batch.timestampMicros[i]!,
          timestampSubNanos: batch.timestampSubNanos[i]!,
          wireBytes: batch.wireBytes[i]!,
          linkType: batch.linkType[i]!,
          bytes: batch.data.slice(batch.offset[i]!, batch.offset[i]! + batch.capturedBytes[i]!),
        })
      }
    }
    block.fill(0xee)
  }
  return { frames, end: reader.end() }
}
