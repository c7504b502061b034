/**
 * MQTT: alerts to a broker (MQTT 3.1.1 by npm's mqtt), and to Home Assistant by its discovery.
 *
 *     PREFIX/alerts   every alert, an EVE event, QoS 1: delivered is what the broker has acknowledged
 *     PREFIX/status   online, or offline: retained, the last will, so a killed agent is seen to be gone
 *     DISCOVERY/…     retained descriptions of an event, a sensor (the last alert's sentence) and the connection
 *
 * The library connects and connects again by itself; alerts are handed to it while it is connected and wait in the agent's
 * own log otherwise, which knows bounds. An acknowledgement that does not come within ten seconds is a failure, and the
 * same alerts come again under their ids. The password is read from a file at the start, and is part of no message.
 *
 * The library takes some 22 MB of resident memory, so it is loaded by who has such an output alone, and the plan of
 * memory knows of it (memory-plan.ts).
 */
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { connect, type MqttClient } from 'mqtt'
import type { Clock } from '../clock.js'
import { readFirstLine } from '../files/first-line.js'
import { withinMillis } from '../pipeline/abortable.js'
import type { MqttSettings } from '../settings.js'
import { guardBroker } from './mqtt-guard.js'
import type { Output } from './output.js'

export interface MqttOptions extends MqttSettings {
  readonly version: string
  /** Of the machine. */
  readonly hostname: string
  /** Tells agents of one machine apart. */
  readonly alertFile: string
  readonly clock: Clock
}

const BATCH = 64
const PATIENCE_MILLIS = 10_000
const RECONNECT_MILLIS = 5000
const GOODBYE_MILLIS = 300
const KEEPALIVE_SECONDS = 30

/** Begins to connect. Throws FileError where the password's file cannot be read. */
export function createMqtt(options: MqttOptions): Output {
  const { name, clock } = options
  const { prefix, agentId } = namesOf(options)
  const url = new URL(options.url)
  const target = `${url.protocol}//${url.host}`
  const status = `${prefix}/status`
  let lastTrouble = 'is not connected'
  let client: MqttClient | null = connect(options.url, {
    clientId: `oddflow-agent-${agentId}`,
    protocolVersion: 4,
    clean: true,
    keepalive: KEEPALIVE_SECONDS,
    connectTimeout: PATIENCE_MILLIS,
    reconnectPeriod: RECONNECT_MILLIS,
    queueQoSZero: false,
    resubscribe: false,
    // not before there is somebody to hear of it
    manualConnect: true,
    ...(options.username === null ? {} : { username: options.username }),
    ...(options.passwordFile === null ? {} : { password: readFirstLine(options.passwordFile) }),
    will: { topic: status, payload: Buffer.from('offline'), qos: 1, retain: true },
  })
  client.on('packetsend', (packet) => {
    // the first packet on every connection; nothing has been read from it yet
    if (packet.cmd !== 'connect' || client === null) return
    guardBroker(client.stream, (why) => {
      lastTrouble = why
    })
  })
  client.on('error', (error) => {
    lastTrouble = error.message
  })
  client.on('connect', () => {
    const open = client
    if (open === null) return
    open.publish(status, 'online', { qos: 1, retain: true })
    for (const [topic, payload] of discovery(options)) {
      open.publish(topic, JSON.stringify(payload), { qos: 1, retain: true })
    }
  })

  client.connect()

  return {
    name,
    target,
    batch: BATCH,
    async deliver({ lines }, signal) {
      const open = client
      if (open === null || !open.connected) throw new Error(`${target}: ${lastTrouble}`)
      await withinMillis(clock, PATIENCE_MILLIS, signal, (limit) =>
        untilAborted(
          Promise.all(
            lines.map((line) => open.publishAsync(`${prefix}/alerts`, Buffer.from(line), { qos: 1 })),
          ),
          limit,
          `${target}: does not acknowledge`,
        ),
      )
    },
    async close() {
      const open = client
      client = null
      if (open === null) return
      if (open.connected) {
        // with a farewell the last will is not given out
        const farewell = async (): Promise<void> => {
          await open.publishAsync(status, 'offline', { qos: 1, retain: true })
          await open.endAsync()
        }
        await withinMillis(clock, GOODBYE_MILLIS, null, (limit) =>
          untilAborted(farewell(), limit, '').catch(() => undefined),
        )
      }
      await open.endAsync(true)
    },
  }
}

interface Names {
  readonly machine: string
  readonly prefix: string
  /** Of this agent among all of the broker: letters, digits and "-". */
  readonly agentId: string
}

function namesOf({ hostname, alertFile, prefix }: MqttOptions): Names {
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
export function discovery(options: MqttOptions): [topic: string, payload: Record<string, unknown>][] {
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
        event_types: ['alert'],
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

/** The first line. Throws FileError. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal, says: string): Promise<T> {
  return new Promise((done, reject) => {
    signal.addEventListener('abort', () => reject(new Error(says)), { once: true })
    work.then(done, reject)
  })
}
