/** Counters of several captures as one: numbers added up, dropped packets by reason. */
import type { FlowCounters } from '@oddflow/flows'

/** At least one part. */
export function sumCounters(parts: readonly FlowCounters[]): FlowCounters {
  const sums: Record<string, number> = {}
  const dropped: Record<string, number> = {}
  for (const part of parts) {
    for (const [name, value] of Object.entries(part)) {
      if (typeof value === 'number') sums[name] = (sums[name] ?? 0) + value
    }
    for (const [reason, count] of Object.entries(part.dropped)) {
      dropped[reason] = (dropped[reason] ?? 0) + (count ?? 0)
    }
  }
  return { ...parts[0], ...sums, dropped }
}
