/**
 * Home Assistant: what a broker keeps for it (home-assistant.io, "MQTT Discovery"): descriptions of the agent's entities and of those
 * of each device, and the devices' states.
 *
 *     DISCOVERY/…/config      a description. An empty one removes the entity: where descriptions are switched off, or go elsewhere
 *     PREFIX/devices/KEY      of a device that has learned: state, incidents today, the last incident
 *
 * The agent is known by the machine's name and the prefix of its topics, whatever else of its configuration changes.
 */
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { plain } from './message.js'
import type { DeviceStatus } from './output.js'

interface NamedOptions {
  /** Of the machine. */
  readonly hostname: string
  /** Tells agents of one machine apart at the broker. */
  readonly alertFile: string
  /** Of the agent's topics; null: oddflow/ and the machine's name. */
  readonly prefix: string | null
}

interface DiscoveryOptions extends NamedOptions {
  /** Prefix of the descriptions' topics; null: none. */
  readonly homeAssistant: string | null
  readonly version: string
  /** Of the dashboard, where others can reach it. */
  readonly dashboardUrl?: string | null
}

interface Names {
  readonly machine: string
  readonly prefix: string
  /** Of this agent among all clients of the broker: letters, digits and "-". */
  readonly clientId: string
  /** Of this agent among the devices of Home Assistant. */
  readonly deviceId: string
}

const DISCOVERY = 'homeassistant'

export function namesOf({ hostname, alertFile, prefix: given }: NamedOptions): Names {
  const machine =
    hostname
      .toLowerCase()
      .replace(/[^a-z0-9-]/g, '-')
      .slice(0, 63) || 'agent'
  const prefix = given ?? `oddflow/${machine}`
  const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8)
  return {
    machine,
    prefix,
    clientId: `oddflow-agent-${machine}-${digest(`${hostname} ${resolve(alertFile)}`)}`,
    deviceId: `oddflow_${machine.replaceAll('-', '_')}_${digest(`${hostname} ${prefix}`)}`,
  }
}

type Description = readonly [topic: string, payload: Readonly<Record<string, unknown>>]

/** What the broker is to keep, by topic. An empty text takes away what it has. */
export function keptMessages(
  options: DiscoveryOptions,
  devices: readonly DeviceStatus[],
): ReadonlyMap<string, string> {
  const { homeAssistant } = options
  const { prefix } = namesOf(options)
  const kept = new Map<string, string>()
  const described = (discoveryPrefix: string) => [
    ...agentEntities(options, discoveryPrefix),
    ...devices.flatMap((device) => deviceEntities(options, discoveryPrefix, device)),
  ]
  if (homeAssistant !== DISCOVERY) for (const [topic] of described(DISCOVERY)) kept.set(topic, '')
  for (const device of devices) {
    const { state, incidentsToday, lastIncident } = device
    const status = JSON.stringify({ state, incidentsToday, lastIncident: plain(lastIncident) })
    kept.set(`${prefix}/devices/${keyOf(device)}`, homeAssistant === null ? '' : status)
  }
  if (homeAssistant === null) return kept
  for (const [topic, payload] of described(homeAssistant)) kept.set(topic, JSON.stringify(payload))
  return kept
}

/** Letters, digits and "_": of a MAC address, or of another address. */
function keyOf({ key }: DeviceStatus): string {
  return key.replace(/[^0-9A-Za-z]/g, key.length === 17 ? '' : '_')
}

function commonOf(options: DiscoveryOptions) {
  const { version, dashboardUrl = null } = options
  const { prefix, deviceId, machine } = namesOf(options)
  return {
    device: {
      identifiers: [deviceId],
      name: `OddFlow ${machine}`,
      manufacturer: 'OddFlow',
      model: 'agent',
      sw_version: version,
      ...(dashboardUrl === null ? {} : { configuration_url: dashboardUrl }),
    },
    origin: { name: 'oddflow-agent', sw_version: version },
    availability_topic: `${prefix}/status`,
  }
}

function agentEntities(options: DiscoveryOptions, discoveryPrefix: string): Description[] {
  const { prefix, deviceId } = namesOf(options)
  const { availability_topic, ...common } = commonOf(options)
  const alerts = `${prefix}/alerts`
  return [
    [
      `${discoveryPrefix}/binary_sensor/${deviceId}_connection/config`,
      {
        ...common,
        name: 'Connection',
        unique_id: `${deviceId}_connection`,
        device_class: 'connectivity',
        state_topic: availability_topic,
        payload_on: 'online',
        payload_off: 'offline',
      },
    ],
    [
      `${discoveryPrefix}/event/${deviceId}_alert/config`,
      // an EVE event is an event of Home Assistant as it is: it has the field event_type, and attributes beside
      {
        ...common,
        availability_topic,
        name: 'Alert',
        unique_id: `${deviceId}_alert`,
        state_topic: alerts,
        event_types: ['alert', 'incident'],
      },
    ],
    [
      `${discoveryPrefix}/sensor/${deviceId}_last_alert/config`,
      {
        ...common,
        availability_topic,
        name: 'Last alert',
        unique_id: `${deviceId}_last_alert`,
        state_topic: alerts,
        // a state has 255 characters at most
        value_template: '{{ value_json.oddflow.summary[:255] }}',
      },
    ],
  ]
}

function deviceEntities(
  options: DiscoveryOptions,
  discoveryPrefix: string,
  device: DeviceStatus,
): Description[] {
  const { prefix, deviceId } = namesOf(options)
  const { device: agent, ...common } = commonOf(options)
  const id = `${deviceId}_${keyOf(device)}`
  const { configuration_url } = agent as { configuration_url?: string }
  const entity = (what: string, name: string, template: string, more: object = {}): Description => [
    `${discoveryPrefix}/sensor/${id}_${what}/config`,
    {
      ...common,
      device: {
        identifiers: [id],
        name: plain(device.name),
        via_device: deviceId,
        ...(configuration_url === undefined ? {} : { configuration_url }),
      },
      name,
      unique_id: `${id}_${what}`,
      state_topic: `${prefix}/devices/${keyOf(device)}`,
      value_template: template,
      ...more,
    },
  ]
  return [
    entity('state', 'State', '{{ value_json.state }}'),
    entity('incidents_today', 'Incidents today', '{{ value_json.incidentsToday }}', { state_class: 'total' }),
    entity('last_incident', 'Last incident', '{{ value_json.lastIncident[:255] }}'),
  ]
}
