/** Text for people, on standard error; data, on standard output. Control characters are shown, not sent. */
import { createMessages, printable } from '@oddflow/program'

export const { complain, note } = createMessages('oddflow-bench')

export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`)
}
