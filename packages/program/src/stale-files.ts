/**
 * The temporary files that whole-file.ts writes: their names, and what becomes of those that a SIGKILL or a power cut
 * left behind.
 *
 * A name tells whose file it is: `.oddflow-TARGET-PROCESS-RANDOM.tmp`, where TARGET stands for this machine and the
 * target's name. The next write to the target removes files of that name whose last byte is more than an hour old and
 * whose process is no more. Both are asked, since a writer may wait for its input for hours, and since a process of
 * another container is not seen from here. What cannot be told or removed stays; a failure here is none of the write's.
 */
import { createHash, randomBytes } from 'node:crypto'
import { lstatSync, readdirSync, unlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { isRunning } from './is-running.js'

const STALE_AFTER_MILLIS = 3600 * 1000

/** A path beside `target` that no other process takes; short, since the target's name may be as long as names can be. */
export function temporaryName(target: string): string {
  const random = randomBytes(8).toString('hex')
  return join(dirname(target), `${prefixOf(target)}${process.pid}-${random}.tmp`)
}

/** Removes what earlier writes to `target` left. @param nowMillis by the clock of the file system, which may be another's. */
export function removeStaleFiles(target: string, nowMillis: number): void {
  const prefix = prefixOf(target)
  const folder = dirname(target)
  for (const name of namesIn(folder)) {
    const found = name.startsWith(prefix) ? REST.exec(name.slice(prefix.length)) : null
    if (found !== null && !isRunning(Number(found[1]))) {
      removeIfOlder(join(folder, name), nowMillis - STALE_AFTER_MILLIS)
    }
  }
}

/** Process and random part. */
const REST = /^(\d{1,10})-[0-9a-f]{16}\.tmp$/

function prefixOf(target: string): string {
  const tie = createHash('sha256')
    .update(`${hostname()}\0${basename(target)}`)
    .digest('hex')
  return `.oddflow-${tie.slice(0, 16)}-`
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // a folder may take files and not show them
  }
}

function removeIfOlder(path: string, thanMillis: number): void {
  try {
    const stat = lstatSync(path)
    if (stat.isFile() && stat.mtimeMs < thanMillis) unlinkSync(path)
  } catch {
    // another write was faster, or it is not ours to remove
  }
}
