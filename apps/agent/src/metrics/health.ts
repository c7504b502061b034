/** Whether the agent does its work, for whoever restarts or watches it, with what is wrong, a line each. */
import type { AgentSnapshot } from './metrics.js'

export interface Health {
  readonly isWell: boolean
  /** What is wrong, and what went wrong in this run. */
  readonly reasons: readonly string[]
}

export function healthOf({ outputs, spoolWorks, counters, degraded, warnings }: AgentSnapshot): Health {
  const silent = outputs
    .filter(({ works }) => !works)
    .map(({ name }) => `alerts cannot be delivered to ${name}`)
  const faults = [...degraded, ...silent]
  if (!spoolWorks) faults.push('alerts cannot be kept in the state folder')
  const notes = Object.entries(counters.alerts.setAside)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} refused ${count} ${count === 1 ? 'alert' : 'alerts'}; see the log`)
  return { isWell: faults.length === 0, reasons: [...faults, ...warnings, ...notes] }
}
