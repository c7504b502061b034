/** AlertFeed: the last alerts, as they were encoded for the outputs, bounded in number and in bytes. */
export interface AlertFeed {
  add(line: Uint8Array): void
  /** Alerts from number `from` on, or what there is of them, as a JSON array; `next` is the number to ask for next. */
  since(from: number): { json: string; next: number }
}

const MAXIMUM_ALERTS = 100
const MAXIMUM_BYTES = 524_288

/** @param known - those of an earlier run, the oldest first. */
export function createAlertFeed(known: readonly Uint8Array[] = []): AlertFeed {
  const lines: Uint8Array[] = []
  let first = 0
  let bytes = 0
  const add = (line: Uint8Array): void => {
    lines.push(line)
    bytes += line.length
    while (lines.length > MAXIMUM_ALERTS || (bytes > MAXIMUM_BYTES && lines.length > 1)) {
      bytes -= lines[0].length
      lines.shift()
      first++
    }
  }
  for (const line of known) add(line)
  return {
    add,
    since(from) {
      const next = first + lines.length
      // a page from before a restart has a larger number than there is, and begins anew
      const begin = from > next ? 0 : Math.max(0, from - first)
      const decoder = new TextDecoder()
      return {
        json: `[${lines
          .slice(begin)
          .map((line) => decoder.decode(line))
          .join(',')}]`,
        next,
      }
    },
  }
}
