/**
 * PasswordGuessing: connections of a peer that never used this service of a device, within WINDOW_MICROS of the first.
 *
 * A login service is reported at a number of connections and at each four times that number, a web service once: a browser opens 30
 * connections in a second, and an app polls a bridge up to 24 times a minute (18 captures of data/watch), so only minutes of more say
 * something. The table is bounded: the oldest entry makes room. Time is the packets'.
 */
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { spanText } from '../incidents/sentences.js'
import { isConnection } from './contacts.js'
import { addressesOf } from './fact-sources.js'

const MINUTE = 60_000_000
const WINDOW_MICROS = 10 * MINUTE
/** Connections to a login service; MANY while all peers are new. */
const GUESSES = 5
const MANY_GUESSES = 24
/** Minutes of the window, each with this number of connections to a web service. */
const WEB_MINUTES = 5
const WEB_GUESSES_PER_MINUTE = 60
const LOUDER = 4
const MAXIMUM_COUNTS = 512
const TCP = 6
/** FTP, SSH, Telnet, SMB, databases, remote desktops. */
const LOGIN_PORTS = [21, 22, 23, 445, 2222, 2323, 3306, 3389, 5432, 5900]
const WEB_PORTS = [80, 443, 8000, 8080, 8443]

interface Count {
  readonly beganMicros: number
  connections: number
  /** Reported at this number of connections to a login service. */
  next: number
  /** By minute of the window. */
  readonly ofMinute: number[]
}

/** The responder of a flow, and its peer. */
interface Guessed {
  /** Key of the responder. */
  readonly device: string
  /** The peer had never used this service of it. */
  readonly isNewContact: boolean
  /** False while an agent takes stock: all peers are new then. */
  readonly isNews: boolean
  /** The table has the device; of others, such as a gateway, only login services count. */
  readonly isKnown: boolean
}

export class PasswordGuessing {
  readonly #onGuessing: (record: FlowRecord, fact: string) => void
  /** By device, port and peer. */
  readonly #counts = new Map<string, Count>()

  constructor(onGuessing: (record: FlowRecord, fact: string) => void) {
    this.#onGuessing = onGuessing
  }

  note(record: FlowRecord, { device, isNewContact, isNews, isKnown }: Guessed): void {
    const { protocol, responderPort, startMicros } = record
    if (protocol !== TCP || !isConnection(record)) return
    const isLogin = LOGIN_PORTS.includes(responderPort)
    // a hub that polls another by the web is no news while an agent takes stock (41 of 917 captures)
    if (!isLogin && !(isNews && isKnown && WEB_PORTS.includes(responderPort))) return
    const [initiator, responder] = addressesOf(record)
    const key = `${device} ${responderPort} ${initiator}`
    const count = this.#countOf(key, startMicros, isNews ? GUESSES : MANY_GUESSES, isNewContact)
    if (count === null) return
    count.connections++
    if (!(isLogin ? isLouder(count) : isSustained(count, startMicros))) return
    const service = `${protocolName(protocol)} port ${responderPort}`
    const span = spanText(startMicros - count.beganMicros)
    this.#onGuessing(
      record,
      `${responder} had ${count.connections} connections (${service}) in ${span} from ${initiator}, which had never used this service: possible password guessing`,
    )
  }

  /** The packets' clock was set: counting starts again. */
  clockSet(): void {
    this.#counts.clear()
  }

  #countOf(key: string, atMicros: number, least: number, isOpened: boolean): Count | null {
    const known = this.#counts.get(key)
    if (known !== undefined && Math.abs(atMicros - known.beganMicros) < WINDOW_MICROS) return known
    this.#counts.delete(key)
    if (!isOpened) return null
    if (this.#counts.size >= MAXIMUM_COUNTS) this.#counts.delete(this.#counts.keys().next().value as string)
    const count = { beganMicros: atMicros, connections: 0, next: least, ofMinute: [] }
    this.#counts.set(key, count)
    return count
  }
}

function isLouder(count: Count): boolean {
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
