/**
 * DeviceFacts: alerts that need no model, also of devices that learn: a scan, guessed passwords, a flood, a tunnel through DNS, an
 * address that is taken, a new device that contacts a watched one, a first contact of a watched device, and an hour of the week in
 * which it was never active.
 *
 * Each count is bounded, so made-up addresses cause no more facts than the table allows (device-table.ts). Time is the packets'.
 */
import { type FrameBatch, formatAddress, type PacketBatch } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { isResponderDevice, macText } from '@oddflow/program'
import { AddressFacts } from './address-facts.js'
import { type FirstContact, isGroup, noteContact, noteUsual } from './contacts.js'
import { type Device, isEstablished, noteHour } from './device.js'
import { createDeviceFlood } from './device-table.js'
import {
  addressesOf,
  ageText,
  endOf,
  type FactSources,
  isLocal,
  isNew,
  recordServiceText,
} from './fact-sources.js'
import { DnsTunnels, RequestFloods } from './packet-facts.js'
import { PasswordGuessing } from './password-guessing.js'
import { Scans, Spreads } from './scans.js'

export interface FactsReport {
  /** First contacts of watched devices, and those of them that were settled enough for an alert. */
  readonly firstContacts: number
  readonly firstContactAlerts: number
  /** Facts without a separate alert, because of many similar ones within a minute. */
  readonly untold: number
}

const DAY = 86_400_000_000

export class DeviceFacts {
  readonly #sources: FactSources
  readonly #spreads = new Spreads()
  readonly #scans: Scans
  readonly #addresses: AddressFacts
  readonly #contacts: ContactFacts
  readonly #guessing: PasswordGuessing
  readonly #requestFloods: RequestFloods
  readonly #dnsTunnels: DnsTunnels

  constructor(sources: FactSources) {
    const { onFact } = sources
    this.#sources = sources
    this.#scans = new Scans(sources, this.#spreads)
    this.#addresses = new AddressFacts(sources, this.#spreads)
    this.#contacts = new ContactFacts(sources)
    this.#guessing = new PasswordGuessing((record, fact) => onFact(record, 'password-guessing', fact, true))
    this.#requestFloods = new RequestFloods(
      (of, i) => this.#localKey(of.destinationAddress, of.destinationMac, of.ipVersion[i], i) !== null,
      (record, fact) => onFact(record, 'request-flood', fact, true),
    )
    this.#dnsTunnels = new DnsTunnels(
      (of, i) => {
        const key = this.#localKey(of.sourceAddress, of.sourceMac, of.ipVersion[i], i)
        return key !== null && sources.table.get(key) !== undefined ? key : null
      },
      (record, fact) => onFact(record, 'dns-tunnel', fact, false),
    )
  }

  /** A verdict was given on this record of this device; undefined where the table had no room for it. */
  note(record: FlowRecord, device: Device | undefined, novel: boolean): void {
    const { table, localNetworks } = this.#sources
    if (device !== undefined) this.#noteActivity(record, device, isResponderDevice(record, localNetworks))
    // further pieces of the same flow add nothing
    if (record.pieceIndex > 0) return
    const isInside = isLocal(this.#sources, record.responderAddress, record.ipVersion)
    // devices behind a router are not the router
    const isFromInside = isLocal(this.#sources, record.initiatorAddress, record.ipVersion) || !isInside
    const initiator = isFromInside ? table.get(endOf(record, false).key) : undefined
    const responder = isInside ? table.get(endOf(record, true).key) : undefined
    if (device !== undefined) this.#addresses.note(record, device, device !== initiator)
    if (isGroup(record.ipVersion, record.responderAddress, record.responderMac)) return
    const first = initiator === undefined ? null : this.#contacts.note(record, initiator, false, novel)
    if (isInside && responder !== initiator) this.#noteGuesses(record, initiator, responder, first, novel)
    this.#scans.note(record, initiator, responder, first)
    if (initiator !== undefined && responder !== undefined && first?.isNewPeer === true)
      this.#contacts.noteStranger(record, initiator, responder)
  }

  /** Packets as they came; borrowed. */
  packets(frames: FrameBatch, packets: PacketBatch): void {
    this.#requestFloods.packets(packets)
    this.#dnsTunnels.packets(frames, packets)
    this.#addresses.packets(frames, packets)
  }

  advance(nowMicros: number): void {
    this.#spreads.advance(nowMicros)
    this.#requestFloods.advance(nowMicros)
    this.#contacts.advance(nowMicros)
  }

  /** No more packets come: a flood that waits for its confirmation is reported. */
  inputEnded(): void {
    this.#requestFloods.advance(Number.POSITIVE_INFINITY)
  }

  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void {
    this.#spreads.clockSet(byMicros)
    this.#guessing.clockSet()
    this.#requestFloods.clockSet()
    this.#dnsTunnels.clockSet()
    this.#addresses.clockSet(byMicros)
    this.#contacts.clockSet(byMicros)
  }

  report(): FactsReport {
    const { untold, ...counts } = this.#contacts.report()
    return { ...counts, untold: untold + this.#addresses.untold() }
  }

  /** What facts cannot show at the moment, for /healthz; a sentence each. */
  warnings(): string[] {
    return this.#contacts.warnings()
  }

  /** The key that a local host has or would have; null for other addresses and groups. */
  #localKey(addresses: Uint32Array, macs: Uint8Array, ipVersion: number, i: number): string | null {
    const address = addresses.subarray(4 * i, 4 * i + 4)
    const mac = macs.subarray(6 * i, 6 * i + 6)
    if (!isLocal(this.#sources, address, ipVersion) || isGroup(ipVersion, address, mac)) return null
    return macText(mac) ?? formatAddress(address, 0, ipVersion)
  }

  #noteActivity(record: FlowRecord, device: Device, isResponder: boolean): void {
    const unusual = noteHour(device.hours, record.startMicros + record.durationMicros)
    if (unusual === null || device.state !== 'watching') return
    const { address } = endOf(record, isResponder)
    const fact = `${address} was active on ${unusual.hour} for the first time in ${unusual.days} days`
    this.#sources.onFact(record, 'unusual-hour', fact, isResponder)
  }

  /** A service is new to its peer where neither end knows the other by it: a server may have been no known device until now. */
  #noteGuesses(
    record: FlowRecord,
    initiator: Device | undefined,
    responder: Device | undefined,
    first: FirstContact | null,
    novel: boolean,
  ): void {
    const isNewToInitiator = initiator === undefined ? responder !== undefined : first !== null
    const isNewToResponder =
      responder === undefined || this.#contacts.note(record, responder, true, novel) !== null
    this.#guessing.note(record, {
      device: endOf(record, true).key,
      isLocalPeer: isLocal(this.#sources, record.initiatorAddress, record.ipVersion),
      isNewContact: isNewToInitiator && isNewToResponder,
      isNews: this.#sources.isNews(record.startMicros),
      isKnown: responder !== undefined,
    })
  }
}

class ContactFacts {
  readonly #sources: FactSources
  readonly #floods
  /** By the device's key: when it last had more contacts than are remembered. */
  readonly #fullMicros = new Map<string, number>()
  #firstContacts = 0
  #firstContactAlerts = 0

  constructor(sources: FactSources) {
    this.#sources = sources
    const { perMinute } = sources
    this.#floods = {
      answered: createDeviceFlood(perMinute),
      unanswered: createDeviceFlood(perMinute),
      full: createDeviceFlood(perMinute),
    }
  }

  /** A flow of a device; returns null where its contact is known. */
  note(record: FlowRecord, device: Device, isResponder: boolean, novel: boolean): FirstContact | null {
    const { localNetworks } = this.#sources
    if (device.state === 'learning' || device.state === 'ready')
      noteUsual(device.usual, record, isResponder, localNetworks)
    const isKept = device.state !== 'learning' || isEstablished(device)
    const onForgotten = (): void => this.#noteFull(record, device, isResponder)
    const first = noteContact(device.contacts, record, isResponder, localNetworks, isKept, onForgotten)
    if (first === null || device.state !== 'watching') return first
    this.#firstContacts++
    if (!first.isSettled || novel) return first
    this.#firstContactAlerts++
    const [own, peer] = [endOf(record, isResponder).address, endOf(record, !isResponder).address]
    const verb = isResponder ? 'was contacted by' : 'contacted'
    const days = Math.floor((record.startMicros - first.sinceMicros) / DAY)
    const fact = `${own} ${verb} ${peer} (${recordServiceText(record)}) for the first time; no new contact of this kind for ${days === 1 ? 'a day' : `${days} days`}`
    this.#sources.onFact(record, 'first-contact', fact, isResponder)
    return first
  }

  /** A device contacts another for the first time. */
  noteStranger(record: FlowRecord, stranger: Device, target: Device): void {
    const { isNews, onFact } = this.#sources
    const atMicros = record.startMicros
    const isStranger = stranger.state === 'learning' && (stranger.randomised || isNew(stranger, atMicros))
    if (!isStranger || target.state !== 'watching' || !isNews(atMicros)) return
    const { answered, unanswered } = this.#floods
    const worth = (record.responderPackets > 0 ? answered : unanswered).take(atMicros)
    if (worth === 'none') return
    const [initiator, responder] = addressesOf(record)
    const seen = `${initiator}, a device first seen ${ageText(atMicros - stranger.firstSeenMicros)}`
    const fact =
      worth === 'device'
        ? `${responder} was contacted (${recordServiceText(record)}) by ${seen}`
        : `many new devices contact watched ones within a minute, the last of them ${seen}`
    onFact(record, 'new-device-contact', fact, true)
  }

  advance(nowMicros: number): void {
    for (const [key, micros] of this.#fullMicros) if (nowMicros - micros >= DAY) this.#fullMicros.delete(key)
  }

  clockSet(byMicros: number): void {
    for (const [key, micros] of this.#fullMicros) this.#fullMicros.set(key, micros + byMicros)
  }

  report(): FactsReport {
    return {
      firstContacts: this.#firstContacts,
      firstContactAlerts: this.#firstContactAlerts,
      untold: Object.values(this.#floods).reduce((sum, { untold }) => sum + untold, 0),
    }
  }

  warnings(): string[] {
    const devices = this.#fullMicros.size
    if (devices === 0) return []
    const which = devices === 1 ? 'one watched device' : `${devices} watched devices`
    return [
      `first contacts are incomplete: more contacts of ${which} within a day than the agent can store; see the log`,
    ]
  }

  /** Reported once, and again after a day without. */
  #noteFull(record: FlowRecord, device: Device, isResponder: boolean): void {
    if (device.state !== 'watching') return
    const atMicros = record.startMicros
    const lastMicros = this.#fullMicros.get(device.key) ?? Number.NEGATIVE_INFINITY
    this.#fullMicros.set(device.key, Math.max(lastMicros, atMicros))
    if (atMicros - lastMicros < DAY) return
    const worth = this.#floods.full.take(atMicros)
    if (worth === 'none') return
    const own = endOf(record, isResponder).address
    const what = isResponder
      ? `More peers contacted ${own} than the agent can store`
      : `${own} regularly contacts more peers than the agent can store`
    const more = worth === 'flood' ? '. This also affects other devices' : ''
    const fact = `${what}: some first contacts of this kind cause no alert, and known peers may be reported again${more}`
    this.#sources.onFact(record, 'contacts-full', fact, isResponder)
  }
}
