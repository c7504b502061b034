import type { ServerResponse } from 'node:http'
import type { Clock } from '../input/clocks.js'
import type { AgentState } from '../page/api.js'
import type { AlertFeed } from './alerts.js'

interface Stream {
  readonly response: ServerResponse
  readonly isAllowed: () => boolean
  /** The number of the next alert to send. */
  next: number
  isBehind: boolean
}

const MAXIMUM_STREAMS = 8
const UPDATE_MILLIS = 1000

export type StateStreams = ReturnType<typeof createStateStreams>

/**
 * The dashboard's live updates: server-sent events (HTML standard, section 9.2) with the parts of the state that changed, made
 * once a second while there is a stream. The first event of a stream has the whole state, and so has the next one for a
 * browser that was too slow: a stream never holds more than one event.
 */
export function createStateStreams(
  clock: Clock,
  feed: AlertFeed,
  stateNow: () => Omit<AgentState, 'alerts' | 'next'>,
  headers: Readonly<Record<string, string>>,
) {
  const streams = new Set<Stream>()
  /** The parts of the state as JSON, by name. */
  const parts = new Map<string, string>()
  let stop: (() => void) | null = null

  /** These parts, and the alerts from this number on. */
  const textOf = (names: Iterable<string>, after: number): { text: string; next: number } => {
    const { json, next } = feed.since(after)
    const members = [...names].map((name) => `"${name}":${parts.get(name)},`)
    // alerts are as they were encoded for the outputs (AlertEvent)
    return { text: `{${members.join('')}"alerts":${json},"next":${next}}`, next }
  }
  const send = (stream: Stream, names: Iterable<string>): void => {
    const { text, next } = textOf(names, stream.next)
    stream.next = next
    stream.isBehind = false
    stream.response.write(`data: ${text}\n\n`)
  }
  const update = (): void => {
    const changed: string[] = []
    for (const [name, value] of Object.entries(stateNow())) {
      const json = JSON.stringify(value)
      if (parts.get(name) === json) continue
      parts.set(name, json)
      changed.push(name)
    }
    for (const stream of streams) {
      if (!stream.isAllowed()) stream.response.end()
      else if (stream.response.writableNeedDrain) stream.isBehind = true
      else send(stream, stream.isBehind ? parts.keys() : changed)
    }
  }

  return {
    /** Sends the state until the browser leaves or may not see it any more; false where there are MAXIMUM_STREAMS. */
    open(response: ServerResponse, after: number, isAllowed: () => boolean): boolean {
      if (streams.size >= MAXIMUM_STREAMS) return false
      update()
      const stream = { response, isAllowed, next: after, isBehind: false }
      streams.add(stream)
      stop ??= clock.every(UPDATE_MILLIS, update)
      response.once('close', () => {
        streams.delete(stream)
        if (streams.size > 0) return
        stop?.()
        stop = null
      })
      // the connection ends with the stream, since the server does not count it among the others
      response.writeHead(200, {
        ...headers,
        'content-type': 'text/event-stream',
        connection: 'close',
        // nginx would gather events
        'x-accel-buffering': 'no',
      })
      send(stream, parts.keys())
      return true
    },
    update,
    /** All of the state, and the alerts from this number on. */
    whole(after: number): string {
      update()
      return textOf(parts.keys(), after).text
    },
  }
}
