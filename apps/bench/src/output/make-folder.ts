/**
 * A folder with all that leads to it. Each part is made on its own: what Node makes of `recursive` says "no such file
 * or folder" of a file system that takes nothing new.
 */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileError } from '@oddflow/program'

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
