/** Whether a file could be written to, found without making or changing it. */
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileError } from '@oddflow/program'
import { hasCode } from './file-system.js'

/** Rejects with FileError where the file is a folder, lies in none, or may not be written to. */
export async function checkFileWritable(path: string): Promise<void> {
  try {
    const found = await stat(path).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return null
      throw error
    })
    if (found?.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    if (found !== null) await access(path, constants.W_OK)
    else await checkFolder(dirname(path))
  } catch (error) {
    throw fileError('write', path, error)
  }
}

export async function isPipe(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFIFO() === true
}

/** Rejects with FileError where the folder, or the nearest above it that is there, may not be written to. */
export async function checkFolderWritable(path: string): Promise<void> {
  try {
    for (let at = path; ; at = dirname(at)) {
      try {
        await checkFolder(at)
        return
      } catch (error) {
        if (!hasCode(error, 'ENOENT') || dirname(at) === at) throw error
      }
    }
  } catch (error) {
    throw fileError('write', path, error)
  }
}

async function checkFolder(path: string): Promise<void> {
  const found = await stat(path)
  if (!found.isDirectory()) throw Object.assign(new Error('is no folder'), { code: 'ENOTDIR' })
  await access(path, constants.W_OK | constants.X_OK)
}
