/** Codes of links to the dashboard: each signs in once, within five minutes. */
import { expect, it } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { CODE_SECONDS, createSessions } from '../../src/web/sessions.js'

function sessionsAt() {
  let millis = 0
  const clock = { ...systemClock, monotonicMillis: () => millis }
  const sessions = createSessions('t'.repeat(43), clock, [], async () => undefined)
  return {
    sessions,
    wait(seconds: number) {
      millis += 1000 * seconds
    },
  }
}

it('a code signs in once, and is no token', () => {
  const { sessions } = sessionsAt()
  const code = sessions.makeCode()
  expect(sessions.signIn(code)).toBeNull()
  const cookie = sessions.redeem(code)
  expect(sessions.isSignedIn(cookie ?? '')).toBe(true)
  expect(sessions.redeem(code)).toBeNull()
  expect(sessions.redeem('')).toBeNull()
})

it('a code ends after five minutes', () => {
  const { sessions, wait } = sessionsAt()
  const [early, late] = [sessions.makeCode(), sessions.makeCode()]
  wait(CODE_SECONDS - 1)
  expect(sessions.redeem(early)).not.toBeNull()
  wait(1)
  expect(sessions.redeem(late)).toBeNull()
})

it('of many codes the latest sixteen count', () => {
  const { sessions } = sessionsAt()
  const codes = Array.from({ length: 20 }, () => sessions.makeCode())
  expect(codes.map((code) => sessions.redeem(code) !== null)).toEqual([
    ...Array.from({ length: 4 }, () => false),
    ...Array.from({ length: 16 }, () => true),
  ])
})
