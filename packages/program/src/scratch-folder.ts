/**
 * A folder of the program's own among the system's temporary ones, which is gone when the program is.
 *
 * SIGKILL and a power cut leave it. So its name says whose it is, `PREFIX-SPACE-PROCESS-RANDOM`, where SPACE stands for
 * this machine and the space of its process numbers (a container has its own), and the next program that opens one
 * removes those of this user whose process is no more. What cannot be told or removed stays.
 */
import { createHash } from 'node:crypto'
import { lstatSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEnd } from './at-end.js'
import { isRunning } from './is-running.js'

export interface ScratchFolder {
  readonly path: string
  /** With all that is in it. */
  remove(): void
}

/** `prefix` says whose it is. */
export function openScratchFolder(prefix: string): ScratchFolder {
  const folder = tmpdir()
  const space = spaceName()
  removeStale(folder, space)
  const path = mkdtempSync(join(folder, `${prefix}-${space}-${process.pid}-`))
  return { path, remove: atEnd(() => rmSync(path, { recursive: true, force: true })) }
}

function spaceName(): string {
  let space = ''
  try {
    space = readlinkSync('/proc/self/ns/pid')
  } catch {
    // no Linux, or none of it shown
  }
  return createHash('sha256').update(`${hostname()}\0${space}`).digest('hex').slice(0, 12)
}

function removeStale(folder: string, space: string): void {
  const own = new RegExp(`^[a-z-]+-${space}-(\\d{1,10})-[A-Za-z0-9]{6}$`)
  try {
    for (const name of readdirSync(folder)) {
      const found = own.exec(name)
      if (found !== null && !isRunning(Number(found[1]))) removeOwn(join(folder, name))
    }
  } catch {
    // a folder may take new ones and not show them
  }
}

function removeOwn(path: string): void {
  try {
    const stat = lstatSync(path)
    if (stat.isDirectory() && stat.uid === (process.getuid?.() ?? stat.uid)) rmSync(path, { recursive: true })
  } catch {
    // another program was faster, or it is not ours to remove
  }
}
