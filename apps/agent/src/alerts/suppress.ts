/**
 * Suppression: alerts that the user does not want again. The first rule whose conditions all hold takes the alert and counts
 * it. A schedule (days, hours) is of the machine's own time zone and looks at the alert's time, not the clock's.
 */

import { join } from 'node:path'
import { formatMac, parseIpv4, parseIpv6, parseMac } from '@oddflow/capture'
import { ArgumentError, FormatError } from '@oddflow/core'
import { isInNetwork, type Network, parseNetwork } from '@oddflow/program'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { createTurns, readStateOrSetAside, writeOrRestore, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import { text, whole } from '../outputs/output.js'
import { type Alert, FACT_RULES, servicePort } from './alert.js'

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const
const time = (what: string) =>
  v.pipe(
    v.string(),
    v.regex(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/, 'a time of day (HH:MM)'),
    v.description(what),
  )
const CONDITIONS = {
  device: v.optional(text('A MAC address, an address or a network.')),
  peer: v.optional(text('The other end: an address or a network.')),
  protocol: v.optional(v.picklist(['tcp', 'udp', 'icmp', 'icmpv6', 'sctp'])),
  port: v.optional(whole(0, 65_535, "The service's port: the lower of the two.")),
  rule: v.optional(v.picklist(['score', 'one-packet', ...FACT_RULES])),
}

export const SuppressionSchema = v.strictObject({
  name: text('The name of the rule in counters; each rule needs a different name.'),
  ...CONDITIONS,
  days: v.optional(v.pipe(v.array(v.picklist(DAYS)), v.minLength(1), v.maxLength(7))),
  from: v.optional(time("Start of the rule's hours, HH:MM in the machine's time zone; needs until.")),
  until: v.optional(time("End of the rule's hours, HH:MM in the machine's time zone; needs from.")),
})

/** A range of hours over midnight belongs to the day on which it begins. */
export type SuppressionRule = Readonly<v.InferOutput<typeof SuppressionSchema>>

export interface Suppression {
  /** The name of the rule that takes the alert, null where none does. */
  take(alert: Alert): string | null
  readonly counts: Readonly<Record<string, number>>
}

type Test = (alert: Alert) => boolean

/** Throws ArgumentError whose field is the place in the list, such as `[0].device`. */
export function createSuppression(rules: readonly SuppressionRule[]): Suppression {
  const compiled = rules.map((rule, i) => ({ name: rule.name, holds: compile(rule, `[${i}]`) }))
  const counts: Record<string, number> = Object.fromEntries(rules.map(({ name }) => [name, 0]))
  return {
    counts,
    take(alert) {
      const found = compiled.find(({ holds }) => holds(alert))
      if (found === undefined) return null
      counts[found.name]++
      return found.name
    },
  }
}

function compile(rule: SuppressionRule, place: string): Test {
  const tests: Test[] = []
  const { device, peer, protocol, port, rule: verdictRule } = rule
  refuseNever(rule, place)
  if (device !== undefined) tests.push(deviceTest(device, `${place}.device`))
  if (peer !== undefined) {
    const network = networkAt(peer, `${place}.peer`)
    tests.push((alert) => isAddressIn(network, alert.peer))
  }
  if (protocol !== undefined) tests.push(({ flow }) => flow.protocol === protocol)
  if (port !== undefined) tests.push(({ flow }) => servicePort(flow) === port)
  if (verdictRule !== undefined) tests.push((alert) => alert.rule === verdictRule)
  const schedule = scheduleTest(rule, place)
  if (schedule !== null) tests.push(schedule)
  if (tests.length === 0) {
    throw new ArgumentError(
      'expected at least one condition (device, peer, protocol, port, rule, days, from and until): a rule without any would suppress every alert',
      place,
    )
  }
  return (alert) => tests.every((test) => test(alert))
}

/** Conditions that no alert can meet together. */
function refuseNever({ device, peer, protocol, port }: SuppressionRule, place: string): void {
  const never = (field: string, why: string): never => {
    throw new ArgumentError(`${why}, so the rule would never suppress anything`, `${place}.${field}`)
  }
  // with ICMP a type and a code stand in the place of ports
  if (port !== undefined && port > 255 && (protocol === 'icmp' || protocol === 'icmpv6')) {
    never('port', `types and codes of ${protocol} end at 255`)
  }
  const [ofDevice, ofPeer] = [versionOf(device, `${place}.device`), versionOf(peer, `${place}.peer`)]
  const ofProtocol = protocol === 'icmp' ? 4 : protocol === 'icmpv6' ? 6 : null
  if (ofDevice !== null && ofPeer !== null && ofDevice !== ofPeer) {
    never('peer', 'the device is given by IPv4 and the peer by IPv6, or the other way round')
  }
  for (const [field, version] of Object.entries({ peer: ofPeer, device: ofDevice })) {
    if (ofProtocol !== null && version !== null && version !== ofProtocol)
      never(field, `${protocol} is not of that IP version`)
  }
  // the lowest bit of the first byte (IEEE 802)
  if (device !== undefined && ((parseMac(device)?.[0] ?? 0) & 1) !== 0)
    never('device', 'that is the address of a group, and no device has it')
}

/** null for a MAC address, and where nothing is asked for. */
function versionOf(text: string | undefined, field: string): 4 | 6 | null {
  return text === undefined || parseMac(text) !== null ? null : networkAt(text, field).ipVersion
}

function deviceTest(text: string, field: string): Test {
  const mac = parseMac(text)
  if (mac !== null) {
    const wanted = formatMac(mac, 0)
    return ({ device }) => device.mac === wanted
  }
  const network = networkAt(text, field)
  return ({ device }) => isAddressIn(network, device.address)
}

function networkAt(text: string, field: string): Network {
  try {
    const network = parseNetwork(text)
    if (network.masks[network.ipVersion === 4 ? 3 : 0] !== 0) return network
    throw new ArgumentError(`expected less than every address, found ${JSON.stringify(text)}; leave it out`)
  } catch (error) {
    throw error instanceof ArgumentError ? new ArgumentError(error.message, field) : error
  }
}

function isAddressIn(network: Network, address: string): boolean {
  if (network.ipVersion === 6) {
    const words = parseIpv6(address)
    return words !== null && isInNetwork(network, words, 6)
  }
  const word = parseIpv4(address)
  return word !== null && isInNetwork(network, [0, 0, 0, word], 4)
}

function scheduleTest({ days, from, until }: SuppressionRule, place: string): Test | null {
  if ((from === undefined) !== (until === undefined)) {
    throw new ArgumentError('expected both from and until, or neither', place)
  }
  if (days === undefined && from === undefined) return null
  const begin = from === undefined ? 0 : minutesOf(from)
  const end = until === undefined ? 1440 : minutesOf(until)
  const isAllDay = end === begin || end - begin === 1440
  const refuse = (message: string, field: string): never => {
    throw new ArgumentError(message, `${place}.${field}`)
  }
  if (from !== undefined && isAllDay)
    refuse('expected a part of the day, found all of it; leave from and until out', 'from')
  if (from === undefined && DAYS.every((day) => days?.includes(day)))
    refuse('expected some days of the week, found all of them; leave days out', 'days')
  return ({ atMicros }) => {
    const time = new Date(atMicros / 1000)
    const minute = 60 * time.getHours() + time.getMinutes()
    const isOver = end <= begin
    const isIn = isOver ? minute >= begin || minute < end : minute >= begin && minute < end
    // behind midnight it is still the range of the day before
    const day = (time.getDay() + (isOver && minute < end ? 6 : 0)) % 7
    return isIn && (days === undefined || days.includes(DAYS[day]))
  }
}

function minutesOf(time: string): number {
  return 60 * Number(time.slice(0, 2)) + Number(time.slice(3))
}

/**
 * Temporary suppressions: rules that a person has made at the running agent, each with its end and a name given here. They are
 * kept in the state folder, tried after those of the configuration, and bounded in number and in length.
 */

const TemporarySchema = v.strictObject({
  ...SuppressionSchema.entries,
  endsMicros: v.pipe(v.number(), v.finite()),
})
export type TemporaryRule = Readonly<v.InferOutput<typeof TemporarySchema>>

export type TemporarySuppressions = ReturnType<typeof createTemporarySuppressions>

const MAXIMUM_RULES = 64
const MAXIMUM_MINUTES = 30 * 1440
const AskedSchema = v.strictObject({
  ...CONDITIONS,
  minutes: whole(1, MAXIMUM_MINUTES, 'How long the rule lasts.'),
})

interface Kept {
  readonly rule: TemporaryRule
  readonly suppression: Suppression
}

/** @param write - keeps the rules; null where nothing is kept. */
export function createTemporarySuppressions(
  known: readonly TemporaryRule[],
  write: ((rules: readonly TemporaryRule[]) => Promise<void>) | null,
) {
  let kept: readonly Kept[] = known.slice(0, MAXIMUM_RULES).map(keep)
  /** Added to the wall clock it is what the clock would show had it never been set; rules in memory end by that. */
  let steadyMicros = 0
  let number = known.length
  const inTurn = createTurns()
  const ofNow = (rule: TemporaryRule): TemporaryRule => ({
    ...rule,
    endsMicros: rule.endsMicros - steadyMicros,
  })
  const rulesOf = (of: readonly Kept[]): TemporaryRule[] => of.map(({ rule }) => ofNow(rule))
  /** Saved first, then active. */
  const put = async (next: readonly Kept[]): Promise<void> => {
    if (write !== null) await writeOrRestore(write, rulesOf(next), rulesOf(kept))
    kept = next
  }
  /** @param atMicros - had the clock never been set */
  const forgetEnded = (atMicros: number): void => {
    kept = kept.filter(({ rule }) => rule.endsMicros > atMicros)
  }
  return {
    take(alert: Alert, nowMicros: number): string | null {
      if (kept.length === 0) return null
      forgetEnded(nowMicros + steadyMicros)
      return kept.find(({ suppression }) => suppression.take(alert) !== null)?.rule.name ?? null
    },
    /** Resolves when the rule is saved and active. Rejects with ArgumentError for an invalid rule, and as `write` does; then nothing changes. */
    add(asked: unknown, nowMicros: number): Promise<TemporaryRule> {
      // its turn may come after a step of the clock
      const atMicros = nowMicros + steadyMicros
      return inTurn(async () => {
        forgetEnded(atMicros)
        if (kept.length >= MAXIMUM_RULES) {
          throw new ArgumentError(`expected at most ${MAXIMUM_RULES} temporary rules; end one first`)
        }
        while (kept.some(({ rule }) => rule.name === `temporary ${number}`)) number++
        const one = keep(checkRule(asked, `temporary ${number}`, atMicros))
        await put([...kept, one])
        return ofNow(one.rule)
      })
    },
    /** False where there is none of that name. Rejects as `write` does: then the rule stays. */
    remove: (name: string): Promise<boolean> =>
      inTurn(async () => {
        const left = kept.filter(({ rule }) => rule.name !== name)
        if (left.length === kept.length) return false
        await put(left)
        return true
      }),
    /** The wall clock was set: rules last as long as they would have, after a restart too. */
    clockSet(byMicros: number): void {
      steadyMicros -= byMicros
      if (kept.length > 0) void inTurn(async () => write?.(rulesOf(kept))).catch(() => undefined)
    },
    list(nowMicros: number): readonly (TemporaryRule & { readonly suppressed: number })[] {
      forgetEnded(nowMicros + steadyMicros)
      return kept.map(({ rule, suppression }) => ({
        ...ofNow(rule),
        suppressed: suppression.counts[rule.name],
      }))
    },
  }
}

function keep(rule: TemporaryRule): Kept {
  const { endsMicros: _, ...conditions } = rule
  return { rule, suppression: createSuppression([conditions]) }
}

/** What came from outside as a rule; throws ArgumentError that names the field. */
function checkRule(asked: unknown, name: string, nowMicros: number): TemporaryRule {
  const parsed = v.safeParse(AskedSchema, asked, { abortEarly: true })
  if (!parsed.success) {
    const [issue] = parsed.issues
    throw new ArgumentError(issue.message, v.getDotPath(issue)?.slice(0, 40) ?? 'rule')
  }
  const { minutes, ...conditions } = parsed.output
  return { name, ...conditions, endsMicros: nowMicros + minutes * 60_000_000 }
}

/** Rules of an earlier run; invalid ones are dropped and reported. */
export async function readTemporaryRules(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<TemporaryRule[]> {
  const rules = (await readStateOrSetAside(files, pathIn(folder), decodeRules, log)) ?? []
  const sound = rules.filter((rule) => {
    try {
      return v.is(TemporarySchema, rule) && keep(rule) !== null
    } catch {
      return false
    }
  })
  const others = rules.length - sound.length
  if (others > 0) log.warn(`${pathIn(folder)}: ${others} of ${rules.length} are not rules and are left out`)
  return sound
}

function decodeRules(value: unknown): TemporaryRule[] {
  const rules = (value as { rules?: unknown } | null)?.rules
  if (Array.isArray(rules)) return rules as TemporaryRule[]
  throw new FormatError('suppressions', 'expected a list of rules')
}

export function writeTemporaryRules(
  files: FileSystem,
  folder: string,
  rules: readonly TemporaryRule[],
): Promise<void> {
  return writeState(files, pathIn(folder), { rules })
}

function pathIn(folder: string): string {
  return join(folder, 'suppressions.json')
}
