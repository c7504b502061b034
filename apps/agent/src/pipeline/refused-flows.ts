/**
 * RefusedFlows: flows that were left out stay out as long as they go on.
 *
 * Let in later, such a flow would be judged by packets from its midst as if they were its first: a false alarm for each that an
 * attack has outlasted. So a refused flow is remembered until it has been silent for SILENT_SECONDS, but for
 * LONGEST_SECONDS at most, since some (multicast on fixed ports) never are.
 *
 * A table of fixed size, a place for each hash: a later flow takes the place of an earlier one. In a flood that goes on quickly, but every
 * packet of a flow that is still refused takes its place anew, and after the flood nobody else wants it.
 */
const PLACES = 65_536
const SILENT_SECONDS = 60
const LONGEST_SECONDS = 600

export interface RefusedFlows {
  /** @param hash - 32 bits, the same for both directions */
  refuse(hash: number, nowSeconds: number): void
  /** Whether it was refused and goes on; a packet of it has come now. */
  holds(hash: number, nowSeconds: number): boolean
  /** Whether there can be any. */
  any(nowSeconds: number): boolean
}

export function createRefusedFlows(): RefusedFlows {
  const hashes = new Int32Array(PLACES)
  const first = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  const last = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY)
  let latest = Number.NEGATIVE_INFINITY
  const goesOn = (at: number, hash: number, now: number): boolean =>
    hashes[at] === (hash | 0) && now - last[at] <= SILENT_SECONDS && now - first[at] <= LONGEST_SECONDS
  return {
    refuse(hash, now) {
      const at = hash & (PLACES - 1)
      if (!goesOn(at, hash, now)) {
        hashes[at] = hash
        first[at] = now
      }
      last[at] = now
      latest = now
    },
    holds(hash, now) {
      const at = hash & (PLACES - 1)
      if (!goesOn(at, hash, now)) return false
      last[at] = now
      latest = now
      return true
    },
    any: (now) => now - latest <= SILENT_SECONDS,
  }
}
