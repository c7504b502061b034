/** The status of the agent and of devices and the dashboard's address, for outputs. */
import { hostname } from 'node:os'
import type { Settings } from '../config/settings.js'
import type { Device } from '../devices/device.js'
import type { Incident } from '../incidents/incident.js'
import { type AgentStatus, type DeviceStatus, LOOPBACK } from '../outputs/output.js'
import type { AgentSnapshot } from '../web/metrics.js'

/** Those seen last; more would be a flood of addresses. */
const MAXIMUM_TOLD = 64

/** Devices that have learned, with what became of them today, in the machine's time. */
export function deviceStatuses(
  devices: Iterable<Device>,
  incidents: readonly Incident[],
  nowMicros: number,
  /** Ids of incidents. */
  answered: ReadonlySet<string>,
): DeviceStatus[] {
  const dayMicros = 1000 * new Date(nowMicros / 1000).setHours(0, 0, 0, 0)
  const reported = incidents.filter(({ state }) => state !== 'gathering')
  return [...devices]
    .filter(({ state }) => state !== 'learning')
    .sort((a, b) => b.lastSeenMicros - a.lastSeenMicros)
    .slice(0, MAXIMUM_TOLD)
    .map(({ key, address, name, group, state }) => {
      const own = reported.filter((incident) => incident.key === key)
      const last = own.reduce<Incident | null>(
        (latest, each) => (latest === null || each.beginMicros > latest.beginMicros ? each : latest),
        null,
      )
      return {
        key,
        name: name?.name ?? address,
        group,
        state,
        incidentsToday: own.filter(({ beginMicros }) => beginMicros >= dayMicros).length,
        lastIncident: last?.summary ?? '',
        unanswered: last === null || answered.has(last.id) ? null : last.id,
      }
    })
}

const MAXIMUM_REASONS = 16
const MAXIMUM_REASON_LENGTH = 300

/** @param output - the fleet's, whose waiting and lost events are counted. */
export async function agentStatus(
  snapshot: AgentSnapshot,
  devices: readonly DeviceStatus[],
  nowMicros: number,
  output: string,
): Promise<AgentStatus> {
  // loaded by those who have such an output or a server
  const { healthOf } = await import('../web/server.js')
  const { counters, version, model, residentBytes } = snapshot
  const { alerts } = counters
  const { isWell, reasons } = healthOf(snapshot)
  return {
    format: 1,
    at: new Date(nowMicros / 1000).toISOString(),
    version,
    model,
    isWell,
    reasons: reasons.slice(0, MAXIMUM_REASONS).map((reason) => reason.slice(0, MAXIMUM_REASON_LENGTH)),
    residentBytes,
    counters: {
      captured: counters.captured,
      processed: counters.processed,
      dropped: counters.dropped,
      flows: counters.flows,
      novel: counters.novel.total,
      events: alerts.accepted,
      waiting: alerts.waiting[output] ?? 0,
      lost: (alerts.dropped[output] ?? 0) + alerts.refused,
    },
    openIncidents: counters.incidents?.open ?? null,
    deviceCounts: counters.devices?.byState ?? null,
    devices,
  }
}

/** null where the agent listens on loopback alone, and no name of the machine is given. */
export function dashboardUrlOf({ listen, dashboard }: Pick<Settings, 'listen' | 'dashboard'>): string | null {
  if (listen === null || dashboard === null || listen.port === 0) return null
  const isWild = listen.host === '0.0.0.0' || listen.host === '::'
  const host = dashboard.hosts[0] ?? (isWild ? hostname() : LOOPBACK.test(listen.host) ? null : listen.host)
  return host === null ? null : `http://${host.includes(':') ? `[${host}]` : host}:${listen.port}/`
}
