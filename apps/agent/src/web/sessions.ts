/** The dashboard's sessions and the token by which a browser signs in. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import { array, finite, number, object, optional, pipe, regex, safeParse, string } from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'

/** A session that was signed out before its end. */
export interface EndedSession {
  readonly id: string
  readonly endsSeconds: number
}

export type Sessions = ReturnType<typeof createSessions>

export const SESSION_SECONDS = 7 * 86_400
export const CODE_SECONDS = 300
/** Only who may open the state folder can add one. The first to end go first. */
const MAXIMUM_CODES = 16
/** Only who is signed in can add one. The first to end go first. */
const MAXIMUM_ENDED = 1000
const COOKIE = /^(\d{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

/**
 * A browser that has shown the token gets a cookie: the time at which it ends, a random id, and a keyed hash (HMAC-SHA-256) of
 * both under the token. So a restart signs out no session, and a new token all of them. Comparisons take the same time
 * whatever is wrong. Wrong tokens lock no client out: of 256 random bits none is guessed, and a lock would serve an attacker.
 *
 * @param known - sessions that were signed out in earlier runs.
 * @param write - stores the sessions that were signed out.
 */
export function createSessions(
  token: string,
  clock: Clock,
  known: readonly EndedSession[],
  write: (ended: readonly EndedSession[]) => Promise<void>,
) {
  const mark = (text: string): Buffer => createHmac('sha256', token).update(text).digest()
  const isSame = (a: string, b: string): boolean => timingSafeEqual(mark(a), mark(b))
  let ended = [...known]
  /** When each code ends, by its mark. */
  const codes = new Map<string, number>()
  const newSession = (): string => {
    const ends = Math.floor(clock.wallMicros() / 1e6) + SESSION_SECONDS
    const id = randomBytes(16).toString('base64url')
    return `${ends}.${id}.${mark(`session ${ends} ${id}`).toString('base64url')}`
  }

  const sessionOf = (cookie: string): EndedSession | null => {
    const match = COOKIE.exec(cookie)
    if (match === null) return null
    const [, ends, id, shown] = match
    const isMarked = isSame(shown, mark(`session ${ends} ${id}`).toString('base64url'))
    return isMarked && Number(ends) * 1e6 > clock.wallMicros() ? { id, endsSeconds: Number(ends) } : null
  }
  const isEnded = (id: string): boolean => ended.some((each) => each.id === id)
  return {
    /** The value of a cookie for who shows the token; null where it is another. */
    signIn(shown: string): string | null {
      return isSame(shown, token) ? newSession() : null
    },
    /** A code for a link: its first use within CODE_SECONDS signs in. */
    makeCode(): string {
      const code = randomBytes(16).toString('base64url')
      codes.set(mark(`code ${code}`).toString('base64url'), clock.monotonicMillis() + 1000 * CODE_SECONDS)
      for (const [oldest] of codes) if (codes.size > MAXIMUM_CODES) codes.delete(oldest)
      return code
    },
    /** The value of a cookie for a code, which is worth nothing afterwards; null where there is no such code. */
    redeem(code: string): string | null {
      const key = mark(`code ${code}`).toString('base64url')
      const endsMillis = codes.get(key) ?? 0
      codes.delete(key)
      return endsMillis > clock.monotonicMillis() ? newSession() : null
    },
    isSignedIn(cookie: string): boolean {
      const session = sessionOf(cookie)
      return session !== null && !isEnded(session.id)
    },
    /** From now on the cookie is worth nothing. Resolves when that is kept. */
    async signOut(cookie: string): Promise<void> {
      const session = sessionOf(cookie)
      if (session === null || isEnded(session.id)) return
      ended = [...ended, session]
        .filter(({ endsSeconds }) => endsSeconds * 1e6 > clock.wallMicros())
        .sort((a, b) => a.endsSeconds - b.endsSeconds)
        .slice(-MAXIMUM_ENDED)
      await write(ended)
    },
  }
}

export interface DashboardToken {
  readonly token: string
  readonly ended: readonly EndedSession[]
}

const TOKEN_BYTES = 32
const TokenSchema = object({
  token: pipe(string(), regex(/^[A-Za-z0-9_-]{43}$/)),
  ended: optional(array(object({ id: string(), endsSeconds: pipe(number(), finite()) })), []),
})

/**
 * The token of the state folder, which only the agent's user may read, or a new one at the first start. Removing the file
 * signs out all sessions. Where the file holds something else, a new one is made. Rejects with the error of the file system.
 */
export async function openToken(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<DashboardToken> {
  const kept = await readStateOrSetAside(files, fileIn(folder), decodeToken, log)
  if (kept !== null) return kept
  const token = { token: randomBytes(TOKEN_BYTES).toString('base64url'), ended: [] }
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
