/**
 * The dashboard's token: what a browser has to know before it is told anything.
 *
 * 32 random bytes, made at the first start and kept in the state folder, where only the agent's user may read it.
 * Whoever takes the file away makes all who have signed in sign in anew, by a new token.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import type { FileSystem } from '../files/file-system.js'
import { readState, writeState } from '../files/state-file.js'

export interface DashboardToken {
  /** 43 characters of base64url. */
  readonly token: string
  readonly file: string
  readonly isNew: boolean
}

const TOKEN_BYTES = 32
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** Rejects with FormatError where the file holds something else, or with the error of the file system. */
export async function openToken(files: FileSystem, folder: string): Promise<DashboardToken> {
  const file = join(folder, 'dashboard-token.json')
  const kept = await readState(files, file)
  if (kept !== null) {
    const { token } = kept as { token?: unknown }
    if (typeof token === 'string' && TOKEN.test(token)) return { token, file, isNew: false }
    throw new FormatError('dashboard', `${file}: expected a token; take the file away to have a new one made`)
  }
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  await files.makeFolder(folder)
  await writeState(files, file, { token })
  return { token, file, isNew: true }
}
