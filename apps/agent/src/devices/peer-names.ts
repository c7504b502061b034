/**
 * PeerNames: names of devices' outside peers, from their DNS answers and the server names (SNI) of their TLS connections.
 *
 * A name is a claim of a DNS server or of the device. It is for people: no fact, verdict or incident depends on it, and it stands
 * beside the address. A DNS answer counts only after its query, and more than a server name. Kept for RETENTION_MICROS in
 * `peer-names.json`; every table is bounded, and the device with the most names gives up its oldest.
 */
import {
  type FrameBatch,
  formatAddress,
  hostName,
  PACKET_OK,
  type PacketBatch,
  readDnsMessage,
  readServerName,
} from '@oddflow/capture'
import { isInNetwork, macText, type Network } from '@oddflow/program'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { createKeeper, defineState, type Keeper } from '../files/state-file.js'
import type { Incident } from '../incidents/incident.js'
import type { Log } from '../log.js'

const SOURCES = ['dns', 'tls'] as const

export interface PeerName {
  readonly address: string
  readonly name: string
  /** Of a DNS answer, or of a TLS connection that the device began. */
  readonly source: (typeof SOURCES)[number]
}

interface KeptName extends PeerName {
  /** Key of the device. */
  readonly device: string
  readonly lastMicros: number
}

interface PeerNamesOptions {
  readonly known: readonly KeptName[]
  readonly localNetworks: readonly Network[]
  /** Whether names of a device are looked for, and whether they are kept. */
  readonly isWatched: (device: string) => boolean
  readonly isKept: (device: string) => boolean
  /** null: names are in memory alone. */
  readonly write: ((names: readonly KeptName[]) => Promise<void>) | null
  readonly log: Pick<Log, 'info' | 'warn'>
}

const HOUR = 3_600_000_000
const RETENTION_MICROS = 7 * 24 * HOUR
const MAXIMUM_OF_DEVICE = 256
export const MAXIMUM_NAMES = 4096
/** Names, queries and ClientHellos that wait. */
export const PEER_NAMES_BYTES = 4 * 1_048_576
const MAXIMUM_QUERIES = 256
const MAXIMUM_HELLOS = 32
/** A ClientHello has rarely more than two segments. */
const MAXIMUM_HELLO_BYTES = 8192
const TICKS_BETWEEN = 60
const [TCP, UDP] = [6, 17]
const UDP_HEADER_BYTES = 8
const DNS_PORT = 53

export class PeerNames {
  readonly #options: PeerNamesOptions
  /** By device and address; of a device the one that was last seen comes last. */
  readonly #names = new Map<string, Map<string, KeptName>>()
  #size = 0
  /** Queries without an answer yet, the oldest first. */
  readonly #queries = new Set<string>()
  /** Begins of ClientHellos, by their connection, the oldest first. */
  readonly #hellos = new Map<string, { bytes: Uint8Array; nextSequence: number }>()
  #changes = 0
  #expiredMicros = Number.NEGATIVE_INFINITY
  readonly #keeper: Keeper | null

  constructor(options: PeerNamesOptions) {
    this.#options = options
    for (const each of options.known) this.#add(each)
    const { write, log } = options
    this.#keeper =
      write === null
        ? null
        : createKeeper({
            what: 'names of peers are',
            ticksBetween: TICKS_BETWEEN,
            changes: () => this.#changes,
            savedChanges: this.#changes,
            write: () => write([...this.#names.values()].flatMap((own) => [...own.values()])),
            log,
          })
  }

  // Names in packets.

  /** Packets as they came; borrowed. */
  packets({ data, offset, capturedBytes }: FrameBatch, packets: PacketBatch): void {
    for (let i = 0; i < packets.count; i++) {
      const protocol = packets.protocol[i]
      if (packets.payloadBytes[i] === 0 || packets.status[i] !== PACKET_OK) continue
      const isDns =
        protocol === UDP && (packets.sourcePort[i] === DNS_PORT || packets.destinationPort[i] === DNS_PORT)
      if (!isDns && protocol !== TCP) continue
      const transport = packets.transportOffset[i]
      const start = transport + (isDns ? UDP_HEADER_BYTES : 4 * (data[transport + 12] >> 4))
      const captured = offset[i] + capturedBytes[i]
      const end = Math.min(captured, start + packets.payloadBytes[i])
      if (start >= end || Number.isNaN(packets.timestampMicros[i])) continue
      if (isDns) this.#takeDns(data, start, end, packets, i)
      else this.#takeHello(data, start, end, packets, i)
    }
  }

  #takeDns(data: Uint8Array, start: number, end: number, packets: PacketBatch, i: number): void {
    const message = readDnsMessage(data, start, end)
    if (message === null) return
    const isFromServer = packets.sourcePort[i] === DNS_PORT
    if (message.isResponse !== isFromServer) return
    const client = endOf(packets, i, !isFromServer)
    const server = endOf(packets, i, isFromServer)
    if (!this.#options.isWatched(client.device)) return
    const port = isFromServer ? packets.destinationPort[i] : packets.sourcePort[i]
    const query = `${client.device} ${client.address} ${port} ${server.address} ${message.id} ${message.name}`
    if (!message.isResponse) {
      this.#queries.delete(query)
      this.#queries.add(query)
      removeOldest(this.#queries, MAXIMUM_QUERIES)
    } else if (this.#queries.delete(query)) {
      const atMicros = packets.timestampMicros[i]
      for (const words of message.addresses)
        this.#note(client.device, words, isIpv4(words) ? 4 : 6, message.name, 'dns', atMicros)
    }
  }

  #takeHello(data: Uint8Array, start: number, end: number, packets: PacketBatch, i: number): void {
    const isBegin = data[start] === 0x16
    if (!isBegin && this.#hellos.size === 0) return
    const { device, address } = endOf(packets, i, true)
    if (!this.#options.isWatched(device)) return
    const peer = formatAddress(packets.destinationAddress, 4 * i, packets.ipVersion[i])
    const connection = `${address} ${packets.sourcePort[i]} ${peer} ${packets.destinationPort[i]}`
    const sequence = wordAt(data, packets.transportOffset[i] + 4)
    const waiting = this.#hellos.get(connection)
    const isNext = waiting !== undefined && waiting.nextSequence === sequence
    if (!isNext && !isBegin) return
    const segment = data.subarray(start, end)
    const bytes = isNext ? Uint8Array.of(...waiting.bytes, ...segment) : segment
    this.#hellos.delete(connection)
    const found = readServerName(bytes, 0, bytes.length)
    if (found === null) return
    if (found !== 'cut') {
      const words = packets.destinationAddress.subarray(4 * i, 4 * i + 4)
      this.#note(device, words, packets.ipVersion[i], found.name, 'tls', packets.timestampMicros[i])
    } else if (segment.length === packets.payloadBytes[i] && bytes.length < MAXIMUM_HELLO_BYTES) {
      this.#hellos.set(connection, {
        bytes: bytes.slice(),
        nextSequence: (sequence + segment.length) >>> 0,
      })
      removeOldest(this.#hellos, MAXIMUM_HELLOS)
    }
  }

  #note(
    device: string,
    words: Uint32Array,
    ipVersion: number,
    name: string,
    source: PeerName['source'],
    lastMicros: number,
  ): void {
    // devices of the network have names of their own, and no DNS server names them
    if (this.#options.localNetworks.some((network) => isInNetwork(network, words, ipVersion))) return
    this.#add({ device, address: formatAddress(words, 0, ipVersion), name, source, lastMicros })
  }

  // Names that are known.

  /** Of those of a device's peers that have one. */
  of(device: string, addresses: readonly string[]): PeerName[] {
    const own = this.#names.get(device)
    if (own === undefined) return []
    return addresses.flatMap((each) => {
      const found = own.get(each)
      return found === undefined ? [] : [{ address: found.address, name: found.name, source: found.source }]
    })
  }

  get size(): number {
    return this.#size
  }

  #add(of: KeptName): void {
    const own = this.#names.get(of.device) ?? new Map<string, KeptName>()
    const before = own.get(of.address)
    own.delete(of.address)
    const isLesser = of.source === 'tls' && before?.source === 'dns'
    const next = isLesser ? before : of
    // repeated names are written once an hour
    const isNews = before?.name !== next.name || of.lastMicros - before.lastMicros >= HOUR
    own.set(of.address, isNews ? { ...next, lastMicros: of.lastMicros } : before)
    this.#names.set(of.device, own)
    if (isNews) this.#changes++
    if (before === undefined) this.#size++
    if (own.size > MAXIMUM_OF_DEVICE) this.#removeOldestOf(of.device)
    if (this.#size <= MAXIMUM_NAMES) return
    let most = of.device
    for (const [device, { size }] of this.#names) if (size > (this.#names.get(most)?.size ?? 0)) most = device
    this.#removeOldestOf(most)
  }

  #removeOldestOf(device: string): void {
    const [oldest] = this.#names.get(device)?.keys() ?? []
    if (oldest !== undefined) this.#remove(device, oldest)
  }

  #remove(device: string, address: string): void {
    const own = this.#names.get(device)
    if (own?.delete(address) !== true) return
    this.#size--
    this.#changes++
    if (own.size === 0) this.#names.delete(device)
  }

  // Time, and the file.

  /** Packets have come up to this time. */
  advance(nowMicros: number): void {
    if (Math.abs(nowMicros - this.#expiredMicros) < HOUR) return
    this.#expiredMicros = nowMicros
    for (const own of [...this.#names.values()]) {
      for (const each of [...own.values()]) {
        if (nowMicros - each.lastMicros >= RETENTION_MICROS) this.#remove(each.device, each.address)
        // the clock was set back while the agent did not run
        else if (each.lastMicros > nowMicros) own.set(each.address, { ...each, lastMicros: nowMicros })
      }
    }
  }

  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void {
    this.#expiredMicros += byMicros
    for (const own of this.#names.values())
      for (const [address, each] of own) own.set(address, { ...each, lastMicros: each.lastMicros + byMicros })
    this.#changes++
  }

  /** To be called every second or so: forgets the names of devices that are not watched any more. */
  tick(): void {
    const isDue = this.#forgetOthers()
    this.#keeper?.tick(isDue)
  }

  /** Saves the current names if possible. Never rejects. */
  async save(): Promise<void> {
    this.#forgetOthers()
    await this.#keeper?.save()
  }

  /** True where there were some. */
  #forgetOthers(): boolean {
    const before = this.#size
    for (const [device, own] of [...this.#names])
      if (!this.#options.isKept(device)) for (const address of [...own.keys()]) this.#remove(device, address)
    return this.#size < before
  }
}

function removeOldest(of: Set<string> | Map<string, unknown>, maximum: number): void {
  const [oldest] = of.keys()
  if (of.size > maximum && oldest !== undefined) of.delete(oldest)
}

function endOf(packets: PacketBatch, i: number, isSource: boolean): { device: string; address: string } {
  const address = formatAddress(
    isSource ? packets.sourceAddress : packets.destinationAddress,
    4 * i,
    packets.ipVersion[i],
  )
  const macs = isSource ? packets.sourceMac : packets.destinationMac
  return { device: macText(macs.subarray(6 * i, 6 * i + 6)) ?? address, address }
}

function isIpv4(words: Uint32Array): boolean {
  return words[0] === 0 && words[1] === 0 && words[2] === 0
}

function wordAt(data: Uint8Array, at: number): number {
  return ((data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]) >>> 0
}

/** "contacted 203.0.113.5 (tcp port 443)" → "contacted example.com (203.0.113.5, tcp port 443)" */
export function withNames(text: string, names: readonly PeerName[]): string {
  return names.reduce((whole, { address, name }) => {
    const alone = new RegExp(`(?<![\\w.:])${address.replaceAll('.', '\\.')}(?![\\w:]|\\.\\d)( \\()?`, 'g')
    return whole.replace(alone, (_, more?: string) => `${name} (${address}${more === undefined ? ')' : ', '}`)
  }, text)
}

/** The same incident as people are shown it. */
export function withPeerNames<
  T extends Pick<Incident, 'summary'> & Partial<Pick<Incident, 'key' | 'facts' | 'contacts'>>,
>(incident: T, of: PeerNames['of']): T {
  const { summary, key = '', facts, contacts = [] } = incident
  const names = of(key, [...new Set(contacts.map(({ peer }) => peer))])
  if (names.length === 0) return incident
  return {
    ...incident,
    summary: withNames(summary, names),
    facts: facts?.map((each) => ({ ...each, fact: withNames(each.fact, names) })),
    contacts: contacts.map((each) => ({ ...each, peer: withNames(each.peer, names) })),
  }
}

const text = v.pipe(v.string(), v.minLength(1), v.maxLength(100))
const NameSchema = v.object({
  device: text,
  address: text,
  name: v.pipe(
    v.string(),
    v.check((name) => hostName(name) === name, 'expected a host name'),
  ),
  source: v.picklist(SOURCES),
  lastMicros: v.pipe(v.number(), v.safeInteger()),
})
export const PEER_NAMES = defineState(
  'peer-names',
  1,
  v.pipe(
    v.object({ names: v.pipe(v.array(NameSchema), v.maxLength(MAXIMUM_NAMES)) }),
    v.transform(({ names }) => names),
  ),
)

/** Where no agent runs. Rejects with FileError. */
export async function forgetPeerNames(
  files: FileSystem,
  folder: string,
  devices: readonly string[],
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const known = (await PEER_NAMES.read(files, folder, log)) ?? []
  const names = known.filter(({ device }) => !devices.includes(device))
  if (names.length < known.length) await PEER_NAMES.write(files, folder, { names })
}
