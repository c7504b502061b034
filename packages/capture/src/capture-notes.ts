import type { FormatError } from '@oddflow/core'

/**
 * Wrong times, where captures are merged by time: a recorder writes 0 before its clock is set, or a damaged record has
 * a distant year. A time is wrong if it is more than a week from both its neighbours, which are near each other.
 */

/** Seven days: longer than a rotated file is silent, shorter than a clock that was never set is wrong. */
export const WRONG_TIME_MICROS = 7 * 86_400_000_000

/** False for NaN. */
export function areNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= WRONG_TIME_MICROS
}

/** How many packets `firstTimeOf` looks at. */
export const FIRST_TIMES = 3

/**
 * The time at which a capture begins: its first packet's, or the second's if the first is wrong; −Infinity without one.
 * @param times - of its first packets; NaN for none
 */
export function firstTimeOf(times: readonly number[]): number {
  const [first, second, third] = times.slice(0, FIRST_TIMES).filter((micros) => !Number.isNaN(micros))
  if (first === undefined) return Number.NEGATIVE_INFINITY
  if (second === undefined || third === undefined) return first
  return !areNear(first, second) && areNear(second, third) ? second : first
}

/**
 * CaptureEnd. Everything before damage is delivered. The ending is clean, `truncated` (the input stops within a
 * record) or an `error` (after which no record boundary can be trusted); an input that stops within its file header is
 * both.
 */

/** Largest captured length that is believed: MAXIMUM_SNAPLEN of libpcap and tcpdump. */
export const MAXIMUM_CAPTURED_BYTES = 262_144

/** Largest pcapng block of a kind that is read (others are skipped as they stream by): Wireshark's bound. */
export const MAXIMUM_BLOCK_BYTES = 16_777_216

/** Longest plausible frame on the wire: four times what any recorder keeps. A longer one is used as stated, and counted. */
export const MAXIMUM_WIRE_BYTES = 1_048_576

/** Most interfaces that one pcapng section may describe. */
export const MAXIMUM_INTERFACES = 262_144

/** Warnings kept; further ones are only counted. */
const MAXIMUM_WARNINGS = 16

/** The formats of captures that are read. */
export type CaptureFormat = 'pcap' | 'pcapng'

/** How the reading of a capture ended: what was read, and what was wrong. */
export interface CaptureEnd {
  /** null where the input is no capture. */
  readonly format: CaptureFormat | null
  /** Frames delivered; an 802.11 aggregate counts as many as it holds. */
  readonly packets: number
  /** Bytes of capture read (after decompression). */
  readonly bytes: number
  /** The input stops within a record or header; every whole packet before it was delivered. */
  readonly truncated: boolean
  /** Why reading stopped before the end of the input, or why the input is no capture. */
  readonly error: FormatError | null
  /** One line on the ending, null where it is clean. */
  readonly detail: string | null
  /**
   * Oddities that did not stop the reading: at most MAXIMUM_WARNINGS lines in order, a line for those left out, and up to
   * five that sum up the whole (times, lengths, counters, trailing garbage).
   */
  readonly warnings: readonly string[]
  /** Comments in the capture (pcapng). */
  readonly commentCount: number
  /** The first of them: at most MAXIMUM_COMMENTS, of each at most MAXIMUM_COMMENT_BYTES. */
  readonly comments: readonly string[]
  /** What the recorder says it lost. */
  readonly drops: CaptureDrops
}

/** A line on a capture that is cut or damaged, and on the packets before that. */
export function describeDamage(name: string, { detail, packets }: CaptureEnd): string {
  const used =
    packets === 0
      ? 'there is no packet before it'
      : packets === 1
        ? 'the packet before it was used'
        : `the ${packets} packets before it were used`
  return `${name}: ${detail ?? 'cut short'}; ${used}`
}

/** A bounded list of lines; the last one says how many were left out. */
export interface WarningList {
  add(line: string): void
  lines(): readonly string[]
}

/** A list that keeps at most MAXIMUM_WARNINGS lines and counts the rest. */
export function createWarningList(): WarningList {
  const kept: string[] = []
  let dropped = 0
  return {
    add(line) {
      if (kept.length < MAXIMUM_WARNINGS) kept.push(line)
      else dropped++
    },
    lines() {
      return dropped === 0 ? kept : [...kept, `${dropped} more warnings`]
    },
  }
}

/**
 * A recorder's comments and drop counters (pcapng). Drops stated by an interface's statistics are running totals, so
 * the last block counts; drops stated before packets are added up. Both may mean the same packets, so they are not
 * added to each other. null: no count. Counters are bounded by 2^53 − 1.
 */
export interface CaptureDrops {
  /** Packets that the interfaces received (isb_ifrecv). */
  readonly interfaceReceived: number | null
  /** Packets that the interfaces dropped (isb_ifdrop). */
  readonly interfaceDropped: number | null
  /** Packets that the operating system dropped (isb_osdrop). */
  readonly systemDropped: number | null
  /** Packets lost between recorded packets (epb_dropcount, drops count of the Packet Block). */
  readonly betweenPackets: number | null
}

/** The drop counters of a capture that has none. */
export const NO_DROPS: CaptureDrops = {
  interfaceReceived: null,
  interfaceDropped: null,
  systemDropped: null,
  betweenPackets: null,
}

/** Comments kept, and bytes kept of each; the rest is only counted. */
export const MAXIMUM_COMMENTS = 16
/** Most bytes that are kept of one comment. */
export const MAXIMUM_COMMENT_BYTES = 1024

/** Drop counters while a capture is read. */
export type DropCounters = { -readonly [Name in keyof CaptureDrops]: CaptureDrops[Name] }

/** Comments and drop counters that a recorder left in a capture, gathered while it is read, in bounded memory. */
export class CaptureNotes {
  /** Comments seen, kept or not. */
  commentCount = 0
  readonly comments: string[] = []
  readonly #total: DropCounters = { ...NO_DROPS }
  readonly #decoder = new TextDecoder()

  addComment(data: Uint8Array, at: number, length: number): void {
    this.commentCount++
    if (this.comments.length === MAXIMUM_COMMENTS) return
    const end = at + Math.min(length, MAXIMUM_COMMENT_BYTES)
    this.comments.push(this.#decoder.decode(data.slice(at, end)))
  }

  addDropped(packets: number): void {
    this.#total.betweenPackets = plus(this.#total.betweenPackets, packets)
  }

  /** Adds the statistics of an ended section's interfaces. */
  addSection(interfaces: readonly CaptureDrops[]): void {
    Object.assign(this.#total, this.drops(interfaces))
  }

  /** Everything so far, with the interfaces of a section that is still being read. */
  drops(interfaces: readonly CaptureDrops[]): CaptureDrops {
    return interfaces.reduce(addDrops, { ...this.#total })
  }
}

/** What two recorders lost together. */
export function addDrops(a: CaptureDrops, b: CaptureDrops): CaptureDrops {
  return {
    interfaceReceived: plus(a.interfaceReceived, b.interfaceReceived),
    interfaceDropped: plus(a.interfaceDropped, b.interfaceDropped),
    systemDropped: plus(a.systemDropped, b.systemDropped),
    betweenPackets: plus(a.betweenPackets, b.betweenPackets),
  }
}

/** At most 2^53 − 1, beyond which a double is no exact count. */
function plus(a: number | null, b: number | null): number | null {
  return a === null && b === null ? null : Math.min((a ?? 0) + (b ?? 0), Number.MAX_SAFE_INTEGER)
}

/** A warning that names the counters too large to be exact; null if there are none. */
export function warnOfLargeCounters(drops: CaptureDrops): string | null {
  const names = Object.entries(drops)
    .filter(([, count]) => (count as number | null) === Number.MAX_SAFE_INTEGER)
    .map(([name]) => name)
  return names.length === 0
    ? null
    : `drop counters of 2^53 - 1 or more, given as ${Number.MAX_SAFE_INTEGER}: ${names.join(', ')}`
}
