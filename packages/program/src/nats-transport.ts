/**
 * Limits on what a NATS server may make a client hold. The client gathers lines and messages without a bound, so their
 * sizes are read beside its parser, and the connection is closed where one is too long or other lines come without
 * end.
 */
import type { Socket } from 'node:net'

/** INFO names every server of a cluster. NATS limits other lines to 4096 bytes. */
const LONGEST_LINE_BYTES = 65_536
/** The default of the server's max_payload. OddFlow's own messages are at most 128 KiB, the chunks of an object store. */
const LONGEST_MESSAGE_BYTES = 1_048_576
/** A server sends one now and then. */
const MOST_OTHER_LINES = 1000
const OTHER_LINES_MILLIS = 10_000
const LINE_FEED = 10
const LINE = /^(?:info[ \t]+\{|h?msg[ \t]|-err[ \t]+[^ \t\r]|ping|pong|\+ok)/i
/** Bytes of a LINE that are enough to know that it is invalid. */
const WORDS = ['INFO', 'MSG', 'HMSG', '-ERR', 'PING', 'PONG', '+OK']
const FOREIGN = 'the server does not speak NATS'
/** What this file uses of the client's NodeTransport. */
interface NatsTransport {
  readonly socket: Socket
  readonly options: object
  peekInfo(): Promise<unknown>
  iterate(): AsyncIterableIterator<Uint8Array>
  close(error?: Error): Promise<void>
  discard(): void
}

/** To be given among the options of the connection. */
export interface NatsLimitOptions {
  /** Called when the server sent too much and the connection ends. */
  readonly onRefused?: (reason: string) => void
}

/** Given the bytes of a server as they come, says why the connection is to end; null while there is no reason. */
export function createNatsCheck(nowMillis: () => number): (bytes: Uint8Array) => string | null {
  const line = new Uint8Array(LONGEST_LINE_BYTES)
  let length = 0
  /** Bytes of the current message that are still to come. */
  let rest = 0
  /** The rest of this line follows a message, and the client skips it. */
  let isBehindMessage = false
  let [beganMillis, otherLines] = [nowMillis(), 0]
  const isFlood = (): boolean => {
    if (++otherLines <= MOST_OTHER_LINES) return false
    const isOver = nowMillis() - beganMillis < OTHER_LINES_MILLIS
    ;[beganMillis, otherLines] = [nowMillis(), 1]
    return isOver
  }
  return (bytes) => {
    for (let at = 0; at < bytes.length; ) {
      if (rest > 0) {
        const taken = Math.min(rest, bytes.length - at)
        rest -= taken
        at += taken
        continue
      }
      const found = bytes.indexOf(LINE_FEED, at)
      const end = found < 0 ? bytes.length : found
      if (length + end - at > LONGEST_LINE_BYTES) {
        return `the server sent a line of more than ${LONGEST_LINE_BYTES} bytes`
      }
      line.set(bytes.subarray(at, end), length)
      length += end - at
      at = end + 1
      if (!isBehindMessage && !hasWord(line.subarray(0, Math.min(length, 4)))) return FOREIGN
      if (found < 0) continue
      const size = isBehindMessage ? null : messageBytes(textOf(line.subarray(0, length)))
      const isOther = size === null && !isBehindMessage
      length = 0
      isBehindMessage = size !== null
      if (isOther && isFlood())
        return `the server sent more than ${MOST_OTHER_LINES} lines that are no messages within ${OTHER_LINES_MILLIS / 1000} s`
      if (size === null) continue
      if (Number.isNaN(size)) return FOREIGN
      if (size > LONGEST_MESSAGE_BYTES) {
        return `the server sent a message of ${size} bytes; at most ${LONGEST_MESSAGE_BYTES} are taken`
      }
      rest = size
    }
    return null
  }
}

/**
 * Puts the limits on a transport that has not connected yet. Returns it.
 * @param nowMillis - of a monotonic clock.
 */
export function limitNatsTransport<T extends NatsTransport>(transport: T, nowMillis: () => number): T {
  const inherited = {
    peekInfo: transport.peekInfo.bind(transport),
    iterate: transport.iterate.bind(transport),
    close: transport.close.bind(transport),
  }
  const refuse = (reason: string): void => {
    ;(transport.options as NatsLimitOptions).onRefused?.(reason)
    transport.socket?.destroy(new Error(reason))
  }
  transport.peekInfo = () => {
    const info = inherited.peekInfo()
    let gathered = 0
    transport.socket.on('data', (bytes: Uint8Array) => {
      gathered += bytes.length
      const reason = `the server sent no INFO within ${LONGEST_LINE_BYTES} bytes`
      if (gathered > LONGEST_LINE_BYTES) refuse(reason)
    })
    return info
  }
  transport.iterate = async function* () {
    const check = createNatsCheck(nowMillis)
    try {
      for await (const bytes of inherited.iterate()) {
        const reason = check(bytes)
        if (reason !== null) return refuse(reason)
        yield bytes
      }
    } finally {
      // also where the parser has failed: otherwise the socket would collect data without a reader
      transport.socket?.destroy()
    }
  }
  // one that never connected is forgotten by the client while its socket stays open
  transport.close = async (error) => {
    await inherited.close(error)
    transport.discard()
  }
  return transport
}

/** Bytes that MSG and HMSG announce; null for another line, NaN for one that the client's parser would fail at. */
function messageBytes(line: string): number | null {
  if (!LINE.test(line)) return Number.NaN
  if (/^info/i.test(line)) return isJson(line.slice(4)) ? null : Number.NaN
  if (!/^h?msg/i.test(line)) return null
  const [word, , ...fields] = line.split(/[ \t\r]+/).filter((field) => field !== '')
  const hasHeaders = word.length === 4
  const numbers = fields.filter((_, i) => i === 0 || i >= fields.length - (hasHeaders ? 2 : 1))
  const isWhole = numbers.length === (hasHeaders ? 3 : 2) && fields.length <= numbers.length + 1
  if (!isWhole || !numbers.every((number) => /^\d{1,15}$/.test(number))) return Number.NaN
  const size = Number(numbers.at(-1))
  return hasHeaders && Number(numbers[1]) > size ? Number.NaN : size
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function hasWord(beginning: Uint8Array): boolean {
  const text = textOf(beginning).replace(/\r$/, '').toUpperCase()
  return WORDS.some((word) => word.startsWith(text) || text.startsWith(word))
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}
