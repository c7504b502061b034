/**
 * The control socket: by which a command asks a running agent about its devices and tells it what to do.
 *
 * HTTP over a socket in the state folder (`control.sock`), which only the agent's own user may open: the folder and
 * the socket have no rights for others, so there is no password. GET tells and changes nothing; POST changes. Connections, bytes
 * and time of a request are bounded. A socket that a killed agent left is taken over; one that answers is another
 * agent's, and two must not share a state folder.
 */

import { chmod, unlink } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { OddFlowError } from '@oddflow/core'
import { hasCode } from '../files/file-system.js'
import type { Device } from './device.js'
import { DEVICE_ACTIONS, type DeviceAction, type DeviceTable } from './device-table.js'

export interface ControlSocket {
  close(): Promise<void>
}

export class ControlError extends OddFlowError {
  override readonly name = 'ControlError'
}

/** What a person asked for, device by device, and what became of it. */
export interface ActionResult {
  readonly device: string
  /** null where it was done. */
  readonly refused: string | null
}

const MAXIMUM_BODY_BYTES = 1_048_576
const MAXIMUM_CONNECTIONS = 8
const PATIENCE_MILLIS = 5000
/** What Linux and macOS have room for in the name of a socket. */
const MAXIMUM_PATH_BYTES = 103

/** What else a running agent can be asked: by path, GET without and POST with a body. */
export type FurtherRoutes = Readonly<Record<string, (body: unknown) => Promise<unknown>>>

/**
 * @param save - keeps what was changed before the answer goes out.
 * @param describe - what is told of a device beside what the table has.
 * Rejects with ControlError.
 */
export async function openControlSocket(
  folder: string,
  table: DeviceTable,
  save: () => Promise<void>,
  further: FurtherRoutes = {},
  describe: (key: string) => object = () => ({}),
): Promise<ControlSocket> {
  const path = socketIn(folder)
  if (Buffer.byteLength(path) > MAXIMUM_PATH_BYTES) {
    throw new ControlError('control.path', `${path}: too long a name for a socket; give a shorter --state`)
  }
  if ((await ask(folder, 'GET', '/devices').catch(nobody)) !== null) {
    throw new ControlError(
      'control.taken',
      `${folder}: another agent is at work there; give each its own --state`,
    )
  }
  await unlink(path).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT')) throw error
  })
  const server = createServer(
    {
      headersTimeout: PATIENCE_MILLIS,
      requestTimeout: PATIENCE_MILLIS,
      // Node looks whether they have passed every 30 s, if not told otherwise.
      connectionsCheckingInterval: PATIENCE_MILLIS / 5,
    },
    (message, response) => {
      const answer = (status: number, value: unknown): void => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
      }
      const route = Object.hasOwn(further, message.url ?? '') ? further[message.url as string] : undefined
      if (route !== undefined) {
        const body = message.method === 'POST' ? readBody(message) : Promise.resolve(null)
        body
          .then(route)
          .then((value) => answer(200, value))
          .catch((error: unknown) =>
            answer(400, { error: error instanceof Error ? error.message : String(error) }),
          )
      } else if (message.url !== '/devices') answer(404, { error: 'there is no such thing to ask for' })
      else if (message.method === 'GET') {
        answer(200, { devices: [...table.all()].map((device) => ({ ...device, ...describe(device.key) })) })
      } else if (message.method !== 'POST') answer(405, { error: 'GET or POST' })
      else {
        readBody(message)
          .then(async (body) => {
            const results = act(table, body)
            await save()
            answer(200, { results })
          })
          .catch((error: unknown) =>
            answer(400, { error: error instanceof Error ? error.message : String(error) }),
          )
      }
    },
  )
  server.maxConnections = MAXIMUM_CONNECTIONS
  server.setTimeout(PATIENCE_MILLIS)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new ControlError('control.listen', `${path}: ${error.message}`)))
    server.listen(path, resolve)
  })
  await chmod(path, 0o600)
  return {
    async close() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

/** Throws ControlError for what is no request of ours. */
export function act(table: DeviceTable, body: unknown): ActionResult[] {
  const { action, devices } = (body ?? {}) as { action?: unknown; devices?: unknown }
  if (!DEVICE_ACTIONS.includes(action as DeviceAction)) {
    throw new ControlError('control.request', `action: expected ${DEVICE_ACTIONS.join(', ')}`)
  }
  if (!Array.isArray(devices) || !devices.every((device) => typeof device === 'string')) {
    throw new ControlError('control.request', 'devices: expected a list of addresses')
  }
  return devices.map((device: string) => ({ device, refused: table.act(action as DeviceAction, device) }))
}

/** The devices of a running agent; null where none is at work in the folder. */
export async function askDevices(folder: string): Promise<Device[] | null> {
  const answer = await ask(folder, 'GET', '/devices').catch(nobody)
  return answer === null ? null : (answer as { devices: Device[] }).devices
}

/** null where no agent is at work in the folder. */
export async function askToAct(
  folder: string,
  action: DeviceAction,
  devices: readonly string[],
): Promise<ActionResult[] | null> {
  const answer = await ask(folder, 'POST', '/devices', { action, devices }).catch(nobody)
  return answer === null ? null : (answer as { results: ActionResult[] }).results
}

/** The answer to one of the further routes; null where no agent is at work in the folder. */
export async function askFurther(folder: string, path: string, body?: unknown): Promise<unknown> {
  return ask(folder, body === undefined ? 'GET' : 'POST', path, body).catch(nobody)
}

function socketIn(folder: string): string {
  return join(folder, 'control.sock')
}

/** No socket, or one that nobody listens at. */
function nobody(error: unknown): null {
  if (hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED')) return null
  throw error
}

function ask(folder: string, method: string, path: string, body?: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      // a connection of its own: one that is kept may be to an agent that has ended
      { agent: false, socketPath: socketIn(folder), method, path, timeout: PATIENCE_MILLIS },
      (response) => {
        readBody(response).then((value) => {
          if (response.statusCode === 200) resolve(value)
          else reject(new ControlError('control.refused', String((value as { error?: unknown }).error)))
        }, reject)
      },
    )
    outgoing.on('timeout', () =>
      outgoing.destroy(new ControlError('control.silent', `${folder}: the agent does not answer`)),
    )
    outgoing.on('error', reject)
    outgoing.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** A request's JSON. Rejects with ControlError where it is longer than it may be, or something else. */
export async function readBody(
  message: IncomingMessage,
  maximumBytes: number = MAXIMUM_BODY_BYTES,
): Promise<unknown> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of message as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > maximumBytes) throw new ControlError('control.request', 'too long')
    pieces.push(piece)
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString('utf8'))
  } catch {
    throw new ControlError('control.request', 'expected JSON')
  }
}
