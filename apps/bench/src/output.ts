/** Text for people, on standard error; data, on standard output. Control characters are shown, not sent. */

import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { createMessages, fileError, printable, writeFileWhole as writeWhole } from '@oddflow/program'
import { createProgress as createBar } from '@oddflow/program/progress'
import { inFile } from './errors.js'

/**
 * A folder with all that leads to it. Each part is made on its own: what Node makes of `recursive` says "no such file
 * or folder" of a file system that takes nothing new.
 */

/** Throws FileError that names the part that could not be made. */
export function makeFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) return
  const parent = dirname(path)
  if (found === undefined && parent !== path) makeFolder(parent)
  try {
    mkdirSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // another run was faster
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw fileError(
      'write',
      path,
      code === 'EEXIST' ? Object.assign(new Error(), { code: 'ENOTDIR' }) : error,
    )
  }
}

/** Files that are whole or not there, in folders that are made where there are none. */

/** Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  inFile(path, () => makeFolder(dirname(path)), 'write')
  writeWhole(path, content)
}

/** One bar for a whole run, which says what was done last. */

interface Progress {
  start(total: number): void
  update(done: number, name: string): void
  stop(): void
}

export function createProgress(): Progress {
  const bar = createBar()
  return {
    start: (total) => bar.stage('', total),
    update: (done, name) => bar.update(done, name),
    stop: () => bar.stop(),
  }
}

export const { complain, note } = createMessages('oddflow-bench')

export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`)
}

/** Lines of text. */
export function printText(text: string): void {
  for (const line of text.trimEnd().split('\n')) print(line)
}
