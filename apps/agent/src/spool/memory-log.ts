/**
 * MemoryLog: the alert log of an agent without a state folder. An alert is acknowledged as it is appended,
 * and gone with the process.
 */
import type { AlertLog, AlertReader } from './alert-log.js'
import { Bell } from './bell.js'
import { ReaderPlace } from './reader-place.js'

export interface MemoryLogOptions {
  readonly maximumBytes: number
}

export function createMemoryLog({ maximumBytes }: MemoryLogOptions): AlertLog {
  const acknowledgement = new Bell()
  const places: ReaderPlace[] = []
  const lines: Uint8Array[] = []
  /** Bytes of all alerts up to and with each of `lines`, from the first one ever. */
  const ends: number[] = []
  /** Sequence number of lines[0]. */
  let first = 0
  let bytes = 0
  let everBytes = 0
  let acknowledged = 0

  const forgetBefore = (next: number): void => {
    const gone = lines.splice(0, next - first)
    ends.splice(0, gone.length)
    for (const line of gone) bytes -= line.length
    first += gone.length
  }
  const makeRoom = (): void => {
    let next = first
    for (let left = bytes; left > maximumBytes && next < first + lines.length - 1; next++) {
      left -= lines[next - first].length
    }
    if (next === first) return
    for (const place of places) place.forget(next)
    forgetBefore(next)
  }

  return {
    acknowledgement,
    append(line) {
      lines.push(line)
      bytes += line.length
      everBytes += line.length
      ends.push(everBytes)
      acknowledged++
      makeRoom()
      acknowledgement.ring()
      return true
    },
    async reader(name): Promise<AlertReader> {
      const place = new ReaderPlace(first)
      places.push(place)
      return {
        name,
        async read(limit) {
          if (place.hand !== null) return place.hand
          const from = place.next - first
          return place.take({ first: place.next, lines: lines.slice(from, from + limit) })
        },
        async commit(next) {
          place.commit(next)
          forgetBefore(Math.min(...places.map((other) => other.next)))
        },
        get dropped() {
          return place.dropped
        },
        get backlog() {
          return place.backlog(first + lines.length)
        },
        get memoryBytes() {
          const at = place.committed - first
          return at <= 0 ? bytes : everBytes - ends[at - 1]
        },
      }
    },
    get acknowledged() {
      return acknowledged
    },
    refused: 0,
    pending: 0,
    pendingBytes: 0,
    lost: 0,
    trouble: null,
    async close() {},
  }
}
