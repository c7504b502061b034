/**
 * How far one straight line can part two classes in the plane: the largest share of points on the right side of the
 * best line of 180 directions, for any offset. Half is what a line that parts nothing gets.
 */
import type { Matrix } from '@oddflow/core'

const DIRECTIONS = 180

/** `points` n × 2, `isOuter` of length n. */
export function bestStraightLine(points: Matrix, isOuter: Uint8Array): number {
  const n = points.rows
  const outer = isOuter.reduce((sum, value) => sum + value, 0)
  let best = 0
  for (let direction = 0; direction < DIRECTIONS; direction++) {
    const angle = (direction / DIRECTIONS) * Math.PI
    const [a, b] = [Math.cos(angle), Math.sin(angle)]
    const along = Float64Array.from(
      { length: n },
      (_, i) => a * points.data[2 * i]! + b * points.data[2 * i + 1]!,
    )
    const order = Uint32Array.from({ length: n }, (_, i) => i).sort((p, q) => along[p]! - along[q]!)
    let outerBelow = 0
    order.forEach((row, i) => {
      outerBelow += isOuter[row]!
      // the line lies between two different places alone
      if (i + 1 < n && along[order[i + 1]!] === along[row]) return
      const right = outerBelow + (n - outer) - (i + 1 - outerBelow)
      best = Math.max(best, right, n - right)
    })
  }
  return best / n
}
