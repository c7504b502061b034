/**
 * Syslog: alerts as messages of RFC 5424, whose text is the EVE event, over UDP (RFC 5426, a datagram each) or TCP
 * (RFC 6587 section 3.4.1, each preceded by its length).
 *
 * Neither protocol has an answer. Over UDP delivered means handed to the network. Over TCP each batch has a connection of its own,
 * and delivered means that the receiver read to its end: it closes the connection, in order, after the agent has. A receiver
 * that closes with unread bytes answers with a reset, which is a failure, and the batch comes again: at least once.
 * A receiver that closes before it has the last message would look the same as one that has read it, so the last byte is kept
 * back until the rest has had the time to arrive and the connection still stands.
 *
 * The message's time is the alert's, its MSGID the rule. Priority: the facility that is asked for, severity 4 (warning).
 *
 * Left out: /dev/log, which is a datagram socket of the file system (Node has none), and TLS (RFC 5425): a log daemon on
 * the gateway itself can take UDP on loopback and carry it on.
 */
import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import * as v from 'valibot'
import { text, whole } from '../config/schema-parts.js'
import { ABORTED, orAborted } from '../pipeline/bring-to-end.js'
import { defineOutput, type Output, outputName } from './output.js'

/** Names of RFC 5424, section 6.2.1, as daemons write them, in the order of their numbers. */
const FACILITIES = [
  'kern',
  'user',
  'mail',
  'daemon',
  'auth',
  'syslog',
  'lpr',
  'news',
  'uucp',
  'cron',
  'authpriv',
  'ftp',
  'ntp',
  'audit',
  'alert',
  'clock',
  'local0',
  'local1',
  'local2',
  'local3',
  'local4',
  'local5',
  'local6',
  'local7',
] as const

export interface SyslogSettings {
  readonly kind: 'syslog'
  readonly name: string
  readonly protocol: 'udp' | 'tcp'
  readonly host: string
  readonly port: number
  /** 0 … 23. */
  readonly facility: number
}

export const syslog = defineOutput({
  kind: 'syslog',
  schema: v.strictObject({
    kind: v.literal('syslog'),
    name: outputName,
    protocol: v.optional(v.picklist(['udp', 'tcp']), 'udp'),
    host: text('A name or an address.'),
    port: v.optional(whole(1, 65_535, 'Port (514).'), 514),
    facility: v.optional(v.picklist(FACILITIES), 'daemon'),
  }),
  settings: ({ facility, ...given }, { name }): SyslogSettings => ({
    ...given,
    name,
    facility: FACILITIES.indexOf(facility),
  }),
  target: targetOf,
  files: () => [],
  secretsGoTo: () => null,
  memoryBytes: 0,
  create: async (settings) => createSyslog(settings),
})

function targetOf({ protocol, host, port }: SyslogSettings): string {
  return `${protocol}://${host}:${port}`
}

const SEVERITY = 4
const BATCH = 64
const PATIENCE_MILLIS = 10_000
/** Time in which bytes that were written arrive, on a network that is nearer than it. */
const LEAST_ARRIVAL_MILLIS = 20
const ARRIVAL_TURNS = 4
/** The largest datagram of IPv4. */
const MAXIMUM_DATAGRAM_BYTES = 65_507

interface Transport {
  send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void>
  close(): void
}

export function createSyslog(settings: SyslogSettings): Output {
  const transport = settings.protocol === 'udp' ? overUdp(settings) : overTcp(settings)
  return {
    name: settings.name,
    target: targetOf(settings),
    batch: BATCH,
    async deliver({ lines }, signal) {
      const messages = lines.map((line) => syslogMessage(line, settings.facility))
      // looking a name up, or a server that takes nothing, must not hold up the end
      if ((await orAborted(transport.send(messages, signal), signal)) === ABORTED) throw new Error('stopped')
    },
    async close() {
      transport.close()
    },
  }
}

/** `line` is one EVE event. */
export function syslogMessage(line: Uint8Array, facility: number): Uint8Array {
  const event = JSON.parse(new TextDecoder().decode(line)) as {
    timestamp: string
    oddflow: { rule: string }
  }
  // EVE's "+0000" is RFC 3339's "Z"
  const time = event.timestamp.replace(/\+0000$/, 'Z')
  const header = `<${8 * facility + SEVERITY}>1 ${time} ${hostName()} oddflow-agent ${process.pid} ${event.oddflow.rule} - `
  return Buffer.concat([new TextEncoder().encode(header), line])
}

/** Printable ASCII without spaces, at most 255, or the nil value. */
function hostName(): string {
  return (
    hostname()
      .replace(/[^\x21-\x7e]/g, '')
      .slice(0, 255) || '-'
  )
}

function overUdp({ host, port }: SyslogSettings): Transport {
  let socket: DatagramSocket | null = null
  return {
    async send(messages) {
      if (socket === null) {
        socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
        // an error that comes between two messages (a port that nobody listens at) is of no message in particular
        socket.on('error', () => undefined)
        socket.unref()
      }
      const open = socket
      for (const message of messages) {
        const text = message.subarray(0, MAXIMUM_DATAGRAM_BYTES)
        await new Promise<void>((resolve, reject) => {
          open.send(text, port, host, (error) => (error === null ? resolve() : reject(error)))
        })
      }
    },
    close() {
      socket?.close()
      socket = null
    },
  }
}

/** Calls back after so many turns of the event loop, each of which reads what has come. */
function afterTurns(turns: number, then: () => void): void {
  if (turns === 0) then()
  else setImmediate(() => afterTurns(turns - 1, then))
}

function overTcp({ host, port }: SyslogSettings): Transport {
  return {
    send: (messages, signal) =>
      new Promise((resolve, reject) => {
        const bytes = Buffer.concat(
          messages.flatMap((message) => [Buffer.from(`${message.length} `, 'latin1'), message]),
        )
        const beganMillis = performance.now()
        let isWhole = false
        let last: NodeJS.Timeout | undefined
        const socket = connect({ host, port })
        const fail = (why: string): void => {
          socket.destroy()
          reject(new Error(why))
        }
        const onAbort = (): void => fail('stopped')
        signal.addEventListener('abort', onAbort, { once: true })
        const patience = setTimeout(
          () =>
            fail(
              isWhole ? 'does not close the connection after the last message' : 'does not take what is sent',
            ),
          PATIENCE_MILLIS,
        )
        socket.once('connect', () => {
          const roundTripMillis = performance.now() - beganMillis
          socket.write(bytes.subarray(0, -1), () => {
            last = setTimeout(
              () => {
                // where this program was not running for a while, what came meanwhile is read before the last byte goes
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
          if (isWhole) resolve()
          else reject(new Error('closed the connection before the last message'))
        })
        // a server that talks is not listened to
        socket.resume()
        if (signal.aborted) onAbort()
      }),
    close: () => undefined,
  }
}
