/**
 * Syslog: alerts as messages of RFC 5424, over UDP (RFC 5426), TCP (RFC 6587 section 3.4.1, each preceded by its length) or TLS
 * (RFC 5425), or to the log daemon of this machine. The text is the EVE event, or with `text: sentence` one line for people.
 *
 * Over UDP delivered means sent. Over TCP and TLS each batch has its own connection, and delivered means that the receiver closed it
 * after the agent did. To notice a receiver that closes early, the agent sends the last byte only when the rest has had time to arrive.
 * Node cannot open the datagram socket /dev/log; the program logger (util-linux, BusyBox) writes to it.
 *
 * The MSGID is the rule. Severity is 3 (error) for an incident of level high, else 4 (warning), and 5 (notice) for finished incidents.
 */
import { execFile } from 'node:child_process'
import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { stat } from 'node:fs/promises'
import { connect, isIP, isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import * as v from 'valibot'
import { ABORTED, orAborted } from '../pipeline/shutdown.js'
import { messageOf, sentenceOf } from './message.js'
import {
  ANSWER_MILLIS,
  BATCH,
  choice,
  defineOutput,
  type Output,
  optional,
  path,
  readCertificates,
  type SettingsOf,
  text,
  whole,
} from './output.js'

/** Names of RFC 5424, section 6.2.1, as daemons write them, in the order of their numbers. */
const FACILITIES = [
  ...['kern', 'user', 'mail', 'daemon', 'auth', 'syslog', 'lpr', 'news', 'uucp', 'cron', 'authpriv', 'ftp'],
  ...['ntp', 'audit', 'alert', 'clock'],
  ...['local0', 'local1', 'local2', 'local3', 'local4', 'local5', 'local6', 'local7'],
]

const PORTS = { udp: 514, tcp: 514, tls: 6514, local: 0 }
const SOCKET = '/dev/log'

const entries = optional(
  {
    protocol: choice(
      ['udp', 'tcp', 'tls', 'local'],
      'Transport of the messages (udp). local sends to the log daemon of this machine and takes no host.',
    ),
    host: text('A name or an address.'),
    port: whole(1, 65_535, 'Port (514; of tls 6514).'),
    socket: path("The log daemon's socket, with protocol: local (/dev/log)."),
    text: choice(
      ['eve', 'sentence'],
      'eve sends every event as JSON (default for udp, tcp and tls). sentence sends each incident as one line for people (default for local).',
    ),
    facility: v.picklist(FACILITIES),
  },
  { protocol: 'udp', facility: 'daemon' },
)
export type SyslogSettings = SettingsOf<'syslog', typeof entries>

export const syslog = defineOutput({
  kind: 'syslog',
  entries,
  check({ protocol, host, port, socket, caFile }, refuse) {
    const isLocal = protocol === 'local'
    if (isLocal !== (host === undefined))
      refuse('host', isLocal ? 'protocol: local takes no host; remove it' : 'is missing; give the receiver')
    if (isLocal && port !== undefined) refuse('port', 'protocol: local takes no port; remove it')
    if (!isLocal && socket !== undefined) refuse('socket', 'only for protocol: local; remove it')
    if (protocol !== 'tls' && caFile !== undefined) refuse('caFile', 'only for protocol: tls; remove it')
  },
  target: targetOf,
  create: async (settings) => createSyslog(settings),
})

function targetOf({ protocol, host, port = PORTS[protocol], socket = SOCKET }: SyslogSettings): string {
  return protocol === 'local' ? socket : `${protocol}://${host}:${port}`
}

/** Time for written bytes to arrive: this, or twice the round trip. */
const LEAST_ARRIVAL_MILLIS = 20
const ARRIVAL_TURNS = 4
/** The largest datagram of IPv4. */
const MAXIMUM_DATAGRAM_BYTES = 65_507

interface SyslogMessage {
  readonly priority: number
  /** Whole, with the header of RFC 5424. */
  readonly bytes: Uint8Array
  readonly text: string
}

interface Transport {
  /** Resolves to the receiver's answer in words. */
  send(messages: readonly SyslogMessage[], signal: AbortSignal): Promise<string>
  close(): void
}

/** Throws FileError if the certificates cannot be read. */
export function createSyslog(settings: SyslogSettings): Output {
  const transport =
    settings.protocol === 'udp'
      ? overUdp(settings)
      : settings.protocol === 'local'
        ? overLogger(settings)
        : overTcp(settings)
  return {
    name: settings.name,
    target: targetOf(settings),
    batch: BATCH,
    async deliver({ lines }, signal) {
      const messages = lines.map((line) => syslogMessage(line, settings)).filter((each) => each !== null)
      if (messages.length === 0) return ''
      // a slow name server or receiver must not delay the end of the agent
      const answer = await orAborted(transport.send(messages, signal), signal)
      if (answer === ABORTED) throw new Error('stopped')
      return answer
    },
    async close() {
      transport.close()
    },
  }
}

const WARNING = 4
const SEVERITIES = { low: WARNING, medium: WARNING, high: 3 }
const NOTICE = 5

/** null: an event for programs only. `line` is one EVE event. */
export function syslogMessage(
  line: Uint8Array,
  {
    facility,
    protocol,
    text: wanted = protocol === 'local' ? 'sentence' : 'eve',
  }: Pick<SyslogSettings, 'facility' | 'protocol' | 'text'>,
): SyslogMessage | null {
  const eve = new TextDecoder().decode(line)
  const { timestamp, oddflow } = JSON.parse(eve) as { timestamp: string; oddflow: { rule: string } }
  const message = wanted === 'sentence' ? messageOf(line) : null
  if (wanted === 'sentence' && message === null) return null
  const severity = message === null ? WARNING : message.change === 'over' ? NOTICE : SEVERITIES[message.level]
  const text = message === null ? eve : `${message.title}: ${sentenceOf(message)}`
  const priority = 8 * FACILITIES.indexOf(facility) + severity
  // EVE's "+0000" is RFC 3339's "Z"
  const time = timestamp.replace(/\+0000$/, 'Z')
  const header = `<${priority}>1 ${time} ${hostName()} oddflow-agent ${process.pid} ${oddflow.rule} - `
  return { priority, bytes: new TextEncoder().encode(`${header}${text}`), text }
}

/** Printable ASCII without spaces, at most 255, or the nil value. */
function hostName(): string {
  return (
    hostname()
      .replace(/[^\x21-\x7e]/g, '')
      .slice(0, 255) || '-'
  )
}

function overUdp({ host = '', port = PORTS.udp }: SyslogSettings): Transport {
  let socket: DatagramSocket | null = null
  return {
    async send(messages) {
      if (socket === null) {
        socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
        // an error between two messages (a port without a listener) belongs to none of them
        socket.on('error', () => undefined)
        socket.unref()
      }
      const open = socket
      for (const message of messages) {
        const text = message.bytes.subarray(0, MAXIMUM_DATAGRAM_BYTES)
        await new Promise<void>((resolve, reject) => {
          open.send(text, port, host, (error) => (error === null ? resolve() : reject(error)))
        })
      }
      return 'sent by UDP, which has no acknowledgement'
    },
    close() {
      socket?.close()
      socket = null
    },
  }
}

/** Calls back after this many turns of the event loop; each turn reads the received data. */
function afterTurns(turns: number, then: () => void): void {
  if (turns === 0) then()
  else setImmediate(() => afterTurns(turns - 1, then))
}

/** Messages of a priority go to one logger, line by line. */
function overLogger({ socket = SOCKET }: SyslogSettings): Transport {
  return {
    async send(messages, signal) {
      // BusyBox's logger does not report that there is no listener
      const found = await stat(socket).catch(() => null)
      if (found?.isSocket() !== true) throw new Error(`${socket}: there is no log daemon's socket`)
      for (const priority of new Set(messages.map((each) => each.priority))) {
        const lines = messages.filter((each) => each.priority === priority).map(({ text }) => `${text}\n`)
        const level = `${FACILITIES[priority >> 3]}.${LEVELS[(priority & 7) - 3]}`
        await runLogger(
          [...(socket === SOCKET ? [] : ['-u', socket]), '-t', 'oddflow-agent', '-p', level],
          lines,
          signal,
        )
      }
      return 'taken by the log daemon'
    },
    close: () => undefined,
  }
}

/** Severities 3, 4 and 5, as logger calls them. */
const LEVELS = ['err', 'warning', 'notice']

function runLogger(args: readonly string[], lines: readonly string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = execFile('logger', args, { signal, timeout: ANSWER_MILLIS }, (error, _, said) => {
      if (error === null && said === '') resolve()
      else reject(new Error(`logger: ${(said || (error?.message ?? '')).split('\n', 1)[0]}`))
    })
    // the callback reports a missing logger
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(lines.join(''))
  })
}

function overTcp({ protocol, host = '', port = PORTS[protocol], caFile }: SyslogSettings): Transport {
  const trusted = caFile === undefined ? {} : { ca: readCertificates(caFile) }
  const isTls = protocol === 'tls'
  return {
    async send(messages, signal) {
      const tls = isTls ? await import('node:tls') : null
      return new Promise((resolve, reject) => {
        const bytes = Buffer.concat(
          messages.flatMap(({ bytes }) => [Buffer.from(`${bytes.length} `, 'latin1'), bytes]),
        )
        const beganMillis = performance.now()
        let isWhole = false
        let last: NodeJS.Timeout | undefined
        const socket = tls
          ? tls.connect({ host, port, ...trusted, ...(isIP(host) === 0 ? { servername: host } : {}) })
          : connect({ host, port })
        const fail = (why: string): void => {
          socket.destroy()
          reject(new Error(why))
        }
        const onAbort = (): void => fail('stopped')
        signal.addEventListener('abort', onAbort, { once: true })
        const patience = setTimeout(
          () =>
            fail(isWhole ? 'does not close the connection after the last message' : 'does not accept data'),
          ANSWER_MILLIS,
        )
        socket.once(isTls ? 'secureConnect' : 'connect', () => {
          const roundTripMillis = performance.now() - beganMillis
          socket.write(bytes.subarray(0, -1), () => {
            last = setTimeout(
              () => {
                // if this process was paused, it first reads what came meanwhile
                afterTurns(ARRIVAL_TURNS, () => {
                  if (socket.destroyed) return
                  isWhole = true
                  socket.end(bytes.subarray(-1))
                })
              },
              Math.max(LEAST_ARRIVAL_MILLIS, 2 * roundTripMillis),
            )
          })
        })
        socket.once('end', () => {
          if (!isWhole) fail('closed the connection before the last message')
        })
        socket.on('error', ({ message }) => fail(message))
        socket.once('close', () => {
          clearTimeout(patience)
          clearTimeout(last)
          signal.removeEventListener('abort', onAbort)
          if (isWhole) resolve('read to the end by the receiver')
          else reject(new Error('closed the connection before the last message'))
        })
        // ignores what the server sends
        socket.resume()
        if (signal.aborted) onAbort()
      })
    },
    close: () => undefined,
  }
}
