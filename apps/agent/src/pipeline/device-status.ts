/** The status of devices and the dashboard's address, for outputs. */
import { hostname } from 'node:os'
import type { Settings } from '../config/settings.js'
import type { Device } from '../devices/device.js'
import type { Incident } from '../incidents/incident.js'
import { type DeviceStatus, LOOPBACK } from '../outputs/output.js'

/** Those seen last; more would be a flood of addresses. */
const MAXIMUM_TOLD = 64

/** Devices that have learned, with what became of them today, in the machine's time. */
export function deviceStatuses(
  devices: Iterable<Device>,
  incidents: readonly Incident[],
  nowMicros: number,
): DeviceStatus[] {
  const dayMicros = 1000 * new Date(nowMicros / 1000).setHours(0, 0, 0, 0)
  const reported = incidents.filter(({ state }) => state !== 'gathering')
  return [...devices]
    .filter(({ state }) => state !== 'learning')
    .sort((a, b) => b.lastSeenMicros - a.lastSeenMicros)
    .slice(0, MAXIMUM_TOLD)
    .map(({ key, address, name, state }) => {
      const own = reported.filter((incident) => incident.key === key)
      return {
        key,
        name: name?.name ?? address,
        state,
        incidentsToday: own.filter(({ beginMicros }) => beginMicros >= dayMicros).length,
        lastIncident:
          own.reduce<Incident | null>(
            (last, each) => (last === null || each.beginMicros > last.beginMicros ? each : last),
            null,
          )?.summary ?? '',
      }
    })
}

/** null where the agent listens on loopback alone, and no name of the machine is given. */
export function dashboardUrlOf({ listen, dashboard }: Pick<Settings, 'listen' | 'dashboard'>): string | null {
  if (listen === null || dashboard === null || listen.port === 0) return null
  const isWild = listen.host === '0.0.0.0' || listen.host === '::'
  const host = dashboard.hosts[0] ?? (isWild ? hostname() : LOOPBACK.test(listen.host) ? null : listen.host)
  return host === null ? null : `http://${host.includes(':') ? `[${host}]` : host}:${listen.port}/`
}
