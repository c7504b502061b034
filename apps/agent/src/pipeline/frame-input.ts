/**
 * FrameInput: where frames come from, a recording or an interface, in one shape.
 */
import { describeDamage, type FrameBatch } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import type { Liveness } from './capture-clock.js'
import { BATCH_FRAMES } from './watcher.js'

export interface FrameInput {
  readonly frames: AsyncIterable<FrameBatch>
  readonly liveness: Liveness
  /** Whether frames wait for who reads them. Those of an interface are lost when nobody does. */
  readonly waits: boolean
  /** The interface's name; null for a recording. */
  readonly interfaceName: string | null
  /** Packets that the kernel lost because they were not fetched in time, as far as is known. */
  kernelDrops(): number
  /** Times that the recording was interrupted; what passed meanwhile nobody has counted. */
  interruptions(): number
  /** Why nothing is recorded now, and has not been for some seconds; null while all is well. */
  trouble(): string | null
  /** What is to be said of the input when it has ended. */
  complaints(): readonly string[]
  /** Ends the frames: after those that have come, where `drains`, else at once. */
  stop(): void
  readonly drains: boolean
}

/** @param path - a capture file, or - for standard input. */
export function recordedInput(path: string): FrameInput {
  const source = openCapture(path, { batchFrames: BATCH_FRAMES })
  const name = path === '-' ? 'standard input' : path
  return {
    frames: source,
    liveness: path === '-' ? 'by-time' : 'recorded',
    waits: true,
    interfaceName: null,
    kernelDrops: () => 0,
    interruptions: () => 0,
    trouble: () => null,
    drains: false,
    complaints() {
      const { end } = source
      if (end === null) return []
      const lines = end.warnings.map((warning) => `${name}: ${warning}`)
      if (!end.truncated && end.error === null) return lines
      return [...lines, describeDamage(name, end)]
    },
    stop() {
      if (path === '-') process.stdin.destroy()
    },
  }
}
