/**
 * Scans: ports of a device, or of a local address that is no known device, that were tried, and hosts that a device tried.
 *
 * A *probe* is a flow of at most PROBE_PACKETS packets of its initiator: a connection that is used has more. Ports from 32,768
 * on are no services and are not counted, nor is what may be the answer to a request that was not seen.
 */
import { formatAddress } from '@oddflow/capture'
import { copyFlowRecord, type FlowRecord } from '@oddflow/flows'
import { spanText } from '../incidents/sentences.js'
import type { FirstContact } from './contacts.js'
import type { Device } from './device.js'
import { addressesOf, type FactSources, hashOf, isLocal, whoText } from './fact-sources.js'

const PROBE_PACKETS = 4
const EPHEMERAL = 32_768
const PRIVILEGED = 1024
/** Local addresses that are no known device; the one with fewest ports makes room. */
const MAXIMUM_UNKNOWN = 64
const [TCP, UDP] = [6, 17]

/** Ports of a device that were tried, and hosts that it tried. */
type Probes = Record<'ports' | 'hosts', Spread>

export class Scans {
  readonly #sources: FactSources
  readonly #spreads: Spreads
  readonly #probes = new WeakMap<Device, Probes>()
  /** By address. */
  readonly #unknown = new Map<string, Spread>()

  constructor(sources: FactSources, spreads: Spreads) {
    this.#sources = sources
    this.#spreads = spreads
  }

  /** A flow, each of its ends that is a known device, and whether it is a first contact of its initiator. */
  note(
    record: FlowRecord,
    initiator: Device | undefined,
    target: Device | undefined,
    first: FirstContact | null,
  ): void {
    const { protocol, responderPort, initiatorPort, responderAddress, startMicros, ipVersion } = record
    if (record.initiatorPackets > PROBE_PACKETS) return
    if (initiatorPort < PRIVILEGED && responderPort >= PRIVILEGED) return
    const copy = (): FlowRecord => copyFlowRecord(record)
    const countHost = (device: Device, host: number): void =>
      this.#spreads.count(this.#probesOf(device).hosts, host, startMicros, copy, this.#tellHosts)
    if (isLocal(this.#sources, responderAddress, ipVersion)) {
      if ((protocol === TCP || protocol === UDP) && responderPort < EPHEMERAL) {
        const ports =
          target === undefined
            ? this.#unknownAt(formatAddress(responderAddress, 0, ipVersion))
            : this.#probesOf(target).ports
        this.#spreads.count(ports, responderPort, startMicros, copy, this.#tellPorts)
      }
      if (initiator !== undefined && first?.isNewPeer === true)
        countHost(initiator, hashOf(responderAddress, 0))
      return
    }
    // outside those count that do not answer: a browser's do
    const isRefused = (record.responderTcpFlags & 4) !== 0 && record.responderPackets <= 1
    if (initiator !== undefined && first !== null && (record.responderPackets === 0 || isRefused))
      countHost(initiator, hashOf(responderAddress, responderPort))
  }

  #probesOf(device: Device): Probes {
    const probes = this.#probes.get(device) ?? { ports: noSpread(), hosts: noSpread() }
    this.#probes.set(device, probes)
    return probes
  }

  #unknownAt(address: string): Spread {
    const known = this.#unknown.get(address)
    if (known !== undefined) return known
    if (this.#unknown.size >= MAXIMUM_UNKNOWN) {
      const [least, spread] = [...this.#unknown].reduce((a, b) => (b[1].count < a[1].count ? b : a))
      this.#spreads.close(spread, this.#tellPorts)
      this.#unknown.delete(least)
    }
    const spread = noSpread()
    this.#unknown.set(address, spread)
    return spread
  }

  readonly #tellPorts: Tell = (spread, record, lastMicros) => {
    const [initiator, responder] = addressesOf(record)
    const by = whoText(this.#sources, record.initiatorMac, initiator, lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${responder} was contacted on ${spread.count} ports in ${span} by ${by}`
    this.#sources.onFact(record, 'port-scan', fact, true)
  }

  readonly #tellHosts: Tell = (spread, record, lastMicros) => {
    const by = whoText(this.#sources, record.initiatorMac, addressesOf(record)[0], lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${spread.count} hosts or services were contacted for the first time in ${span}, a few packets each, by ${by}`
    this.#sources.onFact(record, 'host-scan', fact, false)
  }
}

/**
 * Spreads: how many different things (ports, hosts, addresses) came within BURST_MICROS, in bounded memory: PROBED hashes of each, and
 * of MAXIMUM_BURSTS scans under way a bitmap. A spread is reported at PROBED, and again with its whole extent when nothing new
 * came for SILENT_MICROS.
 */
const MINUTE = 60_000_000
const DAY = 24 * 60 * MINUTE
const PROBED = 16
const BURST_MICROS = 10 * MINUTE
const SILENT_MICROS = MINUTE
const MAXIMUM_BURSTS = 64
/** Of bits; values share them by their hash. */
export const BITMAP_BITS = 32_768
/** A scan of the same device is reported again within a day only if it is this many times as large. */
const LOUDER = 4

export interface Spread {
  beganMicros: number
  lastMicros: number
  /** At most PROBED. */
  readonly seen: number[]
  count: number
  /** Of a scan under way, as far as there is room. */
  bitmap: Uint8Array | null
  /** One of its flows. */
  record: FlowRecord | null
  /** Whether this scan was reported; the size and the time of the last reported scan. */
  isTold: boolean
  toldCount: number
  toldMicros: number
}

/** @param lastMicros - of the packets' clock as it is now */
export type Tell = (spread: Spread, record: FlowRecord, lastMicros: number) => void

export function noSpread(): Spread {
  return {
    beganMicros: 0,
    lastMicros: 0,
    seen: [],
    count: 0,
    bitmap: null,
    record: null,
    isTold: false,
    toldCount: 0,
    toldMicros: Number.NEGATIVE_INFINITY,
  }
}

export class Spreads {
  readonly #bursts = new Map<Spread, Tell>()
  /** By how much the packets' clock was set since the start: times of spreads are without that. */
  #setMicros = 0

  /** One more value. */
  count(spread: Spread, value: number, packetMicros: number, makeRecord: () => FlowRecord, tell: Tell): void {
    const atMicros = packetMicros - this.#setMicros
    const isOver =
      atMicros - spread.beganMicros >= BURST_MICROS || atMicros < spread.beganMicros - BURST_MICROS
    if (spread.count > 0 && isOver) this.close(spread, tell)
    if (spread.count === 0) Object.assign(spread, { beganMicros: atMicros, lastMicros: atMicros })
    if (!put(spread, value % BITMAP_BITS)) return
    spread.count++
    spread.beganMicros = Math.min(spread.beganMicros, atMicros)
    spread.lastMicros = Math.max(spread.lastMicros, atMicros)
    if (spread.count !== PROBED) return
    spread.record = makeRecord()
    this.#tell(spread, spread.record, tell)
    if (this.#bursts.size >= MAXIMUM_BURSTS) return
    spread.bitmap = new Uint8Array(BITMAP_BITS / 8)
    for (const each of spread.seen) spread.bitmap[each >> 3] |= 1 << (each & 7)
    this.#bursts.set(spread, tell)
  }

  /** Reports the whole extent, where that is more than was reported, and empties the spread. */
  close(spread: Spread, tell: Tell): void {
    const { count, lastMicros, record } = spread
    if (record !== null && count >= 2 * PROBED) {
      const last = { ...record, startMicros: lastMicros + this.#setMicros, durationMicros: 0 }
      this.#tell(spread, last, tell)
    }
    Object.assign(spread, { count: 0, bitmap: null, record: null, isTold: false })
    spread.seen.length = 0
    this.#bursts.delete(spread)
  }

  /** Takes a value back that was not reported yet. */
  forget(spread: Spread, value: number): void {
    const index = spread.record === null ? spread.seen.indexOf(value % BITMAP_BITS) : -1
    if (index < 0) return
    spread.seen.splice(index, 1)
    spread.count--
  }

  /** Whether nothing came lately. */
  isIdle(spread: Spread, atMicros: number): boolean {
    return spread.count === 0 || Math.abs(atMicros - this.#setMicros - spread.lastMicros) >= BURST_MICROS
  }

  advance(nowMicros: number): void {
    for (const [spread, tell] of this.#bursts)
      if (nowMicros - this.#setMicros - spread.lastMicros >= SILENT_MICROS) this.close(spread, tell)
  }

  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void {
    this.#setMicros += byMicros
  }

  #tell(spread: Spread, record: FlowRecord, tell: Tell): void {
    const { count, lastMicros, toldMicros, toldCount } = spread
    if (!spread.isTold && lastMicros - toldMicros < DAY && count < LOUDER * toldCount) return
    Object.assign(spread, { isTold: true, toldCount: count, toldMicros: lastMicros })
    tell(spread, record, lastMicros + this.#setMicros)
  }
}

/** Whether the value was not there. */
function put({ bitmap, seen }: Spread, bit: number): boolean {
  if (bitmap === null) {
    if (seen.includes(bit) || seen.length >= PROBED) return false
    seen.push(bit)
    return true
  }
  const mask = 1 << (bit & 7)
  if ((bitmap[bit >> 3] & mask) !== 0) return false
  bitmap[bit >> 3] |= mask
  return true
}
