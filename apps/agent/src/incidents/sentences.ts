/** Describes an incident in sentences for people, by templates filled with its facts and counts. */
import type { Alert } from '../alerts/alert.js'
import { kindOfFact, seriousKinds } from '../page/kinds.js'
import { type Incident, MAXIMUM_CONTACTS, MAXIMUM_TEXT } from './incident.js'

/** "Camera (192.168.50.23)", or the MAC address if the device has no name. */
export function deviceText({ mac, address, name }: Incident['device']): string {
  if (name !== undefined) return `${name} (${address})`
  return mac === null || mac === address ? address : `${mac} (${address})`
}

export function serviceText(protocol: string, port: number): string {
  return protocol.startsWith('icmp') ? protocol : `${protocol} port ${port}`
}

/** What happened; how unusual it is; why. A sentence that is too much for a text that can be kept is left out. */
export function summaryOf(incident: Incident): string {
  const { facts, kind, flows, rarity, reasons } = incident
  const further = seriousKinds(incident).filter((each) => each !== kind)
  const sentences = [happened(incident), ...further.flatMap((each) => factsOf(facts, each)[0]?.fact ?? [])]
  if (flows > 0 && rarity !== null && rarity.flows > 0) {
    const asUnusual = Math.round(rarity.atMost * (rarity.flows + 1)) - 1
    sentences.push(
      asUnusual <= 0
        ? `None of ${rarity.flows} usual flows is as unusual`
        : `${asUnusual} of ${rarity.flows} usual flows ${asUnusual === 1 ? 'is' : 'are'} as unusual`,
    )
  }
  if (reasons.length > 0)
    sentences.push(`${flows === 1 ? 'The flow' : 'The most unusual flow'} ${reasons.join(', ')}`)
  return sentences.reduce((text, sentence) => {
    const longer = text === '' ? `${sentence.slice(0, MAXIMUM_TEXT - 1)}.` : `${text} ${sentence}.`
    return longer.length <= MAXIMUM_TEXT ? longer : text
  }, '')
}

/** Those of a kind that are sentences. */
function factsOf(facts: Incident['facts'], kind: Incident['kind']): Incident['facts'] {
  return facts.filter(({ rule, fact }) => kindOfFact(rule) === kind && fact !== '')
}

function happened(incident: Incident): string {
  const { device, kind, facts, flows, contacts, beginMicros, endMicros } = incident
  const who = deviceText(device)
  const leading = factsOf(facts, kind)
  const [first] = leading
  if (first !== undefined) {
    const others = new Set(leading.map(({ key }) => key)).size - 1
    const more = others === 1 ? 'one more device' : `${others} more devices`
    return others === 0 ? first.fact : `${first.fact}. The same happened to ${more}`
  }
  if (kind === 'flood') return 'Many new devices appeared within a minute'
  const [most] = [...contacts].sort((a, b) => b.alerts - a.alerts)
  const peer = most === undefined ? '' : ` ${most.peer} (${most.service})`
  if (kind === 'new-device') return `New device: ${who}. It first contacted${peer}`
  if (flows === 1) return `${who} had an unusual flow with${peer}`
  const had = `${who} had ${flows} unusual flows in ${spanText(endMicros - beginMicros)}`
  return `${had}, ${2 * (most?.alerts ?? 0) >= flows ? `most with${peer}` : peersText(contacts)}`
}

/** For an incident with many peers: a scan from outside, or a flood. */
function peersText(contacts: Incident['contacts']): string {
  const byService = new Map<string, number>()
  for (const { service, alerts } of contacts) byService.set(service, (byService.get(service) ?? 0) + alerts)
  const all = contacts.reduce((sum, { alerts }) => sum + alerts, 0)
  const [service, alerts] = [...byService].sort(([, a], [, b]) => b - a)[0] ?? ['', 0]
  const isOne = 2 * alerts >= all
  const peers = new Set(contacts.filter((each) => !isOne || each.service === service).map(({ peer }) => peer))
    .size
  const count = contacts.length < MAXIMUM_CONTACTS ? String(peers) : `${peers} or more`
  return isOne ? `most with ${count} peers (${service})` : `with ${count} peers`
}

/** Replaces the device's address at the start of a fact by its name, if it has one. */
export function namedFact({ device, fact = '' }: Pick<Alert, 'device' | 'fact'>): string {
  return device.name !== undefined && fact.startsWith(`${device.address} `)
    ? `${deviceText(device)}${fact.slice(device.address.length)}`
    : fact
}

export function spanText(micros: number): string {
  const seconds = Math.max(1, Math.round(micros / 1_000_000))
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}

export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  if (bytes < 1e6) return `${Number((bytes / 1e3).toPrecision(2))} kB`
  return `${Number((bytes / 1e6).toPrecision(2))} MB`
}
