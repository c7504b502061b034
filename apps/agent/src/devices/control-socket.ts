/**
 * The control socket: commands use it to ask a running agent and to give it requests, and it reserves a state folder for one agent.
 *
 * HTTP over a socket in the state folder (`control.sock`). There is no password: only the agent's own user may open the folder and the
 * socket. GET changes nothing; POST changes. Connections, bytes and time of a request are bounded.
 *
 * It is opened before the folder is read, and has its name alone there (see "Listening alone" below).
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import type { IncomingMessage, Server } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ArgumentError, OddFlowError } from '@oddflow/core'
import { fileError } from '@oddflow/program'
import { hasCode } from '../files/file-system.js'
import { asideOf } from '../files/state-file.js'
import type { ToldDevice } from './device.js'
import type { DeviceAction } from './device-table.js'
import type { ActionResult } from './device-watch.js'

export interface ControlSocket {
  /** Handles requests from now on; null: answers that the agent is starting or stopping. */
  serve(routes: Routes | null): void
  /** Takes the folder again where the socket was removed or replaced, and says whether it was. Rejects with ControlError where another agent has it by now. */
  renew(): Promise<boolean>
  close(): Promise<void>
}

/** What a running agent can be asked: by path, GET without and POST with a body. */
export type Routes = Readonly<Record<string, (body?: unknown) => Promise<unknown>>>

export class ControlError extends OddFlowError {
  override readonly name = 'ControlError'
}

const MAXIMUM_BODY_BYTES = 1_048_576
const MAXIMUM_CONNECTIONS = 8
const PATIENCE_MILLIS = 5000
/** For an answer that a model is made for. */
const WORK_MILLIS = 180_000
const BUSY_ATTEMPTS = 10
const BUSY_PAUSE_MILLIS = 100
const ABOUT_TO = 'the agent is starting or stopping; try again'

/** The folder is there. Rejects with ControlError where it is another agent's, or with FileError. */
export async function openControlSocket(folder: string): Promise<ControlSocket> {
  const refused = refusedPlace(folder)
  if (refused !== null) throw new ControlError('control.path', refused)
  let routes: Routes | null = null
  const path = socketIn(folder)
  const begin = async () => {
    const server = await controlServer(() => routes)
    if (!(await listenAlone(server, folder))) {
      throw new ControlError(
        'control.taken',
        `${folder}: another agent uses this folder; give each its own --state`,
      )
    }
    return { server, found: await lstat(path).catch(() => null) }
  }
  let own = await begin()
  let renewing: Promise<boolean> | null = null
  const isOwn = async (): Promise<boolean> => {
    const found = await lstat(path).catch(() => null)
    return found !== null && found.ino === own.found?.ino && found.dev === own.found.dev
  }
  const renew = async (): Promise<boolean> => {
    if (await isOwn()) return false
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const before = own.server
    own = await begin()
    await close(before)
    return true
  }
  return {
    serve(next) {
      routes = next
    },
    renew() {
      renewing ??= renew().finally(() => {
        renewing = null
      })
      return renewing
    },
    async close() {
      await renewing?.catch(() => undefined)
      // a name that stays is a dead one, as after a kill: the disk may be read-only by now
      if (await isOwn()) await rm(path, { force: true }).catch(() => undefined)
      await close(own.server)
    },
  }
}

async function controlServer(routes: () => Routes | null): Promise<Server> {
  const { createServer } = await import('node:http')
  const server = createServer(
    {
      headersTimeout: PATIENCE_MILLIS,
      requestTimeout: PATIENCE_MILLIS,
      // Node looks whether they have passed every 30 s, if not told otherwise.
      connectionsCheckingInterval: PATIENCE_MILLIS / 5,
    },
    async (message, response) => {
      const [status, value] = await answerOf(routes(), message).catch((error: unknown): Answer => {
        const text = error instanceof Error ? error.message : String(error)
        return [statusOf(error), { error: text }]
      })
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    },
  )
  server.maxConnections = MAXIMUM_CONNECTIONS
  server.setTimeout(PATIENCE_MILLIS)
  return server
}

type Answer = [status: number, value: unknown]

async function answerOf(routes: Routes | null, message: IncomingMessage): Promise<Answer> {
  const { url = '/', method } = message
  if (routes === null) return [503, { error: ABOUT_TO }]
  if (!Object.hasOwn(routes, url)) return [404, { error: 'unknown request' }]
  if (method === 'GET') return [200, await routes[url]()]
  if (method !== 'POST') return [405, { error: 'GET or POST' }]
  const body = await readBody(message)
  message.socket.setTimeout(WORK_MILLIS)
  return [200, await routes[url](body)]
}

/** How a request that failed is answered: 400 for a wrong one, 507 where the disk is full, else 500. */
export function statusOf(error: unknown): number {
  if (error instanceof ControlError || error instanceof ArgumentError) return 400
  const { code = '' } = error instanceof OddFlowError ? error : {}
  return code === 'file.ENOSPC' || code === 'file.EDQUOT' ? 507 : 500
}

/** The devices of a running agent; null where none that keeps devices is at work in the folder. */
export async function askDevices(folder: string): Promise<ToldDevice[] | null> {
  const answer = (await askAgent(folder, '/devices')) as { devices: ToldDevice[] } | null
  return answer?.devices ?? null
}

/** null where no agent that keeps devices is at work in the folder. */
export async function askToAct(
  folder: string,
  action: DeviceAction,
  devices: readonly string[],
  text = '',
): Promise<ActionResult[] | null> {
  const answer = await askAgent(folder, '/devices', { action, devices, text })
  return (answer as { results: ActionResult[] } | null)?.results ?? null
}

/** The answer to one of the routes; null where no agent that has it is at work in the folder. */
export async function askAgent(folder: string, path: string, body?: unknown): Promise<unknown> {
  try {
    return await ask(folder, path, body)
  } catch (error) {
    // no socket, a socket without a listener, or an agent that does not know the request
    if (nobodyAt(error) || isControlError(error, 'control.nothing')) return null
    throw error
  }
}

/** Whether an agent is at work in the folder, or about to be. */
export async function isAtWork(folder: string): Promise<boolean> {
  try {
    await knock(folder)
    return true
  } catch (error) {
    return isControlError(error, 'control.busy')
  }
}

/** Who is about to begin or to end is asked again for a moment. What is to be done is said once, to who has answered before. */
async function ask(folder: string, path: string, body: unknown): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    try {
      if (body === undefined) return await askOnce(folder, 'GET', path)
      await knock(folder)
      break
    } catch (error) {
      if (!isControlError(error, 'control.busy') || attempt === BUSY_ATTEMPTS) throw error
      await pause(BUSY_PAUSE_MILLIS)
    }
  }
  return askOnce(folder, 'POST', path, body, WORK_MILLIS)
}

/** Asks for a path that no agent serves: resolves if one answers. */
async function knock(folder: string): Promise<void> {
  await askOnce(folder, 'GET', '/').catch((error: unknown) => {
    if (!isControlError(error, 'control.nothing')) throw error
  })
}

function isControlError(error: unknown, code: string): boolean {
  return error instanceof ControlError && error.code === code
}

const CODES: Readonly<Record<number, string>> = { 404: 'control.nothing', 503: 'control.busy' }

async function askOnce(
  folder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
  patienceMillis = PATIENCE_MILLIS,
): Promise<unknown> {
  const socketPath = socketIn(folder)
  if (await isLink(socketPath)) throw Object.assign(new Error('is a link'), { code: 'ENOENT' })
  const { request } = await import('node:http')
  // a connection of its own: one that is kept may be to an agent that has ended
  const outgoing = request({ agent: false, socketPath, method, path, timeout: patienceMillis })
  let isSilent = false as boolean
  outgoing.on('timeout', () => {
    isSilent = true
    outgoing.destroy()
  })
  outgoing.on('error', () => undefined)
  outgoing.end(body === undefined ? undefined : JSON.stringify(body))
  try {
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const value = await readBody(response)
    const { statusCode = 0 } = response
    if (statusCode === 200) return value
    const { error } = value as { error?: unknown }
    throw new ControlError(CODES[statusCode] ?? 'control.refused', String(error))
  } catch (error) {
    if (isSilent) throw new ControlError('control.silent', `${folder}: the agent does not answer`)
    if (!hasCode(error, 'ECONNRESET') && !hasCode(error, 'EPIPE')) throw error
    if (method === 'GET') throw new ControlError('control.busy', ABOUT_TO)
    throw new ControlError(
      'control.lost',
      `${folder}: the agent ended before it answered; check what it did, then try again`,
    )
  }
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

/**
 * Listening alone: of all processes that start at once at a folder, one gets its socket, whatever a killed one left.
 *
 * No system call removes a name only if its socket is dead, so a process could remove the name of another that has just started.
 * Therefore each listens at a name of its own (`c-` and a random number) and then looks at all others: of two, the later one sees the
 * other. A candidate gives up if it sees the holder (`control.sock`) or a candidate whose name sorts before its own. It waits while it
 * sees later names. The last one moves its name to `control.sock` and removes what dead candidates left.
 *
 * A socket that takes a connection has a listener, even if its process is busy or stopped.
 */

/** What Linux and macOS have room for in the name of a socket. */
const MAXIMUM_PATH_BYTES = 103

function socketIn(folder: string): string {
  return join(folder, 'control.sock')
}

/** A link in its place may lead to another agent: it is not followed. */
async function isLink(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isSymbolicLink() === true
}

/** Why the folder cannot have a socket; null where it can. */
export function refusedPlace(folder: string): string | null {
  const path = socketIn(folder)
  return Buffer.byteLength(path) > MAXIMUM_PATH_BYTES
    ? `${path}: too long a name for a socket; give a shorter --state, ${MAXIMUM_PATH_BYTES} bytes with /control.sock`
    : null
}

const CANDIDATE = /^c-[0-9a-f]{8}$/
const LOOK_AGAIN_MILLIS = 20
/** How long to wait for a candidate that was stopped while it looked. */
const CANDIDATE_MILLIS = 3000

/** False where the folder is another's: the server is closed then. Rejects with FileError. */
async function listenAlone(server: Server, folder: string): Promise<boolean> {
  const name = `c-${randomBytes(4).toString('hex')}`
  const own = join(folder, name)
  const path = socketIn(folder)
  try {
    await once(server.listen(own), 'listening')
    // the rights are there before anybody can know the name
    await chmod(own, 0o600)
    const dead = await waitUntilAlone(folder, name)
    if (dead === null) {
      await close(server)
      return false
    }
    await rename(own, path).catch(async (error: unknown) => {
      if (!hasCode(error, 'EISDIR')) throw error
      await rename(path, asideOf(path))
      await rename(own, path)
    })
    for (const each of dead) await rm(join(folder, each), { force: true })
    return true
  } catch (error) {
    await close(server)
    throw fileError('write', path, error)
  }
}

/** The names of dead candidates, once no other is alive; null if another agent comes first. */
async function waitUntilAlone(folder: string, name: string): Promise<string[] | null> {
  for (let waited = 0; waited < CANDIDATE_MILLIS; waited += LOOK_AGAIN_MILLIS) {
    const dead: string[] = []
    let isAlone = true
    for (const other of await readdir(folder)) {
      if (other === name || !CANDIDATE.test(other)) continue
      if (!(await isListening(join(folder, other)))) dead.push(other)
      else if (other < name) return null
      else isAlone = false
    }
    // last: a candidate that won while we looked has moved its name to this one
    if (await isListening(socketIn(folder))) return null
    if (isAlone) return dead
    await pause(LOOK_AGAIN_MILLIS)
  }
  return null
}

function close(server: Server): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(() => resolve()))
}

/** Whether a process listens, even if it does not answer. */
async function isListening(path: string): Promise<boolean> {
  if (await isLink(path)) return false
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    return !nobodyAt(error)
  } finally {
    socket.destroy()
  }
}

/** Error codes of a connection without a listener or without a socket. */
function nobodyAt(error: unknown): boolean {
  return hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED') || hasCode(error, 'ENOTSOCK')
}
