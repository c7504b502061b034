/** A log that keeps what is said. */
import type { Log } from '../../src/log.js'

export function keepingLog(): Log & { readonly lines: string[] } {
  const lines: string[] = []
  const say = (line: string): void => {
    lines.push(line)
  }
  return { lines, info: say, warn: say, error: say }
}
