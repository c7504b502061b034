/**
 * Facts about addresses: one that another device takes or claims, sweeps by ARP for unused ones, and floods of claims.
 *
 * Sweeps and floods are counted by MAC address, for MAXIMUM_SENDERS: the sender need not be a known device.
 */
import {
  type FrameBatch,
  formatAddress,
  formatMac,
  type PacketBatch,
  parseIpv4,
  parseIpv6,
} from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import type { FactRule } from '../alerts/alert.js'
import { spanText } from '../incidents/sentences.js'
import { type Device, isEstablished } from './device.js'
import { createDeviceFlood, type DeviceFlood, recordOfDevice } from './device-table.js'
import {
  addressesOf,
  ageText,
  endOf,
  type FactSources,
  hashOf,
  isLocal,
  isNew,
  whoText,
} from './fact-sources.js'
import { BITMAP_BITS, noSpread, type Spread, type Spreads, type Tell } from './scans.js'

/** An address is its device's for so long after it was last used. */
const KEPT_MICROS = 86_400_000_000
/** A MAC address with more addresses than these is counted. */
const USUAL_ADDRESSES = 16
/** Senders whose ARP requests for unused addresses, or whose claims, are counted. */
const MAXIMUM_SENDERS = 64

/** Spreads by MAC address; `crowd` is that of the senders that there is no room for. */
interface Senders {
  readonly crowd: Spread
  of(mac: string, atMicros: number): Spread
  all(): Spread[]
}

function createSenders(spreads: Spreads, tell: Tell): Senders {
  const senders = new Map<string, Spread>()
  const crowd = noSpread()
  const makeRoom = (atMicros: number): void => {
    for (const [mac, spread] of senders) {
      if (!spreads.isIdle(spread, atMicros)) continue
      spreads.close(spread, tell)
      senders.delete(mac)
    }
  }
  return {
    crowd,
    of(mac, atMicros) {
      const known = senders.get(mac)
      if (known !== undefined) return known
      if (senders.size >= MAXIMUM_SENDERS) makeRoom(atMicros)
      if (senders.size >= MAXIMUM_SENDERS) return crowd
      const spread = noSpread()
      senders.set(mac, spread)
      return spread
    },
    all: () => [crowd, ...senders.values()],
  }
}

export class AddressFacts {
  readonly #sources: FactSources
  readonly #spreads: Spreads
  readonly #claims: AddressClaims
  /** Senders that ask for unused addresses, and those that claim many. */
  readonly #sweeps: Senders
  readonly #claimants: Senders
  readonly #floods: Record<'taken' | 'takenOfWatched' | 'sweeps' | 'claims', DeviceFlood>

  constructor(sources: FactSources, spreads: Spreads) {
    const { table, perMinute } = sources
    this.#sources = sources
    this.#spreads = spreads
    this.#claims = createAddressClaims((mac) => table.get(mac))
    this.#sweeps = createSenders(spreads, this.#tellSweep)
    this.#claimants = createSenders(spreads, this.#tellClaims)
    this.#floods = {
      taken: createDeviceFlood(perMinute),
      // of devices that are watched: made-up devices that take each other's addresses hide none
      takenOfWatched: createDeviceFlood(perMinute),
      sweeps: createDeviceFlood(perMinute),
      claims: createDeviceFlood(perMinute),
    }
  }

  /** A device sent or received a flow with the address that it has there. */
  note(record: FlowRecord, device: Device, isResponder: boolean): void {
    const { ipVersion, startMicros: atMicros } = record
    const words = isResponder ? record.responderAddress : record.initiatorAddress
    const { mac, address } = endOf(record, isResponder)
    if (mac === null || !isLocal(this.#sources, words, ipVersion)) return
    const taken = this.#claim(address, device.key, atMicros)
    if (taken === null || !taken.isFirst || !this.#sources.isNews(atMicros) || !isNew(device, atMicros))
      return
    const { held } = taken
    if (held.firstMicros > device.firstSeenMicros) return
    const fact = `${address} belonged to ${held.mac} until ${ageText(atMicros - held.lastMicros)} and is now used by ${device.key}, a device first seen ${ageText(atMicros - device.firstSeenMicros)}`
    this.#tell(this.#floodOf(held), record, 'address-taken', fact, isResponder)
  }

  /** Packets as they came; borrowed. */
  packets({ data, offset, capturedBytes }: FrameBatch, packets: PacketBatch): void {
    for (let i = 0; i < packets.count; i++) {
      const end = offset[i] + capturedBytes[i]
      const atMicros = packets.timestampMicros[i]
      if (packets.ipVersion[i] === 0) {
        const arp = readArp(data, offset[i], end)
        if (arp !== null) this.#noteArp(arp, atMicros)
      } else {
        const claimed = readNeighborClaim(data, packets, i, end)
        if (claimed !== null) this.#noteClaim(claimed.address, claimed.mac, atMicros, 'nd-conflict')
      }
    }
  }

  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void {
    this.#claims.clockSet(byMicros)
  }

  /** Facts without an alert, because of too many similar ones within a minute. */
  untold(): number {
    return Object.values(this.#floods).reduce((sum, { untold }) => sum + untold, 0)
  }

  #noteArp({ mac, sender, target, isRequest }: ArpPacket, atMicros: number): void {
    // a probe (RFC 5227) claims nothing yet
    if (sender !== '0.0.0.0') this.#noteClaim(sender, mac, atMicros, 'arp-conflict')
    const held = this.#claims.get(target)
    if (!isRequest || target === sender || (held !== undefined && atMicros - held.lastMicros <= KEPT_MICROS))
      return
    this.#count(this.#sweeps.of(mac, atMicros), target, mac, sender, atMicros, this.#tellSweep)
  }

  /** A packet of ARP or of neighbor discovery says that an address is this MAC address's. */
  #noteClaim(address: string, mac: string, atMicros: number, rule: 'arp-conflict' | 'nd-conflict'): void {
    const taken = this.#claim(address, mac, atMicros)
    this.#countClaim(address, mac, atMicros)
    if (taken === null) return
    const { held, isFirst } = taken
    const sinceMicros = atMicros - held.lastMicros
    if (sinceMicros > CONFLICT_MICROS) {
      // it left, and the address has another device now
      const device = this.#sources.table.get(mac)
      if (device !== undefined && !isNew(device, atMicros)) this.#claims.set(address, mac, atMicros)
      else held.rival = null
      return
    }
    if (!isFirst) return
    const by = rule === 'arp-conflict' ? 'ARP' : 'neighbor discovery'
    const fact = `${address} is claimed by ${mac} and by ${held.mac} within ${spanText(sinceMicros)} (${by})`
    this.#tell(this.#floodOf(held), recordOfDevice({ key: mac, address }, atMicros), rule, fact, false)
  }

  /** Whose address it was, where it is another's. */
  #claim(
    address: string,
    mac: string,
    atMicros: number,
  ): { readonly held: Claim; readonly isFirst: boolean } | null {
    const held = this.#claims.get(address)
    if (held === undefined || (held.mac !== mac && atMicros - held.lastMicros > KEPT_MICROS)) {
      // an address that was asked for before its device was seen is no unused one
      if (this.#claims.set(address, mac, atMicros))
        for (const spread of this.#sweeps.all()) this.#spreads.forget(spread, addressBit(address))
      return null
    }
    if (held.mac === mac) {
      this.#claims.use(address, held, atMicros)
      return null
    }
    const isFirst = held.rival !== mac
    held.rival = mac
    return { held, isFirst }
  }

  /** Counts a claim of a sender with unusually many addresses, or of one whose claim is not kept. */
  #countClaim(address: string, mac: string, atMicros: number): void {
    const isKept = this.#claims.get(address) !== undefined
    if (isKept && this.#claims.countOf(mac) <= USUAL_ADDRESSES) return
    const spread = isKept ? this.#claimants.of(mac, atMicros) : this.#claimants.crowd
    this.#count(spread, address, mac, address, atMicros, this.#tellClaims)
  }

  #count(spread: Spread, counted: string, mac: string, own: string, atMicros: number, tell: Tell): void {
    const makeRecord = (): FlowRecord => recordOfDevice({ key: mac, address: own }, atMicros)
    this.#spreads.count(spread, addressBit(counted), atMicros, makeRecord, tell)
  }

  #tellSweep: Tell = (spread, record, lastMicros) => {
    const [address] = addressesOf(record)
    const sender = address === '0.0.0.0' ? formatMac(record.initiatorMac, 0) : address
    const last = whoText(this.#sources, record.initiatorMac, sender, lastMicros)
    const by = spread === this.#sweeps.crowd ? `many senders, one of them ${last}` : last
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${spread.count} addresses that no device uses were asked for (ARP) in ${span} by ${by}`
    this.#tell(this.#floods.sweeps, record, 'host-scan', fact, false)
  }

  #tellClaims: Tell = (spread, record) => {
    const mac = formatMac(record.initiatorMac, 0)
    const by =
      spread === this.#claimants.crowd
        ? `by many senders, one of them ${mac}, more than the agent can store`
        : `by ${mac}, which had ${USUAL_ADDRESSES} before`
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${spread.count} addresses were claimed (ARP or neighbor discovery) in ${span} ${by}`
    this.#tell(this.#floods.claims, record, 'address-flood', fact, false)
  }

  #floodOf({ mac }: Claim): DeviceFlood {
    const isLearning = (this.#sources.table.get(mac)?.state ?? 'learning') === 'learning'
    return isLearning ? this.#floods.taken : this.#floods.takenOfWatched
  }

  #tell(flood: DeviceFlood, record: FlowRecord, rule: FactRule, fact: string, isOfResponder: boolean): void {
    const worth = flood.take(record.startMicros)
    if (worth === 'none') return
    const more = worth === 'flood' ? '; more such alerts follow within this minute' : ''
    this.#sources.onFact(record, rule, `${fact}${more}`, isOfResponder)
  }
}

/** IPv4 addresses of one network share no bit. */
function addressBit(address: string): number {
  const ipv6 = parseIpv6(address)
  return (ipv6 === null ? (parseIpv4(address) ?? 0) : hashOf(Uint32Array.from(ipv6), 0)) % BITMAP_BITS
}

/** Packets by which hosts of a link find each other's MAC addresses: ARP (RFC 826) and neighbor discovery (RFC 4861). */

interface ArpPacket {
  /** Of the sender, as ARP itself has it. */
  readonly mac: string
  /** 0.0.0.0 in a probe (RFC 5227). */
  readonly sender: string
  readonly target: string
  readonly isRequest: boolean
}

interface NeighborClaim {
  readonly mac: string
  readonly address: string
}

/** null where the frame is no ARP packet of Ethernet and IPv4, or a group's MAC address is the sender. */
function readArp(data: Uint8Array, start: number, end: number): ArpPacket | null {
  let at = start + 12
  if (data[at] === 0x81 && data[at + 1] === 0) at += 4
  at += 2
  if (at + 28 > end || data[at - 2] !== 0x08 || data[at - 1] !== 0x06) return null
  const isEthernetIpv4 =
    data[at + 1] === 1 && data[at + 2] === 8 && data[at + 3] === 0 && data[at + 4] === 6 && data[at + 5] === 4
  if (!isEthernetIpv4 || isGroupMac(data, at + 8)) return null
  const addressAt = (i: number): string => data.subarray(i, i + 4).join('.')
  return {
    mac: formatMac(data, at + 8),
    sender: addressAt(at + 14),
    target: addressAt(at + 24),
    isRequest: data[at + 6] === 0 && data[at + 7] === 1,
  }
}

const ICMPV6 = 58
/** A router decrements it, so that nothing from elsewhere has it. */
const LINK_HOP_LIMIT = 255
const SENDER_OPTION = 1
const TARGET_OPTION = 2

/** By type of message: where its options begin, the option with a MAC address, and where the address of that one is (0: the packet's source). */
const MESSAGES: Readonly<Record<number, readonly [options: number, option: number, address: number]>> = {
  133: [8, SENDER_OPTION, 0],
  134: [16, SENDER_OPTION, 0],
  135: [24, SENDER_OPTION, 0],
  136: [24, TARGET_OPTION, 8],
  137: [40, TARGET_OPTION, 8],
}

/** Which MAC address a message of neighbor discovery gives for which address; null where it gives none. */
function readNeighborClaim(
  data: Uint8Array,
  packets: PacketBatch,
  i: number,
  end: number,
): NeighborClaim | null {
  const at = packets.transportOffset[i]
  if (packets.protocol[i] !== ICMPV6 || packets.hopLimit[i] !== LINK_HOP_LIMIT || at === 0) return null
  const message = MESSAGES[data[at]]
  if (message === undefined) return null
  const [options, option, addressAt] = message
  for (let from = at + options; from + 8 <= end && data[from + 1] > 0; from += 8 * data[from + 1]) {
    if (data[from] !== option || isGroupMac(data, from + 2)) continue
    const words =
      addressAt === 0 ? packets.sourceAddress.subarray(4 * i, 4 * i + 4) : wordsAt(data, at + addressAt)
    // no address yet (RFC 4862), or a group's
    if (words.every((word) => word === 0) || words[0] >>> 24 === 0xff) return null
    return { mac: formatMac(data, from + 2), address: formatAddress(words, 0, 6) }
  }
  return null
}

function isGroupMac(data: Uint8Array, at: number): boolean {
  return (data[at] & 1) !== 0
}

function wordsAt(data: Uint8Array, at: number): Uint32Array {
  return Uint32Array.from([0, 4, 8, 12], (i) => {
    const [a, b, c, d] = data.subarray(at + i, at + i + 4)
    return (a << 24) | (b << 16) | (c << 8) | d
  })
}

/**
 * AddressClaims: which MAC address has which IP address, as flows, ARP and neighbor discovery say. A flood of claims pushes out no
 * earlier one: known devices have a separate table, one MAC address has at most MAXIMUM_OF_ONE claims, and in a full table only a
 * claim that was not used for CONFLICT_MICROS makes room.
 */

interface Claim {
  readonly mac: string
  firstMicros: number
  lastMicros: number
  /** The MAC address of the last reported claim against it. */
  rival: string | null
}

type AddressClaims = ReturnType<typeof createAddressClaims>

/** Two that claim an address within this time are in conflict. */
const CONFLICT_MICROS = 600_000_000
const MAXIMUM_OF_KNOWN = 4096
const MAXIMUM_OF_OTHERS = 1024
const MAXIMUM_OF_ONE = 256

function createAddressClaims(deviceOf: (mac: string) => Device | undefined) {
  /** By address; the one used the longest time ago comes first. */
  const ofKnown = new Map<string, Claim>()
  const ofOthers = new Map<string, Claim>()
  /** By MAC address, in the same order. */
  const addresses = new Map<string, Set<string>>()

  const isKnown = (mac: string): boolean => {
    const device = deviceOf(mac)
    return device !== undefined && (device.state !== 'learning' || isEstablished(device))
  }
  const get = (address: string): Claim | undefined => ofKnown.get(address) ?? ofOthers.get(address)
  const remove = (address: string): void => {
    const claim = get(address)
    if (claim === undefined) return
    ofKnown.delete(address)
    ofOthers.delete(address)
    const own = addresses.get(claim.mac)
    own?.delete(address)
    if (own?.size === 0) addresses.delete(claim.mac)
  }
  /** Makes room, where the claim used the longest time ago was not used for long. */
  const hasRoom = (table: ReadonlyMap<string, Claim>, maximum: number, atMicros: number): boolean => {
    if (table.size < maximum) return true
    const [oldest, { lastMicros }] = table.entries().next().value as [string, Claim]
    if (atMicros - lastMicros < CONFLICT_MICROS) return false
    remove(oldest)
    return true
  }
  /** As the one used last. False where there is no room. */
  const put = (address: string, claim: Claim): boolean => {
    remove(address)
    const own = addresses.get(claim.mac) ?? new Set()
    if (own.size >= MAXIMUM_OF_ONE) remove(own.values().next().value as string)
    const table =
      isKnown(claim.mac) && hasRoom(ofKnown, MAXIMUM_OF_KNOWN, claim.lastMicros)
        ? ofKnown
        : hasRoom(ofOthers, MAXIMUM_OF_OTHERS, claim.lastMicros)
          ? ofOthers
          : null
    table?.set(address, claim)
    if (table !== null) addresses.set(claim.mac, own.add(address))
    return table !== null
  }
  return {
    get,
    /** The address is this MAC address's from now on. False where there was no room to remember that. */
    set: (address: string, mac: string, atMicros: number): boolean =>
      put(address, { mac, firstMicros: atMicros, lastMicros: atMicros, rival: null }),
    /** The owner used its address. */
    use(address: string, claim: Claim, atMicros: number): void {
      claim.lastMicros = Math.max(claim.lastMicros, atMicros)
      put(address, claim)
    },
    /** How many addresses a MAC address has. */
    countOf: (mac: string): number => addresses.get(mac)?.size ?? 0,
    clockSet(byMicros: number): void {
      for (const claims of [ofKnown, ofOthers]) {
        for (const claim of claims.values()) {
          claim.firstMicros += byMicros
          claim.lastMicros += byMicros
        }
      }
    },
  }
}
