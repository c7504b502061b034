/**
 * MQTT: alerts to a broker (MQTT 5 by npm's mqtt; 3.1.1 to a broker that knows no other), and to Home Assistant by its discovery.
 *
 *     PREFIX/alerts   every alert, an EVE event, QoS 1: delivered is what the broker has acknowledged with a reason code of
 *                     success. MQTT 3.1.1 has no reason codes: what the access list denies is acknowledged all the same
 *     PREFIX/status   online, or offline: retained, the last will
 *     PREFIX/answer   with `answers`, from the broker: {"incident": ID, "answer": "snooze" or "attack", "hours": up to 24}
 *     DISCOVERY/…     retained descriptions for Home Assistant, and PREFIX/devices/… (home-assistant.ts)
 *
 * The library reconnects by itself; alerts are handed to it while it is connected. It takes some 22 MB of resident memory, so it is
 * loaded with such an output alone.
 */
import type { Duplex } from 'node:stream'
import type { MqttClient } from 'mqtt'
import * as v from 'valibot'
import type { RemoteAnswers } from '../incidents/answers.js'
import { orAborted, withinMillis } from '../pipeline/shutdown.js'
import type { AlertBatch } from '../spool/alert-log.js'
import { keptMessages, namesOf, openDescribedDevices } from './home-assistant.js'
import {
  ANSWER_MILLIS,
  allDone,
  BATCH,
  defineOutput,
  type Output,
  type OutputEnvironment,
  originOf,
  path,
  RefusedError,
  readCertificates,
  readSecret,
  type SettingsOf,
  text,
  urlOf,
} from './output.js'

/** Levels of printable ASCII without spaces and wildcards. */
const topic = (what: string) =>
  v.pipe(
    v.string(),
    v.maxLength(200),
    v.regex(
      /^[!"$-*,-.0-~]+(\/[!"$-*,-.0-~]+)*$/,
      'levels of visible ASCII characters without # and +, between single slashes',
    ),
    v.description(what),
  )

const entries = {
  url: urlOf(
    /^mqtts?:/,
    'a URL of mqtt or mqtts',
    'The broker, such as mqtt://192.0.2.5:1883; a password goes into passwordFile.',
  ),
  username: v.optional(text('Name to log in with.')),
  passwordFile: v.optional(path('A file whose first line is the password.')),
  prefix: v.optional(
    topic("Of the agent's topics (oddflow/ and the machine's name): PREFIX/alerts and PREFIX/status."),
  ),
  homeAssistant: v.optional(
    v.union([v.literal(false), topic("Prefix of Home Assistant's discovery (homeassistant), or false.")]),
    'homeassistant',
  ),
  answers: v.optional(
    v.pipe(
      v.boolean(),
      v.description(
        'Accept answers to incidents on PREFIX/answer: a snooze of at most 24 hours, and "attack" (false). Anyone who may write to this topic can snooze incidents, so restrict it in the broker.',
      ),
    ),
    false,
  ),
}
type MqttSettings = SettingsOf<'mqtt', typeof entries>

export const mqtt = defineOutput({
  kind: 'mqtt',
  entries,
  check({ url }, refuse) {
    if (new URL(url).password !== '') refuse('url', 'must not contain a password; give passwordFile')
  },
  memoryBytes: 24 * 1_048_576,
  create: (settings, environment) => createMqtt({ ...settings, ...environment }),
})

/**
 * The library gathers a packet until it is whole, up to the 256 MB that the protocol allows (MQTT 3.1.1, section 2.2.3). So the agent
 * reads the fixed headers too: a packet of more than MAXIMUM_BYTES, a PUBLISH (type 3) too many, and an answer without a request end the
 * connection at their first bytes.
 */
const PUBLISH = 3
const MAXIMUM_BYTES = 1024
/** One more ends the connection. */
const MESSAGES_PER_MINUTE = 30
/** Answers without a request to allow: a farewell, or a repeated answer. */
const SPARE_ANSWERS = 16

/** Ends the connection at the first bytes that are no valid answer. */
export function guardBroker(
  stream: Duplex,
  takesMessage: () => boolean,
  takesAnswer: () => boolean,
  onRefused: (why: string) => void,
): void {
  const refuses = createFrameCheck(takesMessage, takesAnswer)
  stream.on('data', (bytes: Uint8Array) => {
    const why = refuses(bytes)
    if (why === null || stream.destroyed) return
    onRefused(why)
    stream.destroy(new Error(why))
  })
}

/** Checks the bytes as they come: returns why the connection must end, or null. */
export function createFrameCheck(
  takesMessage: () => boolean,
  takesAnswer: () => boolean,
): (bytes: Uint8Array) => string | null {
  /** Missing bytes of the current packet. */
  let rest = 0
  let type = -1
  let length = 0
  let shift = 0
  return (bytes) => {
    for (let at = 0; at < bytes.length; ) {
      if (rest > 0) {
        const taken = Math.min(rest, bytes.length - at)
        rest -= taken
        at += taken
        continue
      }
      const byte = bytes[at++]
      if (type < 0) {
        type = byte >>> 4
        length = 0
        shift = 0
        if (type === PUBLISH && !takesMessage()) return 'the broker sent a message without a subscription'
        if (type !== PUBLISH && !takesAnswer()) return 'the broker sent more acknowledgements than requests'
        continue
      }
      length |= (byte & 0x7f) << shift
      shift += 7
      if (length > MAXIMUM_BYTES || shift > 28) return 'the broker sent a packet of unexpected length'
      if (byte < 0x80) {
        rest = length
        type = -1
      }
    }
    return null
  }
}

/** Whether one more message may come: MESSAGES_PER_MINUTE. */
function createMessageRate(nowMillis: () => number): () => boolean {
  let [beganMillis, count] = [nowMillis(), 0]
  return () => {
    if (nowMillis() - beganMillis >= 60_000) [beganMillis, count] = [nowMillis(), 0]
    return ++count <= MESSAGES_PER_MINUTE
  }
}

export interface MqttOptions extends MqttSettings, OutputEnvironment {
  /** From a connection that broke to the next. */
  readonly reconnectMillis?: number
}

const RECONNECT_MILLIS = 5000
const GOODBYE_MILLIS = 300
const KEEPALIVE_SECONDS = 30
const DEVICES_MILLIS = 60_000
/** Of a CONNACK: in MQTT 3.1.1 and before, and in MQTT 5. */
const UNKNOWN_VERSION = [1, 132]
/** Packet too large, and payload format invalid: the fault is in what was sent. */
const REFUSALS = [149, 153]
/** The library's message for an unknown reason code, such as that of mosquitto 2.0 with message_size_limit. */
const UNKNOWN_REASON = /^Invalid puback reason code/
/** Fixed header, length of the topic, identifier, and no properties. */
const PUBLISH_HEADER_BYTES = 10

/** Begins to connect. Rejects with FileError if a file of the settings cannot be read. */
export async function createMqtt(options: MqttOptions): Promise<Output> {
  // a bundle has its default export only
  const { connect } = (await import('mqtt')).default
  const { isTrial = false, state = null, name, log } = options
  const described = await openDescribedDevices(isTrial ? null : state, name, log)
  const output = new MqttOutput(options, connect, described)
  if (isTrial) await output.firstAnswer()
  return output
}

type Mqtt = typeof import('mqtt')

class MqttOutput implements Output {
  readonly name: string
  readonly target: string
  readonly batch = BATCH
  readonly #options: MqttOptions
  readonly #connect: Mqtt['connect']
  readonly #described: Awaited<ReturnType<typeof openDescribedDevices>>
  readonly #isTrial: boolean
  /** Of all topics. */
  readonly #prefix: string
  readonly #clientOptions: Parameters<Mqtt['connect']>[1]
  /** Takes answers, or null. */
  readonly #remote: RemoteAnswers | null
  readonly #takesMessage: () => boolean
  readonly #stopKeeping: () => void
  #protocolVersion: 4 | 5 = 5
  #lastError = 'is not connected'
  #announced: Promise<void> = Promise.resolve()
  /** Ends the attempt that is being made. */
  #onBroken: (error: Error) => void = () => undefined
  /** What the broker has of this connection, by topic. */
  readonly #kept = new Map<string, string>()
  #client: MqttClient | null

  constructor(
    options: MqttOptions,
    connect: Mqtt['connect'],
    described: Awaited<ReturnType<typeof openDescribedDevices>>,
  ) {
    const { clock, isTrial = false, username, passwordFile, caFile } = options
    const { prefix, clientId } = namesOf(options)
    this.#options = options
    this.#connect = connect
    this.#described = described
    this.#isTrial = isTrial
    this.#prefix = prefix
    this.name = options.name
    this.target = originOf(options.url)
    this.#remote = options.answers ? (options.remoteAnswers ?? null) : null
    this.#takesMessage = createMessageRate(clock.monotonicMillis)
    const will = { topic: `${prefix}/status`, payload: Buffer.from('offline'), qos: 1, retain: true } as const
    this.#clientOptions = {
      // a client of the same id would be thrown out by the broker
      clientId: `${clientId}${isTrial ? '-trial' : ''}`,
      clean: true,
      keepalive: KEEPALIVE_SECONDS,
      connectTimeout: ANSWER_MILLIS,
      reconnectPeriod: options.reconnectMillis ?? RECONNECT_MILLIS,
      // a broker may refuse for a while: it starts, or its passwords change
      reconnectOnConnackError: true,
      queueQoSZero: false,
      resubscribe: false,
      // connects after the listeners are added
      manualConnect: true,
      ...(username === undefined ? {} : { username }),
      ...(passwordFile === undefined ? {} : { password: readSecret(passwordFile) }),
      ...(caFile === undefined ? {} : { ca: readCertificates(caFile) }),
      ...(isTrial ? {} : { will }),
    }
    this.#client = this.#begin()
    // without acknowledgements, so that alerts can use all that the broker allows
    this.#stopKeeping = clock.every(DEVICES_MILLIS, () => {
      const open = this.#client
      if (!isTrial && open?.connected === true) this.#announce(open)
    })
  }

  /** Resolves when it is connected, or has failed. */
  firstAnswer(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ANSWER_MILLIS)
      for (const event of ['connect', 'error', 'close'] as const) {
        this.#client?.once(event, () => {
          clearTimeout(timer)
          resolve()
        })
      }
    })
  }

  async deliver({ lines }: AlertBatch, signal: AbortSignal): Promise<string> {
    const open = this.#client
    const topic = `${this.#prefix}/alerts`
    if (open === null || !open.connected) throw new Error(`${this.target}: ${this.#lastError}`)
    let isBroken = false
    try {
      await withinMillis(this.#options.clock, ANSWER_MILLIS, signal, (limit) => {
        const broken = new Promise<never>((_, reject) => {
          this.#onBroken = (error) => {
            isBroken = true
            reject(error)
          }
        })
        const silent = (): void => this.#onBroken(new Error('does not acknowledge'))
        if (limit.aborted) silent()
        else limit.addEventListener('abort', silent, { once: true })
        const published = this.#announced.then(() => publish(open, this.target, topic, lines))
        return Promise.race([published, broken]).finally(() => {
          this.#onBroken = () => undefined
        })
      })
    } catch (error) {
      // the library would send its alerts again, over this connection and the next
      if (isBroken && this.#client === open && !signal.aborted) {
        this.#client = this.#begin()
        open.end(true)
      }
      throw deliveryError(this.target, topic, error as Error)
    }
    return `acknowledged by the broker (MQTT ${this.#protocolVersion === 5 ? '5' : '3.1.1'})`
  }

  async close(): Promise<void> {
    this.#stopKeeping()
    const open = this.#client
    this.#client = null
    if (open === null) return
    if (open.connected && !this.#isTrial) {
      // after a farewell the broker does not send the last will
      const farewell = async (): Promise<void> => {
        await open.publishAsync(`${this.#prefix}/status`, 'offline', { qos: 1, retain: true })
        await open.endAsync()
      }
      await withinMillis(this.#options.clock, GOODBYE_MILLIS, null, (limit) =>
        orAborted(farewell(), limit).catch(() => undefined),
      )
    }
    await open.endAsync(true)
  }

  #warn(message: string): void {
    this.#options.log.warn(`${this.target}: ${message}`)
  }

  #announce(open: MqttClient): void {
    this.#announced = this.#announced.then(() => this.#keep(open, 0))
  }

  /** Sends changed messages for the broker to keep. A refusal does not affect alerts. */
  async #keep(open: MqttClient, qos: 0 | 1): Promise<void> {
    const devices = this.#options.devices?.() ?? []
    const keys = devices.map(({ key }) => key)
    const gone = [...this.#described.keys].filter((key) => !keys.includes(key))
    if (this.#options.homeAssistant !== false) await this.#described.add(keys)
    const wanted = new Map([
      [`${this.#prefix}/status`, 'online'],
      ...keptMessages(this.#options, devices, gone),
    ])
    let isComplete = true
    for (const [topic, text] of wanted) {
      if (this.#kept.get(topic) === text) continue
      this.#kept.set(topic, text)
      await open.publishAsync(topic, text, { qos, retain: true }).catch(({ message }: Error) => {
        isComplete = false
        if (open.connected && text !== '') this.#warn(`${topic}: ${message}`)
      })
    }
    // the next connection sends unacknowledged messages again
    if (qos === 1 && isComplete) await this.#described.remove(gone)
  }

  #begin(): MqttClient {
    const opening = this.#connect(this.#options.url, {
      ...this.#clientOptions,
      protocolVersion: this.#protocolVersion,
    })
    this.#guard(opening)
    opening.on('error', (error) => {
      this.#lastError = error.message
      if (opening.connected) this.#onBroken(error)
      if (this.#protocolVersion === 4 || !UNKNOWN_VERSION.includes(codeOf(error))) return
      this.#protocolVersion = 4
      opening.options.protocolVersion = 4
      this.#warn(
        'does not support MQTT 5; with MQTT 3.1.1 an alert that the access list denies counts as delivered',
      )
    })
    opening.on('connect', () => {
      this.#kept.clear()
      if (!this.#isTrial) this.#announced = this.#keep(opening, 1)
    })
    if (this.#remote !== null) this.#takeAnswers(opening, this.#remote)
    opening.connect()
    return opening
  }

  #guard(opening: MqttClient): void {
    let answers = 0
    opening.on('packetsend', (packet) => {
      answers++
      // the first packet on every connection; nothing has been read from it yet
      if (packet.cmd !== 'connect') return
      answers = 1 + SPARE_ANSWERS
      guardBroker(
        opening.stream,
        () => this.#remote !== null && this.#takesMessage(),
        () => --answers >= 0,
        (why) => {
          this.#lastError = why
          this.#remote?.refuseOversized()
        },
      )
    })
  }

  #takeAnswers(opening: MqttClient, remote: RemoteAnswers): void {
    const topic = `${this.#prefix}/answer`
    opening.on('connect', () => {
      // asks for no retained messages; MQTT 3.1.1 sends them anyway
      opening.subscribeAsync(topic, { qos: 1, rh: 2 }).catch(({ message }: Error) => {
        if (opening.connected) this.#warn(`${topic}: ${message}; no answers are taken`)
      })
    })
    opening.on('message', (from, message, { retain }) => {
      if (from !== topic) return
      // switches a used button off at once
      void remote.take(message, retain).then(() => this.#announce(opening))
    })
  }
}

async function publish(
  open: MqttClient,
  target: string,
  topic: string,
  lines: readonly Uint8Array[],
): Promise<void> {
  const { receiveMaximum = BATCH, maximumPacketSize = Number.POSITIVE_INFINITY } = open.serverProperties ?? {}
  const longest = maximumPacketSize - Buffer.byteLength(topic) - PUBLISH_HEADER_BYTES
  if (lines.some(({ length }) => length > longest)) {
    throw new RefusedError(`${target}: takes packets of ${maximumPacketSize} bytes at most`)
  }
  // 0 is against the protocol (section 3.2.2.3.3)
  const together = Math.max(1, receiveMaximum)
  for (let at = 0; at < lines.length; at += together) {
    await allDone(
      lines.slice(at, at + together).map((line) => open.publishAsync(topic, Buffer.from(line), { qos: 1 })),
    )
  }
}

function codeOf(error: unknown): number {
  return Number((error as { code?: unknown } | null)?.code)
}

function deliveryError(target: string, topic: string, error: Error): Error {
  if (error instanceof RefusedError) return error
  const message = `${target}: ${topic}: ${error.message}`
  const isRefusal = REFUSALS.includes(codeOf(error)) || UNKNOWN_REASON.test(error.message)
  return isRefusal ? new RefusedError(message) : new Error(message)
}
