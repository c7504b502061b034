/**
 * Facts that are counted as packets come, so that they are reported while their flows are open: floods of requests, and tunnels
 * through DNS. Tables are bounded: what is over makes room, then what has fewest of the others. Time is the packets', in the order of
 * the capture.
 */
import { type FrameBatch, formatAddress, PACKET_OK, type PacketBatch } from '@oddflow/capture'
import { createFlowRecord, type FlowRecord, protocolName } from '@oddflow/flows'
import { spanText } from '../incidents/sentences.js'
import { endpointHash } from '../pipeline/watcher.js'
import { addressesOf } from './fact-sources.js'

const LOUDER = 4
const [TCP, UDP] = [6, 17]

/**
 * RequestFloods: requests to one service of a device that become no connection.
 *
 * A request is a TCP SYN, or the first UDP packet between two ends. It is taken back when the service sends TCP data or a FIN, or answers
 * by UDP; what the client sends may be forged like its SYN. A client has one open request for each of its ports, however often it sends it.
 *
 * Clients try again while a server restarts or hangs, and programs log by UDP without an answer, some from a new port for each message. So
 * the requests of one address count as one while there are fewer than RETRIES or, where the service refuses them (RST) and by UDP, LOUD.
 * But of a service that has nearly as many as are kept, each counts: a few addresses may share a flood.
 */

/** Checked when this number of requests is open within the window, and at each four times that number. */
const FLOOD = 512
/** A flood is reported if they are still open after this time: many honest clients may connect within milliseconds. */
const CONFIRM_MICROS = 1_000_000
const WINDOW_MICROS = 60_000_000
const UDP_WINDOW_MICROS = 10_000_000
/** A client that waits 4 s for an answer tries 15 times a minute. */
const RETRIES = 16
/** 68 refused connections or 410 datagrams a second. */
const LOUD = 4096
const MAXIMUM_SERVICES = 512
/** Of one service: more are not counted. */
const MAXIMUM_OF_SERVICE = 8192
const NEARLY_FULL = MAXIMUM_OF_SERVICE - FLOOD
const MAXIMUM_REQUESTS = 32_768
const [FIN, SYN, RST, ACK] = [1, 2, 4, 16]
/** A flood names a sender of this share of the requests. */
const ONE_SENDER_SHARE = 0.9
/** Powers of two: places for services that have requests, and for the latest pairs of ends by UDP. */
const PLACES = 4096
const PAIRS = 8192

interface Request {
  readonly atMicros: number
  /** Hash of the client's address. */
  readonly host: number
  isRefused: boolean
}

interface Service {
  readonly beganMicros: number
  readonly isUdp: boolean
  /** By the hash of the client's end. */
  readonly open: Map<number, Request>
  next: number
  /** Of the request that reached `next`; null unless a flood waits for its confirmation. */
  reached: FlowRecord | null
}

export class RequestFloods {
  readonly #isToHost: (packets: PacketBatch, i: number) => boolean
  readonly #onFlood: (record: FlowRecord, fact: string) => void
  /** By the hash of address, port and transport. */
  readonly #services = new Map<number, Service>()
  /** Services by the last bits of their hash: most packets are of none. */
  readonly #places = new Uint16Array(PLACES)
  /** Hashes of pairs, by their last bits: an answer, or a further packet, is no request. */
  readonly #pairs = new Int32Array(PAIRS)
  #requests = 0
  /** When the next confirmation is due. */
  #dueMicros = Number.POSITIVE_INFINITY

  /** @param isToHost - whether the destination of a packet is a host whose floods are reported */
  constructor(
    isToHost: (packets: PacketBatch, i: number) => boolean,
    onFlood: (record: FlowRecord, fact: string) => void,
  ) {
    this.#isToHost = isToHost
    this.#onFlood = onFlood
  }

  /** Packets as they came; borrowed. */
  packets(of: PacketBatch): void {
    const services = this.#services
    const places = this.#places
    for (let i = 0; i < of.count; i++) {
      const protocol = of.protocol[i]
      if ((protocol !== TCP && protocol !== UDP) || of.status[i] !== PACKET_OK) continue
      const flags = of.tcpFlags[i]
      const isRequest = (flags & (SYN | ACK)) === SYN
      const isRefusal = (flags & RST) !== 0
      const isUsed = (flags & (SYN | RST)) === 0 && (of.payloadBytes[i] > 0 || (flags & FIN) !== 0)
      if (protocol === TCP && !isRequest && ((!isUsed && !isRefusal) || services.size === 0)) continue
      const atMicros = of.timestampMicros[i]
      if (Number.isNaN(atMicros)) continue
      if (atMicros >= this.#dueMicros) this.#confirm(atMicros)
      const source = endpointHash(of.sourceAddress, 4 * i, of.sourcePort[i], protocol)
      const isAnswer = protocol === TCP && !isRequest && !isRefusal
      // most packets are of services without a request
      if (isAnswer && places[source & (PLACES - 1)] === 0) continue
      const destination = endpointHash(of.destinationAddress, 4 * i, of.destinationPort[i], protocol)
      if (protocol === UDP) this.#noteUdp(of, i, source, destination)
      else if (isRequest) this.#noteRequest(of, i, source, destination)
      else if (isRefusal) this.#noteRefusal(destination, source)
      else this.#takeBack(destination, source)
    }
  }

  advance(nowMicros: number): void {
    if (nowMicros >= this.#dueMicros) this.#confirm(nowMicros)
  }

  /** The packets' clock was set: counting starts again. */
  clockSet(): void {
    this.#services.clear()
    this.#places.fill(0)
    this.#requests = 0
    this.#dueMicros = Number.POSITIVE_INFINITY
  }

  #noteUdp(packets: PacketBatch, i: number, source: number, destination: number): void {
    if (this.#places[source & (PLACES - 1)] !== 0) this.#takeBack(destination, source)
    const answered = pairHash(destination, source)
    const pair = pairHash(source, destination)
    const at = pair & (PAIRS - 1)
    if (this.#pairs[answered & (PAIRS - 1)] === answered || this.#pairs[at] === pair) return
    this.#pairs[at] = pair
    this.#noteRequest(packets, i, source, destination)
  }

  #noteRequest(packets: PacketBatch, i: number, client: number, key: number): void {
    const atMicros = packets.timestampMicros[i]
    const known = this.#services.get(key)
    if (known !== undefined && isServiceOver(known, atMicros)) this.#remove(key)
    let service = this.#services.get(key)
    if (service === undefined) {
      if (!this.#isToHost(packets, i)) return
      const isUdp = packets.protocol[i] === UDP
      service = { beganMicros: atMicros, isUdp, open: new Map(), next: FLOOD, reached: null }
      this.#services.set(key, service)
      this.#places[key & (PLACES - 1)]++
    }
    const { open } = service
    if (!open.has(client) && open.size < MAXIMUM_OF_SERVICE) {
      this.#makeRoom(key, atMicros)
      const host = endpointHash(packets.sourceAddress, 4 * i, 0, 0)
      open.set(client, { atMicros, host, isRefused: false })
      this.#requests++
    }
    if (open.size < service.next || service.reached !== null) return
    service.reached = recordOfPacket(packets, i)
    this.#dueMicros = Math.min(this.#dueMicros, atMicros + CONFIRM_MICROS)
  }

  #noteRefusal(client: number, key: number): void {
    const request = this.#services.get(key)?.open.get(client)
    if (request !== undefined) request.isRefused = true
  }

  #takeBack(client: number, key: number): void {
    if (this.#services.get(key)?.open.delete(client) === true) this.#requests--
  }

  #remove(key: number): void {
    this.#requests -= this.#services.get(key)?.open.size ?? 0
    if (this.#services.delete(key)) this.#places[key & (PLACES - 1)]--
  }

  /** For one more request to the service of this key: the largest flood counts again from 0 before other services go. */
  #makeRoom(kept: number, atMicros: number): void {
    while (this.#services.size > MAXIMUM_SERVICES || this.#requests >= MAXIMUM_REQUESTS) {
      let [least, fewest] = [kept, Number.POSITIVE_INFINITY]
      let largest: Service | null = null
      for (const [key, service] of this.#services) {
        const { size } = service.open
        const isOther = key !== kept
        if (isOther && isServiceOver(service, atMicros)) {
          this.#remove(key)
          continue
        }
        if (size >= Math.max(FLOOD, largest?.open.size ?? 0)) largest = service
        if (isOther && size < fewest) [least, fewest] = [key, size]
      }
      if (this.#services.size > MAXIMUM_SERVICES) this.#remove(least)
      else if (this.#requests >= MAXIMUM_REQUESTS && largest !== null) {
        // a table that is full of open requests confirms it
        if (largest.reached !== null) this.#tell(largest, largest.reached, Number.POSITIVE_INFINITY)
        this.#requests -= largest.open.size
        largest.open.clear()
      } else if (this.#requests >= MAXIMUM_REQUESTS) this.#remove(least)
    }
  }

  /** A service whose open requests count for less is looked at again with its next one. */
  #confirm(nowMicros: number): void {
    this.#dueMicros = Number.POSITIVE_INFINITY
    for (const service of this.#services.values()) {
      const { reached } = service
      if (reached === null) continue
      const dueMicros = reached.startMicros + CONFIRM_MICROS
      if (nowMicros < dueMicros) this.#dueMicros = Math.min(this.#dueMicros, dueMicros)
      else this.#tell(service, reached, reached.startMicros)
    }
  }

  /** Reports what has been open since then, if that is a flood. */
  #tell(service: Service, record: FlowRecord, sinceMicros: number): void {
    service.reached = null
    const { count, sender } = countOpen(service, sinceMicros)
    if (count < service.next) return
    while (service.next <= count) service.next *= LOUDER
    const [initiator, responder] = addressesOf(record)
    const what = `${count} requests (${protocolName(record.protocol)} port ${record.responderPort})`
    const by = sender === endpointHash(record.initiatorAddress, 0, 0, 0) ? ` from ${initiator}` : ''
    const span = spanText(record.startMicros - service.beganMicros)
    this.#onFlood(record, `${responder} received ${what}${by} in ${span} that did not become connections`)
  }
}

/** Requests until then that are still open, as they count (see above), and the hash of the address that sent nearly all. */
function countOpen({ open, isUdp }: Service, untilMicros: number): { count: number; sender: number | null } {
  const ofHost = new Map<number, { waiting: number; refused: number }>()
  for (const { atMicros, host, isRefused } of open.values()) {
    if (atMicros > untilMicros) continue
    const counts = ofHost.get(host) ?? { waiting: 0, refused: 0 }
    counts[isRefused ? 'refused' : 'waiting']++
    ofHost.set(host, counts)
  }
  const isFull = open.size > NEARLY_FULL
  let [count, most] = [0, 0]
  let sender: number | null = null
  for (const [host, { waiting, refused }] of ofHost) {
    const loud = (waiting < (isUdp ? LOUD : RETRIES) ? 0 : waiting) + (refused < LOUD ? 0 : refused)
    const many = isFull ? waiting + refused : loud
    count += Math.max(1, many)
    if (many > most) [most, sender] = [many, host]
  }
  return { count, sender: most >= ONE_SENDER_SHARE * count ? sender : null }
}

function isServiceOver({ beganMicros, isUdp, reached }: Service, atMicros: number): boolean {
  const windowMicros = isUdp ? UDP_WINDOW_MICROS : WINDOW_MICROS
  return reached === null && Math.abs(atMicros - beganMicros) >= windowMicros
}

/** What is counted since then. */
function isOver(beganMicros: number, atMicros: number): boolean {
  return Math.abs(atMicros - beganMicros) >= WINDOW_MICROS
}

/** Not 0, which is an empty place. */
function pairHash(from: number, to: number): number {
  const hash = Math.imul(from ^ (to >>> 15) ^ (to << 17), 0x9e3779b1)
  return (hash ^ (hash >>> 16)) | 1
}

/**
 * DnsTunnels: devices that ask for many long names, each for once, as programs do that hide data in them.
 *
 * In 2,991 queries of home devices (data/week and data/watch) no name has 60 characters; the reverse name of an IPv6 address has 72.
 */

const LONG_NAME_BYTES = 100
/** Reported at this number of different long names within WINDOW_MICROS of the first, and at each four times that number. */
const TUNNEL = 32
const MAXIMUM_NAMES = 2048
const MAXIMUM_ASKING = 64
const DNS_PORT = 53
const UDP_HEADER_BYTES = 8
const DNS_HEADER_BYTES = 12
const IS_RESPONSE = 0x80

interface Asking {
  readonly beganMicros: number
  /** Hashes. */
  readonly names: Set<number>
  next: number
}

export class DnsTunnels {
  readonly #senderOf: (packets: PacketBatch, i: number) => string | null
  readonly #onTunnel: (record: FlowRecord, fact: string) => void
  /** By device. */
  readonly #asking = new Map<string, Asking>()

  /** @param senderOf - the key of the device that sends a packet; null if no known device does */
  constructor(
    senderOf: (packets: PacketBatch, i: number) => string | null,
    onTunnel: (record: FlowRecord, fact: string) => void,
  ) {
    this.#senderOf = senderOf
    this.#onTunnel = onTunnel
  }

  /** Packets as they came; borrowed. */
  packets({ data, offset, capturedBytes }: FrameBatch, of: PacketBatch): void {
    for (let i = 0; i < of.count; i++) {
      if (of.destinationPort[i] !== DNS_PORT || of.protocol[i] !== UDP) continue
      if (of.payloadBytes[i] < DNS_HEADER_BYTES + LONG_NAME_BYTES || of.status[i] !== PACKET_OK) continue
      const message = of.transportOffset[i] + UDP_HEADER_BYTES
      const end = Math.min(offset[i] + capturedBytes[i], message + of.payloadBytes[i])
      const name = hashOfLongName(data, message, end)
      if (name !== null && !Number.isNaN(of.timestampMicros[i])) this.#noteName(of, i, name)
    }
  }

  /** The packets' clock was set: counting starts again. */
  clockSet(): void {
    this.#asking.clear()
  }

  #noteName(packets: PacketBatch, i: number, name: number): void {
    const device = this.#senderOf(packets, i)
    if (device === null) return
    const atMicros = packets.timestampMicros[i]
    let of = this.#asking.get(device)
    if (of === undefined || isOver(of.beganMicros, atMicros)) {
      this.#asking.delete(device)
      this.#makeRoom(atMicros)
      of = { beganMicros: atMicros, names: new Set(), next: TUNNEL }
      this.#asking.set(device, of)
    }
    if (of.names.size >= MAXIMUM_NAMES) return
    of.names.add(name)
    if (of.names.size < of.next) return
    of.next *= LOUDER
    const record = recordOfPacket(packets, i)
    const [own, server] = [record.initiatorAddress, record.responderAddress].map((words) =>
      formatAddress(words, 0, record.ipVersion),
    )
    const names = `${of.names.size} different DNS names of ${LONG_NAME_BYTES} or more characters`
    const span = spanText(atMicros - of.beganMicros)
    this.#onTunnel(
      record,
      `${own} asked ${server} for ${names} in ${span}: data may leave inside DNS queries (DNS tunnel)`,
    )
  }

  #makeRoom(atMicros: number): void {
    if (this.#asking.size < MAXIMUM_ASKING) return
    for (const [device, { beganMicros }] of this.#asking)
      if (isOver(beganMicros, atMicros)) this.#asking.delete(device)
    if (this.#asking.size < MAXIMUM_ASKING) return
    const [least] = [...this.#asking].reduce((a, b) => (b[1].names.size < a[1].names.size ? b : a))
    this.#asking.delete(least)
  }
}

/** Of the first name that a query asks for, as far as it was captured; null where it is short, or the message is no query. */
function hashOfLongName(data: Uint8Array, message: number, end: number): number | null {
  const start = message + DNS_HEADER_BYTES
  if (start >= end || (data[message + 2] & IS_RESPONSE) !== 0) return null
  let at = start
  while (at < end && data[at] !== 0) at += data[at] + 1
  const nameEnd = Math.min(at, end)
  if (nameEnd - start < LONG_NAME_BYTES) return null
  let hash = 0
  for (let k = start; k < nameEnd; k++) hash = Math.imul(hash ^ data[k], 0x9e3779b1) ^ (hash >>> 15)
  return hash
}

/** A flow of which no more than this packet is known. */
function recordOfPacket(packets: PacketBatch, i: number): FlowRecord {
  const atMicros = packets.timestampMicros[i]
  return {
    ...createFlowRecord(),
    ipVersion: packets.ipVersion[i],
    protocol: packets.protocol[i],
    initiatorAddress: packets.sourceAddress.slice(4 * i, 4 * i + 4),
    responderAddress: packets.destinationAddress.slice(4 * i, 4 * i + 4),
    initiatorPort: packets.sourcePort[i],
    responderPort: packets.destinationPort[i],
    initiatorMac: packets.sourceMac.slice(6 * i, 6 * i + 6),
    responderMac: packets.destinationMac.slice(6 * i, 6 * i + 6),
    vlan: packets.vlan[i],
    flowStartMicros: atMicros,
    startMicros: atMicros,
    packets: 1,
    bytes: packets.frameBytes[i],
    initiatorPackets: 1,
    initiatorBytes: packets.frameBytes[i],
    initiatorIpBytes: packets.ipBytes[i],
    initiatorTcpFlags: packets.tcpFlags[i],
  }
}
