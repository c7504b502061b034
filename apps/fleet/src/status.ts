/** How far an archive is. */
import { type Archive, DONE, FAILED, type Failed, JOBS, readFailed } from './archive.js'

export interface Status {
  readonly waiting: number
  readonly inProgress: number
  readonly done: number
  readonly failed: number
  /** Captures a second between the first and the last outcome; null with fewer than two. */
  readonly capturesPerSecond: number | null
}

export async function readStatus({ manager }: Archive): Promise<Status> {
  const [done, failed, queue] = await Promise.all([
    manager.streams.info(DONE),
    manager.streams.info(FAILED),
    manager.consumers.info(JOBS, 'workers'),
  ])
  const { messages, first_ts, last_ts } = done.state
  const seconds = (Date.parse(String(last_ts)) - Date.parse(String(first_ts))) / 1000
  return {
    // not the messages of the stream: a killed server may keep some whose acknowledgment it has
    waiting: queue.num_pending,
    inProgress: queue.num_ack_pending,
    done: messages,
    failed: failed.state.messages,
    capturesPerSecond: messages > 1 && seconds > 0 ? (messages - 1) / seconds : null,
  }
}

/** The captures set aside last, at most `count`. */
export async function lastFailed({ manager }: Archive, count: number): Promise<Failed[]> {
  const { first_seq, last_seq } = (await manager.streams.info(FAILED)).state
  const found: Failed[] = []
  for (let seq = last_seq; seq >= first_seq && seq > 0 && found.length < count; seq--) {
    try {
      const message = await manager.streams.getMessage(FAILED, { seq })
      if (message !== null) found.push(readFailed(message.data))
    } catch {
      // a number whose message was replaced, or one that this version does not read
    }
  }
  return found
}
