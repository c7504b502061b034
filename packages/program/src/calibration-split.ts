/**
 * Which rows are kept from the fit to set the threshold.
 *
 * A threshold taken from rows that the model was fitted on promises too few false alarms. So a share of the
 * rows is held back. Rows of one capture resemble one another more than rows of the next, and the promise is
 * about captures to come: with five captures or more, whole captures are held back until the share is
 * reached (and never more than twice the share, nor more than half of what the fit would have had, else rows
 * are drawn instead); with fewer, rows are drawn at random.
 */
import { type Rng, shuffleInPlace } from '@oddflow/core'

export interface CalibrationSplit {
  /** `held-out`: all rows are fitted on, and were held out in turn to calibrate with. */
  readonly method: 'captures' | 'rows' | 'held-out'
  /** Row numbers, ascending. */
  readonly fit: Uint32Array
  /** Row numbers, ascending. */
  readonly calibration: Uint32Array
}

const LEAST_CAPTURES = 5

/** `captureOfRow[i]` is the capture that row i came from. At least one row is left to fit on. */
export function splitCalibration(captureOfRow: Uint32Array, share: number, rng: Rng): CalibrationSplit {
  const n = captureOfRow.length
  const wanted = Math.min(n - 1, Math.round(share * n))
  const held = new Uint8Array(n)
  const method = wanted > 0 && holdCaptures(captureOfRow, wanted, rng, held) ? 'captures' : 'rows'
  if (method === 'rows') {
    const order = shuffleInPlace(
      Uint32Array.from({ length: n }, (_, i) => i),
      rng,
    )
    for (let i = 0; i < wanted; i++) held[order[i]] = 1
  }
  const numbers = Uint32Array.from({ length: n }, (_, i) => i)
  return {
    method,
    fit: numbers.filter((i) => held[i] === 0),
    calibration: numbers.filter((i) => held[i] === 1),
  }
}

/** Marks the rows of whole captures; false where that cannot come near the wanted number. */
function holdCaptures(captureOfRow: Uint32Array, wanted: number, rng: Rng, held: Uint8Array): boolean {
  const rowsOf = new Map<number, number>()
  for (const capture of captureOfRow) rowsOf.set(capture, (rowsOf.get(capture) ?? 0) + 1)
  if (rowsOf.size < LEAST_CAPTURES) return false
  const order = shuffleInPlace(Uint32Array.from([...rowsOf.keys()].sort((a, b) => a - b)), rng)
  const most = Math.min(2 * wanted, Math.floor((held.length + wanted) / 2))
  const chosen = new Set<number>()
  let rows = 0
  for (const capture of order) {
    if (rows >= wanted) break
    const more = rowsOf.get(capture) ?? 0
    // a capture that alone would take most of the data is left for the fit
    if (rows + more > most) continue
    chosen.add(capture)
    rows += more
  }
  if (rows < wanted / 2) return false
  for (let i = 0; i < held.length; i++) if (chosen.has(captureOfRow[i])) held[i] = 1
  return true
}
