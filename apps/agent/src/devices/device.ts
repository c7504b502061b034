/**
 * Device: plain data about one device of the local network, as the state folder has it.
 *
 *     learning → ready → watching ⇄ paused
 *
 * A *learning* device causes no alert for its novel flows. It is *ready* when `isReady` says so; its own model must also keep its
 * promise on later flows (models/progress.ts). When a person or the configuration approves it, it is *watching*: alerts are sent.
 * Only a person pauses and resumes it.
 *
 * `novelShare` is the exponentially weighted share of novel verdicts, over about the last SHARE_VERDICTS. It starts at 1, so a device
 * is not stable before about two hundred normal flows.
 */
import * as v from 'valibot'
import type { DeviceSettings } from '../config/settings.js'
import { defineState } from '../files/state-file.js'
import type { ScopeReport } from '../models/progress.js'
import { ContactsSchema, noContacts, UsualContactsSchema } from './contacts.js'
import { MAXIMUM_NAME_CHARACTERS, NAME_SOURCES } from './names.js'

const DEVICE_STATES = ['learning', 'ready', 'watching', 'paused'] as const
export type DeviceState = (typeof DEVICE_STATES)[number]

const address = v.pipe(v.string(), v.regex(/^[0-9a-f:.]{1,45}$/, 'expected an address'))
const time = v.pipe(v.number(), v.safeInteger())
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0))
const share = v.pipe(v.number(), v.minValue(0), v.maxValue(1))
const shortText = v.pipe(
  v.string(),
  v.check((text) => text !== '' && [...text].length <= MAXIMUM_NAME_CHARACTERS, 'expected a short text'),
)
const ClaimedNameSchema = v.object({ name: shortText, source: v.picklist(NAME_SOURCES) })

/** The hours of the week in which a device was active (noteHour). */
export const HoursSchema = v.pipe(
  v.object({
    /** HOURS bits as hexadecimal digits; the first is the hour from Sunday 00:00 UTC on. */
    seen: v.pipe(v.string(), v.regex(/^[0-9a-f]{42}$/)),
    /** Days on which the device was active. */
    days: count,
    /** The latest of them, since 1970. */
    day: time,
    /** `days` when an hour was last new. */
    newAtDays: count,
  }),
  v.check(({ days, newAtDays }) => newAtDays <= days),
)
type ActiveHours = v.InferOutput<typeof HoursSchema>

const DeviceSchema = v.pipe(
  v.object({
    /** Its MAC address; its address where the link has none. */
    key: address,
    /** That it was last seen with. */
    address,
    /** What a person or the device itself calls it (names.ts); null where neither has said. */
    name: v.fallback(v.nullable(ClaimedNameSchema), null),
    /** That a person or the configuration puts it in; null where neither does. */
    group: v.fallback(v.nullable(shortText), null),
    /** Of its address, by a registry (vendors.ts); null where that has none, undefined before it was asked. */
    vendor: v.fallback(v.optional(shortText), undefined),
    state: v.picklist(DEVICE_STATES),
    firstSeenMicros: time,
    /** When it began to learn: its first flow, or the last `relearn`. */
    learningSinceMicros: v.optional(time),
    lastSeenMicros: time,
    /** Verdicts on its flows. */
    flows: count,
    /** Of those, novel ones. */
    novel: count,
    novelShare: share,
    /** Flows with a score since it is watched. */
    watchedFlows: v.optional(count, 0),
    /** Of those, novel ones: what its promise came to. */
    watchedNovel: v.optional(count, 0),
    contacts: v.fallback(v.nullable(ContactsSchema), null),
    hours: v.fallback(HoursSchema, noHours),
    /** Most often while it learned. */
    usual: v.fallback(UsualContactsSchema, () => []),
  }),
  v.check(
    ({ flows, novel, watchedFlows, watchedNovel }) => novel <= flows && watchedNovel <= watchedFlows,
    'expected no more novel flows than flows',
  ),
  // damaged contacts, hours and names are no reason to lose the device
  v.transform(({ vendor, contacts, hours, usual, ...device }) => ({
    ...device,
    // absent from files of earlier builds, as the watched flows are
    learningSinceMicros: device.learningSinceMicros ?? device.firstSeenMicros,
    /** A private (randomized) address: phones use one, and it may be another one next week. */
    randomised: isRandomised(device.key),
    // where there was none, the registry of today may have one
    vendor: vendor as string | null | undefined,
    contacts: contacts ?? noContacts(device.lastSeenMicros),
    hours,
    usual,
  })),
)

export type Device = v.InferOutput<typeof DeviceSchema>

/** What lists and outputs show of a device: not its hashes of contacts and hours. */
export type ToldDevice = Omit<Device, 'contacts' | 'usual' | 'hours'>

export function toldOf({ contacts: _, usual: __, hours: ___, ...told }: Device): ToldDevice {
  return told
}

const SHARE_VERDICTS = 64
const MICROS_PER_HOUR = 3_600_000_000

export function createDevice(key: string, address: string, atMicros: number): Device {
  return {
    key,
    address,
    randomised: isRandomised(key),
    name: null,
    group: null,
    vendor: undefined,
    state: 'learning',
    firstSeenMicros: atMicros,
    learningSinceMicros: atMicros,
    lastSeenMicros: atMicros,
    ...nothingLearned(atMicros),
  }
}

const nothingLearned = (atMicros: number) => ({
  flows: 0,
  novel: 0,
  novelShare: 1,
  watchedFlows: 0,
  watchedNovel: 0,
  contacts: noContacts(atMicros),
  hours: noHours(),
  usual: [],
})

/** Back to the beginning. */
export function learnAnew(device: Device, nowMicros: number): void {
  Object.assign(device, { state: 'learning', learningSinceMicros: nowMicros }, nothingLearned(nowMicros))
}

export function noteVerdict(device: Device, novel: boolean, isScored: boolean): void {
  device.flows++
  if (novel) device.novel++
  if (isScored && device.state === 'watching') {
    device.watchedFlows++
    if (novel) device.watchedNovel++
  }
  device.novelShare += ((novel ? 1 : 0) - device.novelShare) / SHARE_VERDICTS
}

/** The share of recent flows that was novel, without the 1 that `novelShare` begins at; null before the first. */
export function recentNovelShare({ flows, novelShare }: Pick<Device, 'flows' | 'novelShare'>): number | null {
  if (flows === 0) return null
  const rest = (1 - 1 / SHARE_VERDICTS) ** flows
  return Math.min(1, Math.max(0, (novelShare - rest) / (1 - rest)))
}

/** @param isProven - whether its own model has been judged fit to watch it; null where the share of novel flows decides. */
export function isReady(
  device: Device,
  { learnHours, judgeHours, learnFlows, stableShare }: DeviceSettings,
  isProven: boolean | null,
  nowMicros: number,
): boolean {
  // a made-up address that comes once is never ready, however long ago that was
  if (device.lastSeenMicros - device.learningSinceMicros < learnHours * MICROS_PER_HOUR) return false
  if (isProven !== null) return isProven
  if (device.flows >= learnFlows && device.novelShare <= stableShare) return true
  const isOverdue = nowMicros - device.learningSinceMicros >= judgeHours * MICROS_PER_HOUR
  return isOverdue && (recentNovelShare(device) ?? 0) <= stableShare
}

export type Forecast = NonNullable<ReturnType<typeof forecastOf>>

/** A forecast needs at least one row in this many flows. */
const FLOWS_PER_ROW = 10

/**
 * When a learning device will be ready if it continues as before; null for other devices.
 * @param model - of its own models; null where the share of novel flows decides.
 */
export function forecastOf(
  device: Device,
  { learnHours, judgeHours, learnFlows, stableShare }: DeviceSettings,
  model: ScopeReport | null,
  nowMicros: number,
) {
  const { state, flows, key, learningSinceMicros: sinceMicros, novelShare } = device
  if (state !== 'learning') return null
  let needed = Math.max(
    learnFlows,
    flows + Math.max(0, Math.ceil(Math.log(stableShare / novelShare) / Math.log(1 - 1 / SHARE_VERDICTS))),
  )
  let isHeldUp = (recentNovelShare(device) ?? 0) > stableShare
  if (model !== null) {
    const { owner, rows, rowsNeeded, proving } = model
    isHeldUp = model.state === 'waiting'
    const ofProof = Math.max(learnFlows, rowsNeeded ?? 0)
    // where few flows became rows, as of one that scans, their share foretells nothing
    const isKnown = rows * FLOWS_PER_ROW >= flows
    const training = isKnown
      ? Math.max(learnFlows, (flows * (rowsNeeded ?? 0)) / Math.max(1, rows))
      : Number.POSITIVE_INFINITY
    if (owner !== key) needed = Number.POSITIVE_INFINITY
    else if (proving === null) needed = Math.max(flows, training) + ofProof
    else needed = flows + (proving.state === 'open' ? Math.max(0, proving.needed - proving.flows) : ofProof)
  }
  const microsPerFlow = Math.max(0, nowMicros - sinceMicros) / Math.max(1, flows)
  const byHours = (hours: number): number => sinceMicros + hours * MICROS_PER_HOUR - nowMicros
  const byFlows = (needed - flows) * microsPerFlow
  const restMicros = Math.max(
    byHours(learnHours),
    Math.min(byFlows, byHours(Math.max(learnHours, judgeHours))),
  )
  return {
    /** That learning takes in all, about; null where that is not known. */
    flows: Number.isFinite(needed) ? Math.ceil(needed) : null,
    /** Until it is ready; null where something holds it up: too many novel flows, or no memory for its model. */
    hours: isHeldUp ? null : Math.max(0, Math.round(restMicros / MICROS_PER_HOUR)),
  }
}

/** Whether it came back after an hour with its maker's address: a flood of private addresses never replaces such a device. */
export function isEstablished({ randomised, firstSeenMicros, lastSeenMicros }: Device): boolean {
  return !randomised && lastSeenMicros - firstSeenMicros >= MICROS_PER_HOUR
}

/** Notes a device's address unless the known one says more: an unspecified, group or link-local address replaces no other. */
export function noteAddress(device: Device, address: string): void {
  if (address !== device.address && worthOf(address) >= worthOf(device.address)) device.address = address
}

/** 0: none of a device's own; 1: link-local (RFC 3927, RFC 4291); 2: any other. */
function worthOf(address: string): 0 | 1 | 2 {
  if (address.includes(':')) {
    if (address === '::' || /^ff/.test(address)) return 0
    return /^fe[89ab]/.test(address) ? 1 : 2
  }
  // this network (RFC 1122), groups, and all that is reserved behind them with the broadcast address (RFC 1112)
  const first = Number(address.split('.', 1)[0])
  if (first === 0 || first >= 224) return 0
  return address.startsWith('169.254.') ? 1 : 2
}

/** The second-lowest bit of the first byte. */
export function isRandomised(key: string): boolean {
  return /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(key) && (Number.parseInt(key.slice(0, 2), 16) & 2) !== 0
}

const DEVICES = defineState(
  'devices',
  1,
  v.object({
    devices: v.pipe(
      v.array(DeviceSchema),
      v.check((all) => new Set(all.map(({ key }) => key)).size === all.length, 'expected each key once'),
    ),
  }),
)

export function encodeDevices(devices: Iterable<Device>): object {
  return DEVICES.encode({ devices: [...devices] })
}

/** Throws FormatError that names the field. */
export function decodeDevices(value: unknown): Device[] {
  return DEVICES.decode(value).devices
}

/**
 * ActiveHours: the hours of the week (UTC) in which a device was active. A new hour is a fact only if the device was active on
 * LEAST_DAYS days and had no new hour on the last SETTLED_DAYS of them, so at most once in SETTLED_DAYS. Days without the agent do not
 * count. How rare such facts are: docs/results/incidents.md.
 */

const HOURS = 168
const DIGITS = HOURS / 4
const LEAST_DAYS = 14
const SETTLED_DAYS = 7
const HOUR_MICROS = 3_600_000_000
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
/** 1970 began on a Thursday. */
const FIRST_WEEKDAY = 4

export function noHours(): ActiveHours {
  return { seen: '0'.repeat(DIGITS), days: 0, day: Number.MIN_SAFE_INTEGER, newAtDays: 0 }
}

/** Notes that a device is active. Returns the hour, and on how many days it was never in it, where that is unusual; else null. */
export function noteHour(hours: ActiveHours, atMicros: number): { hour: string; days: number } | null {
  const clockHour = Math.floor(atMicros / HOUR_MICROS)
  const day = Math.floor(clockHour / 24)
  // flows that are judged late are of before
  if (day > hours.day) {
    hours.day = day
    hours.days++
  } else if (day < hours.day - 1) {
    // the clock was set back
    hours.day = day
  }
  const ofWeek = (((clockHour + 24 * FIRST_WEEKDAY) % HOURS) + HOURS) % HOURS
  const digit = ofWeek >> 2
  const bit = 1 << (ofWeek & 3)
  const before = Number.parseInt(hours.seen.charAt(digit), 16)
  if ((before & bit) !== 0) return null
  hours.seen = `${hours.seen.slice(0, digit)}${(before | bit).toString(16)}${hours.seen.slice(digit + 1)}`
  const { days, newAtDays } = hours
  hours.newAtDays = days
  if (days <= LEAST_DAYS || days - newAtDays < SETTLED_DAYS) return null
  const from = ofWeek % 24
  const text = (hour: number): string => `${String(hour).padStart(2, '0')}:00`
  return { hour: `${WEEKDAYS[(ofWeek - from) / 24]} between ${text(from)} and ${text(from + 1)} UTC`, days }
}
