/**
 * Facts that are counts of flows to one service of a device: connections of a new peer as when passwords are guessed, and floods
 * of requests that become no connection.
 *
 * Each is counted within WINDOW of its first flow, and reported at a number and at each four times that number. Tables are
 * bounded: what began first makes room. Time is the packets'.
 */
import { type FlowRecord, protocolName } from '@oddflow/flows'
import type { FactRule } from '../alerts/alert.js'
import { isConnection } from './contacts.js'

interface ConnectionFactsOptions {
  readonly onFact: (record: FlowRecord, rule: FactRule, fact: string, isOfResponder: boolean) => void
}

export interface ConnectionFacts {
  /**
   * A flow to a device. `isNewContact`: its peer had never used this service of it; `isNews`: and that says something, since this is
   * no agent that takes stock. `ends`: addresses of both ends.
   */
  note(
    record: FlowRecord,
    device: string,
    isNewContact: boolean,
    isNews: boolean,
    ends: readonly [string, string],
  ): void
  /** The packets' clock was set: what was counted so far is not compared with what comes. */
  clockSet(): void
}

const WINDOW_MICROS = 600_000_000
/** Connections of a peer that is new to the service; MANY to a web service, and to a login service while all peers are new. */
const GUESSES = 5
const MANY_GUESSES = 24
const FLOOD_WINDOW_MICROS = 60_000_000
const FLOOD = 512
const LOUDER = 4
const MAXIMUM_COUNTS = 512
const TCP = 6
/** FTP, SSH, Telnet, SMB, databases, remote desktops. */
const LOGIN_PORTS = [21, 22, 23, 445, 2222, 2323, 3306, 3389, 5432, 5900]
/** Pages ask for passwords, and programs poll: only many connections say something. */
const WEB_PORTS = [80, 443, 8000, 8080, 8443]

interface Count {
  readonly beganMicros: number
  flows: number
  next: number
}

export function createConnectionFacts({ onFact }: ConnectionFactsOptions): ConnectionFacts {
  /** By device, port and peer. */
  const guesses = new Map<string, Count>()
  /** By device, transport and port. */
  const tries = new Map<string, Count>()

  /** Where the number is to be reported. */
  const countIn = (
    counts: Map<string, Count>,
    key: string,
    atMicros: number,
    windowMicros: number,
    least: number,
    isOpened: boolean,
  ): Count | null => {
    let count = counts.get(key)
    if (count !== undefined && Math.abs(atMicros - count.beganMicros) >= windowMicros) {
      counts.delete(key)
      count = undefined
    }
    if (count === undefined) {
      if (!isOpened) return null
      if (counts.size >= MAXIMUM_COUNTS) counts.delete(counts.keys().next().value as string)
      count = { beganMicros: atMicros, flows: 0, next: least }
      counts.set(key, count)
    }
    count.flows++
    if (count.flows < count.next) return null
    count.next *= LOUDER
    return count
  }
  return {
    note(record, device, isNewContact, isNews, [initiator, responder]) {
      const { protocol, responderPort, startMicros } = record
      const service = `${protocolName(protocol)} port ${responderPort}`
      const within = ({ beganMicros }: Count): string =>
        `${Math.max(1, Math.round((startMicros - beganMicros) / 1e6))} s`
      if (protocol === TCP && isConnection(record)) {
        const isLogin = LOGIN_PORTS.includes(responderPort)
        // a hub that polls another by the web is no news while an agent takes stock (41 of 917 captures)
        if (!isLogin && !(isNews && WEB_PORTS.includes(responderPort))) return
        const least = isLogin && isNews ? GUESSES : MANY_GUESSES
        const key = `${device} ${responderPort} ${initiator}`
        const count = countIn(guesses, key, startMicros, WINDOW_MICROS, least, isNewContact)
        if (count === null) return
        const fact = `${responder} had ${count.flows} connections (${service}) in ${within(count)} from ${initiator}, which had never used this service: passwords may be guessed`
        onFact(record, 'password-guessing', fact, true)
      } else if (!isConnection(record) && record.responderPackets <= 1) {
        const count = countIn(tries, `${device} ${service}`, startMicros, FLOOD_WINDOW_MICROS, FLOOD, true)
        if (count === null) return
        const fact = `${responder} was sent ${count.flows} requests (${service}) in ${within(count)} that became no connection`
        onFact(record, 'request-flood', fact, true)
      }
    },
    clockSet() {
      guesses.clear()
      tries.clear()
    },
  }
}
