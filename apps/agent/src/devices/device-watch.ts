/**
 * DeviceWatch: the devices of a running agent: finds them by their flows, decides whose alerts are given, and keeps
 * what it knows in the state folder (`devices.json`): within seconds when a state has changed, else every few minutes.
 */

import type { FrameBatch, PacketBatch } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import type { FlowRecord } from '@oddflow/flows'
import { isResponderDevice, type Network } from '@oddflow/program'
import type { DeviceSettings } from '../config/settings.js'
import { createTurns } from '../files/state-file.js'
import type { ScopeReport } from '../models/progress.js'
import type { Metric } from '../pipeline/environment.js'
import { type Device, type DeviceState, type Forecast, forecastOf, noteAddress } from './device.js'
import { DeviceFacts, type FactsReport } from './device-facts.js'
import {
  createDeviceFlood,
  DEVICE_ACTIONS,
  type DeviceAction,
  type DeviceFlood,
  DeviceTable,
  type KnownDevices,
  usualContactTexts,
} from './device-table.js'
import { endOf, type OnFact } from './fact-sources.js'
import { type ClaimedName, countsLess, createNameBook } from './names.js'

/**
 * What a person asks for, device by device: an action and the devices that it is about.
 *
 * A person's word is on disk before it is in force, and in force before it is acknowledged: it is tried on a copy of the
 * table, the copy is kept, and only then is the table itself changed. Where it cannot be kept nothing has changed.
 */

/** What a person asked for, device by device, and what became of it. */
export interface ActionResult {
  readonly device: string
  /** null where it was done. */
  readonly refused: string | null
}

/** Does what is asked; throws ArgumentError for what is no request of ours. */
export function act(table: DeviceTable, body: unknown): ActionResult[] {
  const { action, devices, text } = checkRequest(body)
  return devices.map((device) => ({ device, refused: table.act(action, device, text) }))
}

/** `act`, kept by `keep` first. Rejects as `keep` does, and then nothing is in force. */
export async function actKept(
  table: DeviceTable,
  settings: DeviceSettings,
  body: unknown,
  keep: (devices: Iterable<Device>) => Promise<void>,
): Promise<ActionResult[]> {
  const { action, text } = checkRequest(body)
  const copy = new DeviceTable({ ...settings, maximum: table.size }, [...table.all()])
  const results = act(copy, body)
  if (results.every(({ refused }) => refused !== null)) return results
  await keep(copy.all())
  // meanwhile one that learns may have gone for a new one, which is then told
  return results.map((result) =>
    result.refused === null ? { ...result, refused: table.act(action, result.device, text) } : result,
  )
}

function checkRequest(body: unknown): { action: DeviceAction; devices: readonly string[]; text: string } {
  const { action, devices, text = '' } = (body ?? {}) as Record<string, unknown>
  if (!DEVICE_ACTIONS.includes(action as DeviceAction)) {
    throw new ArgumentError(`action: expected ${DEVICE_ACTIONS.join(', ')}`)
  }
  if (!Array.isArray(devices) || !devices.every((device) => typeof device === 'string')) {
    throw new ArgumentError('devices: expected a list of addresses')
  }
  if (typeof text !== 'string' || (text !== '' && action !== 'name' && action !== 'group')) {
    throw new ArgumentError('text: expected the text of a name or a group')
  }
  return { action: action as DeviceAction, devices, text }
}

export interface DeviceReport {
  readonly byState: Readonly<Record<DeviceState, number>>
  readonly maximum: number
  /** Devices found new in this run. */
  readonly found: number
  readonly evicted: number
  readonly refused: number
  /** New devices without an alert of their own, in floods. */
  readonly untold: number
  readonly facts: FactsReport
}

export const DEVICE_METRICS: readonly Metric<DeviceReport>[] = [
  ['devices', 'Known devices.', ({ byState }) => byState, 'state'],
  [
    'first_contacts_total',
    'First contacts of watched devices, by fate.',
    ({ facts: { firstContacts, firstContactAlerts } }) => ({
      counted: firstContacts - firstContactAlerts,
      alerted: firstContactAlerts,
    }),
    'fate',
  ],
  [
    'facts_untold_total',
    'Facts without a separate alert, because of many similar facts within a minute.',
    ({ facts }) => facts.untold,
  ],
]

interface DeviceWatchOptions {
  readonly settings: DeviceSettings
  readonly localNetworks: readonly Network[]
  readonly known: KnownDevices
  /** Where the configuration has groups, the device's, or null; a person gives none then. */
  readonly groupOf?: (key: string) => string | null
  /** Called with the record by which a device was found, or by which a flood of them was. */
  readonly onNew: (record: FlowRecord, rule: 'new-device' | 'device-flood') => void
  /** A device is ready, or watched at once if no approval is needed. */
  readonly onReady: (device: Device, atMicros: number, contacts: readonly string[]) => void
  /** A fact about a device, without a verdict (device-facts.ts). */
  readonly onFact: OnFact
  /** As of DeviceTable. */
  readonly isProven?: (key: string) => boolean | null
  /** A device went for a new one. */
  readonly onEvicted?: (key: string) => void
  /** A verdict was counted. */
  readonly onVerdict?: (record: FlowRecord, device: Device, novel: boolean) => void
  /** null: nothing is kept. */
  readonly write: ((devices: Iterable<Device>) => Promise<void>) | null
  /** Called when writing begins to fail and when it works again (null). */
  readonly onTrouble?: (trouble: unknown) => void
}

/** Ticks between two writes without a change of state. */
const TICKS_BETWEEN = 600
/** In the first minutes of an empty table, a flood of new devices is this many times `floodPerMinute`. */
const INVENTORY_TIMES = 16
/** Where the table was lost, devices that are found within so long are taken for ones that were watched. */
const LOST_MICROS = 3_600_000_000
/** Of the packets' clock, between two looks for devices that time has made ready. */
const JUDGE_MICROS = 60_000_000

export class DeviceWatch {
  readonly table: DeviceTable
  readonly #options: DeviceWatchOptions
  readonly #facts: DeviceFacts
  readonly #names = createNameBook()
  readonly #flood: DeviceFlood
  readonly #inventoryFlood: DeviceFlood
  /** Where nothing was known all devices are new, which is no news. */
  readonly #inventoryMicros: number
  #beganMicros: number | null = null
  /** Of the packets' clock. */
  #latestMicros: number
  #judgedMicros = Number.NEGATIVE_INFINITY
  #found = 0
  #savedChanges: number
  #isRestored: boolean
  #ticks = 0
  /** What is written later is what was known later. */
  readonly #inTurn = createTurns()
  #isWaiting = false
  #isTroubled = false

  constructor(options: DeviceWatchOptions) {
    const { settings, localNetworks, groupOf, onFact } = options
    const { devices: known, from } = options.known
    this.#options = options
    this.table = new DeviceTable(settings, known, options.isProven, options.onEvicted)
    if (groupOf !== undefined) for (const device of this.table.all()) device.group = groupOf(device.key)
    this.#flood = createDeviceFlood(settings.floodPerMinute)
    this.#inventoryFlood = createDeviceFlood(INVENTORY_TIMES * settings.floodPerMinute)
    this.#inventoryMicros = known.length === 0 && from === 'file' ? settings.inventoryMinutes * 60_000_000 : 0
    this.#facts = new DeviceFacts({
      table: this.table,
      localNetworks,
      perMinute: settings.floodPerMinute,
      isNews: (atMicros) => this.#isNews(atMicros),
      onFact,
    })
    this.#latestMicros = known.reduce((latest, { lastSeenMicros }) => Math.max(latest, lastSeenMicros), 0)
    // what is not on disk as it should be is written at once
    this.#savedChanges = from === 'file' ? 0 : -1
    this.#isRestored = from === 'file'
  }

  // Flows and packets.

  /** A verdict on a record of a device; true where alerts of it are to be given. */
  verdict(record: FlowRecord, novel: boolean): boolean {
    const { localNetworks, onVerdict } = this.#options
    const isResponder = isResponderDevice(record, localNetworks)
    const { address, key } = endOf(record, isResponder)
    const atMicros = record.startMicros + record.durationMicros
    this.#latestMicros = Math.max(this.#latestMicros, atMicros)
    const device = this.table.get(key) ?? this.#find(record, key, address, atMicros)
    // a device without a place in the table is watched
    if (device === undefined) {
      this.#facts.note(record, undefined, novel)
      return true
    }
    noteAddress(device, address)
    const isReady = this.table.note(device, novel, atMicros, record.row !== null)
    onVerdict?.(record, device, novel)
    if (isReady) this.#tellReady(device, atMicros)
    this.#facts.note(record, device, novel)
    return device.state === 'watching'
  }

  #find(record: FlowRecord, key: string, address: string, atMicros: number): Device | undefined {
    const { onNew, groupOf, known } = this.#options
    const device = this.table.add(key, address, record.startMicros)
    this.#found++
    this.#beganMicros ??= atMicros
    // the network as it is comes within minutes: a flood is more
    const isTold = this.#isNews(atMicros)
    const worth = (isTold ? this.#flood : this.#inventoryFlood).take(atMicros)
    if (worth === 'flood' || (worth === 'device' && isTold))
      onNew(record, worth === 'device' ? 'new-device' : 'device-flood')
    if (device === undefined) return undefined
    device.name = this.#names.of(key) ?? null
    device.group = groupOf?.(key) ?? null
    // it may be one that was watched
    if (known.from === 'lost' && atMicros - this.#beganMicros < LOST_MICROS) device.state = 'watching'
    return device
  }

  /** The flow by which the first device was found began before it was found. */
  #isNews(atMicros: number): boolean {
    return this.#inventoryMicros === 0 || atMicros - (this.#beganMicros ?? atMicros) >= this.#inventoryMicros
  }

  #tellReady(device: Device, atMicros: number): void {
    this.#options.onReady(device, atMicros, usualContactTexts(device, this.table))
  }

  /** Packets as they came; borrowed. */
  packets(frames: FrameBatch, packets: PacketBatch): void {
    this.#facts.packets(frames, packets)
  }

  /** A device claims a name; one that is not known yet has it when it is. */
  named(mac: string, claimed: ClaimedName): void {
    this.#names.note(mac, claimed)
    const device = this.table.get(mac)
    if (device !== undefined && (device.name === null || !countsLess(claimed, device.name)))
      device.name = claimed
  }

  // Time.

  /** Packets have come up to this time: devices may have become ready by it. */
  advance(nowMicros: number): void {
    this.#facts.advance(nowMicros)
    this.#latestMicros = Math.max(this.#latestMicros, nowMicros)
    // a clock that was set back is looked at as well
    if (Math.abs(nowMicros - this.#judgedMicros) < JUDGE_MICROS) return
    this.#judgedMicros = nowMicros
    for (const device of this.table.judge(nowMicros)) {
      // it was ready when the time was over, if no packet came since
      const overMicros = device.learningSinceMicros + 3_600_000_000 * this.#options.settings.judgeHours
      this.#tellReady(device, Math.max(device.lastSeenMicros, Math.min(nowMicros, overMicros)))
    }
  }

  inputEnded(): void {
    this.#facts.inputEnded()
  }

  /** As of DeviceTable. */
  clockSet(byMicros: number, state?: DeviceState): void {
    this.table.clockSet(byMicros, state)
    if (state !== undefined) return
    this.#facts.clockSet(byMicros)
    this.#latestMicros += byMicros
    if (this.#beganMicros !== null) this.#beganMicros += byMicros
  }

  // What is asked.

  /** When a device will be ready; null of one that has learned. @param model - that is made here. */
  forecast(device: Device, model: ScopeReport | null): Forecast | null {
    return forecastOf(device, this.#options.settings, model, this.#latestMicros)
  }

  report(): DeviceReport {
    return {
      byState: this.table.byState(),
      maximum: this.#options.settings.maximum,
      found: this.#found,
      evicted: this.table.evicted,
      refused: this.table.refused,
      untold: this.#flood.untold + this.#inventoryFlood.untold,
      facts: this.#facts.report(),
    }
  }

  /** What is watched in part only, for /healthz; a sentence each. */
  warnings(): string[] {
    return this.#facts.warnings()
  }

  // The state folder.

  /** To be called every second or so. */
  tick(): void {
    this.#ticks++
    const isDue = this.table.changes !== this.#savedChanges || this.#ticks >= TICKS_BETWEEN
    if (!this.#isWaiting && isDue) void this.save()
  }

  /** Keeps what it knows now, as far as that can be written. */
  async save(): Promise<void> {
    this.#isWaiting = true
    const writeAll = (): Promise<void> => {
      this.#isWaiting = false
      return this.#write(this.table.all())
    }
    await this.#inTurn(writeAll).catch(() => undefined)
  }

  /**
   * What a person asks for, kept and then done. Rejects with ArgumentError for what is no request,
   * and as `write` does where it cannot be kept: then nothing has changed.
   */
  async word(body: unknown): Promise<ActionResult[]> {
    const { groupOf, settings } = this.#options
    if (groupOf !== undefined && checkRequest(body).action === 'group')
      throw new ArgumentError('groups are in the configuration: change models.groups')
    return this.#inTurn(() => actKept(this.table, settings, body, (devices) => this.#write(devices)))
  }

  async #write(devices: Iterable<Device>): Promise<void> {
    const { write, onTrouble } = this.#options
    const { changes } = this.table
    try {
      await write?.(devices)
      this.#savedChanges = changes
      this.#isRestored = true
      this.#ticks = 0
      if (this.#isTroubled) onTrouble?.(null)
      this.#isTroubled = false
    } catch (error) {
      // whatever the disk holds now, the next tick writes what is in force
      this.#savedChanges = -1
      if (!this.#isTroubled) onTrouble?.(error)
      this.#isTroubled = true
      throw error
    }
  }

  /** Why a restart would not find the devices as they are now; null where it would. */
  saveError(): string | null {
    if (this.#isTroubled) return 'devices cannot be kept in the state folder'
    if (this.#isRestored) return null
    return 'the devices in the state folder are damaged, and not written again yet'
  }
}
