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

/**
 * Spreads: how many different things (ports, hosts, addresses) came within BURST_MICROS, in bounded memory: PROBED hashes of each,
 * and of a scan under way, of which there are MAXIMUM_BURSTS, a bitmap. A spread is reported at PROBED, and again with its whole extent
 * when nothing new came for SILENT_MICROS.
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
type Tell = (spread: Spread, record: FlowRecord, lastMicros: number) => void

export interface Spreads {
  create(): Spread
  /** One more value. */
  count(spread: Spread, value: number, atMicros: number, makeRecord: () => FlowRecord, tell: Tell): void
  /** Tells its whole extent, where that is more than was told, and empties it. */
  close(spread: Spread, tell: Tell): void
  /** Takes a value back that was not told yet. */
  forget(spread: Spread, value: number): void
  /** Whether nothing came lately. */
  isIdle(spread: Spread, atMicros: number): boolean
  advance(nowMicros: number): void
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
}

export function createSpreads(): Spreads {
  const bursts = new Map<Spread, Tell>()
  /** By how much the packets' clock was set since the start: times of spreads are without that. */
  let setMicros = 0

  const tellOf = (spread: Spread, tell: Tell): void => {
    const { count, lastMicros, toldMicros, toldCount, record } = spread
    if (!spread.isTold && lastMicros - toldMicros < DAY && count < LOUDER * toldCount) return
    spread.isTold = true
    spread.toldCount = count
    spread.toldMicros = lastMicros
    tell(spread, record as FlowRecord, lastMicros + setMicros)
  }
  const close = (spread: Spread, tell: Tell): void => {
    const { count, lastMicros, record } = spread
    if (record !== null && count >= 2 * PROBED) {
      spread.record = { ...record, startMicros: lastMicros + setMicros, durationMicros: 0 }
      tellOf(spread, tell)
    }
    Object.assign(spread, { count: 0, bitmap: null, record: null, isTold: false })
    spread.seen.length = 0
    bursts.delete(spread)
  }
  /** Whether it was not there. */
  const put = ({ bitmap, seen }: Spread, bit: number): boolean => {
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
  return {
    create: () => ({
      beganMicros: 0,
      lastMicros: 0,
      seen: [],
      count: 0,
      bitmap: null,
      record: null,
      isTold: false,
      toldCount: 0,
      toldMicros: Number.NEGATIVE_INFINITY,
    }),
    count(spread, value, packetMicros, makeRecord, tell) {
      const atMicros = packetMicros - setMicros
      const isOver =
        atMicros - spread.beganMicros >= BURST_MICROS || atMicros < spread.beganMicros - BURST_MICROS
      if (spread.count > 0 && isOver) close(spread, tell)
      if (spread.count === 0) Object.assign(spread, { beganMicros: atMicros, lastMicros: atMicros })
      if (!put(spread, value % BITMAP_BITS)) return
      spread.count++
      spread.beganMicros = Math.min(spread.beganMicros, atMicros)
      spread.lastMicros = Math.max(spread.lastMicros, atMicros)
      if (spread.count !== PROBED) return
      spread.record = makeRecord()
      tellOf(spread, tell)
      if (bursts.size >= MAXIMUM_BURSTS) return
      spread.bitmap = new Uint8Array(BITMAP_BITS / 8)
      for (const each of spread.seen) spread.bitmap[each >> 3] |= 1 << (each & 7)
      bursts.set(spread, tell)
    },
    close,
    forget(spread, value) {
      const index = spread.record === null ? spread.seen.indexOf(value % BITMAP_BITS) : -1
      if (index < 0) return
      spread.seen.splice(index, 1)
      spread.count--
    },
    isIdle: (spread, atMicros) =>
      spread.count === 0 || Math.abs(atMicros - setMicros - spread.lastMicros) >= BURST_MICROS,
    advance(nowMicros) {
      for (const [spread, tell] of bursts)
        if (nowMicros - setMicros - spread.lastMicros >= SILENT_MICROS) close(spread, tell)
    },
    clockSet(byMicros) {
      setMicros += byMicros
    },
  }
}

const PROBE_PACKETS = 4
const EPHEMERAL = 32_768
const PRIVILEGED = 1024
/** Local addresses that are no known device; the one with fewest ports makes room. */
const MAXIMUM_UNKNOWN = 64
const [TCP, UDP] = [6, 17]

/** Ports of a device that were tried, and hosts that it tried. */
type Probes = Record<'ports' | 'hosts', Spread>

export interface Scans {
  /** A flow, each of its ends that is a known device, and whether it is a first contact of its initiator. */
  note(
    record: FlowRecord,
    initiator: Device | undefined,
    target: Device | undefined,
    first: FirstContact | null,
  ): void
}

export function createScans(sources: FactSources, spreads: Spreads): Scans {
  const probes = new WeakMap<Device, Probes>()
  /** By address. */
  const unknown = new Map<string, Spread>()

  const probesOf = (device: Device): Probes => {
    const of = probes.get(device) ?? { ports: spreads.create(), hosts: spreads.create() }
    probes.set(device, of)
    return of
  }
  const unknownAt = (address: string): Spread => {
    const known = unknown.get(address)
    if (known !== undefined) return known
    if (unknown.size >= MAXIMUM_UNKNOWN) {
      const [least, spread] = [...unknown].reduce((a, b) => (b[1].count < a[1].count ? b : a))
      spreads.close(spread, tellPorts)
      unknown.delete(least)
    }
    const spread = spreads.create()
    unknown.set(address, spread)
    return spread
  }
  const tellPorts = (spread: Spread, record: FlowRecord, lastMicros: number): void => {
    const [initiator, responder] = addressesOf(record)
    const by = whoText(sources, record.initiatorMac, initiator, lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${responder} was contacted on ${spread.count} ports in ${span} by ${by}`
    sources.onFact(record, 'port-scan', fact, true)
  }
  const tellHosts = (spread: Spread, record: FlowRecord, lastMicros: number): void => {
    const by = whoText(sources, record.initiatorMac, addressesOf(record)[0], lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${spread.count} hosts or services were contacted for the first time in ${span}, a few packets each, by ${by}`
    sources.onFact(record, 'host-scan', fact, false)
  }
  return {
    note(record, initiator, target, first) {
      const { protocol, responderPort, initiatorPort, responderAddress, startMicros, ipVersion } = record
      if (record.initiatorPackets > PROBE_PACKETS) return
      if (initiatorPort < PRIVILEGED && responderPort >= PRIVILEGED) return
      const copy = (): FlowRecord => copyFlowRecord(record)
      const countHost = (device: Device, host: number): void =>
        spreads.count(probesOf(device).hosts, host, startMicros, copy, tellHosts)
      if (isLocal(sources, responderAddress, ipVersion)) {
        if ((protocol === TCP || protocol === UDP) && responderPort < EPHEMERAL) {
          const ports =
            target === undefined
              ? unknownAt(formatAddress(responderAddress, 0, ipVersion))
              : probesOf(target).ports
          spreads.count(ports, responderPort, startMicros, copy, tellPorts)
        }
        if (initiator !== undefined && first?.isNewPeer === true)
          countHost(initiator, hashOf(responderAddress, 0))
        return
      }
      // outside those count that do not answer: a browser's do
      const isRefused = (record.responderTcpFlags & 4) !== 0 && record.responderPackets <= 1
      if (initiator !== undefined && first !== null && (record.responderPackets === 0 || isRefused))
        countHost(initiator, hashOf(responderAddress, responderPort))
    },
  }
}
