/**
 * DeviceTable: the known devices, up to a maximum.
 *
 * In a full table a new device replaces a learning one, in the order of goesBefore: a flood of private addresses replaces only itself.
 * Ready, watched and paused devices stay. If there are only these, the new device is refused and counted.
 */

import { join } from 'node:path'
import { parseIpv4, parseIpv6, parseMac } from '@oddflow/capture'
import { FormatError } from '@oddflow/core'
import { createFlowRecord, type FlowRecord } from '@oddflow/flows'
import type { DeviceSettings } from '../config/settings.js'
import type { FileSystem } from '../files/file-system.js'
import { lookAtTwice, readTwice, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import { setContactsClock } from './contacts.js'
import {
  createDevice,
  type Device,
  type DeviceState,
  decodeDevices,
  encodeDevices,
  isEstablished,
  isReady,
  learnAnew,
  noteVerdict,
} from './device.js'
import { cleanName } from './names.js'

/** A flow record that stands for a device where no flow is at hand: its address, no packets, and no protocol. */

export function recordOfDevice(
  { key, address }: Pick<Device, 'key' | 'address'>,
  atMicros: number,
): FlowRecord {
  const ipv6 = parseIpv6(address)
  return {
    ...createFlowRecord(),
    ipVersion: ipv6 === null ? 4 : 6,
    initiatorAddress:
      ipv6 === null ? Uint32Array.of(0, 0, 0, parseIpv4(address) ?? 0) : Uint32Array.from(ipv6),
    initiatorMac: Uint8Array.from(parseMac(key) ?? new Uint8Array(6)),
    flowStartMicros: atMicros,
    startMicros: atMicros,
    endReason: 'idle-timeout',
  }
}

/**
 * `devices.json` and its copy in the state folder. If both are lost, every device would learn again and cause no alert: so the agent
 * watches the devices that it finds within the first hour, and reports new ones from the start.
 */

export interface KnownDevices {
  readonly devices: readonly Device[]
  /** `file`: as they were kept, none before the first start. `copy`: of the copy. `lost`: they are not known. */
  readonly from: 'file' | 'copy' | 'lost'
}

/** 4,096 devices with as many contacts as may be have 45 MB. */
const MAXIMUM_DEVICES_BYTES = 67_108_864

/** Those that an earlier run has kept. What is damaged is moved to `.damaged` and reported. */
export async function readKnownDevices(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<KnownDevices> {
  const path = pathIn(folder)
  const found = await readTwice(files, path, decodeDevices, MAXIMUM_DEVICES_BYTES)
  if (found.is === 'copy') {
    log.warn(
      `${path}: ${found.reason}; its copy of ${count(found.value.length)} is used. Check the last approvals, pauses and removals ("oddflow-agent devices list")`,
    )
  } else if (found.is === 'lost') {
    log.warn(
      `${path}: ${found.reason}. Which devices were watched is not known: those found from now on are watched, and reported as new. Restore a whole devices.json, or check "oddflow-agent devices list"`,
    )
  }
  if (found.is === 'lost') return { devices: [], from: 'lost' }
  if (found.is === 'none') return { devices: [], from: 'file' }
  return { devices: found.value, from: found.is === 'copy' ? 'copy' : 'file' }
}

/** `readKnownDevices` of who only looks: nothing is moved. Rejects with FormatError where they are lost. */
export async function lookAtKnownDevices(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<readonly Device[]> {
  const path = pathIn(folder)
  const found = await lookAtTwice(files, path, decodeDevices, MAXIMUM_DEVICES_BYTES)
  if (found.is === 'none') return []
  if (found.is === 'lost') {
    throw new FormatError(
      'devices',
      `${path}: ${found.reason}; restore a whole file, or start the agent, which watches the devices that it finds`,
    )
  }
  if (found.is === 'copy') log.warn(`${path}: ${found.reason}; this is its copy`)
  return found.value
}

/** Rejects with FileError. */
export function writeKnownDevices(
  files: FileSystem,
  folder: string,
  devices: Iterable<Device>,
): Promise<void> {
  return writeStateTwice(files, pathIn(folder), encodeDevices(devices))
}

function count(devices: number): string {
  return devices === 1 ? 'one device' : `${devices} devices`
}

function pathIn(folder: string): string {
  return join(folder, 'devices.json')
}

/**
 * DeviceFlood: more than `perMinute` new devices in a minute of the packets' clock are a flood with one alert, until a minute has no
 * more than that.
 */
export interface DeviceFlood {
  /** What a new device is worth: an alert of its own, the alert of a flood, or none. */
  take(atMicros: number): 'device' | 'flood' | 'none'
  /** New devices that had no alert of their own. */
  readonly untold: number
}

const MINUTE_MICROS = 60_000_000

export function createDeviceFlood(perMinute: number): DeviceFlood {
  let beganMicros = Number.NEGATIVE_INFINITY
  let count = 0
  let isFlood = false
  let untold = 0
  return {
    take(atMicros) {
      // a clock that was set back begins a minute as well
      if (atMicros >= beganMicros + MINUTE_MICROS || atMicros < beganMicros - MINUTE_MICROS) {
        if (count <= perMinute || atMicros >= beganMicros + 2 * MINUTE_MICROS) isFlood = false
        beganMicros = atMicros
        count = 0
      }
      count++
      if (!isFlood && count <= perMinute) return 'device'
      untold++
      if (isFlood) return 'none'
      isFlood = true
      return 'flood'
    },
    get untold() {
      return untold
    },
  }
}

/** What a person may ask for. */
export const DEVICE_ACTIONS = ['approve', 'pause', 'resume', 'relearn', 'forget', 'name', 'group'] as const
export type DeviceAction = (typeof DEVICE_ACTIONS)[number]

const DAY_MICROS = 86_400_000_000

/** 0 to 3, in the order in which learning devices make room. */
function rankOf(device: Device, nowMicros: number): number {
  const idleMicros = nowMicros - device.lastSeenMicros
  // a person has spoken about it
  if (device.name?.source === 'person' || device.group !== null) return 3
  if (isEstablished(device)) return idleMicros >= 7 * DAY_MICROS ? 2 : 3
  return idleMicros >= DAY_MICROS ? 0 : 1
}

/** A learning device with what its place in the order depended on when that was last looked at. */
interface Candidate {
  readonly device: Device
  readonly rank: number
  readonly flows: number
  readonly lastSeenMicros: number
}

function candidateOf(device: Device, nowMicros: number): Candidate {
  const { flows, lastSeenMicros } = device
  return { device, rank: rankOf(device, nowMicros), flows, lastSeenMicros }
}

/** Whether a device makes room before another one. */
function goesBefore(a: Candidate, b: Candidate): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.rank === 0 || a.rank === 2) return a.lastSeenMicros < b.lastSeenMicros
  if (a.device.randomised !== b.device.randomised) return a.device.randomised
  if (a.flows !== b.flows) return a.flows < b.flows
  return a.device.firstSeenMicros > b.device.firstSeenMicros
}

/** The order is made afresh so often: ranks fall by time alone. */
const ORDER_MICROS = 60_000_000

/** The order in which learning devices make room. A device that moved back since is put back when its turn comes. */
class EvictionOrder {
  readonly #devices: ReadonlyMap<string, Device>
  /** The first to go comes last. */
  #order: Candidate[] = []
  #madeMicros = Number.NEGATIVE_INFINITY

  constructor(devices: ReadonlyMap<string, Device>) {
    this.#devices = devices
  }

  add(device: Device, nowMicros: number): void {
    const order = this.#order
    const candidate = candidateOf(device, nowMicros)
    let [low, high] = [0, order.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (goesBefore(order[middle], candidate)) high = middle
      else low = middle + 1
    }
    order.splice(low, 0, candidate)
  }

  /** A device may have moved to the front. */
  reset(): void {
    this.#madeMicros = Number.NEGATIVE_INFINITY
  }

  /** The device that goes first, out of the order from now on; null where none may go. */
  takeFirst(nowMicros: number): Device | null {
    if (Math.abs(nowMicros - this.#madeMicros) >= ORDER_MICROS) {
      this.#madeMicros = nowMicros
      this.#order = [...this.#devices.values()]
        .filter(({ state }) => state === 'learning')
        .map((device) => candidateOf(device, nowMicros))
        .sort((a, b) => Number(goesBefore(a, b)) - Number(goesBefore(b, a)))
    }
    for (let first = this.#order.pop(); first !== undefined; first = this.#order.pop()) {
      const { device, rank, flows, lastSeenMicros } = first
      if (device.state !== 'learning' || this.#devices.get(device.key) !== device) continue
      const now = candidateOf(device, nowMicros)
      if (now.rank === rank && now.flows === flows && now.lastSeenMicros === lastSeenMicros) return device
      this.add(device, nowMicros)
    }
    return null
  }
}

/** The contacts of a device while it learned, the most frequent first: "203.0.113.0/24 (tcp port 443)", "from Hub (udp port 5683)". */
export function usualContactTexts(
  { usual }: Device,
  table: { get(key: string): Device | undefined },
): string[] {
  return [...usual]
    .sort((a, b) => b.flows - a.flows)
    .map(({ peer, service, isIncoming }) => {
      const known = table.get(peer)
      return `${isIncoming ? 'from ' : ''}${known?.name?.name ?? known?.address ?? peer} (${service})`
    })
}

export class DeviceTable {
  readonly #settings: DeviceSettings
  readonly #isProven: (key: string) => boolean | null
  readonly #onEvicted: (key: string) => void
  readonly #devices = new Map<string, Device>()
  readonly #order = new EvictionOrder(this.#devices)
  #evicted = 0
  #refused = 0
  #changes = 0

  /** @param isProven - whether a device has a model to be watched with, which is what its promise says; null where its share of
   * novel flows decides. */
  constructor(
    settings: DeviceSettings,
    known: readonly Device[] = [],
    isProven: (key: string) => boolean | null = () => null,
    onEvicted: (key: string) => void = () => undefined,
  ) {
    this.#settings = settings
    this.#isProven = isProven
    this.#onEvicted = onEvicted
    for (const device of known.slice(0, settings.maximum)) this.#devices.set(device.key, { ...device })
  }

  get(key: string): Device | undefined {
    return this.#devices.get(key)
  }

  all(): Iterable<Device> {
    return this.#devices.values()
  }

  get size(): number {
    return this.#devices.size
  }

  byState(): Record<DeviceState, number> {
    const counts = { learning: 0, ready: 0, watching: 0, paused: 0 }
    for (const { state } of this.#devices.values()) counts[state]++
    return counts
  }

  /** Learning devices that went for new ones. */
  get evicted(): number {
    return this.#evicted
  }

  /** New devices that there was no room for; one that comes again counts again. */
  get refused(): number {
    return this.#refused
  }

  /** Grows with every change of a state, so that it can be kept. */
  get changes(): number {
    return this.#changes
  }

  /** Made where there is room; undefined where there is none. */
  add(key: string, address: string, atMicros: number): Device | undefined {
    if (!this.#makeRoom(atMicros)) {
      this.#refused++
      return undefined
    }
    const device = createDevice(key, address, atMicros)
    this.#devices.set(key, device)
    this.#order.add(device, atMicros)
    return device
  }

  #makeRoom(nowMicros: number): boolean {
    if (this.#devices.size < this.#settings.maximum) return true
    const least = this.#order.takeFirst(nowMicros)
    if (least === null) return false
    this.#devices.delete(least.key)
    this.#onEvicted(least.key)
    this.#evicted++
    return true
  }

  /** Counts a verdict and moves the device on to ready (or to watching, if no approval is needed); true if it moved. */
  note(device: Device, novel: boolean, atMicros: number, isScored: boolean): boolean {
    noteVerdict(device, novel, isScored)
    if (atMicros > device.lastSeenMicros) device.lastSeenMicros = atMicros
    return this.#moveOn(device, device.lastSeenMicros)
  }

  /** Moves on the devices that time has made ready; returns them. */
  judge(nowMicros: number): Device[] {
    return [...this.#devices.values()].filter((device) => this.#moveOn(device, nowMicros))
  }

  #moveOn(device: Device, nowMicros: number): boolean {
    if (device.state !== 'learning') return false
    if (!isReady(device, this.#settings, this.#isProven(device.key), nowMicros)) return false
    device.state = this.#settings.approve === 'auto' ? 'watching' : 'ready'
    this.#changes++
    return true
  }

  /**
   * Why it cannot be done, null where it was.
   * @param text - of `name` and `group`; empty: none from now on.
   */
  act(action: DeviceAction, key: string, text = ''): string | null {
    const device = this.#devices.get(key)
    if (device === undefined) return `there is no device ${key}`
    const refused = this.#change(device, action, text)
    if (refused === null) this.#changes++
    return refused
  }

  #change(device: Device, action: DeviceAction, text: string): string | null {
    switch (action) {
      case 'forget':
        this.#devices.delete(device.key)
        return null
      case 'relearn':
        // the latest that is known of time: a model that was made by then is an old one
        this.#order.reset()
        learnAnew(device, Math.max(...[...this.#devices.values()].map((each) => each.lastSeenMicros)))
        return null
      case 'name':
      case 'group': {
        const clean = text === '' ? null : cleanName(new TextEncoder().encode(text))
        if (text !== '' && clean === null) return `${action}: expected at most 63 printable characters`
        if (action === 'group') device.group = clean
        else if (clean !== null) device.name = { name: clean, source: 'person' }
        else if (device.name?.source === 'person') device.name = null
        this.#order.reset()
        return null
      }
      default:
        return changeState(device, action)
    }
  }

  /** The packets' clock was set: times move with it, so learning takes as long. @param state - only of devices in this state */
  clockSet(byMicros: number, state?: DeviceState): void {
    this.#order.reset()
    for (const device of this.#devices.values()) {
      if (state !== undefined && device.state !== state) continue
      device.firstSeenMicros += byMicros
      device.learningSinceMicros += byMicros
      device.lastSeenMicros += byMicros
      setContactsClock(device.contacts, byMicros)
    }
  }
}

/** Why it cannot be done, null where it was. */
function changeState(device: Device, action: 'approve' | 'pause' | 'resume'): string | null {
  const { key, state } = device
  if (action === 'approve' && (state === 'watching' || state === 'paused'))
    return `${key} is approved already`
  if (action === 'pause' && state === 'paused') return `${key} is paused already`
  if (action === 'resume' && state !== 'paused') return `${key} is not paused`
  device.state = action === 'pause' ? 'paused' : 'watching'
  return null
}
