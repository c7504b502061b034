/**
 * Metrics for Prometheus, made from a snapshot at each request. Labels are words of the program: an address or a name would make a
 * series for each device, and show it to everyone who may read metrics.
 */
import { Counter, type CounterConfiguration, Gauge, Registry } from 'prom-client'
import { BUDGET_METRICS } from '../budget/alert-budget.js'
import { DEVICE_METRICS } from '../devices/device-watch.js'
import { LEARNING_METRICS, MODEL_METRICS } from '../models/progress.js'
import { type AgentCounters, ALERT_METRICS, INCIDENT_METRICS, PACKET_METRICS } from '../pipeline/counters.js'
import type { Metric } from '../pipeline/environment.js'

export interface AgentSnapshot {
  readonly counters: AgentCounters
  readonly openFlows: number
  readonly maximumFlows: number
  readonly residentBytes: number
  readonly memoryLimitBytes: number
  /** From the latest packet's time to now; null where the input is not live. */
  readonly lagSeconds: number | null
  readonly outputs: readonly { readonly name: string; readonly works: boolean }[]
  readonly spoolWorks: boolean
  readonly overloaded: boolean
  /** Why the agent does not watch as it should, a sentence each; none while it does. */
  readonly degraded: readonly string[]
  /** What a person should know, though the agent watches. */
  readonly warnings: readonly string[]
  /** null where all models are made here and none is given. */
  readonly model: string | null
  readonly version: string
}

export interface Metrics {
  readonly contentType: string
  text(): Promise<string>
}

const AGENT_METRICS: readonly Metric<AgentSnapshot>[] = [
  [
    'overloaded',
    '1 while the agent drops packets to limit its load.',
    ({ overloaded }) => Number(overloaded),
  ],
  [
    'degraded',
    '1 while the agent is degraded; /healthz has the reasons.',
    ({ degraded }) => Number(degraded.length > 0),
  ],
  ['flows_open', 'Open flows.', ({ openFlows }) => openFlows],
  ['flows_open_limit', 'Maximum number of open flows.', ({ maximumFlows }) => maximumFlows],
  [
    'output_up',
    '1 if the last delivery succeeded.',
    ({ outputs }) => Object.fromEntries(outputs.map(({ name, works }) => [name, Number(works)])),
    'output',
  ],
  [
    'devices_new_total',
    'New devices by fate.',
    ({ counters: { devices, alerts } }) => {
      if (devices === null) return null
      const { found, evicted, refused, untold } = devices
      return { found, announced: alerts.announced, untold, evicted, refused }
    },
    'fate',
  ],
  ['spool_up', '1 if alerts can be saved in the state folder.', ({ spoolWorks }) => Number(spoolWorks)],
  ['memory_resident_bytes', 'Resident memory in bytes.', ({ residentBytes }) => residentBytes],
  ['memory_limit_bytes', 'Limit on resident memory in bytes.', ({ memoryLimitBytes }) => memoryLimitBytes],
  ['capture_lag_seconds', 'Seconds from the latest packet to now.', ({ lagSeconds }) => lagSeconds],
]

export function createMetrics(snapshot: () => AgentSnapshot): Metrics {
  const registry = new Registry()
  const add = <R>(metrics: readonly Metric<R>[], reportOf: (now: AgentSnapshot) => R | null): void => {
    for (const [name, help, of, label] of metrics) {
      // after a reset to increment is to set, for a gauge too
      const Kind: new (configuration: CounterConfiguration<string>) => Counter = name.endsWith('_total')
        ? Counter
        : Gauge
      new Kind({
        name: `oddflow_${name}`,
        help,
        labelNames: label === undefined ? [] : [label],
        registers: [registry],
        collect() {
          this.reset()
          // a metric without labels is 0 after a reset; one without a value has no sample
          if (label === undefined) this.remove()
          const report = reportOf(snapshot())
          const value = report === null ? null : of(report)
          if (typeof value === 'number') this.inc(value)
          else if (label !== undefined)
            for (const [key, each] of Object.entries(value ?? {})) this.inc({ [label]: key }, each ?? 0)
        },
      })
    }
  }
  add(PACKET_METRICS, ({ counters }) => counters)
  add(ALERT_METRICS, ({ counters }) => counters.alerts)
  add(AGENT_METRICS, (now) => now)
  add(DEVICE_METRICS, ({ counters }) => counters.devices)
  add(INCIDENT_METRICS, ({ counters }) => counters.incidents)
  add(MODEL_METRICS, ({ counters }) => counters.models)
  add(LEARNING_METRICS, ({ counters }) => counters.models?.learning ?? null)
  add(BUDGET_METRICS, ({ counters }) => counters.budget)
  new Gauge({
    name: 'oddflow_info',
    help: 'Version and model.',
    labelNames: ['version', 'model'],
    registers: [registry],
    collect() {
      const { version, model } = snapshot()
      this.reset()
      this.set({ version, model: model ?? '' }, 1)
    },
  })
  return { contentType: registry.contentType, text: () => registry.metrics() }
}
