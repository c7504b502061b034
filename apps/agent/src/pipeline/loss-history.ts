/**
 * LossHistory: how many packets were lost since a time, so that an alert can say what its flow may miss.
 *
 * A checkpoint is the packets' time at which the count of losses was seen to have grown. As the kernel's count is
 * asked for now and then, a loss may have been earlier than its checkpoint, and never later: what is told of a
 * window is what was learnt of since it began. The last CHECKPOINTS are kept; those before are added to the oldest,
 * so that a window that begins before it is told of too many rather than too few.
 */
const CHECKPOINTS = 256

export interface LossHistory {
  /** Losses up to now, as of the packets' time. */
  note(atMicros: number, lostPackets: number): void
  /** Packets lost from a time to now. */
  since(startMicros: number): number
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
}

export function createLossHistory(): LossHistory {
  const checkpoints: { atMicros: number; before: number }[] = []
  let total = 0
  return {
    note(atMicros, lostPackets) {
      if (lostPackets <= total) return
      checkpoints.push({ atMicros, before: total })
      if (checkpoints.length > CHECKPOINTS) {
        const [oldest] = checkpoints.splice(0, 1)
        checkpoints[0].before = oldest.before
      }
      total = lostPackets
    },
    since(startMicros) {
      const first = checkpoints.find(({ atMicros }) => atMicros >= startMicros)
      return first === undefined ? 0 : total - first.before
    },
    clockSet(byMicros) {
      for (const checkpoint of checkpoints) checkpoint.atMicros += byMicros
    },
  }
}
