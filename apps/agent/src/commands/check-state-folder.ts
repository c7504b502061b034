/** A state folder that a command is given must be there: one that is misspelt is not one without devices and models. */
import { fileError } from '@oddflow/program'
import { nodeFileSystem } from '../files/file-system.js'

/** Rejects with FileError. */
export async function checkStateFolder(folder: string): Promise<void> {
  try {
    await nodeFileSystem.list(folder)
  } catch (error) {
    throw fileError('read', folder, error)
  }
}
