/**
 * CaptureEnd: how the reading of a capture ended, and the bounds that a reader keeps.
 *
 * A damaged capture still holds packets, and they count: everything before the damage is delivered, and the
 * end state tells the rest. Three endings are kept apart: clean; `truncated` (the input stops within a
 * record, as when a recorder was killed); `error` (a field that cannot be true, after which no record
 * boundary can be trusted). An input that stops before its file header is complete is both.
 */
import type { FormatError } from '@oddflow/core'
import type { CaptureDrops } from './capture-notes.js'

/** Largest captured length that is believed: MAXIMUM_SNAPLEN of libpcap and tcpdump. */
export const MAXIMUM_CAPTURED_BYTES = 262_144

/** Largest pcapng block of a kind that is read (others are skipped as they stream by): Wireshark's bound. */
export const MAXIMUM_BLOCK_BYTES = 16_777_216

/**
 * Longest frame on the wire that raises no doubt: four times what any recorder keeps of one, and more than offloading
 * puts together. A longer one is taken as it is told, and counted.
 */
export const MAXIMUM_WIRE_BYTES = 1_048_576

/** Most interfaces that one pcapng section may describe. */
export const MAXIMUM_INTERFACES = 262_144

/** Warnings kept; what comes after them is only counted. */
export const MAXIMUM_WARNINGS = 16

export type CaptureFormat = 'pcap' | 'pcapng'

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
   * Oddities that did not stop the reading: at most MAXIMUM_WARNINGS lines as they were met, a line for those
   * left out, and up to five that sum up the whole (times, lengths, counters, trailing garbage).
   */
  readonly warnings: readonly string[]
  /** Comments in the capture (pcapng). */
  readonly commentCount: number
  /** The first of them: at most MAXIMUM_COMMENTS, of each at most MAXIMUM_COMMENT_BYTES. */
  readonly comments: readonly string[]
  /** What the recorder says it lost. */
  readonly drops: CaptureDrops
}

/** What is to be said of a capture that is cut or damaged, and of what came before that. */
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
