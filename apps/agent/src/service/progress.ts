/**
 * Progress: whether work that was begun has come to its end. Waiting for a packet is no work: a network may be
 * silent. A batch that waits for a disk that neither writes nor fails is work that does not end.
 */
export interface Progress {
  /** Runs a piece of work, and knows of it until it has ended. */
  during<T>(work: () => Promise<T>): Promise<T>
  /** Whether a piece of work has been going on for longer. */
  isStuck(patienceMillis: number): boolean
}

export function createProgress(monotonicMillis: () => number): Progress {
  let beganMillis: number | null = null
  return {
    async during(work) {
      beganMillis = monotonicMillis()
      try {
        return await work()
      } finally {
        beganMillis = null
      }
    },
    isStuck: (patienceMillis) => beganMillis !== null && monotonicMillis() - beganMillis > patienceMillis,
  }
}
