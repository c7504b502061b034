/**
 * ReaderPlace: how far one output has got, and what it lost, whichever log it reads.
 *
 * A batch that has been read stays in hand until it is committed, whatever the log does meanwhile: an alert is
 * either delivered or counted as dropped, never both. `committed` is what a restart begins from; `next` is what
 * is read next, the batch in hand being before it.
 */
import type { AlertBatch } from './alert-log.js'

export class ReaderPlace {
  committed: number
  next: number
  dropped: number
  hand: AlertBatch | null = null

  constructor(next: number, dropped = 0) {
    this.committed = next
    this.next = next
    this.dropped = dropped
  }

  /** The log holds nothing before `first` any more. */
  forget(first: number): void {
    if (this.next >= first) return
    this.dropped += first - this.next
    this.next = first
    if (this.hand === null) this.committed = first
  }

  take(batch: AlertBatch): AlertBatch {
    if (batch.lines.length > 0) {
      this.hand = batch
      this.next = batch.first + batch.lines.length
    }
    return batch
  }

  commit(next: number): void {
    const { hand } = this
    if (hand === null || next <= hand.first) return
    const done = Math.min(next - hand.first, hand.lines.length)
    if (done === hand.lines.length) {
      this.hand = null
      this.committed = this.next
    } else {
      this.hand = { first: hand.first + done, lines: hand.lines.slice(done) }
      this.committed = hand.first + done
    }
  }

  /** @param end the sequence number behind the log's last alert. */
  backlog(end: number): number {
    return end - this.next + (this.hand?.lines.length ?? 0)
  }
}
