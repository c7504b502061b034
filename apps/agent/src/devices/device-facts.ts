/**
 * DeviceFacts: what needs no model to be told, of devices that learn too: a scan, an address that is taken, a new device that
 * contacts a watched one, a contact that a watched device never had, and an hour of the week in which it never was active.
 *
 * Each fact is a count that stays within bounds and is kept with its device, so that what floods the table with made-up
 * addresses puts out no more than the table lets it (device-table.ts): ports of a device that were tried, hosts that a device
 * tried (PROBED of them; of a scan under way, of which there are MAXIMUM_BURSTS, a bitmap), the addresses of devices
 * (address-claims.ts), and contacts (contacts.ts). Sweeps by ARP and floods of claims are counted by MAC address, for
 * MAXIMUM_SENDERS: the sender need not be a known device.
 *
 * A *probe* is a flow of at most PROBE_PACKETS packets of its initiator: a connection that is used has more. Ports from 32,768
 * on are no services and are not counted, nor is what may be the answer to a request that was not seen.
 *
 * Time is the packets'.
 */
import {
  type FrameBatch,
  formatAddress,
  formatMac,
  type PacketBatch,
  parseIpv4,
  parseIpv6,
} from '@oddflow/capture'
import { copyFlowRecord, type FlowRecord, protocolName } from '@oddflow/flows'
import { isInNetwork, isResponderDevice, macText, type Network } from '@oddflow/program'
import type { FactRule } from '../alerts/alert.js'
import { noteHour } from './active-hours.js'
import { type Claim, CONFLICT_MICROS, createAddressClaims } from './address-claims.js'
import { type FirstContact, isGroup, noteContact, noteUsual } from './contacts.js'
import { type Device, isEstablished } from './device.js'
import { createDeviceFlood, type DeviceFlood, type DeviceTable, recordOfDevice } from './device-table.js'
import { type ArpPacket, readArp, readNeighborClaim } from './neighbor-packets.js'
import { createDnsTunnels, createRequestFloods } from './packet-facts.js'
import { createPasswordGuessing } from './password-guessing.js'

/** About which end of the record it is, and the sentence. */
export type OnFact = (record: FlowRecord, rule: FactRule, fact: string, isOfResponder: boolean) => void

export interface FactsReport {
  /** First contacts of watched devices, and those of them that were settled enough for an alert. */
  readonly firstContacts: number
  readonly firstContactAlerts: number
  /** Facts that were one of too many alike within a minute, and had no alert of their own. */
  readonly untold: number
}

interface DeviceFacts {
  /** A verdict was given on this record of this device; undefined where the table had no room for it. */
  note(record: FlowRecord, device: Device | undefined, novel: boolean): void
  /** Packets as they came; borrowed. */
  packets(frames: FrameBatch, packets: PacketBatch): void
  advance(nowMicros: number): void
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
  report(): FactsReport
  /** What facts cannot show at the moment, for /healthz; a sentence each. */
  warnings(): string[]
}

interface DeviceFactsOptions {
  readonly table: DeviceTable
  readonly localNetworks: readonly Network[]
  readonly perMinute: number
  /** Whether devices are new at all at this time: not while an agent takes stock. */
  readonly isNews: (atMicros: number) => boolean
  readonly onFact: OnFact
}

const SECOND = 1_000_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Ports of one device, or hosts that one device tries, within BURST_MICROS. */
const PROBED = 16
const BURST_MICROS = 10 * MINUTE
/** A scan is over when nothing new came for so long. */
const SILENT_MICROS = MINUTE
const MAXIMUM_BURSTS = 64
/** Of bits; hosts share them by their hash. */
const BITMAP_BITS = 32_768
/** A scan of the same device is told again within a day only when it is so many times as large. */
const LOUDER = 4
const PROBE_PACKETS = 4
const EPHEMERAL = 32_768
const PRIVILEGED = 1024

/** A device is new for so long. */
const NEW_MICROS = DAY
/** An address is its device's for so long after it was last used. */
const KEPT_MICROS = DAY
/** A MAC address with more addresses than these is counted. */
const USUAL_ADDRESSES = 16
/** Senders whose ARP requests for unused addresses, or whose claims, are counted. */
const MAXIMUM_SENDERS = 64

interface Spread {
  /** Whose ports, where they are kept with the one that scans: of one device at a time. */
  target: number
  beganMicros: number
  lastMicros: number
  /** At most PROBED. */
  readonly seen: number[]
  count: number
  /** Of a scan under way, as far as there is room. */
  bitmap: Uint8Array | null
  /** One of its flows. */
  record: FlowRecord | null
  /** This scan was told, the last that was had so many, and was told then. */
  isTold: boolean
  toldCount: number
  toldMicros: number
}

/** Ports of a device that were tried; where that device is not known, by this one; and hosts, by this one. */
type Probes = Partial<Record<'portsOf' | 'portsBy' | 'hostsBy', Spread>>

export function createDeviceFacts(options: DeviceFactsOptions): DeviceFacts {
  const { table, localNetworks, isNews } = options
  const probes = new WeakMap<Device, Probes>()
  const bursts = new Map<Spread, (spread: Spread) => void>()
  const guessing = createPasswordGuessing((record, fact) =>
    options.onFact(record, 'password-guessing', fact, true),
  )
  const keyOfEnd = (
    addresses: Uint32Array,
    macs: Uint8Array,
    ipVersion: number,
    i: number,
  ): string | null => {
    const address = addresses.subarray(4 * i, 4 * i + 4)
    const mac = macs.subarray(6 * i, 6 * i + 6)
    if (!isLocal(address, ipVersion) || isGroup(ipVersion, address, mac)) return null
    const key = macText(mac) ?? formatAddress(address, 0, ipVersion)
    return table.get(key) === undefined ? null : key
  }
  const requestFloods = createRequestFloods({
    isToDevice: (of, i) => keyOfEnd(of.destinationAddress, of.destinationMac, of.ipVersion[i], i) !== null,
    onFlood: (record, fact) => options.onFact(record, 'request-flood', fact, true),
  })
  const dnsTunnels = createDnsTunnels({
    senderOf: (of, i) => keyOfEnd(of.sourceAddress, of.sourceMac, of.ipVersion[i], i),
    onTunnel: (record, fact) => options.onFact(record, 'dns-tunnel', fact, false),
  })
  const claims = createAddressClaims(table.get)
  const floods = {
    answered: createDeviceFlood(options.perMinute),
    unanswered: createDeviceFlood(options.perMinute),
    taken: createDeviceFlood(options.perMinute),
    /** Of devices that are watched: made-up devices that take each other's addresses hide none. */
    takenOfWatched: createDeviceFlood(options.perMinute),
    sweeps: createDeviceFlood(options.perMinute),
    claims: createDeviceFlood(options.perMinute),
    full: createDeviceFlood(options.perMinute),
  }
  /** By the device's key: when it last had more contacts than are remembered. */
  const fullMicros = new Map<string, number>()
  /** By how much the packets' clock was set since the start: times of scans are without that. */
  let setMicros = 0
  let firstContacts = 0
  let firstContactAlerts = 0

  const isLocal = (address: Uint32Array, ipVersion: number): boolean =>
    localNetworks.some((network) => isInNetwork(network, address, ipVersion))
  const isNew = (device: Device, atMicros: number): boolean => atMicros - device.firstSeenMicros < NEW_MICROS

  // ---- scans

  const createSpread = (): Spread => ({
    target: 0,
    beganMicros: 0,
    lastMicros: 0,
    seen: [],
    count: 0,
    bitmap: null,
    record: null,
    isTold: false,
    toldCount: 0,
    toldMicros: Number.NEGATIVE_INFINITY,
  })
  const probesOf = (device: Device, kind: keyof Probes): Spread => {
    const of = probes.get(device) ?? {}
    probes.set(device, of)
    of[kind] ??= createSpread()
    return of[kind]
  }
  const clear = (spread: Spread): void => {
    spread.seen.length = 0
    spread.count = 0
    spread.bitmap = null
    spread.record = null
    spread.isTold = false
    bursts.delete(spread)
  }
  const tellScan = (spread: Spread, tell: (spread: Spread) => void): void => {
    const { count, lastMicros, toldMicros, toldCount } = spread
    if (!spread.isTold && lastMicros - toldMicros < DAY && count < LOUDER * toldCount) return
    spread.isTold = true
    spread.toldCount = count
    spread.toldMicros = lastMicros
    tell(spread)
  }
  /** With its whole extent, where that is more than was told. */
  const close = (spread: Spread, tell: (spread: Spread) => void): void => {
    const { count, lastMicros, record } = spread
    if (record !== null && count >= 2 * PROBED) {
      spread.record = { ...record, startMicros: lastMicros + setMicros, durationMicros: 0 }
      tellScan(spread, tell)
    }
    clear(spread)
  }
  /** One of the ports of this target, or of the hosts. */
  const count = (
    spread: Spread,
    target: number,
    value: number,
    packetMicros: number,
    makeRecord: () => FlowRecord,
    tell: (spread: Spread) => void,
  ): void => {
    const atMicros = packetMicros - setMicros
    const isOver =
      atMicros - spread.beganMicros >= BURST_MICROS || atMicros < spread.beganMicros - BURST_MICROS
    if (spread.count > 0 && isOver) close(spread, tell)
    if (spread.count === 0) {
      spread.target = target
      spread.beganMicros = atMicros
      spread.lastMicros = atMicros
    }
    if (spread.target !== target) return
    const bit = value % BITMAP_BITS
    const byte = bit >> 3
    const mask = 1 << (bit & 7)
    if (spread.bitmap !== null) {
      if ((spread.bitmap[byte] & mask) !== 0) return
      spread.bitmap[byte] |= mask
    } else {
      if (spread.seen.includes(bit)) return
      if (spread.seen.length < PROBED) spread.seen.push(bit)
      else return
    }
    spread.count++
    spread.beganMicros = Math.min(spread.beganMicros, atMicros)
    spread.lastMicros = Math.max(spread.lastMicros, atMicros)
    if (spread.count !== PROBED) return
    spread.record = makeRecord()
    tellScan(spread, tell)
    if (bursts.size >= MAXIMUM_BURSTS) return
    spread.bitmap = new Uint8Array(BITMAP_BITS / 8)
    for (const each of spread.seen) spread.bitmap[each >> 3] |= 1 << (each & 7)
    bursts.set(spread, tell)
  }
  const who = (mac: Uint8Array, address: string, atMicros: number): string => {
    const device = table.get(macText(mac) ?? address)
    if (device === undefined || !isNews(atMicros) || !isNew(device, atMicros)) return address
    return `${address}, a device first seen ${ageText(atMicros - device.firstSeenMicros)}`
  }
  const tellPorts = (spread: Spread): void => {
    const record = spread.record as FlowRecord
    const [initiator, responder] = addressesOf(record)
    const by = who(record.initiatorMac, initiator, spread.lastMicros + setMicros)
    const fact = `${responder} was contacted on ${spread.count} ports in ${durationText(spread.lastMicros - spread.beganMicros)} by ${by}`
    options.onFact(record, 'port-scan', fact, true)
  }
  const tellHosts = (spread: Spread): void => {
    const record = spread.record as FlowRecord
    const [initiator] = addressesOf(record)
    const by = who(record.initiatorMac, initiator, spread.lastMicros + setMicros)
    const fact = `${spread.count} hosts or services were contacted for the first time in ${durationText(spread.lastMicros - spread.beganMicros)}, none for more than a few packets, by ${by}`
    options.onFact(record, 'host-scan', fact, false)
  }
  const noteProbe = (
    record: FlowRecord,
    initiator: Device | undefined,
    target: Device | undefined,
    first: FirstContact | null,
  ): void => {
    const { responderPort, initiatorPort, responderAddress, startMicros } = record
    const copy = (): FlowRecord => copyFlowRecord(record)
    if (initiatorPort < PRIVILEGED && responderPort >= PRIVILEGED) return
    const hasPorts = record.protocol === 6 || record.protocol === 17
    if (isLocal(responderAddress, record.ipVersion)) {
      const device = target ?? initiator
      const whose = target === undefined ? hashOf(responderAddress, 0) : 0
      if (device !== undefined && hasPorts && responderPort < EPHEMERAL) {
        const spread = probesOf(device, target === undefined ? 'portsBy' : 'portsOf')
        count(spread, whose, responderPort, startMicros, copy, tellPorts)
      }
      if (initiator !== undefined && first?.isNewPeer === true)
        count(probesOf(initiator, 'hostsBy'), 0, hashOf(responderAddress, 0), startMicros, copy, tellHosts)
      return
    }
    // outside those count that do not answer: a browser's do
    const isRefused = (record.responderTcpFlags & 4) !== 0 && record.responderPackets <= 1
    if (initiator !== undefined && first !== null && (record.responderPackets === 0 || isRefused)) {
      const service = hashOf(responderAddress, responderPort)
      count(probesOf(initiator, 'hostsBy'), 0, service, startMicros, copy, tellHosts)
    }
  }

  // ---- contacts

  const noteContacts = (
    record: FlowRecord,
    device: Device,
    isResponder: boolean,
    novel: boolean,
  ): FirstContact | null => {
    if (device.state === 'learning' || device.state === 'ready')
      noteUsual(device.usual, record, isResponder, localNetworks)
    const isKept = device.state !== 'learning' || isEstablished(device)
    const onForgotten = (): void => noteFull(record, device, isResponder)
    const first = noteContact(device.contacts, record, isResponder, localNetworks, isKept, onForgotten)
    if (first === null || device.state !== 'watching') return first
    firstContacts++
    if (!first.isSettled || novel) return first
    firstContactAlerts++
    const [initiator, responder] = addressesOf(record)
    const [own, peer] = isResponder ? [responder, initiator] : [initiator, responder]
    const verb = isResponder ? 'was contacted by' : 'contacted'
    const days = Math.floor((record.startMicros - (first.sinceMicros ?? 0)) / DAY)
    const fact = `${own} ${verb} ${peer} (${serviceText(record)}) for the first time; nothing of the kind was new for ${days === 1 ? 'a day' : `${days} days`}`
    options.onFact(record, 'first-contact', fact, isResponder)
    return first
  }
  /** Reported once, and again after a day without. */
  const noteFull = (record: FlowRecord, device: Device, isResponder: boolean): void => {
    if (device.state !== 'watching') return
    const atMicros = record.startMicros
    const lastMicros = fullMicros.get(device.key) ?? Number.NEGATIVE_INFINITY
    fullMicros.set(device.key, Math.max(lastMicros, atMicros))
    if (atMicros - lastMicros < DAY) return
    const worth = floods.full.take(atMicros)
    if (worth === 'none') return
    const own = addressesOf(record)[isResponder ? 1 : 0]
    const what = isResponder ? 'More peers contacted' : 'More usual peers are contacted by'
    const more = worth === 'flood' ? '. Other devices have as many at the moment' : ''
    const fact = `${what} ${own} than are remembered: some first contacts of this kind have no alert of their own, and known peers may be reported again${more}`
    options.onFact(record, 'contacts-full', fact, isResponder)
  }
  /** A device that is new contacts one that is watched. */
  const noteStranger = (record: FlowRecord, stranger: Device, target: Device): void => {
    const atMicros = record.startMicros
    const isStranger = stranger.state === 'learning' && (stranger.randomised || isNew(stranger, atMicros))
    if (!isStranger || target.state !== 'watching' || !isNews(atMicros)) return
    const worth = (record.responderPackets > 0 ? floods.answered : floods.unanswered).take(atMicros)
    if (worth === 'none') return
    const [initiator, responder] = addressesOf(record)
    const seen = `${initiator}, a device first seen ${ageText(atMicros - stranger.firstSeenMicros)}`
    const fact =
      worth === 'device'
        ? `${responder} was contacted (${serviceText(record)}) by ${seen}`
        : `many new devices contact watched ones within a minute, the last of them ${seen}`
    options.onFact(record, 'new-device-contact', fact, true)
  }

  // ---- addresses

  /** Whose address it was, where it is another's. */
  const claim = (
    address: string,
    mac: string,
    atMicros: number,
  ): { readonly claim: Claim; readonly isFirst: boolean } | null => {
    const held = claims.get(address)
    if (held === undefined || (held.mac !== mac && atMicros - held.lastMicros > KEPT_MICROS)) {
      if (claims.set(address, mac, atMicros)) forgetAsked(address)
      return null
    }
    if (held.mac === mac) {
      claims.use(address, held, atMicros)
      return null
    }
    const isFirst = held.rival !== mac
    held.rival = mac
    return { claim: held, isFirst }
  }
  const tellBounded = (
    flood: DeviceFlood,
    record: FlowRecord,
    rule: FactRule,
    fact: string,
    isOfResponder: boolean,
  ): void => {
    const worth = flood.take(record.startMicros)
    if (worth === 'none') return
    const more = worth === 'flood' ? '; there are more such alerts within this minute' : ''
    options.onFact(record, rule, `${fact}${more}`, isOfResponder)
  }
  const takenFrom = ({ mac }: Claim): DeviceFlood =>
    (table.get(mac)?.state ?? 'learning') === 'learning' ? floods.taken : floods.takenOfWatched
  const noteAddress = (record: FlowRecord, device: Device, isResponder: boolean): void => {
    const { ipVersion, startMicros: atMicros } = record
    const words = isResponder ? record.responderAddress : record.initiatorAddress
    if (macText(isResponder ? record.responderMac : record.initiatorMac) === null) return
    if (!isLocal(words, ipVersion)) return
    const address = formatAddress(words, 0, ipVersion)
    const taken = claim(address, device.key, atMicros)
    if (taken === null) return
    const { claim: held, isFirst } = taken
    if (
      !isFirst ||
      !isNews(atMicros) ||
      !isNew(device, atMicros) ||
      held.firstMicros > device.firstSeenMicros
    )
      return
    const fact = `${address} was the address of ${held.mac} until ${ageText(atMicros - held.lastMicros)}, and is used by ${device.key} now, a device first seen ${ageText(atMicros - device.firstSeenMicros)}`
    tellBounded(takenFrom(held), record, 'address-taken', fact, isResponder)
  }
  /** A packet of ARP or of neighbor discovery says that an address is this MAC address's. */
  const noteClaim = (
    address: string,
    mac: string,
    atMicros: number,
    rule: 'arp-conflict' | 'nd-conflict',
  ): void => {
    const taken = claim(address, mac, atMicros)
    countClaim(address, mac, atMicros)
    if (taken === null) return
    const { claim: held, isFirst } = taken
    const sinceMicros = atMicros - held.lastMicros
    if (sinceMicros > CONFLICT_MICROS) {
      // it left, and the address has another device now
      const device = table.get(mac)
      if (device !== undefined && !isNew(device, atMicros)) claims.set(address, mac, atMicros)
      else held.rival = null
      return
    }
    if (!isFirst) return
    const by = rule === 'arp-conflict' ? 'ARP' : 'neighbor discovery'
    const fact = `${address} is claimed by ${mac} and by ${held.mac} within ${durationText(sinceMicros)} (${by})`
    tellBounded(takenFrom(held), recordOfDevice({ key: mac, address }, atMicros), rule, fact, false)
  }

  // ---- sweeps and floods of claims, by sender

  /** Spreads by MAC address; `crowd` is that of the senders that there is no room for. */
  const createSenders = (tell: (spread: Spread) => void) => {
    const senders = new Map<string, Spread>()
    const crowd = createSpread()
    const makeRoom = (atMicros: number): void => {
      for (const [mac, spread] of senders) {
        if (spread.count > 0 && Math.abs(atMicros - setMicros - spread.lastMicros) < BURST_MICROS) continue
        close(spread, tell)
        senders.delete(mac)
      }
    }
    return {
      crowd,
      of(mac: string, atMicros: number): Spread {
        const known = senders.get(mac)
        if (known !== undefined) return known
        if (senders.size >= MAXIMUM_SENDERS) makeRoom(atMicros)
        if (senders.size >= MAXIMUM_SENDERS) return crowd
        const spread = createSpread()
        senders.set(mac, spread)
        return spread
      },
      all: () => [crowd, ...senders.values()],
    }
  }
  /** An address that was asked for before its device was seen is no unused one. */
  const forgetAsked = (address: string): void => {
    const bit = addressBit(address)
    for (const spread of sweeps.all()) {
      const index = spread.record === null ? spread.seen.indexOf(bit) : -1
      if (index < 0) continue
      spread.seen.splice(index, 1)
      spread.count--
    }
  }
  const tellSweep = (spread: Spread): void => {
    const record = spread.record as FlowRecord
    const [address] = addressesOf(record)
    const sender = address === '0.0.0.0' ? formatMac(record.initiatorMac, 0) : address
    const last = who(record.initiatorMac, sender, spread.lastMicros + setMicros)
    const by = spread === sweeps.crowd ? `many senders, one of them ${last}` : last
    const fact = `${spread.count} addresses that no device uses were asked for (ARP) in ${durationText(spread.lastMicros - spread.beganMicros)} by ${by}`
    tellBounded(floods.sweeps, record, 'host-scan', fact, false)
  }
  const tellClaims = (spread: Spread): void => {
    const record = spread.record as FlowRecord
    const mac = formatMac(record.initiatorMac, 0)
    const by =
      spread === claimants.crowd
        ? `by many senders, one of them ${mac}, more than are remembered`
        : `by ${mac}, which had ${USUAL_ADDRESSES} before`
    const fact = `${spread.count} addresses were claimed (ARP or neighbor discovery) in ${durationText(spread.lastMicros - spread.beganMicros)} ${by}`
    tellBounded(floods.claims, record, 'address-flood', fact, false)
  }
  const sweeps = createSenders(tellSweep)
  const claimants = createSenders(tellClaims)
  /** Of a sender with unusually many addresses, or of one whose claim is not kept. */
  const countClaim = (address: string, mac: string, atMicros: number): void => {
    const isKept = claims.get(address) !== undefined
    if (isKept && claims.countOf(mac) <= USUAL_ADDRESSES) return
    const spread = isKept ? claimants.of(mac, atMicros) : claimants.crowd
    const makeRecord = (): FlowRecord => recordOfDevice({ key: mac, address }, atMicros)
    count(spread, 0, addressBit(address), atMicros, makeRecord, tellClaims)
  }
  const noteArp = ({ mac, sender, target, isRequest }: ArpPacket, atMicros: number): void => {
    // a probe (RFC 5227) claims nothing yet
    if (sender !== '0.0.0.0') noteClaim(sender, mac, atMicros, 'arp-conflict')
    const held = claims.get(target)
    if (!isRequest || target === sender || (held !== undefined && atMicros - held.lastMicros <= KEPT_MICROS))
      return
    const makeRecord = (): FlowRecord => recordOfDevice({ key: mac, address: sender }, atMicros)
    count(sweeps.of(mac, atMicros), 0, addressBit(target), atMicros, makeRecord, tellSweep)
  }

  // ---- hours

  const noteActivity = (record: FlowRecord, device: Device, isResponder: boolean): void => {
    const unusual = noteHour(device.hours, record.startMicros + record.durationMicros)
    if (unusual === null || device.state !== 'watching') return
    const [initiator, responder] = addressesOf(record)
    const fact = `${isResponder ? responder : initiator} was active on ${unusual.hour} for the first time in ${unusual.days} days`
    options.onFact(record, 'unusual-hour', fact, isResponder)
  }

  return {
    note(record, device, novel) {
      if (device !== undefined) noteActivity(record, device, isResponderDevice(record, localNetworks))
      // pieces of a flow that goes on say nothing more
      if (record.pieceIndex > 0) return
      const isInside = isLocal(record.responderAddress, record.ipVersion)
      // what is behind a router is not the router
      const isFromInside = isLocal(record.initiatorAddress, record.ipVersion) || !isInside
      const initiator = isFromInside ? table.get(keyOf(record, false)) : undefined
      const responder = isInside ? table.get(keyOf(record, true)) : undefined
      if (device !== undefined) noteAddress(record, device, device !== initiator)
      if (isGroup(record.ipVersion, record.responderAddress, record.responderMac)) return
      const first = initiator === undefined ? null : noteContacts(record, initiator, false, novel)
      if (responder !== undefined && responder !== initiator) {
        const isNewContact = noteContacts(record, responder, true, novel) !== null
        const isNow = isNews(record.startMicros)
        guessing.note(record, responder.key, isNewContact, isNow, addressesOf(record))
      }
      if (record.initiatorPackets <= PROBE_PACKETS) noteProbe(record, initiator, responder, first)
      if (initiator !== undefined && responder !== undefined && first?.isNewPeer === true)
        noteStranger(record, initiator, responder)
    },
    packets(frames, packets) {
      requestFloods.packets(packets)
      dnsTunnels.packets(frames, packets)
      const { data, offset, capturedBytes } = frames
      for (let i = 0; i < packets.count; i++) {
        const end = offset[i] + capturedBytes[i]
        const atMicros = packets.timestampMicros[i]
        if (packets.ipVersion[i] === 0) {
          const arp = readArp(data, offset[i], end)
          if (arp !== null) noteArp(arp, atMicros)
        } else {
          const claimed = readNeighborClaim(data, packets, i, end)
          if (claimed !== null) noteClaim(claimed.address, claimed.mac, atMicros, 'nd-conflict')
        }
      }
    },
    advance(nowMicros) {
      for (const [spread, tell] of bursts) {
        if (nowMicros - setMicros - spread.lastMicros >= SILENT_MICROS) close(spread, tell)
      }
      for (const [key, micros] of fullMicros) if (nowMicros - micros >= DAY) fullMicros.delete(key)
    },
    clockSet(byMicros) {
      setMicros += byMicros
      guessing.clockSet()
      requestFloods.clockSet()
      dnsTunnels.clockSet()
      claims.clockSet(byMicros)
      for (const [key, micros] of fullMicros) fullMicros.set(key, micros + byMicros)
    },
    report: () => ({
      firstContacts,
      firstContactAlerts,
      untold: Object.values(floods).reduce((sum, { untold }) => sum + untold, 0),
    }),
    warnings() {
      const devices = fullMicros.size
      if (devices === 0) return []
      const which = devices === 1 ? 'one watched device' : `${devices} watched devices`
      return [
        `first contacts are incomplete: more contacts of ${which} within a day than are remembered; see the log`,
      ]
    },
  }
}

function keyOf(record: FlowRecord, isResponder: boolean): string {
  const mac = isResponder ? record.responderMac : record.initiatorMac
  const address = isResponder ? record.responderAddress : record.initiatorAddress
  return macText(mac) ?? formatAddress(address, 0, record.ipVersion)
}

function addressesOf(record: FlowRecord): [initiator: string, responder: string] {
  return [
    formatAddress(record.initiatorAddress, 0, record.ipVersion),
    formatAddress(record.responderAddress, 0, record.ipVersion),
  ]
}

function serviceText(record: FlowRecord): string {
  const name = protocolName(record.protocol)
  const hasPorts = record.protocol === 6 || record.protocol === 17 || record.protocol === 132
  return hasPorts ? `${name} port ${Math.min(record.initiatorPort, record.responderPort)}` : name
}

function hashOf(address: Uint32Array, port: number): number {
  const hash = address.reduce((sum, word) => Math.imul(sum ^ word, 0x9e3779b1) ^ (sum >>> 15), port + 7)
  return Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0
}

/** IPv4 addresses of one network share no bit. */
function addressBit(address: string): number {
  const ipv6 = parseIpv6(address)
  return (ipv6 === null ? (parseIpv4(address) ?? 0) : hashOf(Uint32Array.from(ipv6), 0)) % BITMAP_BITS
}

function durationText(micros: number): string {
  const seconds = Math.max(1, Math.round(micros / SECOND))
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}

function ageText(micros: number): string {
  return `${durationText(Math.max(0, micros))} ago`
}
