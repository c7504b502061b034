/** Messages on standard error, results on standard output. Control characters are shown, not sent. */
import { createMessages, printable } from '@oddflow/program'
import { createProgress as createBar } from '@oddflow/program/progress'

/** One bar for a whole run, with the name of the last item. */
interface Progress {
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

export const { complain, note } = createMessages('oddflow-bench')

export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`)
}

/** Lines of text. */
export function printText(text: string): void {
  for (const line of text.trimEnd().split('\n')) print(line)
}
