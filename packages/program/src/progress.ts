/**
 * Progress on long work: one bar on standard error, to a terminal only, so that pipes and logs stay clean.
 */

import { Presets, SingleBar } from 'cli-progress'
import { printable } from './messages.js'

/** A progress bar. */
export interface Progress {
  /** Starts (or restarts) the bar for a named stage; `total` in any unit. */
  stage(name: string, total: number): void
  /** `name` takes the place of the stage's. */
  update(done: number, name?: string): void
  stop(): void
}

/** A progress bar on a terminal; silent elsewhere. */
export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  if (!stream.isTTY) return { stage() {}, update() {}, stop() {} }
  let bar: SingleBar | null = null
  const stop = (): void => {
    bar?.stop()
    bar = null
  }
  return {
    stage(name, total) {
      stop()
      bar = new SingleBar(
        {
          format: '{name} {bar} {percentage}% | {eta_formatted}',
          stream,
          clearOnComplete: true,
          // signals end the program at once (process.ts); so the cursor must not be hidden when they do
          hideCursor: false,
          gracefulExit: false,
        },
        Presets.shades_classic,
      )
      bar.start(Math.max(1, total), 0, { name: printable(name) })
    },
    update(done, name) {
      if (name === undefined) bar?.update(done)
      else bar?.update(done, { name: printable(name) })
    },
    stop,
  }
}
