/** The agent's HTTP server: /metrics for Prometheus, /healthz for a supervisor (200 or 503), and the dashboard. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { OddFlowError } from '@oddflow/core'
import type { ListenSettings } from '../config/settings.js'
import { type Dashboard, isOwnHost } from './dashboard.js'
import type { AgentSnapshot, Metrics } from './metrics.js'

export interface AgentServer {
  /** "127.0.0.1:9477": the port that was given, or found free. */
  readonly address: string
  close(): Promise<void>
}

export class ListenError extends OddFlowError {
  override readonly name = 'ListenError'
}

const MAXIMUM_CONNECTIONS = 16
const PATIENCE_MILLIS = 5000

/**
 * Listens where the settings say. Connections, header bytes and the time of a request are bounded. One connection too many ends
 * the oldest of the address that has the most, so slow clients keep no other from /healthz. Rejects with ListenError.
 */
export async function startServer(
  { host, port }: ListenSettings,
  metrics: Metrics,
  health: () => Health,
  /** Names of the machine beside its addresses (dashboard.ts). */
  names: readonly string[] = [],
  /** Answers what it knows of; false where it does not. */
  further: Dashboard = () => false,
): Promise<AgentServer> {
  // http and what it imports take 10 ms to load
  const { createServer } = await import('node:http')
  const answer = createAnswer(metrics, health, names)
  const answering = new WeakSet<Socket>()
  const server = createServer(
    {
      headersTimeout: PATIENCE_MILLIS,
      requestTimeout: PATIENCE_MILLIS,
      // Node checks both every 30 s by default
      connectionsCheckingInterval: PATIENCE_MILLIS / 5,
    },
    (request, response) => {
      const { socket } = request
      // a client that sends a request before the last answer (pipelining, no browser does) could have thousands made at once
      if (answering.has(socket)) {
        socket.destroy()
        return
      }
      answering.add(socket)
      response.once('close', () => answering.delete(socket))
      if (answer(request, response)) return
      const answered = further(request, response)
      if (answered === 'stream') open.delete(socket)
      else if (!answered) send(response, 404, 'there are /metrics and /healthz\n')
    },
  )
  /** The oldest first; without streams, which the dashboard bounds. */
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    if (open.size > MAXIMUM_CONNECTIONS) oldestOfMost(open).destroy()
  })
  server.setTimeout(PATIENCE_MILLIS)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(new ListenError(`listen.${error.code}`, `${host}:${port}: cannot listen: ${adviceOn(error)}`))
    })
    server.listen(port, host, resolve)
  })
  const { address, family, port: found } = server.address() as AddressInfo
  return {
    address: `${family === 'IPv6' ? `[${address}]` : address}:${found}`,
    async close() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

function send(
  response: ServerResponse,
  status: number,
  text: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(response.req.method === 'HEAD' ? undefined : text)
}

/** Answers /metrics and /healthz; false for other paths. */
function createAnswer(metrics: Metrics, health: () => Health, names: readonly string[]) {
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const path = request.url?.split('?', 1)[0]
    if (path !== '/metrics' && path !== '/healthz') return false
    if (request.method !== 'GET' && request.method !== 'HEAD') send(response, 405, 'it can only be read\n')
    else if (path === '/healthz') {
      const { isWell, reasons } = health()
      send(response, isWell ? 200 : 503, `${[isWell ? 'well' : 'ill', ...reasons].join('\n')}\n`)
    } else if (!isOwnHost(request.headers.host, names)) {
      send(response, 421, 'unknown host name: use the address, or add the name to dashboard.hosts\n')
    } else {
      metrics.text().then(
        (text) => send(response, 200, text, metrics.contentType),
        () => send(response, 500, 'the metrics could not be gathered\n'),
      )
    }
    return true
  }
}

/** The oldest connection of the address that has the most. */
function oldestOfMost(sockets: ReadonlySet<Socket>): Socket {
  const byAddress = new Map<string | undefined, Socket[]>()
  for (const socket of sockets) {
    const { remoteAddress } = socket
    byAddress.set(remoteAddress, [...(byAddress.get(remoteAddress) ?? []), socket])
  }
  return [...byAddress.values()].reduce((most, each) => (each.length > most.length ? each : most))[0]
}

function adviceOn({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'EADDRINUSE':
      return 'port in use; choose another port'
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'not an address of this machine; choose another, such as 127.0.0.1'
    case 'EACCES':
      return 'permission denied; choose a port above 1023'
    default:
      return message
  }
}

export interface Health {
  readonly isWell: boolean
  /** Current problems, and earlier problems of this run. */
  readonly reasons: readonly string[]
}

export function healthOf({
  outputs,
  spoolWorks,
  counters,
  overloaded,
  degraded,
  warnings,
}: AgentSnapshot): Health {
  const silent = outputs
    .filter(({ works }) => !works)
    .map(({ name }) => `alerts cannot be delivered to ${name}`)
  const faults = [...degraded, ...silent]
  if (!spoolWorks) faults.push('alerts cannot be kept in the state folder')
  const notes = Object.entries(counters.alerts.setAside)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} refused ${count} ${count === 1 ? 'alert' : 'alerts'}; see the log`)
  // a restart would not help, so it is no fault
  if (overloaded) notes.push(`overloaded: the agent drops packets, ${counters.droppedAgent} in this run`)
  return { isWell: faults.length === 0, reasons: [...faults, ...warnings, ...notes] }
}
