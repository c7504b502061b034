/**
 * What tcpdump and dumpcap say on standard error while they record: that they have begun, what they counted,
 * and, when they fail, why.
 *
 * tcpdump 4.x: `listening on eth0, …` when it has begun; on SIGUSR1 one line `tcpdump: 5 packets captured, 5 packets received by
 * filter, 0 packets dropped by kernel`, at the end the same as a line each, with `dropped by interface` where
 * the system knows it. dumpcap 3.x and 4.x: `Capturing on …` before it opens the interface, `File: -` when it
 * has begun, at the end `Packets captured: 5` and
 * `Packets received/dropped on interface 'eth0': 5/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)`, of
 * which the first is what was written. Text that is none of these is kept as the program's last words, at most
 * KEPT_BYTES of it.
 */

export interface RecorderCounts {
  /** Packets that the program handed over; null where it has not said. */
  readonly captured: number | null
  /** Packets that the kernel's filter let through (on the loopback interface some systems count each twice). */
  readonly received: number | null
  /** Packets that the kernel dropped because they were not fetched in time. */
  readonly droppedByKernel: number | null
  /** Packets that the interface dropped. */
  readonly droppedByInterface: number | null
}

export const NO_COUNTS: RecorderCounts = {
  captured: null,
  received: null,
  droppedByKernel: null,
  droppedByInterface: null,
}

/** Most characters of a message that are kept. */
const KEPT_CHARACTERS = 2048

const TCPDUMP_COUNT = /(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)/g
const DUMPCAP_CAPTURED = /^Packets captured: (\d+)/
const DUMPCAP_RECEIVED =
  /^Packets received\/dropped on interface .*: (\d+)\/(\d+) \(pcap:(\d+)\/dumpcap:(\d+)\/flushed:\d+\/ps_ifdrop:(\d+)\)/

export interface RecorderMessages {
  readonly counts: RecorderCounts
  /** Times that counts were told. */
  readonly countsTold: number
  /** It has begun to record. */
  readonly hasBegun: boolean
  /** The last of what is neither counts nor the announcement, in one line; empty where there is none. */
  readonly lastWords: string
  /** Takes the next piece of standard error. */
  add(text: string): void
  /** Standard error has ended: its last line may have no end. */
  end(): void
}

export function createRecorderMessages(): RecorderMessages {
  let counts = NO_COUNTS
  let countsTold = 0
  let hasBegun = false
  let lastWords = ''
  let rest = ''

  const takeTcpdumpCounts = (line: string): boolean => {
    let found = false
    for (const [, digits, what] of line.matchAll(TCPDUMP_COUNT)) {
      found = true
      const packets = Number(digits)
      if (what === 'captured') counts = { ...counts, captured: packets }
      else if (what === 'received by filter') counts = { ...counts, received: packets }
      else if (what === 'dropped by kernel') counts = { ...counts, droppedByKernel: packets }
      else counts = { ...counts, droppedByInterface: packets }
    }
    if (found && line.includes('dropped by kernel')) countsTold++
    return found
  }

  const takeDumpcapCounts = (line: string): boolean => {
    const captured = DUMPCAP_CAPTURED.exec(line)
    if (captured !== null) {
      counts = { ...counts, captured: Number(captured[1]) }
      return true
    }
    const received = DUMPCAP_RECEIVED.exec(line)
    if (received === null) return false
    const [, arrived, dropped, byPcap, byDumpcap, byInterface] = received.map(Number) as number[]
    // what dumpcap calls received is what it could write; the filter had let through what it lost, too
    counts = {
      ...counts,
      received: arrived! + dropped!,
      droppedByKernel: byPcap! + byDumpcap!,
      droppedByInterface: byInterface!,
    }
    countsTold++
    return true
  }

  const takeLine = (line: string): void => {
    if (line === '' || line.startsWith('Capturing on ')) return
    if (line === 'File: -' || line.includes(': listening on ')) hasBegun = true
    else if (!takeTcpdumpCounts(line) && !takeDumpcapCounts(line)) {
      lastWords = `${lastWords} ${line}`.trim().slice(0, KEPT_CHARACTERS)
    }
  }

  return {
    get counts() {
      return counts
    },
    get countsTold() {
      return countsTold
    },
    get hasBegun() {
      return hasBegun
    },
    get lastWords() {
      return lastWords
    },
    add(text) {
      const lines = (rest + text).split(/[\r\n]+/)
      rest = lines.pop()!.slice(-KEPT_CHARACTERS)
      for (const line of lines) takeLine(line.trim())
    },
    end() {
      takeLine(rest.trim())
      rest = ''
    },
  }
}
