/** Every sample is a value that the agent has: what it does not have is no sample, and never 0. */
import { expect, it } from 'vitest'
import { type AgentSnapshot, createMetrics } from '../../src/web/metrics.js'
import { sampleSnapshot } from '../support/sample-dashboard.js'

const samplesOf = async (snapshot: AgentSnapshot): Promise<Map<string, string>> => {
  const lines = (await createMetrics(() => snapshot).text()).split('\n')
  return new Map(
    lines
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.split(' ') as [string, string]),
  )
}
const snapshotWith = (changes: object, counters: object = {}): AgentSnapshot => {
  const snapshot = sampleSnapshot()
  return {
    ...snapshot,
    ...changes,
    counters: {
      ...snapshot.counters,
      budget: null,
      devices: null,
      models: null,
      incidents: null,
      ...counters,
    },
  }
}
const budget = {
  falseAlertsPerDay: 1,
  state: 'refused',
  calibration: { flows: 0, flowsNeeded: 500 },
  threshold: null,
  achieved: null,
}

it('a gauge without a value is absent, one that is 0 is 0', async () => {
  const bare = await samplesOf(snapshotWith({ lagSeconds: null }))
  for (const name of bare.keys())
    expect(name).not.toMatch(/^oddflow_(budget|capture_lag|learning_rows|devices|incident)/)
  const idle = await samplesOf(snapshotWith({ lagSeconds: 0 }, { budget }))
  expect(idle.get('oddflow_capture_lag_seconds')).toBe('0')
  expect(idle.get('oddflow_budget_kept')).toBe('0')
  expect(idle.get('oddflow_budget_calibration_flows')).toBe('0')
  expect(idle.get('oddflow_overloaded')).toBe('0')
  for (const name of ['expected_rate', 'achieved_per_day', 'achieved_per_day_low', 'achieved_per_day_high'])
    expect(idle.has(`oddflow_budget_${name}`)).toBe(false)
})

it('a value that goes away takes its sample with it', async () => {
  let lagSeconds: number | null = 2.5
  const metrics = createMetrics(() => snapshotWith({ lagSeconds }))
  expect(await metrics.text()).toMatch(/^oddflow_capture_lag_seconds 2\.5$/m)
  lagSeconds = null
  expect(await metrics.text()).not.toMatch(/^oddflow_capture_lag_seconds /m)
})

it('alerts that a receiver refused are counted by output', async () => {
  const { counters } = sampleSnapshot()
  const samples = await samplesOf(
    snapshotWith({}, { alerts: { ...counters.alerts, setAside: { eve: 0, hub: 3 } } }),
  )
  expect(samples.get('oddflow_output_set_aside_total{output="hub"}')).toBe('3')
  expect(samples.get('oddflow_output_set_aside_total{output="eve"}')).toBe('0')
})

it('open incidents, answers and what they kept back are counted', async () => {
  const incidents = {
    open: { low: 2, medium: 0, high: 1 },
    rate: { opened: 3, attacks: 1, perDay: 0.5, interval: { low: 0.1, high: 2 }, allowedPerDay: null },
    answers: {
      standing: { snooze: 1, 'not-this-kind': 0, attack: 0, normal: 3 },
      normalFlows: 17,
      silencedAlerts: 5,
      remote: { accepted: 1, retained: 2, repeated: 0, oversized: 3, refused: 0 },
    },
  }
  const samples = await samplesOf(snapshotWith({}, { incidents }))
  expect(samples.get('oddflow_incidents_open{level="low"}')).toBe('2')
  expect(samples.get('oddflow_incident_answers{answer="normal"}')).toBe('3')
  expect(samples.get('oddflow_alerts_silenced_total')).toBe('5')
  expect(samples.get('oddflow_incidents_opened_total')).toBe('3')
  expect(samples.get('oddflow_incidents_per_day_low')).toBe('0.1')
  expect(samples.has('oddflow_incidents_per_day_allowed')).toBe(false)
  expect(samples.get('oddflow_remote_answers_total{fate="oversized"}')).toBe('3')
  expect(samples.get('oddflow_flows_answered_normal_total')).toBe('17')
})
