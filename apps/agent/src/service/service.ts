import { execFile } from 'node:child_process'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'

export type ServiceNotifier = NonNullable<ReturnType<typeof serviceNotifier>>

const PATIENCE_MILLIS = 5000

/**
 * Notifies systemd that the agent is ready, reloads, stops, and is alive (sd_notify(3)), by the program systemd-notify, because Node has
 * no Unix datagram sockets. null without a service manager.
 */
export function serviceNotifier(
  environment: Readonly<Record<string, string | undefined>>,
  pid: number,
  clock: Clock,
  log: Log,
) {
  if (!environment.NOTIFY_SOCKET) return null
  const watchdogMillis = Number(environment.WATCHDOG_USEC ?? 0) / 1000
  const isWatched =
    watchdogMillis > 0 && (environment.WATCHDOG_PID === undefined || Number(environment.WATCHDOG_PID) === pid)
  let telling: Promise<void> = Promise.resolve()
  let isTroubled = false

  const tell = (...words: string[]): void => {
    telling = telling.then(
      () =>
        new Promise((resolve) => {
          execFile('systemd-notify', words, { timeout: PATIENCE_MILLIS }, (error) => {
            if (error !== null && !isTroubled) log.warn(`systemd-notify: ${error.message.split('\n', 1)[0]}`)
            isTroubled = error !== null
            resolve()
          })
        }),
    )
  }
  return {
    ready: () => tell('READY=1', 'STATUS=watching'),
    /** Before the settings are read again; `ready` follows. */
    reloading: () =>
      tell('RELOADING=1', `MONOTONIC_USEC=${Math.round(Number(process.hrtime.bigint() / 1000n))}`),
    stopping: () => tell('STOPPING=1', 'STATUS=flushing open flows'),
    /** Feeds the watchdog, if there is one, unless the pipeline is stuck. Returns a function that stops it. */
    feed(isStuck: (patienceMillis: number) => boolean): () => void {
      if (!isWatched) return () => undefined
      let wasStuck = false
      return clock.every(watchdogMillis / 4, () => {
        const stuck = isStuck(watchdogMillis / 2)
        if (stuck && !wasStuck) log.error('no progress for too long; the watchdog of systemd is not notified')
        wasStuck = stuck
        if (!stuck) tell('WATCHDOG=1')
      })
    },
    /** Resolves when all notifications are sent. */
    told: (): Promise<void> => telling,
  }
}

/** Whether work takes too long, such as a batch that waits for a hanging disk. Waiting for packets is no work. */
export function createProgress(monotonicMillis: () => number) {
  let beganMillis: number | null = null
  return {
    async during<T>(work: () => Promise<T>): Promise<T> {
      beganMillis = monotonicMillis()
      try {
        return await work()
      } finally {
        beganMillis = null
      }
    },
    isStuck: (patienceMillis: number): boolean =>
      beganMillis !== null && monotonicMillis() - beganMillis > patienceMillis,
  }
}

/**
 * SIGHUP asks the agent to reopen files. It ends a process without a handler, so main.ts imports this first, and the command `run` has a
 * handler before anything else is loaded. A signal before `listen` is remembered.
 */
export function catchSighups(
  argv: readonly string[],
  signals: { on(signal: 'SIGHUP', listener: () => void): unknown },
) {
  let listener: (() => void) | null = null
  let isRemembered = false
  // the other commands end with their terminal
  if (argv[2] === 'run') {
    signals.on('SIGHUP', () => {
      if (listener === null) isRemembered = true
      else listener()
    })
  }
  return {
    /** Calls `next` at each signal from now on, and at once for a remembered one. */
    listen(next: () => void): void {
      listener = next
      if (isRemembered) next()
      isRemembered = false
    },
  }
}

export const sighups = catchSighups(process.argv, process)
