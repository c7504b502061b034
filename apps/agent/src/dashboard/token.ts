/**
 * The dashboard's token: what a browser has to know before it is told anything.
 *
 * 32 random bytes, made at the first start and kept in the state folder, where only the agent's user may read it, with the
 * sessions that were signed out. Whoever takes the file away makes all who have signed in sign in again, by a new token.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import { array, finite, number, object, optional, pipe, regex, safeParse, string } from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { EndedSession } from './sessions.js'

export interface DashboardToken {
  /** 43 characters of base64url. */
  readonly token: string
  /** Sessions that were signed out. */
  readonly ended: readonly EndedSession[]
}

const TOKEN_BYTES = 32
const TokenSchema = object({
  token: pipe(string(), regex(/^[A-Za-z0-9_-]{43}$/)),
  ended: optional(array(object({ id: string(), endsSeconds: pipe(number(), finite()) })), []),
})

/** Where the file holds something else, a new one is made. Rejects with the error of the file system. */
export async function openToken(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<DashboardToken> {
  const kept = await readStateOrSetAside(files, fileIn(folder), decodeToken, log)
  if (kept !== null) return kept
  const token = { token: randomBytes(TOKEN_BYTES).toString('base64url'), ended: [] }
  await files.makeFolder(folder)
  await writeToken(files, folder, token)
  return token
}

export async function writeToken(files: FileSystem, folder: string, token: DashboardToken): Promise<void> {
  await writeState(files, fileIn(folder), token)
}

function fileIn(folder: string): string {
  return join(folder, 'dashboard-token.json')
}

function decodeToken(value: unknown): DashboardToken {
  const parsed = safeParse(TokenSchema, value)
  if (parsed.success) return parsed.output
  throw new FormatError('dashboard', 'expected a token')
}
