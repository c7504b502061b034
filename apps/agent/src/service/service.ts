import { execFile } from 'node:child_process'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'

/**
 * Notifies systemd that the agent is ready, reloads, stops, and is alive (sd_notify(3)), by the program systemd-notify: Node has no
 * function for datagram sockets. The watchdog is fed only as long as `isStuck` says no.
 */

export type ServiceNotifier = NonNullable<ReturnType<typeof serviceNotifier>>

const PATIENCE_MILLIS = 5000

/** null where no service manager wants to be told. */
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
    /** The settings are read again; `ready` follows. */
    reloading: () =>
      tell('RELOADING=1', `MONOTONIC_USEC=${Math.round(Number(process.hrtime.bigint() / 1000n))}`),
    stopping: () => tell('STOPPING=1', 'STATUS=flushing open flows'),
    /** Feeds the watchdog, where there is one, unless the pipeline is stuck. Returns what ends it. */
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
    /** Resolves when all that was to be told has been. */
    told: (): Promise<void> => telling,
  }
}

/**
 * Whether started work has ended. Waiting for a packet is no work: a network may be silent. A batch that waits for a disk that
 * neither writes nor fails is work that does not end.
 */
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
 * SIGHUP asks for files to be opened again. It ends a program without a handler, so one is there before anything else is loaded (main.ts
 * imports this first), where the command is `run`. A signal that comes before `listen` is remembered.
 */
interface HangUps {
  /** Calls `listener` at each from now on, and at once where there has been one. */
  listen(listener: () => void): void
}

interface Signals {
  on(signal: 'SIGHUP', listener: () => void): unknown
}

/** @param argv - as process.argv has it. */
export function catchSighups(argv: readonly string[], signals: Signals): HangUps {
  let listener: (() => void) | null = null
  let isRemembered = false
  // at a terminal that goes away the other commands end, as every program does
  if (argv[2] === 'run') {
    signals.on('SIGHUP', () => {
      if (listener === null) isRemembered = true
      else listener()
    })
  }
  return {
    listen(next) {
      listener = next
      if (isRemembered) next()
      isRemembered = false
    },
  }
}

export const sighups = catchSighups(process.argv, process)
