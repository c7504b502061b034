/**
 * PasswordGuessing: connections of peers to a service of a device that they never used, within WINDOW_MICROS of the first.
 *
 * A login service is reported at a number of connections of a peer, and of all such peers together, and at each four times that number; a
 * web service once: a browser opens 30 connections in a second, and an app polls a bridge up to 24 times a minute (18 captures of
 * data/watch), so only minutes of more say something. A peer outside is its network of 256 addresses (IPv6: /48).
 *
 * A peer has used a login service once a connection had more than SHORT_BYTES; until then its connections count for a day from the first.
 * The tables are bounded: the oldest entry makes room. Time is the packets'.
 */
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { spanText } from '../incidents/sentences.js'
import { isConnection, networkText } from './contacts.js'
import { addressesOf } from './fact-sources.js'

const MINUTE = 60_000_000
const WINDOW_MICROS = 10 * MINUTE
const DAY = 24 * 60 * MINUTE
/** Connections to a login service; MANY of all peers together, or while all peers are new. */
const GUESSES = 5
const MANY_GUESSES = 24
const LOUDER = 4
/** IP bytes of both directions. Six passwords over SSH take 10 kB. */
const SHORT_BYTES = 32_768
/** Minutes of the window, each with this number of connections to a web service. */
const WEB_MINUTES = 5
const WEB_GUESSES_PER_MINUTE = 60
const MAXIMUM_COUNTS = 512
const [TCP, PSH] = [6, 8]
/** FTP, SSH, Telnet, SMB, databases, remote desktops. */
const LOGIN_PORTS = [21, 22, 23, 445, 2222, 2323, 3306, 3389, 5432, 5900]
const WEB_PORTS = [80, 443, 8000, 8080, 8443]

interface Count {
  /** The peer that was counted first. */
  readonly address: string
  isOneAddress: boolean
  readonly firstMicros: number
  beganMicros: number
  connections: number
  /** Reported at this number of connections to a login service, and then at `next`. */
  readonly least: number
  next: number
  /** By minute of the window. */
  readonly ofMinute: number[]
}

/** The responder of a flow, and its peer. */
interface Guessed {
  /** Key of the responder. */
  readonly device: string
  /** The initiator is of the local networks. */
  readonly isLocalPeer: boolean
  /** The peer had never used this service of it. */
  readonly isNewContact: boolean
  /** False while an agent takes stock: all peers are new then. */
  readonly isNews: boolean
  /** The table has the device; of others, such as a gateway, only login services count. */
  readonly isKnown: boolean
}

type Counts = Map<string, Count>

export class PasswordGuessing {
  readonly #onGuessing: (record: FlowRecord, fact: string) => void
  /** By device, port and peer. */
  readonly #ofPeers: Counts = new Map()
  /** Of login services, by device and port: connections of peers that are not reported. */
  readonly #ofServices: Counts = new Map()

  constructor(onGuessing: (record: FlowRecord, fact: string) => void) {
    this.#onGuessing = onGuessing
  }

  note(record: FlowRecord, { device, isLocalPeer, isNewContact, isNews, isKnown }: Guessed): void {
    const { protocol, responderPort, ipVersion, initiatorAddress } = record
    if (protocol !== TCP || !isConnection(record)) return
    const isLogin = LOGIN_PORTS.includes(responderPort)
    // a hub that polls another by the web is no news while an agent takes stock (41 of 917 captures)
    if (!isLogin && !(isNews && isKnown && WEB_PORTS.includes(responderPort))) return
    const service = `${device} ${responderPort}`
    const peer = isLocalPeer ? addressesOf(record)[0] : networkText(ipVersion, initiatorAddress)
    const key = `${service} ${peer}`
    const least = isNews ? GUESSES : MANY_GUESSES
    const count = countOf(this.#ofPeers, key, record, least, isNewContact, isLogin)
    if (count === null) return
    if (!isLogin) {
      count.connections++
      if (isSustained(count, record.startMicros)) this.#tell(record, count, peer)
      return
    }
    if (record.initiatorIpBytes + record.responderIpBytes > SHORT_BYTES) {
      this.#ofPeers.delete(key)
      return
    }
    // who sends nothing looks whether the service is there
    if ((record.initiatorTcpFlags & PSH) === 0) return
    if (isLouder(count)) this.#tell(record, count, peer)
    if (count.next > count.least) return
    const all = countOf(this.#ofServices, service, record, MANY_GUESSES * (isNews ? 1 : LOUDER), true, true)
    if (all !== null && isLouder(all)) this.#tell(record, all, null)
  }

  /** The packets' clock was set: counting starts again. */
  clockSet(): void {
    this.#ofPeers.clear()
    this.#ofServices.clear()
  }

  /** @param peer - null: many */
  #tell(record: FlowRecord, count: Count, peer: string | null): void {
    const { firstMicros, beganMicros, connections, isOneAddress } = count
    const { protocol, responderPort, startMicros } = record
    const [initiator, responder] = addressesOf(record)
    const what = `${connections} connections (${protocolName(protocol)} port ${responderPort})`
    const from =
      peer === null ? `several peers, the last of them ${initiator}` : isOneAddress ? initiator : peer
    const since =
      peer === null || firstMicros === beganMicros
        ? 'had never used this service'
        : `first used this service ${spanText(startMicros - firstMicros)} ago`
    const span = spanText(startMicros - beganMicros)
    this.#onGuessing(
      record,
      `${responder} had ${what} in ${span} from ${from}, which ${since}: possible password guessing`,
    )
  }
}

/** @param isOpened - whether there is a count where there was none; @param isOfDay - whether a count goes on after its window */
function countOf(
  counts: Counts,
  key: string,
  record: FlowRecord,
  least: number,
  isOpened: boolean,
  isOfDay: boolean,
): Count | null {
  const atMicros = record.startMicros
  const [address] = addressesOf(record)
  const known = counts.get(key)
  if (known !== undefined) {
    if (known.address !== address) known.isOneAddress = false
    const later = atMicros - known.beganMicros
    // a flow that ends now may have begun long before the window
    if (later < WINDOW_MICROS && later > -DAY) return known
    if (isOfDay && Math.abs(atMicros - known.firstMicros) < DAY) {
      Object.assign(known, { beganMicros: atMicros, connections: 0 })
      return known
    }
    counts.delete(key)
  }
  if (!isOpened) return null
  if (counts.size >= MAXIMUM_COUNTS) counts.delete(counts.keys().next().value as string)
  const times = { firstMicros: atMicros, beganMicros: atMicros }
  const count = { address, isOneAddress: true, ...times, connections: 0, least, next: least, ofMinute: [] }
  counts.set(key, count)
  return count
}

/** One more connection. True where that is to be reported. */
function isLouder(count: Count): boolean {
  count.connections++
  if (count.connections < count.next) return false
  count.next *= LOUDER
  return true
}

/** True once: when the last of the minutes becomes a busy one. */
function isSustained({ ofMinute, beganMicros }: Count, atMicros: number): boolean {
  const minute = Math.max(0, Math.floor((atMicros - beganMicros) / MINUTE))
  ofMinute[minute] = (ofMinute[minute] ?? 0) + 1
  if (ofMinute[minute] !== WEB_GUESSES_PER_MINUTE) return false
  return ofMinute.filter((connections) => connections >= WEB_GUESSES_PER_MINUTE).length === WEB_MINUTES
}
