/**
 * Times that cannot be right, where captures are merged by them (merge-captures.ts).
 *
 * A recorder writes 0 before its clock is set, or a damaged record tells a year that is far away. One packet is
 * taken to be wrong where it lies more than a week from both its neighbours and these within a week of each other:
 * no capture in the order of time has such a packet, however quiet it is. At the ends one side must do: a first packet
 * is taken to be wrong that is more than a week from the second while the second and third are near each other, and
 * a last one likewise.
 */

/** Seven days: longer than a rotated file is silent, shorter than a clock that was never set is wrong. */
export const WRONG_TIME_MICROS = 7 * 86_400_000_000

/** False for NaN. */
export function areNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= WRONG_TIME_MICROS
}

/** How many packets `firstTimeOf` looks at. */
export const FIRST_TIMES = 3

/**
 * The time at which a capture begins: its first packet's, or the second's where the first is wrong; −Infinity where
 * none has a time.
 *
 * @param times of its first packets; NaN for those that have none
 */
export function firstTimeOf(times: readonly number[]): number {
  const [first, second, third] = times.slice(0, FIRST_TIMES).filter((micros) => !Number.isNaN(micros))
  if (first === undefined) return Number.NEGATIVE_INFINITY
  if (second === undefined || third === undefined) return first
  return !areNear(first, second) && areNear(second, third) ? second : first
}
