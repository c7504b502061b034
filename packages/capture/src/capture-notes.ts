/**
 * What a recorder noted beside the packets: comments, and how many packets it lost.
 *
 * pcapng alone has such notes. Comments are opt_comment of section headers, interface descriptions, packets
 * and interface statistics, wherever they stand. Drops are told twice over: by an interface's statistics
 * (isb_ifdrop and isb_osdrop, running totals, so the last block of each interface counts) and before a packet
 * (epb_dropcount and the obsolete block's drops count, each since the packet before, so they are added up).
 * The two may speak of the same packets and are not added to each other. null: nobody said anything. The
 * counters have 64 bits; one of 2^53 − 1 or more is given as 2^53 − 1, and the end state warns of it.
 */
export interface CaptureDrops {
  /** Packets that the interfaces received (isb_ifrecv). */
  readonly interfaceReceived: number | null
  /** Packets that the interfaces dropped (isb_ifdrop). */
  readonly interfaceDropped: number | null
  /** Packets that the operating system dropped (isb_osdrop). */
  readonly systemDropped: number | null
  /** Packets lost between those that were recorded (epb_dropcount, drops count of the Packet Block). */
  readonly betweenPackets: number | null
}

export const NO_DROPS: CaptureDrops = {
  interfaceReceived: null,
  interfaceDropped: null,
  systemDropped: null,
  betweenPackets: null,
}

/** Comments kept, and bytes kept of each; the rest is only counted. */
export const MAXIMUM_COMMENTS = 16
export const MAXIMUM_COMMENT_BYTES = 1024

/** Statistics of one interface: the last that was said, NaN where nothing was. */
export interface InterfaceStatistics {
  received: number
  dropped: number
  systemDropped: number
}

export interface CaptureNotes {
  /** Comments seen, kept or not. */
  readonly commentCount: number
  readonly comments: readonly string[]
  addComment(data: Uint8Array, at: number, length: number): void
  addDropped(packets: number): void
  /** Adds what the interfaces of an ended section said. */
  addSection(interfaces: Iterable<InterfaceStatistics>): void
  /** Everything so far, with the interfaces of a section that is still being read. */
  drops(interfaces: Iterable<InterfaceStatistics>): CaptureDrops
}

export function createCaptureNotes(): CaptureNotes {
  const comments: string[] = []
  const decoder = new TextDecoder()
  let commentCount = 0
  let betweenPackets = Number.NaN
  const total: InterfaceStatistics = { received: Number.NaN, dropped: Number.NaN, systemDropped: Number.NaN }
  return {
    comments,
    get commentCount() {
      return commentCount
    },
    addComment(data, at, length) {
      commentCount++
      if (comments.length === MAXIMUM_COMMENTS) return
      comments.push(decoder.decode(data.slice(at, at + Math.min(length, MAXIMUM_COMMENT_BYTES))))
    },
    addDropped(packets) {
      betweenPackets = plus(betweenPackets, packets)
    },
    addSection(interfaces) {
      sumInto(total, interfaces)
    },
    drops(interfaces) {
      const sum = { ...total }
      sumInto(sum, interfaces)
      return {
        interfaceReceived: orNull(sum.received),
        interfaceDropped: orNull(sum.dropped),
        systemDropped: orNull(sum.systemDropped),
        betweenPackets: orNull(betweenPackets),
      }
    },
  }
}

function sumInto(sum: InterfaceStatistics, interfaces: Iterable<InterfaceStatistics>): void {
  for (const each of interfaces) {
    sum.received = plus(sum.received, each.received)
    sum.dropped = plus(sum.dropped, each.dropped)
    sum.systemDropped = plus(sum.systemDropped, each.systemDropped)
  }
}

/** What two recorders lost together. */
export function addDrops(a: CaptureDrops, b: CaptureDrops): CaptureDrops {
  return {
    interfaceReceived: plusKnown(a.interfaceReceived, b.interfaceReceived),
    interfaceDropped: plusKnown(a.interfaceDropped, b.interfaceDropped),
    systemDropped: plusKnown(a.systemDropped, b.systemDropped),
    betweenPackets: plusKnown(a.betweenPackets, b.betweenPackets),
  }
}

function plusKnown(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : plus(a, b)
}

/** Of two counters that may be unknown, at most 2^53 − 1: beyond, a double is no exact count. */
function plus(a: number, b: number): number {
  if (Number.isNaN(a)) return Math.min(b, Number.MAX_SAFE_INTEGER)
  return Math.min(Number.isNaN(b) ? a : a + b, Number.MAX_SAFE_INTEGER)
}

/** Names of the counters that are too large to be given exactly, as a warning; null where there are none. */
export function warnOfLargeCounters(drops: CaptureDrops): string | null {
  const names = Object.entries(drops)
    .filter(([, count]) => (count as number | null) === Number.MAX_SAFE_INTEGER)
    .map(([name]) => name)
  return names.length === 0
    ? null
    : `drop counters of 2^53 - 1 or more, given as ${Number.MAX_SAFE_INTEGER}: ${names.join(', ')}`
}

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value
}
