/**
 * DeviceWatch: the devices of a running agent: finds them by their flows, decides whose alerts are given, and keeps
 * what it knows in the state folder (`devices.json`): within seconds when a state has changed, else every few minutes.
 */

import { type FrameBatch, formatAddress, type PacketBatch } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import type { FlowRecord } from '@oddflow/flows'
import { isResponderDevice, macText, type Network } from '@oddflow/program'
import type { DeviceSettings } from '../config/settings.js'
import type { Forecast, OwnModel } from '../page/api.js'
import type { Metric } from '../pipeline/component.js'
import { type Device, type DeviceState, forecastOf, noteAddress } from './device.js'
import { createDeviceFacts, type FactsReport } from './device-facts.js'
import {
  createDeviceFlood,
  DeviceTable,
  DEVICE_ACTIONS,
  type DeviceAction,
  type KnownDevices,
  usualContactTexts,
} from './device-table.js'
import type { OnFact } from './fact-sources.js'
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
    'Contacts that a watched device never had, by what became of them.',
    ({ facts: { firstContacts, firstContactAlerts } }) => ({
      counted: firstContacts - firstContactAlerts,
      alerted: firstContactAlerts,
    }),
    'fate',
  ],
  [
    'facts_untold_total',
    'Facts of devices that have no separate alert, because many similar ones came within a minute.',
    ({ facts }) => facts.untold,
  ],
]

export interface DeviceWatch {
  readonly table: DeviceTable
  /** When a device will be ready; null of one that has learned. @param model - that is made here. */
  forecast(device: Device, model: OwnModel | null): Forecast | null
  /** A verdict on a record of a device; true where alerts of it are to be given. */
  verdict(record: FlowRecord, novel: boolean): boolean
  /** Packets as they came; borrowed. */
  packets(frames: FrameBatch, packets: PacketBatch): void
  /** A device claims a name; one that is not known yet has it when it is. */
  named(mac: string, claimed: ClaimedName): void
  report(): DeviceReport
  /** What is watched in part only, for /healthz; a sentence each. */
  warnings(): string[]
  /** As of DeviceTable. */
  clockSet(byMicros: number, state?: DeviceState): void
  /** Packets have come up to this time: devices may have become ready by it. */
  advance(nowMicros: number): void
  /** To be called every second or so. */
  tick(): void
  /**
   * What a person asks for, kept and then done. Rejects with ArgumentError for what is no request,
   * and as `write` does where it cannot be kept: then nothing has changed.
   */
  word(body: unknown): Promise<ActionResult[]>
  /** Keeps what it knows now, as far as that can be written. */
  save(): Promise<void>
  /** Why a restart would not find the devices as they are now; null where it would. */
  saveError(): string | null
}

interface DeviceWatchOptions {
  readonly settings: DeviceSettings
  readonly localNetworks: readonly Network[]
  readonly known: KnownDevices
  /** Where the configuration has groups, the device's, or null; a person gives none then. */
  readonly groupOf?: (key: string) => string | null
  /** Called with the record by which a device was found, or by which a flood of them was. */
  readonly onNew: (record: FlowRecord, rule: 'new-device' | 'device-flood') => void
  /** A device is ready, or watched at once where nobody has to approve. */
  readonly onReady: (device: Device, atMicros: number, contacts: readonly string[]) => void
  /** What is told of devices without a verdict (device-facts.ts). */
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

/** Without a change of state, what is known is kept every so many ticks. */
const TICKS_BETWEEN = 600
/** In the first minutes of an empty table, a flood of new devices is this many times `floodPerMinute`. */
const INVENTORY_TIMES = 16
/** Where the table was lost, devices that are found within so long are taken for ones that were watched. */
const LOST_MICROS = 3_600_000_000
/** Of the packets' clock, between two looks for devices that time has made ready. */
const JUDGE_MICROS = 60_000_000

export function createDeviceWatch(options: DeviceWatchOptions): DeviceWatch {
  const { settings, localNetworks } = options
  const { devices: known, from } = options.known
  const table = new DeviceTable(settings, known, options.isProven, options.onEvicted)
  if (options.groupOf !== undefined)
    for (const device of table.all()) device.group = options.groupOf(device.key)
  const flood = createDeviceFlood(settings.floodPerMinute)
  const inventoryFlood = createDeviceFlood(INVENTORY_TIMES * settings.floodPerMinute)
  // where nothing was known all devices are new, which is no news
  const inventoryMicros = known.length === 0 && from === 'file' ? settings.inventoryMinutes * 60_000_000 : 0
  const names = createNameBook()
  // the flow by which the first device was found began before it was found
  const isNews = (atMicros: number): boolean =>
    inventoryMicros === 0 || atMicros - (beganMicros ?? atMicros) >= inventoryMicros
  const facts = createDeviceFacts({
    table,
    localNetworks,
    perMinute: settings.floodPerMinute,
    isNews,
    onFact: options.onFact,
  })
  let beganMicros: number | null = null
  /** Of the packets' clock. */
  let latestMicros = known.reduce((latest, { lastSeenMicros }) => Math.max(latest, lastSeenMicros), 0)
  let judgedMicros = Number.NEGATIVE_INFINITY
  let found = 0
  // what is not on disk as it should be is written at once
  let savedChanges = from === 'file' ? 0 : -1
  let isRestored = from === 'file'
  let ticks = 0
  let last: Promise<unknown> = Promise.resolve()
  let isWaiting = false
  let isTroubled = false

  /** One after another: what is written later is what was known later. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
  const write = async (devices: Iterable<Device>): Promise<void> => {
    const changes = table.changes
    try {
      await options.write?.(devices)
      savedChanges = changes
      isRestored = true
      ticks = 0
      if (isTroubled) options.onTrouble?.(null)
      isTroubled = false
    } catch (error) {
      // whatever the disk holds now, the next tick writes what is in force
      savedChanges = -1
      if (!isTroubled) options.onTrouble?.(error)
      isTroubled = true
      throw error
    }
  }
  const save = async (): Promise<void> => {
    isWaiting = true
    const writeAll = (): Promise<void> => {
      isWaiting = false
      return write(table.all())
    }
    await inTurn(writeAll).catch(() => undefined)
  }
  return {
    table,
    forecast: (device, model) => forecastOf(device, settings, model, latestMicros),
    verdict(record, novel) {
      const isResponder = isResponderDevice(record, localNetworks)
      const words = isResponder ? record.responderAddress : record.initiatorAddress
      const address = formatAddress(words, 0, record.ipVersion)
      const key = macText(isResponder ? record.responderMac : record.initiatorMac) ?? address
      const atMicros = record.startMicros + record.durationMicros
      latestMicros = Math.max(latestMicros, atMicros)
      let device = table.get(key)
      if (device === undefined) {
        device = table.add(key, address, record.startMicros)
        found++
        beganMicros ??= atMicros
        // the network as it is comes within minutes: a flood is more
        const isTold = isNews(atMicros)
        const worth = isTold ? flood.take(atMicros) : inventoryFlood.take(atMicros)
        if (worth === 'flood' || (worth === 'device' && isTold))
          options.onNew(record, worth === 'device' ? 'new-device' : 'device-flood')
        // a device that there is no room for is watched: nobody has learnt anything of it
        if (device === undefined) {
          facts.note(record, undefined, novel)
          return true
        }
        device.name = names.of(key) ?? null
        device.group = options.groupOf?.(key) ?? null
        // it may be one that was watched
        if (from === 'lost' && atMicros - beganMicros < LOST_MICROS) device.state = 'watching'
      }
      noteAddress(device, address)
      const isReady = table.note(device, novel, atMicros, record.row !== null)
      options.onVerdict?.(record, device, novel)
      if (isReady) options.onReady(device, atMicros, usualContactTexts(device, table))
      facts.note(record, device, novel)
      return device.state === 'watching'
    },
    packets: facts.packets,
    named(mac, claimed) {
      names.note(mac, claimed)
      const device = table.get(mac)
      if (device !== undefined && (device.name === null || !countsLess(claimed, device.name))) {
        device.name = claimed
      }
    },
    clockSet(byMicros, state) {
      table.clockSet(byMicros, state)
      if (state === undefined) facts.clockSet(byMicros)
      if (state === undefined) latestMicros += byMicros
      if (state === undefined && beganMicros !== null) beganMicros += byMicros
    },
    warnings: facts.warnings,
    report: () => ({
      byState: table.byState(),
      maximum: settings.maximum,
      found,
      evicted: table.evicted,
      refused: table.refused,
      untold: flood.untold + inventoryFlood.untold,
      facts: facts.report(),
    }),
    advance(nowMicros) {
      facts.advance(nowMicros)
      latestMicros = Math.max(latestMicros, nowMicros)
      // a clock that was set back is looked at as well
      if (Math.abs(nowMicros - judgedMicros) < JUDGE_MICROS) return
      judgedMicros = nowMicros
      for (const device of table.judge(nowMicros)) {
        // it was ready when the time was over, if no packet came since
        const overMicros = device.learningSinceMicros + 3_600_000_000 * settings.judgeHours
        options.onReady(
          device,
          Math.max(device.lastSeenMicros, Math.min(nowMicros, overMicros)),
          usualContactTexts(device, table),
        )
      }
    },
    tick() {
      ticks++
      if (!isWaiting && (table.changes !== savedChanges || ticks >= TICKS_BETWEEN)) void save()
    },
    async word(body) {
      if (options.groupOf !== undefined && checkRequest(body).action === 'group')
        throw new ArgumentError('groups are in the configuration: change models.groups')
      return inTurn(() => actKept(table, settings, body, write))
    },
    save,
    saveError: () =>
      isTroubled
        ? 'devices cannot be kept in the state folder'
        : isRestored
          ? null
          : 'the devices in the state folder are damaged, and not written again yet',
  }
}
