/**
 * AddressClaims: which MAC address has which IP address, as flows, ARP and neighbor discovery say.
 *
 * Bounded, so that a flood of claims pushes out none that was there before it. Claims of known devices (watched, paused, ready or
 * established) are in a table of their own. One MAC address has at most MAXIMUM_OF_ONE claims; for the next one it loses the
 * one that it used the longest time ago. In a full table only a claim that was not used for CONFLICT_MICROS makes room; a new claim
 * is not kept otherwise.
 */
import { type Device, isEstablished } from './device.js'

export interface Claim {
  readonly mac: string
  firstMicros: number
  lastMicros: number
  /** The MAC address of the last reported claim against it. */
  rival: string | null
}

export interface AddressClaims {
  get(address: string): Claim | undefined
  /** The address is this MAC address's from now on. False where there was no room to remember that. */
  set(address: string, mac: string, atMicros: number): boolean
  /** The owner used its address. */
  use(address: string, claim: Claim, atMicros: number): void
  /** How many addresses a MAC address has. */
  countOf(mac: string): number
  clockSet(byMicros: number): void
}

/** Two that claim an address within this time are in conflict. */
export const CONFLICT_MICROS = 600_000_000
const MAXIMUM_OF_KNOWN = 4096
const MAXIMUM_OF_OTHERS = 1024
const MAXIMUM_OF_ONE = 256

export function createAddressClaims(deviceOf: (mac: string) => Device | undefined): AddressClaims {
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
    set: (address, mac, atMicros) =>
      put(address, { mac, firstMicros: atMicros, lastMicros: atMicros, rival: null }),
    use(address, claim, atMicros) {
      claim.lastMicros = Math.max(claim.lastMicros, atMicros)
      put(address, claim)
    },
    countOf: (mac) => addresses.get(mac)?.size ?? 0,
    clockSet(byMicros) {
      for (const claims of [ofKnown, ofOthers]) {
        for (const claim of claims.values()) {
          claim.firstMicros += byMicros
          claim.lastMicros += byMicros
        }
      }
    },
  }
}
