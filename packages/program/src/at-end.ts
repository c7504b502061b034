/**
 * What must not outlive the program: folders of its own, children, groups. Each is undone when its work is done, and
 * otherwise when the program ends, also by Ctrl-C, SIGTERM or a closed terminal. SIGKILL leaves them; nothing can help.
 */
import { holdSignals } from './signals.js'

const undone = new Set<() => void>()
let listening = false

/** `undo` runs once: when the function that comes back is called, or when the program ends. It is synchronous. */
export function atEnd(undo: () => void): () => void {
  if (!listening) {
    listening = true
    holdSignals()
    process.once('exit', () => {
      // the youngest first: a child before the folder that it writes to
      for (const each of [...undone].reverse()) each()
    })
  }
  const once = (): void => {
    if (undone.delete(once)) undo()
  }
  undone.add(once)
  return once
}
