/**
 * The control socket: commands use it to ask a running agent and to give it requests, and it reserves a state folder for one agent.
 *
 * HTTP over a socket in the state folder (`control.sock`). There is no password: only the agent's own user may open the folder and the
 * socket. GET changes nothing; POST changes. Connections, bytes and time of a request are bounded.
 *
 * It is opened before the folder is read, and has its name alone there (see "Listening alone" below).
 */

import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, unlink } from 'node:fs/promises'
import type { IncomingMessage, Server } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ArgumentError, OddFlowError } from '@oddflow/core'
import { fileError } from '@oddflow/program'
import { hasCode } from '../files/file-system.js'
import { asideOf } from '../files/state-file.js'
import { type Device, type ToldDevice, toldOf } from './device.js'
import type { DeviceAction, DeviceTable } from './device-table.js'
import type { ActionResult } from './device-watch.js'

export interface ControlSocket {
  /** Handles requests from now on; null: answers that the agent is starting or stopping. */
  serve(told: ControlAnswers | null): void
  /** Takes the folder again where the socket was removed or replaced, and says whether it was. Rejects with ControlError where another agent has it by now. */
  renew(): Promise<boolean>
  close(): Promise<void>
}

export interface ControlAnswers {
  /** null where devices are not kept. */
  readonly devices: {
    readonly table: DeviceTable
    /** Saves a request, carries it out, and returns the results. */
    readonly word: (body: unknown) => Promise<ActionResult[]>
    /** Further facts of a device that the table does not have. */
    readonly describe?: (device: Device) => object
  } | null
  readonly further?: FurtherRoutes
}

/** What else a running agent can be asked: by path, GET without and POST with a body. */
export type FurtherRoutes = Readonly<Record<string, (body: unknown) => Promise<unknown>>>

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
  let told: ControlAnswers | null = null
  const path = socketIn(folder)
  const begin = async () => {
    const server = await controlServer(() => told)
    const giveUpName = await listenAlone(server, folder)
    if (giveUpName === null) {
      throw new ControlError(
        'control.taken',
        `${folder}: another agent uses this folder; give each its own --state`,
      )
    }
    return { server, giveUpName, found: await lstat(path).catch(() => null) }
  }
  const end = async (server: Server): Promise<void> => {
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
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
    await end(before)
    return true
  }
  return {
    serve(answers) {
      told = answers
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
      if (await isOwn()) await own.giveUpName().catch(() => undefined)
      await end(own.server)
    },
  }
}

async function controlServer(told: () => ControlAnswers | null): Promise<Server> {
  const { createServer } = await import('node:http')
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
      answerOf(told(), message).then(
        ([status, value]) => answer(status, value),
        (error: unknown) =>
          answer(statusOf(error), { error: error instanceof Error ? error.message : String(error) }),
      )
    },
  )
  server.maxConnections = MAXIMUM_CONNECTIONS
  server.setTimeout(PATIENCE_MILLIS)
  return server
}

async function answerOf(told: ControlAnswers | null, message: IncomingMessage): Promise<[number, unknown]> {
  const { url = '/', method } = message
  if (told === null) return [503, { error: ABOUT_TO }]
  const further = told.further ?? {}
  if (Object.hasOwn(further, url)) {
    if (method !== 'POST') return [200, await further[url](null)]
    const body = await readBody(message)
    message.socket.setTimeout(WORK_MILLIS)
    return [200, await further[url](body)]
  }
  const { devices } = told
  if (url !== '/devices' || devices === null) return [404, { error: 'unknown request' }]
  if (method === 'GET') {
    const { table, describe = () => ({}) } = devices
    return [200, { devices: [...table.all()].map((device) => ({ ...toldOf(device), ...describe(device) })) }]
  }
  if (method !== 'POST') return [405, { error: 'GET or POST' }]
  return [200, { results: await devices.word(await readBody(message)) }]
}

/** How a request that failed is answered: 400 for a wrong one, 507 where the disk is full, else 500. */
export function statusOf(error: unknown): number {
  if (error instanceof ControlError || error instanceof ArgumentError) return 400
  const { code = '' } = error instanceof OddFlowError ? error : {}
  return code === 'file.ENOSPC' || code === 'file.EDQUOT' ? 507 : 500
}

/** The devices of a running agent; null where none that keeps devices is at work in the folder. */
export async function askDevices(folder: string): Promise<ToldDevice[] | null> {
  const answer = await ask(folder, 'GET', '/devices').catch(nobody)
  return answer === null ? null : (answer as { devices: ToldDevice[] }).devices
}

/** null where no agent that keeps devices is at work in the folder. */
export async function askToAct(
  folder: string,
  action: DeviceAction,
  devices: readonly string[],
  text = '',
): Promise<ActionResult[] | null> {
  const answer = await ask(folder, 'POST', '/devices', { action, devices, text }).catch(nobody)
  return answer === null ? null : (answer as { results: ActionResult[] }).results
}

/** The answer to one of the further routes; null where no agent that has it is at work in the folder. */
export async function askFurther(folder: string, path: string, body?: unknown): Promise<unknown> {
  return ask(folder, body === undefined ? 'GET' : 'POST', path, body).catch(nobody)
}

/** Whether an agent is at work in the folder, or about to be. */
export async function isAtWork(folder: string): Promise<boolean> {
  try {
    if (await isLink(socketIn(folder))) return false
    await askOnce(folder, 'GET', '/').catch(isThere)
    return true
  } catch (error) {
    return error instanceof ControlError && error.code === 'control.busy'
  }
}

/** No socket, a socket without a listener, or an agent that does not know the request. */
function nobody(error: unknown): null {
  if (nobodyAt(error) || (error instanceof ControlError && error.code === 'control.nothing')) return null
  throw error
}

/** Who is about to begin or to end is asked again for a moment. What is to be done is said once, to who has answered before. */
async function ask(folder: string, method: string, path: string, body?: unknown): Promise<unknown> {
  if (await isLink(socketIn(folder))) throw Object.assign(new Error('is a link'), { code: 'ENOENT' })
  for (let attempt = 1; ; attempt++) {
    try {
      if (body === undefined) return await askOnce(folder, method, path)
      await askOnce(folder, 'GET', '/').catch(isThere)
      break
    } catch (error) {
      const isBusy = error instanceof ControlError && error.code === 'control.busy'
      if (!isBusy || attempt === BUSY_ATTEMPTS) throw error
      await pause(BUSY_PAUSE_MILLIS)
    }
  }
  return askOnce(folder, method, path, body, WORK_MILLIS)
}

/** A path that no agent serves: an answer shows that an agent runs. */
function isThere(error: unknown): void {
  if (!(error instanceof ControlError && error.code === 'control.nothing')) throw error
}

async function askOnce(
  folder: string,
  method: string,
  path: string,
  body?: unknown,
  patienceMillis = PATIENCE_MILLIS,
): Promise<unknown> {
  const { request } = await import('node:http')
  return new Promise((resolve, reject) => {
    const outgoing = request(
      // a connection of its own: one that is kept may be to an agent that has ended
      { agent: false, socketPath: socketIn(folder), method, path, timeout: patienceMillis },
      (response) => {
        readBody(response).then((value) => {
          if (response.statusCode === 200) resolve(value)
          else {
            const { statusCode } = response
            const code =
              statusCode === 404 ? 'control.nothing' : statusCode === 503 ? 'control.busy' : 'control.refused'
            reject(new ControlError(code, String((value as { error?: unknown }).error)))
          }
        }, fail)
      },
    )
    const fail = (error: unknown): void => {
      const isEnd = hasCode(error, 'ECONNRESET') || hasCode(error, 'EPIPE')
      if (!isEnd) reject(error)
      else if (method === 'GET') reject(new ControlError('control.busy', ABOUT_TO))
      else
        reject(
          new ControlError(
            'control.lost',
            `${folder}: the agent ended before it answered; check what it did, then try again`,
          ),
        )
    }
    outgoing.on('timeout', () =>
      outgoing.destroy(new ControlError('control.silent', `${folder}: the agent does not answer`)),
    )
    outgoing.on('error', fail)
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

/** @returns what gives the name up again, before the server is closed; null where the folder is another's. Rejects with FileError. */
async function listenAlone(server: Server, folder: string): Promise<(() => Promise<void>) | null> {
  const name = `c-${randomBytes(4).toString('hex')}`
  const own = join(folder, name)
  const path = socketIn(folder)
  await listen(server, own)
  try {
    // the rights are there before anybody can know the name
    await chmod(own, 0o600)
    const dead = await waitUntilAlone(folder, name)
    if (dead === null) {
      await close(server)
      return null
    }
    await rename(own, path).catch(async (error: unknown) => {
      if (!hasCode(error, 'EISDIR')) throw error
      await rename(path, asideOf(path))
      await rename(own, path)
    })
    for (const each of dead) await remove(join(folder, each))
  } catch (error) {
    await close(server)
    throw fileError('write', path, error)
  }
  return () => remove(path)
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

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(fileError('write', path, error))
    server.once('error', onError)
    server.listen(path, () => {
      server.removeListener('error', onError)
      resolve()
    })
  })
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

async function remove(path: string): Promise<void> {
  try {
    await unlink(path)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw fileError('write', path, error)
  }
}

/** Whether a process listens, even if it does not answer. */
async function isListening(path: string): Promise<boolean> {
  if (await isLink(path)) return false
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', (error) => resolve(!nobodyAt(error)))
  })
}

/** Error codes of a connection without a listener or without a socket. */
function nobodyAt(error: unknown): boolean {
  return hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED') || hasCode(error, 'ENOTSOCK')
}
