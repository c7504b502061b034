/**
 * DeviceFacts: what needs no model to be told, of devices that learn too: a scan, guessed passwords, a flood, a tunnel through DNS, an
 * address that is taken, a new device that contacts a watched one, a contact that a watched device never had, and an hour of the week
 * in which it never was active.
 *
 * Each fact is a count that stays within bounds, so that made-up addresses, which may flood the table, cause no more facts than the
 * table allows (device-table.ts). Time is the packets'.
 */
import { type FrameBatch, formatAddress, type PacketBatch } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { isResponderDevice, macText } from '@oddflow/program'
import { AddressFacts } from './address-facts.js'
import { type FirstContact, isGroup, noteContact, noteUsual } from './contacts.js'
import { type Device, isEstablished, noteHour } from './device.js'
import { createDeviceFlood } from './device-table.js'
import { addressesOf, ageText, type FactSources, isLocal, isNew, recordServiceText } from './fact-sources.js'
import { createDnsTunnels, createRequestFloods } from './packet-facts.js'
import { createPasswordGuessing } from './password-guessing.js'
import { createScans, createSpreads } from './scans.js'

export interface FactsReport {
  /** First contacts of watched devices, and those of them that were settled enough for an alert. */
  readonly firstContacts: number
  readonly firstContactAlerts: number
  /** Facts without a separate alert, because of many similar ones within a minute. */
  readonly untold: number
}

interface DeviceFacts {
  /** A verdict was given on this record of this device; undefined where the table had no room for it. */
  note(record: FlowRecord, device: Device | undefined, novel: boolean): void
  /** Packets as they came; borrowed. */
  packets(frames: FrameBatch, packets: PacketBatch): void
  advance(nowMicros: number): void
  /** No packet comes any more: a flood that waits for its confirmation is reported. */
  inputEnded(): void
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
  report(): FactsReport
  /** What facts cannot show at the moment, for /healthz; a sentence each. */
  warnings(): string[]
}

const DAY = 86_400_000_000
const TCP = 6

export function createDeviceFacts(sources: FactSources): DeviceFacts {
  const { table, localNetworks, isNews, onFact } = sources
  const spreads = createSpreads()
  const scans = createScans(sources, spreads)
  const addresses = new AddressFacts(sources, spreads)
  const contacts = createContactFacts(sources)
  const guessing = createPasswordGuessing((record, fact) => onFact(record, 'password-guessing', fact, true))
  const isLocalHost = (addresses: Uint32Array, macs: Uint8Array, ipVersion: number, i: number): boolean => {
    const address = addresses.subarray(4 * i, 4 * i + 4)
    return (
      isLocal(sources, address, ipVersion) && !isGroup(ipVersion, address, macs.subarray(6 * i, 6 * i + 6))
    )
  }
  const keyOfEnd = (
    addresses: Uint32Array,
    macs: Uint8Array,
    ipVersion: number,
    i: number,
  ): string | null => {
    if (!isLocalHost(addresses, macs, ipVersion, i)) return null
    const address = addresses.subarray(4 * i, 4 * i + 4)
    const mac = macs.subarray(6 * i, 6 * i + 6)
    const key = macText(mac) ?? formatAddress(address, 0, ipVersion)
    return table.get(key) === undefined ? null : key
  }
  const requestFloods = createRequestFloods({
    isToHost: (of, i) =>
      of.protocol[i] === TCP
        ? isLocalHost(of.destinationAddress, of.destinationMac, of.ipVersion[i], i)
        : keyOfEnd(of.destinationAddress, of.destinationMac, of.ipVersion[i], i) !== null,
    onFlood: (record, fact) => onFact(record, 'request-flood', fact, true),
  })
  const dnsTunnels = createDnsTunnels({
    senderOf: (of, i) => keyOfEnd(of.sourceAddress, of.sourceMac, of.ipVersion[i], i),
    onTunnel: (record, fact) => onFact(record, 'dns-tunnel', fact, false),
  })
  const noteActivity = (record: FlowRecord, device: Device, isResponder: boolean): void => {
    const unusual = noteHour(device.hours, record.startMicros + record.durationMicros)
    if (unusual === null || device.state !== 'watching') return
    const own = addressesOf(record)[isResponder ? 1 : 0]
    const fact = `${own} was active on ${unusual.hour} for the first time in ${unusual.days} days`
    onFact(record, 'unusual-hour', fact, isResponder)
  }
  /** A service is new to its peer where neither end knows the other by it: a server may have been no known device until now. */
  const noteGuesses = (
    record: FlowRecord,
    initiator: Device | undefined,
    responder: Device | undefined,
    first: FirstContact | null,
    novel: boolean,
  ): void => {
    const isNewToInitiator = initiator === undefined ? responder !== undefined : first !== null
    const isNewToResponder = responder === undefined || contacts.note(record, responder, true, novel) !== null
    const isNewContact = isNewToInitiator && isNewToResponder
    const isNow = isNews(record.startMicros)
    const target = responder?.key ?? keyOf(record, true)
    guessing.note(record, target, isNewContact, isNow, responder !== undefined, addressesOf(record))
  }
  return {
    note(record, device, novel) {
      if (device !== undefined) noteActivity(record, device, isResponderDevice(record, localNetworks))
      // further pieces of the same flow add nothing
      if (record.pieceIndex > 0) return
      const isInside = isLocal(sources, record.responderAddress, record.ipVersion)
      // devices behind a router are not the router
      const isFromInside = isLocal(sources, record.initiatorAddress, record.ipVersion) || !isInside
      const initiator = isFromInside ? table.get(keyOf(record, false)) : undefined
      const responder = isInside ? table.get(keyOf(record, true)) : undefined
      if (device !== undefined) addresses.note(record, device, device !== initiator)
      if (isGroup(record.ipVersion, record.responderAddress, record.responderMac)) return
      const first = initiator === undefined ? null : contacts.note(record, initiator, false, novel)
      if (isInside && responder !== initiator) noteGuesses(record, initiator, responder, first, novel)
      scans.note(record, initiator, responder, first)
      if (initiator !== undefined && responder !== undefined && first?.isNewPeer === true)
        contacts.noteStranger(record, initiator, responder)
    },
    packets(frames, packets) {
      requestFloods.packets(packets)
      dnsTunnels.packets(frames, packets)
      addresses.packets(frames, packets)
    },
    advance(nowMicros) {
      spreads.advance(nowMicros)
      requestFloods.advance(nowMicros)
      contacts.advance(nowMicros)
    },
    inputEnded: () => requestFloods.advance(Number.POSITIVE_INFINITY),
    clockSet(byMicros) {
      spreads.clockSet(byMicros)
      guessing.clockSet()
      requestFloods.clockSet()
      dnsTunnels.clockSet()
      addresses.clockSet(byMicros)
      contacts.clockSet(byMicros)
    },
    report() {
      const { untold, ...counts } = contacts.report()
      return { ...counts, untold: untold + addresses.untold() }
    },
    warnings: contacts.warnings,
  }
}

interface ContactFacts extends Pick<DeviceFacts, 'advance' | 'clockSet' | 'report' | 'warnings'> {
  /** A flow of a device; returns null where its contact is known. */
  note(record: FlowRecord, device: Device, isResponder: boolean, novel: boolean): FirstContact | null
  /** A device contacts another for the first time. */
  noteStranger(record: FlowRecord, stranger: Device, target: Device): void
}

function createContactFacts(sources: FactSources): ContactFacts {
  const { localNetworks, perMinute, isNews, onFact } = sources
  const floods = {
    answered: createDeviceFlood(perMinute),
    unanswered: createDeviceFlood(perMinute),
    full: createDeviceFlood(perMinute),
  }
  /** By the device's key: when it last had more contacts than are remembered. */
  const fullMicros = new Map<string, number>()
  let firstContacts = 0
  let firstContactAlerts = 0

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
    const what = isResponder
      ? `More peers contacted ${own} than the agent can store`
      : `${own} regularly contacts more peers than the agent can store`
    const more = worth === 'flood' ? '. This also affects other devices' : ''
    const fact = `${what}: some first contacts of this kind cause no alert, and known peers may be reported again${more}`
    onFact(record, 'contacts-full', fact, isResponder)
  }
  return {
    note(record, device, isResponder, novel) {
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
      const fact = `${own} ${verb} ${peer} (${recordServiceText(record)}) for the first time; no new contact of this kind for ${days === 1 ? 'a day' : `${days} days`}`
      onFact(record, 'first-contact', fact, isResponder)
      return first
    },
    noteStranger(record, stranger, target) {
      const atMicros = record.startMicros
      const isStranger = stranger.state === 'learning' && (stranger.randomised || isNew(stranger, atMicros))
      if (!isStranger || target.state !== 'watching' || !isNews(atMicros)) return
      const worth = (record.responderPackets > 0 ? floods.answered : floods.unanswered).take(atMicros)
      if (worth === 'none') return
      const [initiator, responder] = addressesOf(record)
      const seen = `${initiator}, a device first seen ${ageText(atMicros - stranger.firstSeenMicros)}`
      const fact =
        worth === 'device'
          ? `${responder} was contacted (${recordServiceText(record)}) by ${seen}`
          : `many new devices contact watched ones within a minute, the last of them ${seen}`
      onFact(record, 'new-device-contact', fact, true)
    },
    advance(nowMicros) {
      for (const [key, micros] of fullMicros) if (nowMicros - micros >= DAY) fullMicros.delete(key)
    },
    clockSet(byMicros) {
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
        `first contacts are incomplete: more contacts of ${which} within a day than the agent can store; see the log`,
      ]
    },
  }
}

function keyOf(record: FlowRecord, isResponder: boolean): string {
  const mac = isResponder ? record.responderMac : record.initiatorMac
  const address = isResponder ? record.responderAddress : record.initiatorAddress
  return macText(mac) ?? formatAddress(address, 0, record.ipVersion)
}
