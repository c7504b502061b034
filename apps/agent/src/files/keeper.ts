/**
 * Keeper: writes something to the state folder now and then and at the end, one write after another. A failure is logged once, and
 * once more when it is over.
 */
import type { Log } from '../log.js'

interface KeeperOptions {
  /** "incidents are". */
  readonly what: string
  readonly ticksBetween: number
  /** Another number after each change. */
  readonly changes: () => number
  /** What it was for what an earlier run has kept. */
  readonly savedChanges: number
  /** Rejects with an error that names the file. */
  readonly write: () => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn'>
}

export type Keeper = ReturnType<typeof createKeeper>

export function createKeeper(options: KeeperOptions) {
  const { what, ticksBetween, changes, write, log } = options
  let { savedChanges } = options
  let ticks = 0
  let isTroubled = false
  let saving: Promise<void> = Promise.resolve()
  const writeChanges = async (): Promise<void> => {
    const now = changes()
    if (now === savedChanges) return
    try {
      await write()
      savedChanges = now
      if (isTroubled) log.info(`${what} saved again`)
      isTroubled = false
    } catch (error) {
      if (!isTroubled) log.warn(`${(error as Error).message}; ${what} not saved; retrying`)
      isTroubled = true
    }
  }
  /** Keeps what changed, as far as that can be written. Never rejects. */
  const save = (): Promise<void> => {
    ticks = 0
    saving = saving.then(writeChanges)
    return saving
  }
  return {
    /** To be called every second or so. @param isDue - what changed is to be kept at once */
    tick(isDue = false): void {
      ticks++
      if (isDue || ticks >= ticksBetween) void save()
    },
    save,
    /** Whether the last write failed. */
    get isTroubled() {
      return isTroubled
    },
  }
}
