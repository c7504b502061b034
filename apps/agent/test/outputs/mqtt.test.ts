/** Alerts by MQTT: through a real mosquitto to a real subscriber. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { createMqtt, discovery, type MqttOptions } from '../../src/outputs/mqtt.js'
import { createMemoryLog } from '../../src/spool/memory-log.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { freePort, hasMosquitto, startBroker, subscribe } from '../support/mosquitto.js'

const folder = temporaryFolder()
const never = new AbortController().signal
const NO_BROKER = 'mosquitto and mosquitto_sub are not installed'

const optionsFor = (port: number, changes: Partial<MqttOptions> = {}): MqttOptions => ({
  kind: 'mqtt',
  name: 'mqtt',
  url: `mqtt://127.0.0.1:${port}`,
  username: null,
  passwordFile: null,
  prefix: null,
  homeAssistant: 'homeassistant',
  version: '1.2.3',
  hostname: 'Gate Way.local',
  alertFile: '/var/log/eve.json',
  clock: systemClock,
  ...changes,
})
const line = (n: number): Uint8Array => new TextEncoder().encode(`{"event_type":"alert","n":${n}}`)
const numbersIn = (messages: readonly (readonly [string, string])[]): number[] =>
  messages
    .filter(([topic]) => topic === 'oddflow/gate-way-local/alerts')
    .map(([, payload]) => (JSON.parse(payload) as { n: number }).n)
const statusIn = (messages: readonly (readonly [string, string])[]): string[] =>
  messages.filter(([topic]) => topic === 'oddflow/gate-way-local/status').map(([, payload]) => payload)

describe('a broker', () => {
  it('gets alerts in order, the status, and descriptions that Home Assistant finds', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const broker = await startBroker(port, folder)
    const subscriber = await subscribe(port)
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const delivery = await startDelivery({ log, output: createMqtt(optionsFor(port)), clock: systemClock })
    try {
      for (let i = 0; i < 150; i++) log.append(line(i))
      await delivery.drained(never)
      await subscriber.until((messages) => numbersIn(messages).length >= 150)
      expect(numbersIn(subscriber.messages)).toEqual(Array.from({ length: 150 }, (_, i) => i))
      expect(statusIn(subscriber.messages)).toEqual(['online'])
      await delivery.stop()
      await subscriber.until((messages) => statusIn(messages).length >= 2)
      expect(statusIn(subscriber.messages)).toEqual(['online', 'offline'])
      // retained: whoever comes later is told
      const later = await subscribe(port, ['-W', '5'])
      await later.until((messages) => messages.length >= 4)
      await later.stop()
      expect(statusIn(later.messages)).toEqual(['offline'])
      const described = later.messages.filter(([topic]) => topic.startsWith('homeassistant/'))
      expect(Object.fromEntries(described.map(([topic, payload]) => [topic, JSON.parse(payload)]))).toEqual(
        Object.fromEntries(discovery(optionsFor(port))),
      )
    } finally {
      await delivery.stop()
      await subscriber.stop()
      await broker.stop()
    }
  }, 60_000)

  it('that was down gets all alerts when it is back', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const troubles: (string | null)[] = []
    const delivery = await startDelivery({
      log,
      output: createMqtt(optionsFor(port)),
      clock: { ...hastyClock, sleep: (_, signal) => systemClock.sleep(50, signal) },
      onTrouble: (trouble) => troubles.push(trouble?.message ?? null),
    })
    for (let i = 0; i < 100; i++) log.append(line(i))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(delivery).toMatchObject({ delivered: 0, backlog: 100 })
    expect(troubles[0]).toMatch(/^mqtt:\/\/127\.0\.0\.1:\d+: /)
    const broker = await startBroker(port, folder)
    const subscriber = await subscribe(port)
    try {
      await delivery.drained(never)
      await subscriber.until((messages) => numbersIn(messages).length >= 100)
      expect([...new Set(numbersIn(subscriber.messages))]).toEqual(Array.from({ length: 100 }, (_, i) => i))
      expect(troubles.at(-1)).toBeNull()
    } finally {
      await delivery.stop()
      await subscriber.stop()
      await broker.stop()
    }
  }, 60_000)

  it('is shown a password from a file, which no message holds', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const broker = await startBroker(port, folder, 'gateway:right-secret\n')
    const attempt = async (password: string): Promise<string | null> => {
      const passwordFile = join(folder, 'password')
      writeFileSync(passwordFile, `${password}\n`)
      const output = createMqtt(optionsFor(port, { username: 'gateway', passwordFile }))
      let trouble: string | null = 'nothing yet'
      for (let i = 0; i < 40 && trouble !== null && !/[Nn]ot authorized/.test(trouble); i++) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        trouble = await output.deliver({ first: 0, lines: [line(0)] }, never).then(
          () => null,
          (error: Error) => error.message,
        )
      }
      await output.close()
      return trouble
    }
    try {
      const refused = await attempt('wrong-secret')
      expect(refused).toMatch(/[Nn]ot authorized/)
      expect(refused).not.toContain('secret')
      expect(await attempt('right-secret')).toBeNull()
    } finally {
      await broker.stop()
    }
  }, 60_000)
})

describe('descriptions for Home Assistant', () => {
  it('name each entity once, and the topics of this agent', () => {
    const found = discovery(optionsFor(1883))
    expect(found.map(([topic]) => topic)).toEqual([
      expect.stringMatching(
        /^homeassistant\/binary_sensor\/oddflow_gate_way_local_[0-9a-f]{8}_connection\/config$/,
      ),
      expect.stringMatching(/^homeassistant\/event\/oddflow_gate_way_local_[0-9a-f]{8}_alert\/config$/),
      expect.stringMatching(/^homeassistant\/sensor\/oddflow_gate_way_local_[0-9a-f]{8}_last_alert\/config$/),
    ])
    expect(new Set(found.map(([, { unique_id }]) => unique_id)).size).toBe(3)
    for (const [, payload] of found) {
      expect(payload.state_topic).toMatch(/^oddflow\/gate-way-local\/(status|alerts)$/)
    }
    expect(discovery(optionsFor(1883, { homeAssistant: null }))).toEqual([])
    // another agent of the same machine is another device
    const [[other]] = discovery(optionsFor(1883, { alertFile: '/other.json' }))
    expect(other).not.toBe(found[0][0])
  })
})

it('a password file that is not there is an error at the start', () => {
  expect(() => createMqtt(optionsFor(9, { passwordFile: join(folder, 'none') }))).toThrow(
    /none: cannot read it/,
  )
})
