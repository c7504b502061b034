/** Where the control socket of a state folder is, and whether a name of that length will do. */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'

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
