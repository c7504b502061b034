/** Alerts by MQTT: through a real mosquitto to a real subscriber. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { discovery } from '../../src/outputs/home-assistant.js'
import { createMqtt, type MqttOptions } from '../../src/outputs/mqtt.js'
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
  username: null,
  passwordFile: null,
  caFile: null,
  prefix: null,
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
      output: await createMqtt(optionsFor(port)),
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
      onTrouble: (trouble) => troubles.push(trouble?.message ?? null),
    })
    try {
      for (let i = 0; i < 100; i++) log.append(line(i))
      for (let i = 0; i < 400 && !/Not authorized/.test(delivery.trouble?.message ?? ''); i++)
        await new Promise((resolve) => setTimeout(resolve, 25))
      expect(delivery.trouble?.message).toBe(
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
      expect(delivery).toMatchObject({ delivered: 100, trouble: null })
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

  it('MQTT 5 is spoken to in 3.1.1, and what that means is told', async () => {
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
    expect(told.lines.join('\n')).toMatch(/knows no MQTT 5; .* counts as delivered/)
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
})
