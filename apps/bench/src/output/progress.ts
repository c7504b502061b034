/** Progress on long work: one bar on standard error, to a terminal only, so that pipes and logs stay clean. */
import { Presets, SingleBar } from 'cli-progress'
import { printable } from './messages.js'

export interface Progress {
  start(total: number): void
  update(done: number, name: string): void
  stop(): void
}

export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  if (!stream.isTTY) return { start() {}, update() {}, stop() {} }
  const bar = new SingleBar(
    {
      format: '{bar} {value} of {total} | {eta_formatted} | {name}',
      stream,
      clearOnComplete: true,
      // a signal ends the program at once, so the cursor must not be hidden then
      hideCursor: false,
      gracefulExit: false,
    },
    Presets.shades_classic,
  )
  return {
    start: (total) => bar.start(Math.max(1, total), 0, { name: '' }),
    update: (done, name) => bar.update(done, { name: printable(name) }),
    stop: () => bar.stop(),
  }
}
