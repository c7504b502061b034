/**
 * IncidentRows: the contacts of an incident and a sample of the rows of its unusual flows, which an answer applies to.
 *
 * Bounded: MAXIMUM_CONTACTS and MAXIMUM_ROWS of an incident, the first half and then evenly over its time; MAXIMUM_BYTES for all, and
 * the oldest go first.
 */

import { parseIpv4, parseIpv6 } from '@oddflow/capture'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isResponderDevice, type Network } from '@oddflow/program'
import * as v from 'valibot'
import { type Alert, servicePort } from '../alerts/alert.js'
import { endOf, type FlowEnd, hashOf } from '../devices/fact-sources.js'
import type { FileSystem } from '../files/file-system.js'
import { defineState } from '../files/state-file.js'
import { MAXIMUM_CONTACTS } from './incident.js'
import { serviceText } from './sentences.js'

export interface Contact {
  /** Key of the device whose model judged. */
  readonly device: string
  readonly peer: string
  readonly service: string
  /** The device's, where it is known. */
  readonly address?: string
}

/** A number for the two addresses of a flow, whichever of them began it. */
export function addressPair(a: Uint32Array, b: Uint32Array): number {
  return (hashOf(a, 0) ^ hashOf(b, 0)) >>> 0
}

export function pairOf({ initiatorAddress, responderAddress }: FlowRecord): number {
  return addressPair(initiatorAddress, responderAddress)
}

/** Of those contacts whose addresses are known. */
export function pairsOf(contacts: readonly Contact[]): Set<number> {
  const wordsOf = (text: string): Uint32Array | null => {
    const ipv4 = parseIpv4(text)
    const ipv6 = ipv4 === null ? parseIpv6(text) : Uint32Array.of(0, 0, 0, ipv4)
    return ipv6 === null ? null : Uint32Array.from(ipv6)
  }
  const pairs = contacts.flatMap(({ address = '', peer }) => {
    const [own, other] = [wordsOf(address), wordsOf(peer)]
    return own === null || other === null ? [] : [addressPair(own, other)]
  })
  return new Set(pairs)
}

/** Of one incident. */
export interface KeptRows {
  readonly contacts: readonly Contact[]
  /** Of unusual flows, with the place of their contact. */
  readonly rows: readonly { readonly contact: number; readonly row: Float64Array }[]
}

export type IncidentRows = ReturnType<typeof createIncidentRows>

export const MAXIMUM_ROWS = 32
const FIRST_ROWS = MAXIMUM_ROWS / 2
const MAXIMUM_BYTES = 262_144

interface Kept {
  readonly contacts: Contact[]
  rows: { readonly contact: number; readonly row: Float64Array }[]
  seen: number
  stride: number
}

export function contactOf({ device, peer, flow }: Alert): Contact {
  return {
    device: device.mac ?? device.address,
    peer,
    service: serviceText(flow.protocol, servicePort(flow)),
    address: device.address,
  }
}

/** Of a flow as its device sees it, whose model judges it; and its two ends, the device first. */
export function contactOfRecord(
  record: FlowRecord,
  localNetworks: readonly Network[],
): { readonly contact: Contact; readonly ends: readonly [FlowEnd, FlowEnd] } {
  const isResponder = isResponderDevice(record, localNetworks)
  const ends = [endOf(record, isResponder), endOf(record, !isResponder)] as const
  const [{ key: device, address }, { address: peer }] = ends
  const port = Math.min(record.initiatorPort, record.responderPort)
  const service = serviceText(protocolName(record.protocol), port)
  return { contact: { device, peer, service, address }, ends }
}

export function isSameContact(a: Contact, b: Contact): boolean {
  return a.device === b.device && a.peer === b.peer && a.service === b.service
}

export function createIncidentRows(known: ReadonlyMap<string, KeptRows> = new Map()) {
  const kept = new Map<string, Kept>()
  for (const [id, { contacts, rows }] of known)
    kept.set(id, { contacts: [...contacts], rows: [...rows], seen: rows.length, stride: 1 })
  const bytes = (): number => {
    let sum = 0
    for (const { rows } of kept.values()) for (const { row } of rows) sum += row.byteLength
    return sum
  }
  const addRow = (incident: string, of: Kept, contact: number, row: Float64Array): void => {
    if (of.seen++ % of.stride !== 0) return
    of.rows.push({ contact, row })
    if (of.rows.length > MAXIMUM_ROWS) {
      // flows before the first fact may have trained a model, and are the ones to find there
      of.rows = of.rows.filter((_, i) => i < FIRST_ROWS || i % 2 === 0)
      of.stride *= 2
    }
    for (const id of kept.keys()) {
      if (bytes() <= MAXIMUM_BYTES) break
      if (id !== incident) kept.delete(id)
    }
  }
  /** A new peer takes the place of the last contact of the peer that has most: a scan must not hide what follows it. */
  const replaceCrowded = (of: Kept, contact: Contact): number => {
    const countOf = new Map<string, number>()
    for (const { peer } of of.contacts) countOf.set(peer, (countOf.get(peer) ?? 0) + 1)
    const [crowded, count] = [...countOf].reduce((most, each) => (each[1] > most[1] ? each : most))
    if (countOf.has(contact.peer) || count === 1) return -1
    const place = of.contacts.map(({ peer }) => peer).lastIndexOf(crowded)
    of.rows = of.rows.filter((each) => each.contact !== place)
    of.contacts[place] = contact
    return place
  }
  const add = (incident: string, contact: Contact, row: Float64Array | null): void => {
    const of = kept.get(incident) ?? { contacts: [], rows: [], seen: 0, stride: 1 }
    kept.set(incident, of)
    let place = of.contacts.findIndex((each) => isSameContact(each, contact))
    if (place < 0 && of.contacts.length < MAXIMUM_CONTACTS) place = of.contacts.push(contact) - 1
    else if (place < 0) place = replaceCrowded(of, contact)
    if (place >= 0 && row !== null) addRow(incident, of, place, row)
  }
  return {
    note: (incident: string, alert: Alert): void => add(incident, contactOf(alert), alert.row),
    /** A flow that had no alert. */
    noteFlow: add,
    of: (incident: string): KeptRows => kept.get(incident) ?? { contacts: [], rows: [] },
    /** Rows of a device, of all incidents. */
    ofDevice: (device: string): Float64Array[] =>
      [...kept.values()].flatMap(({ contacts, rows }) =>
        rows.filter(({ contact }) => contacts[contact]?.device === device).map(({ row }) => row),
      ),
    /** Forgets the incidents that are not among these. */
    keepOnly(incidents: readonly { readonly id: string }[]): void {
      const ids = new Set(incidents.map(({ id }) => id))
      for (const id of kept.keys()) if (!ids.has(id)) kept.delete(id)
    },
    write: (files: FileSystem, folder: string): Promise<void> =>
      INCIDENT_ROWS.write(files, folder, {
        incidents: [...kept].map(([incident, of]) => ({ incident, ...encodeRows(of) })),
      }),
  }
}

/** Rows as they stand in JSON: to the last bit. */
export function encodeRows({ contacts, rows }: KeptRows): { contacts: readonly Contact[]; rows: object[] } {
  return {
    contacts,
    rows: rows.map(({ contact, row }) => ({
      contact,
      row: Buffer.from(row.buffer, row.byteOffset, row.byteLength).toString('base64'),
    })),
  }
}

const text = v.pipe(v.string(), v.maxLength(100))
const RowSchema = v.pipe(
  v.string(),
  v.maxLength(65_536),
  v.transform((encoded) => {
    const bytes = Uint8Array.from(Buffer.from(encoded, 'base64'))
    return new Float64Array(bytes.buffer, 0, Math.floor(bytes.length / 8))
  }),
  v.check((row) => row.length > 0 && row.every(Number.isFinite), 'expected finite numbers'),
)
export const KeptRowsEntries = {
  contacts: v.pipe(
    v.array(v.object({ device: text, peer: text, service: text, address: v.exactOptional(text) })),
    v.maxLength(MAXIMUM_CONTACTS),
  ),
  rows: v.pipe(
    v.array(v.object({ contact: v.pipe(v.number(), v.safeInteger(), v.minValue(0)), row: RowSchema })),
    v.maxLength(MAXIMUM_ROWS),
  ),
}

/** By incident. Without those of an earlier run, an answer that is about flows is refused. */
export const INCIDENT_ROWS = defineState(
  'incident-rows',
  1,
  v.pipe(
    v.object({
      incidents: v.pipe(v.array(v.object({ incident: text, ...KeptRowsEntries })), v.maxLength(1000)),
    }),
    v.transform(({ incidents }) => new Map(incidents.map(({ incident, ...kept }) => [incident, kept]))),
  ),
)
