/**
 * One install or build at a time in a checkout, across processes.
 *
 * The lock is a file made with O_EXCL that names its holder; the holder touches it every two seconds. It
 * is stale when the holder's process is gone (same host) or when it has not been touched for a minute
 * (another host, or a process id used again). A stale lock is removed only under a second such file, so
 * that of two processes that see it stale one alone removes it, and never a fresh one. It lives in
 * .turbo/ and not in node_modules/, which an install may remove as a whole.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { note } from './command.mjs'
import { root } from './layout.mjs'

const BEAT_MILLIS = 2_000
const STALE_MILLIS = 60_000
const POLL_MILLIS = 50

function tryCreate(path) {
  try {
    const file = openSync(path, 'wx')
    writeSync(file, JSON.stringify({ pid: process.pid, host: hostname() }))
    closeSync(file)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function isStale(path) {
  try {
    const untouchedMillis = Date.now() - statSync(path).mtimeMs
    if (untouchedMillis > STALE_MILLIS) return true
    const text = readFileSync(path, 'utf8')
    if (text === '') return untouchedMillis > BEAT_MILLIS // made, and its maker died before it wrote
    const { pid, host } = JSON.parse(text)
    return host === hostname() && !isAlive(pid)
  } catch (error) {
    if (error.code === 'ENOENT') return false // released meanwhile
    return error instanceof SyntaxError
  }
}

function removeIfStale(path) {
  const takeover = `${path}.takeover`
  if (!tryCreate(takeover)) {
    if (isStale(takeover)) rmSync(takeover, { force: true })
    return
  }
  try {
    if (isStale(path)) rmSync(path, { force: true })
  } finally {
    rmSync(takeover, { force: true })
  }
}

/** Runs `work` while holding the checkout's lock; waits for as long as another process holds it. */
export async function withLock(work, path = join(root, '.turbo', 'oddflow.lock')) {
  mkdirSync(dirname(path), { recursive: true })
  while (!tryCreate(path)) {
    note('waiting for another build of this checkout …')
    if (isStale(path)) removeIfStale(path)
    else await sleep(POLL_MILLIS)
  }
  note('')
  const release = () => rmSync(path, { force: true })
  const beat = setInterval(() => {
    const now = new Date()
    utimesSync(path, now, now)
  }, BEAT_MILLIS)
  process.on('exit', release)
  try {
    return await work()
  } finally {
    clearInterval(beat)
    process.off('exit', release)
    release()
  }
}
