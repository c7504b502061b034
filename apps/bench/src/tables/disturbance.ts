/**
 * How far other work lengthened the times of trials, told from the trials alone.
 *
 * A load average counts what waits for any processor, also for one that a measurement does not use, so it says that
 * other work was there and not what it did to a time. A trial scores the same rows many times over: were it alone,
 * each pass would take what the fastest took. So the mean and the middle pass over the fastest say how far a trial
 * was disturbed; half of the trials, and 95 % of them, say it of a set of trials.
 */
import type { Trial } from '@oddflow/evaluation'
import { median } from '../peers/median.js'

/** One sentence for the foot of a page; '' where the machine did nothing else, or nothing was timed twice. */
export function disturbance(trials: readonly Trial[]): string {
  const together = Math.max(1, ...trials.map(({ machine }) => machine.concurrency))
  const load = Math.max(0, ...trials.flatMap(({ loadAverage }) => loadAverage ?? []))
  const cpus = Math.min(...trials.map(({ machine }) => machine.logicalCpus))
  if (together === 1 && load <= cpus) return ''
  const there = `Other work shared the machine (load average up to ${load.toFixed(1)}, ${together} ${together === 1 ? 'trial' : 'trials'} at a time)`
  const timed = trials.filter(({ testMillis }) => testMillis.length > 1 && Math.min(...testMillis) > 0)
  if (timed.length === 0) return `${there}: AUC and space do not depend on that, times do.`
  const means = timed.map(({ testMillis: t }) => t.reduce((a, b) => a + b, 0) / t.length / Math.min(...t))
  const middles = timed.map(({ testMillis: t }) => median(t) / Math.min(...t))
  return (
    `${there}. AUC and space do not depend on that, times do: over a trial's fastest pass its mean pass was ${spread(means)}, ` +
    `its middle one ${spread(middles)}.`
  )
}

function spread(ratios: readonly number[]): string {
  const sorted = [...ratios].sort((a, b) => a - b)
  const most = sorted[Math.min(sorted.length - 1, Math.ceil(0.95 * sorted.length) - 1)]!
  return `${median(sorted).toFixed(2)} times as long in half of the trials and at most ${most.toFixed(2)} times in 95 %`
}
