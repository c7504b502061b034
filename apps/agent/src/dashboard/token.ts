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
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'

export interface DashboardToken {
  /** 43 characters of base64url. */
  readonly token: string
  readonly file: string
  readonly isNew: boolean
}

const TOKEN_BYTES = 32
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** Where the file holds something else, a new one is made. Rejects with the error of the file system. */
export async function openToken(files: FileSystem, folder: string, log: Log): Promise<DashboardToken> {
  const file = join(folder, 'dashboard-token.json')
  const kept = await readStateOrSetAside(files, file, decodeToken, log)
  if (kept !== null) return { token: kept, file, isNew: false }
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  await files.makeFolder(folder)
  await writeState(files, file, { token })
  return { token, file, isNew: true }
}

function decodeToken(value: unknown): string {
  const token = (value as { token?: unknown } | null)?.token
  if (typeof token === 'string' && TOKEN.test(token)) return token
  throw new FormatError('dashboard', 'expected a token')
}
