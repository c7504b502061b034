/**
 * Home Assistant: the messages that a broker keeps for it (home-assistant.io, "MQTT Discovery").
 *
 *     DISCOVERY/…/config      the description of an entity of the agent or of a device. An empty one removes the entity
 *     PREFIX/devices/KEY      of a device that has learned: state, incidents today, the last incident, whether it can be answered
 *     PREFIX/answer           sent by a button of a device: an answer to its last incident (incidents/answers.ts)
 *
 * The agent keeps its identity while the machine's name and the prefix of its topics stay.
 */
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { defineState, readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import { plain } from './message.js'
import type { DeviceStatus, OutputEnvironment } from './output.js'

interface DiscoveryOptions
  extends Pick<OutputEnvironment, 'hostname' | 'alertFile' | 'version' | 'dashboardUrl'> {
  /** Of the agent's topics; by default oddflow/ and the machine's name. */
  readonly prefix?: string | undefined
  /** Prefix of the descriptions' topics; false: none. */
  readonly homeAssistant: string | false
  /** The broker may send answers: devices have buttons. */
  readonly answers: boolean
}

const DISCOVERY = 'homeassistant'

type NamedOptions = Pick<DiscoveryOptions, 'hostname' | 'alertFile' | 'prefix'>

export function namesOf({ hostname, alertFile, prefix: given }: NamedOptions) {
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
    /** Of this agent among all clients of the broker, also of the same machine: letters, digits and "-". */
    clientId: `oddflow-agent-${machine}-${digest(`${hostname} ${resolve(alertFile)}`)}`,
    /** Of this agent among the devices of Home Assistant. */
    deviceId: `oddflow_${machine.replaceAll('-', '_')}_${digest(`${hostname} ${prefix}`)}`,
  }
}

type Description = readonly [topic: string, payload: Readonly<Record<string, unknown>>]

/**
 * Messages for the broker to keep, by topic. An empty text removes a message.
 * @param gone - keys of forgotten devices that the broker may have descriptions of.
 */
export function keptMessages(
  options: DiscoveryOptions,
  devices: readonly DeviceStatus[],
  gone: Iterable<string> = [],
): ReadonlyMap<string, string> {
  const { homeAssistant } = options
  const { prefix } = namesOf(options)
  const kept = new Map<string, string>()
  const described = (discoveryPrefix: string) => [
    ...agentEntities(options, discoveryPrefix),
    ...devices.flatMap((device) => deviceEntities(options, discoveryPrefix, device)),
  ]
  for (const key of gone) {
    for (const [topic] of deviceEntities(options, homeAssistant || DISCOVERY, { ...NO_DEVICE, key }))
      kept.set(topic, '')
    kept.set(`${prefix}/devices/${keyOf({ key })}`, '')
  }
  if (homeAssistant !== DISCOVERY) for (const [topic] of described(DISCOVERY)) kept.set(topic, '')
  for (const device of devices) {
    const { state, incidentsToday, lastIncident, unanswered } = device
    const answers = unanswered === null ? 'offline' : 'online'
    const status = JSON.stringify({ state, incidentsToday, lastIncident: plain(lastIncident), answers })
    kept.set(`${prefix}/devices/${keyOf(device)}`, homeAssistant === false ? '' : status)
  }
  if (homeAssistant === false) return kept
  for (const [topic, payload] of described(homeAssistant)) {
    const isNone = !options.answers && topic.startsWith(`${homeAssistant}/button/`)
    kept.set(topic, isNone ? '' : JSON.stringify(payload))
  }
  return kept
}

const NO_DEVICE = { name: '', group: null, state: '', incidentsToday: 0, lastIncident: '', unanswered: null }

/** Letters, digits and "_": of a MAC address, or of another address. */
function keyOf({ key }: Pick<DeviceStatus, 'key'>): string {
  return key.replace(/[^0-9A-Za-z]/g, key.length === 17 ? '' : '_')
}

/** The descriptions of one device of Home Assistant. */
function describer(options: DiscoveryOptions, discoveryPrefix: string, id: string, device: object) {
  const { version, dashboardUrl = null } = options
  const link = dashboardUrl === null ? {} : { configuration_url: dashboardUrl }
  const common = {
    device: { identifiers: [id], ...device, ...link },
    origin: { name: 'oddflow-agent', sw_version: version },
  }
  return (component: string, what: string, name: string, more: object): Description => [
    `${discoveryPrefix}/${component}/${id}_${what}/config`,
    { ...common, name, unique_id: `${id}_${what}`, ...more },
  ]
}

function agentEntities(options: DiscoveryOptions, discoveryPrefix: string): Description[] {
  const { prefix, deviceId, machine } = namesOf(options)
  const entity = describer(options, discoveryPrefix, deviceId, {
    name: `OddFlow ${machine}`,
    manufacturer: 'OddFlow',
    model: 'agent',
    sw_version: options.version,
  })
  const availability_topic = `${prefix}/status`
  const state_topic = `${prefix}/alerts`
  return [
    entity('binary_sensor', 'connection', 'Connection', {
      device_class: 'connectivity',
      state_topic: availability_topic,
      payload_on: 'online',
      payload_off: 'offline',
    }),
    // an EVE event is an event of Home Assistant: it has the field event_type, and attributes
    entity('event', 'alert', 'Alert', {
      availability_topic,
      state_topic,
      event_types: ['alert', 'incident'],
    }),
    entity('sensor', 'last_alert', 'Last alert', {
      availability_topic,
      state_topic,
      // a state has 255 characters at most
      value_template: '{{ value_json.oddflow.summary[:255] }}',
    }),
  ]
}

function deviceEntities(
  options: DiscoveryOptions,
  discoveryPrefix: string,
  device: DeviceStatus,
): Description[] {
  const { prefix, deviceId } = namesOf(options)
  const availability_topic = `${prefix}/status`
  const status = `${prefix}/devices/${keyOf(device)}`
  const entity = describer(options, discoveryPrefix, `${deviceId}_${keyOf(device)}`, {
    name: plain(device.name),
    via_device: deviceId,
    ...(device.group === null ? {} : { suggested_area: plain(device.group) }),
  })
  const sensor = (what: string, name: string, template: string, more: object = {}): Description =>
    entity('sensor', what, name, {
      availability_topic,
      state_topic: status,
      value_template: template,
      ...more,
    })
  /** Answers the incident that "Last incident" shows, and no later one. */
  const button = (answer: 'snooze' | 'attack', name: string): Description =>
    entity('button', answer, name, {
      command_topic: `${prefix}/answer`,
      payload_press: JSON.stringify({ incident: device.unanswered, answer }),
      qos: 1,
      availability: [
        { topic: availability_topic },
        { topic: status, value_template: '{{ value_json.answers }}' },
      ],
      availability_mode: 'all',
    })
  return [
    sensor('state', 'State', '{{ value_json.state }}'),
    sensor('incidents_today', 'Incidents today', '{{ value_json.incidentsToday }}', { state_class: 'total' }),
    sensor('last_incident', 'Last incident', '{{ value_json.lastIncident[:255] }}'),
    button('snooze', 'Snooze for a day'),
    button('attack', 'This was an attack'),
  ]
}

const MAXIMUM_DESCRIBED = 1024
const DESCRIBED = defineState(
  'described-devices',
  1,
  v.object({
    keys: v.pipe(v.array(v.pipe(v.string(), v.regex(/^[0-9a-f:.]{1,45}$/))), v.maxLength(MAXIMUM_DESCRIBED)),
  }),
)

/**
 * The devices that a broker may have descriptions of, kept in the state folder: the next connection removes those of a device that was
 * forgotten while the agent or the broker was off. @param state - null: they are known in this run only.
 */
export async function openDescribedDevices(
  state: { readonly files: FileSystem; readonly folder: string } | null,
  output: string,
  log: Pick<Log, 'warn'>,
) {
  const path = state === null ? '' : join(state.folder, `described-${output}.json`)
  const kept = state === null ? null : await readStateOrSetAside(state.files, path, DESCRIBED.decode, log)
  const keys = new Set(kept?.keys)
  const keep = async (): Promise<void> => {
    if (state === null) return
    await writeState(state.files, path, DESCRIBED.encode({ keys: [...keys] })).catch((error: Error) =>
      log.warn(`${error.message}; devices that are forgotten may stay in Home Assistant`),
    )
  }
  return {
    /** The oldest first. */
    keys: keys as ReadonlySet<string>,
    /** To be awaited before anything is described. */
    async add(all: Iterable<string>): Promise<void> {
      const before = keys.size
      for (const key of all) keys.add(key)
      if (keys.size === before) return
      for (const key of keys) if (keys.size > MAXIMUM_DESCRIBED) keys.delete(key)
      await keep()
    },
    /** After the broker has acknowledged the removal. */
    async remove(all: Iterable<string>): Promise<void> {
      const before = keys.size
      for (const key of all) keys.delete(key)
      if (keys.size < before) await keep()
    },
  }
}
