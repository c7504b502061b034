/**
 * Page–Hinkley: has the mean of a stream fallen, or risen, by more than a little?
 *
 * Page, "Continuous inspection schemes", Biometrika 41, 1954; Hinkley, "Inference about the change-point from cumulative
 * sum tests", Biometrika 58, 1971. With the running mean x̄ of all numbers so far, the sums of x − x̄ − δ and of x̄ − x − δ
 * are followed; an alarm is raised when one exceeds its lowest value so far by λ. δ is the change that is let pass, λ
 * trades false alarms for delay. After an alarm everything begins anew.
 */

export interface PageHinkley {
  /** The direction of the change when there is an alarm, otherwise null. */
  add(value: number): 'up' | 'down' | null
}

export interface PageHinkleyOptions {
  /** δ, in units of the numbers. */
  readonly tolerance: number
  /** λ. */
  readonly threshold: number
  /** No alarm before so many numbers. */
  readonly leastCount: number
}

export function createPageHinkley({ tolerance, threshold, leastCount }: PageHinkleyOptions): PageHinkley {
  let count = 0
  let mean = 0
  let up = 0
  let down = 0
  return {
    add(value) {
      count++
      mean += (value - mean) / count
      // each sum less its lowest value so far
      up = Math.max(0, up + value - mean - tolerance)
      down = Math.max(0, down + mean - value - tolerance)
      if (count < leastCount) return null
      const alarm = up > threshold ? 'up' : down > threshold ? 'down' : null
      if (alarm !== null) {
        count = 0
        mean = 0
        up = 0
        down = 0
      }
      return alarm
    },
  }
}
