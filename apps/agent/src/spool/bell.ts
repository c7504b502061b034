/** Waiting for a change: a bell that wakes everyone who waits, and remembers a ring that nobody heard. */
export class Bell {
  #rings = 0
  #waiting = new Set<() => void>()

  get rings(): number {
    return this.#rings
  }

  ring(): void {
    this.#rings++
    const woken = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of woken) wake()
  }

  /** Resolves at the first ring after number `since`, at once if it has been; or when the signal is aborted. */
  wait(since: number, signal?: AbortSignal): Promise<void> {
    if (this.#rings > since || signal?.aborted === true) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal?.addEventListener('abort', wake)
    })
  }
}
