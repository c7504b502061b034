/** Outside evidence beside the checkout, or in ODDFLOW_SHARED; what is absent is said aloud. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  createCaptureReader,
  createPacketBatch,
  decodePackets,
  type FrameBatch,
  type PacketBatch,
} from '@oddflow/capture'
import { readCapture } from '@oddflow/capture/node'

const checkout = join(dirname(fileURLToPath(import.meta.url)), '../../../..')
export const shared = process.env.ODDFLOW_SHARED ?? join(checkout, '../shared')
export const goldenCaptures = join(shared, 'data/golden-captures')
export const captures = join(shared, 'data/captures')

export const sharedMissing = !existsSync(goldenCaptures)
if (sharedMissing) {
  console.warn(`SKIPPED: no golden captures at ${goldenCaptures} (set ODDFLOW_SHARED to the shared folder)`)
}

/** All packets of a capture in batches of their own. An input that is no capture throws. */
export async function readPackets(file: string, batchFrames = 512): Promise<PacketBatch[]> {
  const batches: PacketBatch[] = []
  await readCapture(
    file,
    (frames: FrameBatch) => {
      const packets = createPacketBatch(Math.max(1, frames.count))
      decodePackets(frames, packets)
      batches.push(packets)
    },
    { batchFrames },
  )
  return batches
}

/** The same for a capture in memory. */
export async function readPacketsOf(bytes: Uint8Array): Promise<PacketBatch[]> {
  const batches: PacketBatch[] = []
  const reader = createCaptureReader()
  reader.push(bytes)
  for (let frames = reader.read(); frames !== null; frames = reader.read()) {
    const packets = createPacketBatch(Math.max(1, frames.count))
    decodePackets(frames, packets)
    batches.push(packets)
  }
  return batches
}
