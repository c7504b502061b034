/**
 * How one process alone comes to listen at a folder's socket, however many begin at once and whatever a killed one left.
 *
 * No call of the system removes a name only if its socket is dead, so one that clears away a dead one's name may hit
 * that of another which has just begun. Therefore an agent takes the name only when it is alone. Each listens at a name
 * of its own (`c-` and a number drawn), and only then looks at all the others: of two, the one that looks later
 * sees the other. Whoever sees the holder (`control.sock`), or a candidate whose name sorts before its own, gives up; one that sees
 * later names waits for them to do so. The one left moves its name to `control.sock`, over a dead one's, and
 * removes what dead candidates have left; one that was not listening yet will find the holder.
 *
 * Somebody listens where a connection is taken, be the process busy or stopped.
 */
import { randomBytes } from 'node:crypto'
import { chmod, lstat, readdir, rename, unlink } from 'node:fs/promises'
import { connect, type Server } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileError } from '@oddflow/program'
import { hasCode } from '../files/file-system.js'
import { asideOf } from '../files/state-file.js'

/** Where the control socket of a state folder is, and whether a name of that length will do. */

/** What Linux and macOS have room for in the name of a socket. */
const MAXIMUM_PATH_BYTES = 103

export function socketIn(folder: string): string {
  return join(folder, 'control.sock')
}

/** A link in its place is somebody else's: it is not followed to another agent. */
export async function isLink(path: string): Promise<boolean> {
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
/** A candidate that was stopped in the midst is waited for so long, and no longer. */
const PATIENCE_MILLIS = 3000

/** @returns what gives the name up again, before the server is closed; null where the folder is another's. Rejects with FileError. */
export async function listenAlone(server: Server, folder: string): Promise<(() => Promise<void>) | null> {
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
  for (let waited = 0; waited < PATIENCE_MILLIS; waited += LOOK_AGAIN_MILLIS) {
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

/** Whether somebody is at the other end, who need not answer. */
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
export function nobodyAt(error: unknown): boolean {
  return hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED') || hasCode(error, 'ENOTSOCK')
}
