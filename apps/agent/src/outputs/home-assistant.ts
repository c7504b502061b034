/** Home Assistant: the retained descriptions by which it finds the agent at a broker (home-assistant.io, "MQTT Discovery"). */
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'

interface NamedOptions {
  /** Of the machine. */
  readonly hostname: string
  /** Tells agents of one machine apart. */
  readonly alertFile: string
  /** Of the agent's topics; null: oddflow/ and the machine's name. */
  readonly prefix: string | null
}

interface DiscoveryOptions extends NamedOptions {
  /** Prefix of the descriptions' topics; null: none. */
  readonly homeAssistant: string | null
  readonly version: string
}

interface Names {
  readonly machine: string
  readonly prefix: string
  /** Of this agent among all of the broker: letters, digits and "-". */
  readonly agentId: string
}

export function namesOf({ hostname, alertFile, prefix }: NamedOptions): Names {
  const machine =
    hostname
      .toLowerCase()
      .replace(/[^a-z0-9-]/g, '-')
      .slice(0, 63) || 'agent'
  const digest = createHash('sha256')
    .update(`${hostname} ${resolve(alertFile)}`)
    .digest('hex')
  return { machine, prefix: prefix ?? `oddflow/${machine}`, agentId: `${machine}-${digest.slice(0, 8)}` }
}

/** Topics and payloads by which Home Assistant knows the agent (home-assistant.io, "MQTT Discovery"). */
export function discovery(options: DiscoveryOptions): [topic: string, payload: Record<string, unknown>][] {
  const { homeAssistant, version } = options
  const { prefix, agentId, machine } = namesOf(options)
  if (homeAssistant === null) return []
  const id = `oddflow_${agentId.replaceAll('-', '_')}`
  const common = {
    device: {
      identifiers: [id],
      name: `OddFlow ${machine}`,
      manufacturer: 'OddFlow',
      model: 'agent',
      sw_version: version,
    },
    origin: { name: 'oddflow-agent', sw_version: version },
  }
  const availability = { availability_topic: `${prefix}/status` }
  const alerts = `${prefix}/alerts`
  return [
    [
      `${homeAssistant}/binary_sensor/${id}_connection/config`,
      {
        ...common,
        name: 'Connection',
        unique_id: `${id}_connection`,
        device_class: 'connectivity',
        state_topic: `${prefix}/status`,
        payload_on: 'online',
        payload_off: 'offline',
      },
    ],
    [
      `${homeAssistant}/event/${id}_alert/config`,
      // an EVE event is an event of Home Assistant as it is: it has the field event_type, and attributes beside
      {
        ...common,
        ...availability,
        name: 'Alert',
        unique_id: `${id}_alert`,
        state_topic: alerts,
        event_types: ['alert', 'incident'],
      },
    ],
    [
      `${homeAssistant}/sensor/${id}_last_alert/config`,
      {
        ...common,
        ...availability,
        name: 'Last alert',
        unique_id: `${id}_last_alert`,
        state_topic: alerts,
        // a state has 255 characters at most
        value_template: '{{ value_json.oddflow.summary[:255] }}',
      },
    ],
  ]
}
