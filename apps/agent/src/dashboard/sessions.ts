/**
 * Sessions: a browser that has shown the token gets a cookie, and others are refused, the more often the slower.
 *
 * The cookie is the time at which it ends and a keyed hash (HMAC-SHA-256) of that under the token: nothing has to be
 * remembered, a restart signs nobody out, and a new token signs out all. All comparisons take the same time
 * whatever is wrong. Wrong tokens count by address, and beyond ATTEMPTS a minute that address is not listened to;
 * cookies that are right count all the same, so that nobody can lock out who has signed in.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../clock.js'

export interface Sessions {
  /** The value of a cookie for who shows the token; null where it is another. */
  signIn(token: string, address: string): string | null
  isSignedIn(cookie: string): boolean
  /** Whether so many attempts of the address have failed that no more are listened to. */
  isShutOut(address: string): boolean
}

export const SESSION_SECONDS = 7 * 86_400
const ATTEMPTS = 10
const WINDOW_MILLIS = 60_000
/** Addresses that are remembered; when there are more they count together. */
const MAXIMUM_ADDRESSES = 256

export function createSessions(token: string, clock: Clock): Sessions {
  const mark = (text: string): Buffer => createHmac('sha256', token).update(text).digest()
  const isSame = (a: string, b: string): boolean => timingSafeEqual(mark(a), mark(b))
  let failures = new Map<string, number>()
  let windowMillis = Number.NEGATIVE_INFINITY

  const keyOf = (address: string): string =>
    failures.has(address) || failures.size < MAXIMUM_ADDRESSES ? address : 'others'
  const renew = (): void => {
    const now = clock.monotonicMillis()
    if (now - windowMillis < WINDOW_MILLIS) return
    windowMillis = now
    failures = new Map()
  }
  const isShutOut = (address: string): boolean => {
    renew()
    return (failures.get(keyOf(address)) ?? 0) >= ATTEMPTS
  }
  return {
    isShutOut,
    signIn(shown, address) {
      if (isShutOut(address)) return null
      if (!isSame(shown, token)) {
        const key = keyOf(address)
        failures.set(key, (failures.get(key) ?? 0) + 1)
        return null
      }
      const ends = String(Math.floor(clock.wallMicros() / 1e6) + SESSION_SECONDS)
      return `${ends}.${mark(`session ${ends}`).toString('base64url')}`
    },
    isSignedIn(cookie) {
      const match = /^(\d{1,12})\.([A-Za-z0-9_-]{43})$/.exec(cookie)
      if (match === null) return false
      const [, ends, shown] = match
      const isMarked = isSame(shown, mark(`session ${ends}`).toString('base64url'))
      return isMarked && Number(ends) * 1e6 > clock.wallMicros()
    },
  }
}
