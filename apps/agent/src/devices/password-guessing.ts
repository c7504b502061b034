/**
 * PasswordGuessing: connections of a new peer to one service of a device, as when passwords are guessed.
 *
 * They are counted within WINDOW_MICROS of the first, and reported at a number and at each four times that number. The table is
 * bounded: what began first makes room. Time is the packets'.
 */
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isConnection } from './contacts.js'

interface PasswordGuessing {
  /**
   * A flow to a device. `isNewContact`: its peer had never used this service of it; `isNews`: and that says something, since this is
   * no agent that takes stock. `isKnown`: the device is one of the table; of others, such as a gateway, only login services count.
   * `ends`: addresses of both ends.
   */
  note(
    record: FlowRecord,
    device: string,
    isNewContact: boolean,
    isNews: boolean,
    isKnown: boolean,
    ends: readonly [string, string],
  ): void
  /** The packets' clock was set: what was counted so far is not compared with what comes. */
  clockSet(): void
}

const WINDOW_MICROS = 600_000_000
/** Connections of a peer that is new to the service; MANY to a web service, and to a login service while all peers are new. */
const GUESSES = 5
const MANY_GUESSES = 24
const LOUDER = 4
const MAXIMUM_COUNTS = 512
const TCP = 6
/** FTP, SSH, Telnet, SMB, databases, remote desktops. */
const LOGIN_PORTS = [21, 22, 23, 445, 2222, 2323, 3306, 3389, 5432, 5900]
/** Pages ask for passwords, and programs poll: only many connections say something. */
const WEB_PORTS = [80, 443, 8000, 8080, 8443]

interface Count {
  readonly beganMicros: number
  connections: number
  next: number
}

export function createPasswordGuessing(
  onGuessing: (record: FlowRecord, fact: string) => void,
): PasswordGuessing {
  /** By device, port and peer. */
  const counts = new Map<string, Count>()
  /** Where the number is to be reported. */
  const countIn = (key: string, atMicros: number, least: number, isOpened: boolean): Count | null => {
    let count = counts.get(key)
    if (count !== undefined && Math.abs(atMicros - count.beganMicros) >= WINDOW_MICROS) {
      counts.delete(key)
      count = undefined
    }
    if (count === undefined) {
      if (!isOpened) return null
      if (counts.size >= MAXIMUM_COUNTS) counts.delete(counts.keys().next().value as string)
      count = { beganMicros: atMicros, connections: 0, next: least }
      counts.set(key, count)
    }
    count.connections++
    if (count.connections < count.next) return null
    count.next *= LOUDER
    return count
  }
  return {
    note(record, device, isNewContact, isNews, isKnown, [initiator, responder]) {
      const { protocol, responderPort, startMicros } = record
      if (protocol !== TCP || !isConnection(record)) return
      const isLogin = LOGIN_PORTS.includes(responderPort)
      // a hub that polls another by the web is no news while an agent takes stock (41 of 917 captures)
      if (!isLogin && !(isNews && isKnown && WEB_PORTS.includes(responderPort))) return
      const least = isLogin && isNews ? GUESSES : MANY_GUESSES
      const count = countIn(`${device} ${responderPort} ${initiator}`, startMicros, least, isNewContact)
      if (count === null) return
      const service = `${protocolName(protocol)} port ${responderPort}`
      const seconds = Math.max(1, Math.round((startMicros - count.beganMicros) / 1e6))
      onGuessing(
        record,
        `${responder} had ${count.connections} connections (${service}) in ${seconds} s from ${initiator}, which had never used this service: possible password guessing`,
      )
    },
    clockSet: () => counts.clear(),
  }
}
