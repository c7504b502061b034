/** What all facts are made from: the devices, the local networks, whether devices are new at this time, and where a fact goes. */
import { formatAddress } from '@oddflow/capture'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isInNetwork, macText, type Network } from '@oddflow/program'
import type { FactRule } from '../alerts/alert.js'
import { spanText } from '../incidents/sentences.js'
import type { Device } from './device.js'
import type { DeviceTable } from './device-table.js'

/** About which end of the record it is, and the sentence. */
export type OnFact = (record: FlowRecord, rule: FactRule, fact: string, isOfResponder: boolean) => void

export interface FactSources {
  readonly table: DeviceTable
  readonly localNetworks: readonly Network[]
  /** Of facts about new devices. */
  readonly perMinute: number
  /** Whether devices are new at all at this time: not while an agent takes stock. */
  readonly isNews: (atMicros: number) => boolean
  readonly onFact: OnFact
}

/** A device is new for so long. */
const NEW_MICROS = 86_400_000_000

export function isNew(device: Device, atMicros: number): boolean {
  return atMicros - device.firstSeenMicros < NEW_MICROS
}

export function isLocal(
  { localNetworks }: FactSources,
  address: ArrayLike<number>,
  ipVersion: number,
): boolean {
  return localNetworks.some((network) => isInNetwork(network, address, ipVersion))
}

/** An end of a flow. */
export interface FlowEnd {
  readonly mac: string | null
  readonly address: string
  /** Of its device: the MAC address, or the address. */
  readonly key: string
}

export function endOf(record: FlowRecord, isResponder: boolean): FlowEnd {
  const words = isResponder ? record.responderAddress : record.initiatorAddress
  const mac = macText(isResponder ? record.responderMac : record.initiatorMac)
  const address = formatAddress(words, 0, record.ipVersion)
  return { mac, address, key: mac ?? address }
}

export function addressesOf(record: FlowRecord): [initiator: string, responder: string] {
  return [endOf(record, false).address, endOf(record, true).address]
}

/** An address, and since when its device is known where that is new. */
export function whoText(
  { table, isNews }: FactSources,
  mac: Uint8Array,
  address: string,
  atMicros: number,
): string {
  const device = table.get(macText(mac) ?? address)
  if (device === undefined || !isNews(atMicros) || !isNew(device, atMicros)) return address
  return `${address}, a device first seen ${ageText(atMicros - device.firstSeenMicros)}`
}

export function recordServiceText(record: FlowRecord): string {
  const name = protocolName(record.protocol)
  const hasPorts = record.protocol === 6 || record.protocol === 17 || record.protocol === 132
  return hasPorts ? `${name} port ${Math.min(record.initiatorPort, record.responderPort)}` : name
}

export function ageText(micros: number): string {
  return `${spanText(Math.max(0, micros))} ago`
}

export function hashOf(address: Uint32Array, port: number): number {
  const hash = address.reduce((sum, word) => Math.imul(sum ^ word, 0x9e3779b1) ^ (sum >>> 15), port + 7)
  return Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0
}
