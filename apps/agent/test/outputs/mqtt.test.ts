/** Alerts by MQTT: through a real mosquitto to a real subscriber. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { type Clock, systemClock } from '../../src/input/clocks.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { keptMessages, namesOf, openDescribedDevices } from '../../src/outputs/home-assistant.js'
import { createMqtt, type MqttOptions } from '../../src/outputs/mqtt.js'
import type { DeviceStatus } from '../../src/outputs/output.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { keepingLog } from '../support/keeping-log.js'
import { freePort, hasMosquitto, startBroker, subscribe } from '../support/mosquitto.js'

const folder = temporaryFolder()
const never = new AbortController().signal
const NO_BROKER = 'mosquitto and mosquitto_sub are not installed'

const optionsFor = (port: number, changes: Partial<MqttOptions> = {}): MqttOptions => ({
  kind: 'mqtt',
  name: 'mqtt',
  url: `mqtt://127.0.0.1:${port}`,
  homeAssistant: 'homeassistant',
  answers: false,
  version: '1.2.3',
  hostname: 'Gate Way.local',
  alertFile: '/var/log/eve.json',
  clock: systemClock,
  log: keepingLog(),
  ...changes,
})
const line = (n: number): Uint8Array => new TextEncoder().encode(`{"event_type":"alert","n":${n}}`)
const numbersIn = (messages: readonly (readonly [string, string])[]): number[] =>
  messages
    .filter(([topic]) => topic === 'oddflow/gate-way-local/alerts')
    .map(([, payload]) => (JSON.parse(payload) as { n: number }).n)
const statusIn = (messages: readonly (readonly [string, string])[]): string[] =>
  messages.filter(([topic]) => topic === 'oddflow/gate-way-local/status').map(([, payload]) => payload)

/** A broker that says yes to everything, but for what it answers to a CONNECT. Acknowledges a while after it was sent. */
async function countingBroker(connack: (connection: number, version: number) => Buffer) {
  const versions: number[] = []
  const sockets: Socket[] = []
  let unacknowledged = 0
  let most = 0
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    let version = 0
    let bytes = Buffer.alloc(0)
    socket.on('data', (piece: Buffer) => {
      bytes = Buffer.concat([bytes, piece])
      for (;;) {
        if (bytes.length < 2) return
        let [at, length, shift] = [1, 0, 0]
        for (let byte = 0x80; byte >= 0x80; at++, shift += 7) {
          byte = bytes[at] ?? 0
          length |= (byte & 0x7f) << shift
        }
        if (bytes.length < at + length) return
        const [type, body] = [(bytes[0] ?? 0) >>> 4, bytes.subarray(at, at + length)]
        bytes = bytes.subarray(at + length)
        if (type === 1) {
          version = body[6] ?? 0
          const answer = connack(versions.push(version) - 1, version)
          if (answer[3] === 0) socket.write(answer)
          else socket.end(answer)
        }
        if (type === 3) {
          most = Math.max(most, ++unacknowledged)
          const id = 2 + body.readUInt16BE(0)
          const puback = Buffer.from([0x40, 2, body[id] ?? 0, body[id + 1] ?? 0])
          setTimeout(() => {
            unacknowledged--
            socket.write(puback)
          }, 10)
        }
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    versions,
    mostUnacknowledged: () => most,
    async until(count: number) {
      for (let i = 0; i < 800 && versions.length < count; i++)
        await new Promise((resolve) => setTimeout(resolve, 25))
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('a broker', () => {
  it('gets alerts in order, the status, and descriptions that Home Assistant finds', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const broker = await startBroker(port, folder)
    const subscriber = await subscribe(port)
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const delivery = await startDelivery({
      log,
      output: await createMqtt(optionsFor(port)),
      clock: systemClock,
    })
    try {
      for (let i = 0; i < 150; i++) log.append(line(i))
      await delivery.drained(never)
      await subscriber.until((messages) => numbersIn(messages).length >= 150)
      expect(numbersIn(subscriber.messages)).toEqual(Array.from({ length: 150 }, (_, i) => i))
      expect(statusIn(subscriber.messages)).toEqual(['online'])
      await delivery.stop()
      await subscriber.until((messages) => statusIn(messages).length >= 2)
      expect(statusIn(subscriber.messages)).toEqual(['online', 'offline'])
      // retained for later subscribers
      const later = await subscribe(port, ['-W', '5'])
      await later.until((messages) => messages.length >= 4)
      await later.stop()
      expect(statusIn(later.messages)).toEqual(['offline'])
      const described = later.messages.filter(([topic]) => topic.startsWith('homeassistant/'))
      expect(new Map(described)).toEqual(keptMessages(optionsFor(port), []))
    } finally {
      await delivery.stop()
      await subscriber.stop()
      await broker.stop()
    }
  }, 60_000)

  it('that was down, or is killed, gets all alerts when it is back', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const troubles: (string | null)[] = []
    const delivery = await startDelivery({
      log,
      output: await createMqtt(optionsFor(port)),
      clock: { ...hastyClock, sleep: (_, signal) => systemClock.sleep(50, signal) },
      onError: (trouble) => troubles.push(trouble?.message ?? null),
    })
    for (let i = 0; i < 100; i++) log.append(line(i))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(delivery).toMatchObject({ delivered: 0, backlog: 100 })
    expect(troubles[0]).toMatch(/^mqtt:\/\/127\.0\.0\.1:\d+: /)
    let broker = await startBroker(port, folder)
    let subscriber = await subscribe(port)
    try {
      await delivery.drained(never)
      await subscriber.until((messages) => numbersIn(messages).length >= 100)
      expect([...new Set(numbersIn(subscriber.messages))]).toEqual(Array.from({ length: 100 }, (_, i) => i))
      expect(troubles.at(-1)).toBeNull()
      await broker.kill()
      await subscriber.stop()
      for (let i = 100; i < 200; i++) log.append(line(i))
      await expect.poll(() => delivery.lastError, { timeout: 30_000 }).not.toBeNull()
      broker = await startBroker(port, folder)
      subscriber = await subscribe(port)
      await delivery.drained(never)
      await subscriber.until((messages) => numbersIn(messages).includes(199))
      expect(delivery).toMatchObject({ delivered: 200, dropped: 0, setAside: 0, backlog: 0 })
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
      const output = await createMqtt(optionsFor(port, { username: 'gateway', passwordFile }))
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

describe('a broker that denies', () => {
  it('a topic by its access list has not got the alerts, says so, and gets them once it allows them', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const acl = join(folder, 'acl')
    const further = [`acl_file ${acl}`, 'user root']
    writeFileSync(acl, 'topic readwrite other/#\n')
    let broker = await startBroker(port, folder, undefined, further)
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const told = keepingLog()
    const troubles: (string | null)[] = []
    const delivery = await startDelivery({
      log,
      output: await createMqtt(optionsFor(port, { log: told })),
      clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(50, signal) },
      onError: (trouble) => troubles.push(trouble?.message ?? null),
    })
    try {
      for (let i = 0; i < 100; i++) log.append(line(i))
      for (let i = 0; i < 400 && !/Not authorized/.test(delivery.lastError?.message ?? ''); i++)
        await new Promise((resolve) => setTimeout(resolve, 25))
      expect(delivery.lastError?.message).toBe(
        `mqtt://127.0.0.1:${port}: oddflow/gate-way-local/alerts: Publish error: Not authorized`,
      )
      expect(delivery).toMatchObject({ delivered: 0, setAside: 0, backlog: 100 })
      expect(told.lines.join('\n')).toMatch(/gate-way-local\/status: Publish error: Not authorized/)
      await broker.stop()
      writeFileSync(acl, 'topic readwrite #\n')
      broker = await startBroker(port, folder, undefined, further)
      const subscriber = await subscribe(port)
      await delivery.drained(never)
      await subscriber.until((messages) => new Set(numbersIn(messages)).size === 100)
      await subscriber.stop()
      expect(delivery).toMatchObject({ delivered: 100, lastError: null })
    } finally {
      await delivery.stop()
      await broker.stop()
    }
  }, 60_000)

  it.skipIf(!hasMosquitto).each(['max_packet_size 2000', 'message_size_limit 2000'])(
    'a packet of some length (%s) gets all others',
    async (limit) => {
      const port = await freePort()
      const broker = await startBroker(port, folder, undefined, [limit])
      const log = createMemoryLog({ maximumBytes: 1_000_000 })
      const delivery = await startDelivery({
        log,
        output: await createMqtt(optionsFor(port, { reconnectMillis: 50 })),
        clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(50, signal) },
      })
      const subscriber = await subscribe(port)
      try {
        for (let i = 0; i < 20; i++) {
          const more = [3, 4, 11].includes(i) ? 'x'.repeat(4000) : ''
          log.append(new TextEncoder().encode(JSON.stringify({ n: i, more })))
        }
        await delivery.drained(never)
        expect(delivery).toMatchObject({ delivered: 17, setAside: 3, backlog: 0 })
        await subscriber.until((messages) => new Set(numbersIn(messages)).size === 17)
      } finally {
        await delivery.stop()
        await subscriber.stop()
        await broker.stop()
      }
    },
    60_000,
  )

  it('the agent at first, as it starts or has other passwords, is asked again', async () => {
    const answers = [
      [0x20, 3, 0, 136, 0],
      [0x20, 3, 0, 135, 0],
    ]
    const connections = await countingBroker((n) => Buffer.from(answers[n] ?? [0x20, 3, 0, 0, 0]))
    const output = await createMqtt(optionsFor(connections.port, { reconnectMillis: 20 }))
    await connections.until(3)
    await output.close()
    await connections.stop()
    expect(connections.versions).toEqual([5, 5, 5])
  })

  it('MQTT 5 gets 3.1.1, and the log says what that means', async () => {
    const told = keepingLog()
    const connections = await countingBroker((_, version) =>
      Buffer.from(version === 5 ? [0x20, 2, 0, 1] : [0x20, 2, 0, 0]),
    )
    const output = await createMqtt(optionsFor(connections.port, { log: told, reconnectMillis: 20 }))
    await connections.until(2)
    let trouble: unknown = 'none yet'
    for (let i = 0; i < 200 && trouble !== null; i++) {
      trouble = await output.deliver({ first: 0, lines: [line(0)] }, never).then(
        () => null,
        (error: Error) => error,
      )
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await output.close()
    await connections.stop()
    expect(trouble).toBe(null)
    expect(connections.versions).toEqual([5, 4])
    expect(told.lines.join('\n')).toMatch(/does not support MQTT 5; .* counts as delivered/)
  })

  it('more unacknowledged publishes than its receive maximum gets no more', async () => {
    // properties of the CONNACK: receive maximum (0x21) 3
    const connections = await countingBroker(() => Buffer.from([0x20, 6, 0, 0, 3, 0x21, 0, 3]))
    const output = await createMqtt(optionsFor(connections.port))
    await connections.until(1)
    const lines = Array.from({ length: 20 }, (_, i) => line(i))
    let isDone = false
    for (let i = 0; i < 200 && !isDone; i++) {
      isDone = await output.deliver({ first: 0, lines }, never).then(
        () => true,
        () => false,
      )
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await output.close()
    await connections.stop()
    expect(isDone).toBe(true)
    expect(connections.mostUnacknowledged()).toBeLessThanOrEqual(3)
    expect(connections.mostUnacknowledged()).toBeGreaterThan(1)
  })

  it('a receive maximum of 0, which the protocol does not have, keeps nothing waiting', async () => {
    const connections = await countingBroker(() => Buffer.from([0x20, 6, 0, 0, 3, 0x21, 0, 0]))
    const output = await createMqtt(optionsFor(connections.port))
    await connections.until(1)
    const deliver = () => output.deliver({ first: 0, lines: [line(1), line(2)] }, never)
    await expect.poll(() => deliver().catch(String), { timeout: 5000 }).toMatch(/^acknowledged/)
    await output.close()
    await connections.stop()
  })
})

const CAMERA: DeviceStatus = {
  key: '02:00:00:00:00:0a',
  name: 'Camera\u001b[2J',
  group: null,
  state: 'watching',
  incidentsToday: 2,
  lastIncident: 'Camera was contacted on 16 ports.',
  unanswered: '5f'.repeat(16),
}

/** As home-assistant.io documents them ("MQTT Discovery", "MQTT Sensor", "MQTT Binary sensor", "MQTT Button", "MQTT Event"). */
const word = v.pipe(v.string(), v.minLength(1))
const entity = {
  name: word,
  unique_id: v.pipe(v.string(), v.regex(/^\w+$/)),
  device: v.strictObject({
    identifiers: v.array(word),
    name: word,
    manufacturer: v.optional(word),
    model: v.optional(word),
    sw_version: v.optional(word),
    via_device: v.optional(word),
    suggested_area: v.optional(word),
    configuration_url: v.optional(v.pipe(v.string(), v.url(), v.regex(/^https?:/))),
  }),
  origin: v.strictObject({ name: word, sw_version: word }),
}
const common = { ...entity, state_topic: word }
const available = { ...common, availability_topic: word }
const COMPONENTS: Readonly<Record<string, v.GenericSchema>> = {
  sensor: v.strictObject({
    ...available,
    value_template: word,
    state_class: v.optional(v.picklist(['measurement', 'total', 'total_increasing'])),
  }),
  binary_sensor: v.strictObject({
    ...common,
    device_class: v.literal('connectivity'),
    payload_on: word,
    payload_off: word,
  }),
  event: v.strictObject({ ...available, event_types: v.array(word) }),
  button: v.strictObject({
    ...entity,
    command_topic: word,
    payload_press: word,
    qos: v.picklist([0, 1, 2]),
    availability: v.array(v.strictObject({ topic: word, value_template: v.optional(word) })),
    availability_mode: v.picklist(['all', 'any', 'latest']),
  }),
}

describe('what a broker keeps for Home Assistant', () => {
  const configsIn = (kept: ReadonlyMap<string, string>) =>
    [...kept].filter(([topic]) => topic.startsWith('homeassistant/'))

  it('is descriptions as they are documented, each of an entity of its own', () => {
    const options = {
      ...optionsFor(1883),
      answers: true,
      dashboardUrl: 'http://gateway.lan:9477/',
    }
    const configs = configsIn(keptMessages(options, [CAMERA]))
    expect(configs).toHaveLength(8)
    const ids = configs.map(([topic, text]) => {
      const [, component, object] = /^homeassistant\/(\w+)\/(\w+)\/config$/.exec(topic) ?? []
      const payload = v.parse(COMPONENTS[component ?? ''], JSON.parse(text)) as { unique_id: string }
      expect(payload.unique_id).toBe(object)
      expect(payload).toMatchObject({ device: { configuration_url: 'http://gateway.lan:9477/' } })
      return payload.unique_id
    })
    expect(new Set(ids).size).toBe(8)
    expect(configs.map(([, text]) => text).join()).not.toContain('\\u001b')
  })

  it('suggests the group of a device as its area, and nothing without one', () => {
    const areasOf = (group: string | null) =>
      configsIn(keptMessages(optionsFor(1883, { answers: true }), [{ ...CAMERA, group }])).map(
        ([topic, text]) => {
          const component = topic.split('/')[1] ?? ''
          const { device } = v.parse(v.looseObject({ device: v.looseObject({}) }), JSON.parse(text))
          expect(v.safeParse(COMPONENTS[component], JSON.parse(text)).success, topic).toBe(true)
          return device.suggested_area
        },
      )
    // the agent's own entities come first
    const own = Array(3).fill(undefined)
    expect(areasOf('cameras\u001b[2J')).toEqual([...own, ...Array(5).fill('cameras [2J')])
    expect(areasOf(null)).toEqual([...own, ...Array(5).fill(undefined)])
  })

  it('knows the agent whatever the path of its alert file, and another one by its prefix', () => {
    const topicsOf = (changes: Partial<MqttOptions>) => [
      ...keptMessages(optionsFor(1883, changes), []).keys(),
    ]
    expect(topicsOf({ alertFile: '/other.json' })).toEqual(topicsOf({}))
    expect(topicsOf({ prefix: 'second' })).not.toEqual(topicsOf({}))
    // clients of one id would throw each other out
    const clientOf = (alertFile: string) => namesOf(optionsFor(1883, { alertFile })).clientId
    expect(clientOf('/other.json')).not.toBe(clientOf('/var/log/eve.json'))
  })

  it('changes with the devices, and goes where it is switched off', async (context) => {
    if (!hasMosquitto) context.skip(NO_BROKER)
    const port = await freePort()
    const broker = await startBroker(port, folder)
    const state = { files: nodeFileSystem, folder: temporaryFolder() }
    const hasty: Clock = { ...systemClock, every: (_, work) => systemClock.every(50, work) }
    let devices: DeviceStatus[] = [CAMERA]
    const open = (changes: Partial<MqttOptions>) =>
      createMqtt(optionsFor(port, { clock: hasty, state, devices: () => devices, ...changes }))
    const keptAt = async (enough: (kept: Map<string, string>) => boolean): Promise<Map<string, string>> => {
      const subscriber = await subscribe(port)
      // the last message counts, and an empty one takes away
      const kept = () => new Map([...new Map(subscriber.messages)].filter(([, text]) => text !== ''))
      await subscriber.until(() => enough(kept()))
      await subscriber.stop()
      return kept()
    }
    const topic = 'oddflow/gate-way-local/devices/02000000000a'
    const statusOf = (kept: Map<string, string>) => JSON.parse(kept.get(topic) ?? '{}')
    try {
      const on = await open({})
      const first = await keptAt((kept) => configsIn(kept).length === 6 && kept.has(topic))
      expect(statusOf(first)).toEqual({
        state: 'watching',
        incidentsToday: 2,
        lastIncident: 'Camera was contacted on 16 ports.',
        answers: 'online',
      })
      devices = [{ ...CAMERA, state: 'paused', group: 'cameras' }]
      await keptAt(
        (kept) =>
          statusOf(kept).state === 'paused' &&
          configsIn(kept).filter(([, text]) => text.includes('"suggested_area":"cameras"')).length === 3,
      )
      devices = []
      await keptAt((kept) => configsIn(kept).length === 3 && !kept.has(topic))
      devices = [CAMERA]
      await keptAt((kept) => configsIn(kept).length === 6)
      await on.close()
      // forgotten while the agent was off
      devices = []
      const later = await open({})
      await keptAt((kept) => configsIn(kept).length === 3 && !kept.has(topic))
      await later.close()
      devices = [CAMERA]
      const elsewhere = await open({ homeAssistant: 'ha' })
      await keptAt(
        (kept) =>
          configsIn(kept).length === 0 &&
          [...kept.keys()].filter((key) => key.startsWith('ha/')).length === 6,
      )
      await elsewhere.close()
      const again = await open({})
      await keptAt((kept) => configsIn(kept).length === 6)
      await again.close()
      const off = await open({ homeAssistant: false })
      await keptAt((kept) => configsIn(kept).length === 0 && !kept.has(topic))
      await off.close()
    } finally {
      await broker.stop()
    }
  }, 60_000)
})

it('the devices that a broker has descriptions of are bounded, kept, and none where the file is damaged', async () => {
  const state = { files: nodeFileSystem, folder: temporaryFolder() }
  const log = keepingLog()
  const open = () => openDescribedDevices(state, 'hub', log)
  const first = await open()
  const keyOf = (n: number): string => `192.0.${n >> 8}.${n & 255}`
  await first.add(Array.from({ length: 1030 }, (_, n) => keyOf(n)))
  await first.remove([keyOf(1029)])
  const again = await open()
  expect(again.keys.size).toBe(1023)
  expect([again.keys.has(keyOf(5)), again.keys.has(keyOf(6)), again.keys.has(keyOf(1029))]).toEqual([
    false,
    true,
    false,
  ])
  expect(log.lines).toEqual([])
  writeFileSync(join(state.folder, 'described-hub.json'), '{"keys":["\u001b"]}')
  expect((await open()).keys.size).toBe(0)
  expect(log.lines.join()).toContain('described-hub.json')
})

it('a password file that is not there is an error at the start', async () => {
  await expect(createMqtt(optionsFor(9, { passwordFile: join(folder, 'none') }))).rejects.toThrow(
    /none: cannot read it/,
  )
})

describe.skipIf(!hasMosquitto)('answers by a broker', () => {
  it('are taken where they are asked for: not retained ones, and a message that is too long ends the connection', async () => {
    const port = await freePort()
    const broker = await startBroker(port, folder)
    const taken: [string, boolean][] = []
    let oversized = 0
    const remoteAnswers = {
      async take(message: Uint8Array, isRetained: boolean) {
        taken.push([new TextDecoder().decode(message), isRetained])
      },
      refuseOversized() {
        oversized++
      },
    }
    const topic = 'oddflow/gate-way-local/answer'
    const say = (...args: string[]): void =>
      void execFileSync('mosquitto_pub', ['-p', String(port), '-q', '1', ...args])
    try {
      say('-t', topic, '-r', '-m', 'kept by the broker')
      const output = await createMqtt(
        optionsFor(port, { answers: true, remoteAnswers, reconnectMillis: 200 }),
      )
      try {
        await expect
          .poll(
            () => {
              say('-t', topic, '-m', 'an answer')
              return taken.length
            },
            { timeout: 15_000, interval: 300 },
          )
          .toBeGreaterThan(0)
        expect(taken.every(([text, isRetained]) => text === 'an answer' && !isRetained)).toBe(true)
        expect(oversized).toBe(0)
        say('-t', topic, '-m', 'x'.repeat(5000))
        await expect.poll(() => oversized, { timeout: 10_000 }).toBeGreaterThan(0)
      } finally {
        await output.close()
      }
    } finally {
      await broker.stop()
    }
  }, 60_000)

  it('are sent by the buttons of a device, of the incident that is shown, once', async () => {
    const port = await freePort()
    const broker = await startBroker(port, folder)
    let devices: DeviceStatus[] = [CAMERA]
    const taken: string[] = []
    const remoteAnswers = {
      async take(message: Uint8Array) {
        taken.push(new TextDecoder().decode(message))
        devices = [{ ...CAMERA, unanswered: null }]
      },
      refuseOversized() {},
    }
    const output = await createMqtt(
      optionsFor(port, { answers: true, remoteAnswers, devices: () => devices }),
    )
    const subscriber = await subscribe(port)
    try {
      const last = (topic: RegExp): Record<string, unknown> => {
        const found = subscriber.messages.filter(([each]) => topic.test(each)).at(-1)
        return JSON.parse(found?.[1] ?? '{}')
      }
      const described = (answer: string) => last(new RegExp(`^homeassistant/button/\\w+_${answer}/config$`))
      const isOnline = () => last(/\/devices\//).answers
      await subscriber.until(() => described('attack').payload_press !== undefined)
      expect(isOnline()).toBe('online')
      const { command_topic, payload_press } = described('snooze')
      const press = ['-t', String(command_topic), '-m', String(payload_press)]
      await expect
        .poll(
          () => {
            if (taken.length === 0) execFileSync('mosquitto_pub', ['-p', String(port), '-q', '1', ...press])
            return taken.length
          },
          { timeout: 15_000, interval: 300 },
        )
        .toBeGreaterThan(0)
      expect(JSON.parse(taken[0])).toEqual({ incident: CAMERA.unanswered, answer: 'snooze' })
      // the button is off without a wait
      await subscriber.until(() => isOnline() === 'offline')
    } finally {
      await output.close()
      await subscriber.stop()
      await broker.stop()
    }
  }, 60_000)
})
