/**
 * Gate: what keeps a caller from entering where it is already inside, or after the end.
 *
 * A callback that adds packets to the extractor that calls it would change flows under its feet, and packets after
 * `finish` would be of no capture. Neither is a matter of input: it is told by name, at once.
 */
import type { PacketBatch } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'

export interface Gate {
  readonly isClosed: boolean
  /** Does `work` and gives what it gives. Throws ArgumentError while another work is being done, and once closed. */
  pass<T>(name: string, work: () => T): T
  close(): void
}

export function createGate(): Gate {
  let isClosed = false
  let isInside = false
  return {
    get isClosed() {
      return isClosed
    },
    pass(name, work) {
      if (isClosed) throw new ArgumentError(`${name}: all flows have ended with finish; make another one`)
      if (isInside) throw new ArgumentError(`${name}: called by a callback of the same object`)
      isInside = true
      try {
        return work()
      } finally {
        isInside = false
      }
    },
    close() {
      isClosed = true
    },
  }
}

/** Throws ArgumentError where the batch's count is not a number of packets that it has room for. */
export function checkCount({ count, status }: PacketBatch): void {
  if (Number.isInteger(count) && count >= 0 && count <= status.length) return
  throw new ArgumentError(
    `batch.count: expected a whole number from 0 to ${status.length}, found ${count}`,
    'batch',
  )
}
