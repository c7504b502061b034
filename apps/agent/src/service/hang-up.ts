/**
 * SIGHUP, by which a service manager or log rotation asks for files to be opened anew. It ends a program that has no handler for
 * it, so one is there before anything else is loaded (main.ts imports this first), where the command is one that stays. What
 * comes before somebody listens is remembered, as one.
 */
export interface HangUps {
  /** Calls `listener` at each from now on, and at once where there has been one. */
  listen(listener: () => void): void
}

interface Signals {
  on(signal: 'SIGHUP', listener: () => void): unknown
}

/** @param argv - as process.argv has it. */
export function catchHangUps(argv: readonly string[], signals: Signals): HangUps {
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

export const hangUps = catchHangUps(process.argv, process)
