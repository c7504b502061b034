/** One bar for a whole run, which says what was done last. */
import { createProgress as createBar } from '@oddflow/program/progress'

export interface Progress {
  start(total: number): void
  update(done: number, name: string): void
  stop(): void
}

export function createProgress(): Progress {
  const bar = createBar()
  return {
    start: (total) => bar.stage('', total),
    update: (done, name) => bar.update(done, name),
    stop: () => bar.stop(),
  }
}
