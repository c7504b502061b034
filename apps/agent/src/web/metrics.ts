/**
 * Metrics: the agent's counts and states as Prometheus reads them.
 *
 * Everything is read from a snapshot when it is asked for; nothing is counted a second time on the way of a
 * packet. Labels are words of the program's own: no address, name or port of the network, which would make as
 * many series as there are devices and tell them to whoever may read metrics.
 */
import { Counter, type CounterConfiguration, Gauge, Registry } from 'prom-client'
import type { BudgetReport } from '../budget/alert-budget.js'
import type { IncidentRateReport } from '../budget/incident-rate.js'
import type { AgentCounters } from '../pipeline/counters.js'

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
  /** Packets are left out. */
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

type Series = readonly (readonly [labels: Record<string, string>, value: number])[]

export function createMetrics(snapshot: () => AgentSnapshot): Metrics {
  const registry = new Registry()
  // after a reset to increment is to set, for a gauge too
  const metric =
    (Kind: new (configuration: CounterConfiguration<string>) => Counter) =>
    (name: string, help: string, labelNames: string[], of: (now: AgentSnapshot) => Series) =>
      new Kind({
        name: `oddflow_${name}`,
        help,
        labelNames,
        registers: [registry],
        collect() {
          this.reset()
          // a metric without labels is 0 after a reset; one without a value has no sample
          if (labelNames.length === 0) this.remove()
          for (const [labels, value] of of(snapshot())) this.inc(labels, value)
        },
      })
  const counter = metric(Counter)
  const gauge = metric(Gauge)
  const by = (label: string, values: Readonly<Record<string, number | undefined>>): Series =>
    Object.entries(values).map(([key, value]) => [{ [label]: key }, value ?? 0])

  counter('packets_total', 'Captured packets by what became of them.', ['fate'], ({ counters }) =>
    by('fate', {
      processed: counters.processed,
      dropped_kernel: counters.droppedKernel,
      dropped_agent: counters.droppedAgent,
      dropped_duplicates: counters.droppedDuplicates,
      filtered: counters.filtered,
    }),
  )
  counter('packets_not_in_flows_total', 'Processed packets in no flow.', ['reason'], ({ counters }) =>
    by('reason', counters.notInFlows),
  )
  counter(
    'packets_doubtful_total',
    'Copies, wrong IPv4 header checksums, TTLs that end.',
    ['reason'],
    ({ counters: { check } }) =>
      by('reason', {
        duplicate: check.duplicatePackets,
        wrong_checksum: check.wrongChecksums,
        last_hop: check.lastHopPackets,
      }),
  )
  counter('packets_untimely_total', 'Packets out of the order of their times.', ['fate'], ({ counters }) =>
    by('fate', {
      reordered: counters.reordered,
      simultaneous: counters.timestampBackwards,
      from_future: counters.fromFuture,
    }),
  )
  counter('clock_steps_total', "Times that the packets' clock was set.", [], ({ counters }) => [
    [{}, counters.clockSteps],
  ])
  counter('capture_interruptions_total', 'Times that the recording was interrupted.', [], ({ counters }) => [
    [{}, counters.interruptions],
  ])
  counter('overloads_total', 'Times that packets were left out.', [], ({ counters }) => [
    [{}, counters.overloads],
  ])
  gauge('overloaded', 'Whether packets are left out now.', [], ({ overloaded }) => [[{}, overloaded ? 1 : 0]])
  gauge('degraded', 'Whether the agent does not watch as it should (see /healthz).', [], ({ degraded }) => [
    [{}, degraded.length > 0 ? 1 : 0],
  ])
  counter(
    'self_tests_total',
    'Made attacks that the agent sent itself.',
    ['result'],
    ({ counters: { selfTests } }) =>
      by('result', {
        flagged: selfTests.flagged,
        missed: selfTests.missed,
        not_noticed: selfTests.notNoticed,
      }),
  )
  counter('flows_total', 'Flows begun.', [], ({ counters }) => [[{}, counters.flows]])
  counter('flows_evicted_total', 'Flows ended early for want of room.', [], ({ counters }) => [
    [{}, counters.evictedFlows],
  ])
  gauge('flows_open', 'Open flows.', [], ({ openFlows }) => [[{}, openFlows]])
  gauge('flows_open_limit', 'Open flows that there is room for.', [], ({ maximumFlows }) => [
    [{}, maximumFlows],
  ])
  counter('verdicts_total', 'Verdicts by the rule that gave them.', ['rule'], ({ counters: { verdicts } }) =>
    by('rule', { score: verdicts.score, one_packet: verdicts.onePacket, not_judged: verdicts.notJudged }),
  )
  counter('novel_total', 'Verdicts that a flow is new, by rule.', ['rule'], ({ counters: { novel } }) =>
    by('rule', { score: novel.score, one_packet: novel.onePacket }),
  )
  counter('alerts_total', 'Alerts by what became of them.', ['fate'], ({ counters: { alerts } }) =>
    by('fate', {
      given: alerts.given,
      suppressed: alerts.suppressed,
      folded: alerts.folded,
      held: alerts.held,
      refused: alerts.refused,
      told: alerts.told,
      incident: alerts.incidentReports,
    }),
  )
  counter('output_delivered_total', 'Alerts delivered.', ['output'], ({ counters: { alerts } }) =>
    by('output', alerts.delivered),
  )
  counter(
    'output_set_aside_total',
    'Alerts that the receiver refused, each alone.',
    ['output'],
    ({ counters: { alerts } }) => by('output', alerts.setAside),
  )
  counter('output_dropped_total', 'Alerts lost to a bound.', ['output'], ({ counters: { alerts } }) =>
    by('output', alerts.dropped),
  )
  gauge('output_waiting', 'Alerts that wait for an output.', ['output'], ({ counters: { alerts } }) =>
    by('output', alerts.waiting),
  )
  gauge('output_up', 'Whether the last delivery went well.', ['output'], ({ outputs }) =>
    outputs.map(({ name, works }) => [{ output: name }, works ? 1 : 0]),
  )
  gauge('devices', 'Known devices.', ['state'], ({ counters: { devices } }) =>
    devices === null ? [] : by('state', devices.byState),
  )
  counter('devices_new_total', 'Devices found new by what became of them.', ['fate'], ({ counters }) => {
    const { devices, alerts } = counters
    if (devices === null) return []
    const { found, evicted, refused, untold } = devices
    return by('fate', { found, announced: alerts.announced, untold, evicted, refused })
  })
  counter(
    'first_contacts_total',
    'Contacts that a watched device never had, by what became of them.',
    ['fate'],
    ({ counters: { devices } }) =>
      devices === null
        ? []
        : by('fate', {
            counted: devices.facts.firstContacts - devices.facts.firstContactAlerts,
            alerted: devices.facts.firstContactAlerts,
          }),
  )
  counter(
    'facts_untold_total',
    'Facts of devices that have no separate alert, because many similar ones came within a minute.',
    [],
    ({ counters }) => (counters.devices === null ? [] : [[{}, counters.devices.facts.untold]]),
  )
  gauge('incidents_open', 'Open incidents by level.', ['level'], ({ counters: { incidents } }) =>
    incidents === null ? [] : by('level', incidents.open),
  )
  gauge('incident_answers', 'Answers that hold, by answer.', ['answer'], ({ counters: { incidents } }) =>
    incidents === null ? [] : by('answer', incidents.answers.standing),
  )
  counter(
    'alerts_silenced_total',
    'Alerts that only the EVE file has, for an answer.',
    [],
    ({ counters: { incidents } }) => (incidents === null ? [] : [[{}, incidents.answers.silencedAlerts]]),
  )
  counter('incidents_opened_total', 'Incidents reported as opened.', [], ({ counters: { incidents } }) =>
    incidents === null ? [] : [[{}, incidents.rate.opened]],
  )
  const rateGauge = (
    name: string,
    help: string,
    of: (rate: IncidentRateReport) => number | null | undefined,
  ) =>
    gauge(`incidents_per_day${name}`, help, [], ({ counters: { incidents } }) => {
      const value = incidents === null ? null : of(incidents.rate)
      return value === null || value === undefined ? [] : [[{}, value]]
    })
  rateGauge('', 'Incidents a day that were not answered as an attack.', (rate) => rate.perDay)
  rateGauge('_low', 'Its 95 % interval begins.', (rate) => rate.interval?.low)
  rateGauge('_high', 'Its 95 % interval ends.', (rate) => rate.interval?.high)
  rateGauge('_allowed', 'Of the budget.', (rate) => rate.allowedPerDay)
  counter(
    'remote_answers_total',
    'Answers to incidents by MQTT, by what became of them.',
    ['fate'],
    ({ counters: { incidents } }) => (incidents === null ? [] : by('fate', incidents.answers.remote)),
  )
  counter(
    'flows_answered_normal_total',
    'Flows novel to the model in force that an answer made normal.',
    [],
    ({ counters: { incidents } }) => (incidents === null ? [] : [[{}, incidents.answers.normalFlows]]),
  )
  gauge('models', 'Owners of models that are made here, by state.', ['state'], ({ counters: { models } }) =>
    models === null
      ? []
      : by('state', {
          learning: models.owners.learning,
          waiting: models.owners.waiting,
          with_model: models.owners.withModel,
        }),
  )
  counter('trainings_total', 'Trainings by what came of them.', ['result'], ({ counters: { models } }) =>
    models === null ? [] : by('result', models.trainings),
  )
  counter(
    'online_rows_total',
    'Rows of watched devices, by whether they were learned.',
    ['fate'],
    ({ counters: { models } }) =>
      models === null || models.learning === null ? [] : by('fate', models.learning.rows),
  )
  counter(
    'online_rounds_total',
    'Rounds of learning on by result.',
    ['result'],
    ({ counters: { models } }) =>
      models === null || models.learning === null ? [] : by('result', models.learning.rounds),
  )
  counter(
    'shadow_verdicts_total',
    'Scored flows, by whether the model and the one that was trained find them novel.',
    ['verdict'],
    ({ counters: { models } }) =>
      models === null || models.learning === null ? [] : by('verdict', models.learning.shadow),
  )
  gauge('learning_rows_bytes', 'Rows of those that learn.', [], ({ counters: { models } }) =>
    models === null ? [] : [[{}, models.reservoirBytes]],
  )
  const budgetGauge = (name: string, help: string, of: (budget: BudgetReport) => number | null | undefined) =>
    gauge(`budget_${name}`, help, [], ({ counters: { budget } }) => {
      const value = budget === null ? null : of(budget)
      return value === null || value === undefined ? [] : [[{}, value]]
    })
  budgetGauge('false_alerts_per_day', 'False alerts a day that are bearable.', (b) => b.falseAlertsPerDay)
  budgetGauge('kept', "Whether the budget's thresholds stand.", (b) => (b.state === 'kept' ? 1 : 0))
  budgetGauge('calibration_flows', 'Flows that it was calibrated with.', (b) => b.calibration.flows)
  budgetGauge('flows_needed', 'Flows that a conformal threshold needs.', (b) => b.calibration.flowsNeeded)
  budgetGauge('expected_rate', 'Share of normal flows that alert.', (b) => b.threshold?.expectedRate)
  budgetGauge('achieved_per_day', 'Alerts a day by score, true ones too.', (b) => b.achieved?.perDay)
  budgetGauge('achieved_per_day_low', 'Its 95 % interval begins.', (b) => b.achieved?.interval?.low)
  budgetGauge('achieved_per_day_high', 'Its 95 % interval ends.', (b) => b.achieved?.interval?.high)
  gauge('spool_up', 'Whether alerts can be kept.', [], ({ spoolWorks }) => [[{}, spoolWorks ? 1 : 0]])
  gauge('memory_resident_bytes', 'Resident memory.', [], ({ residentBytes }) => [[{}, residentBytes]])
  gauge('memory_limit_bytes', 'The ceiling on it.', [], ({ memoryLimitBytes }) => [[{}, memoryLimitBytes]])
  gauge('capture_lag_seconds', 'From the latest packet to now.', [], ({ lagSeconds }) =>
    lagSeconds === null ? [] : [[{}, lagSeconds]],
  )
  gauge('info', 'Version and model.', ['version', 'model'], ({ version, model }) => [
    [{ version, model: model ?? '' }, 1],
  ])
  return { contentType: registry.contentType, text: () => registry.metrics() }
}
