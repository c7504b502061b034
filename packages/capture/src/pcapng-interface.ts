/**
 * The Interface Description Block of pcapng (link type, snapshot length, how its clock counts) and the
 * Interface Statistics Block that may follow it.
 *
 * Source: draft-ietf-opsawg-pcapng, sections 4.2 and 4.6. Of the options if_tsresol (9), if_tsoffset (14) and
 * comments are read, the first of each of the two counting; of the statistics isb_ifrecv (4), isb_ifdrop (5)
 * and isb_osdrop (7). An option that runs past its block ends the list with a warning.
 */
import type { WarningList } from './capture-end.js'
import type { CaptureNotes, InterfaceStatistics } from './capture-notes.js'
import { OPTION_COMMENT, readUint64, walkPcapngOptions } from './pcapng-options.js'
import { MICROSECOND_TICKS, type TickLength, tickLength } from './pcapng-timestamp.js'

export interface PcapngInterface extends InterfaceStatistics {
  readonly linkType: number
  /** 0 where there is no limit. */
  readonly snapLength: number
  readonly ticks: TickLength
}

const OPTION_TSRESOL = 9
const OPTION_TSOFFSET = 14
const OPTION_RECEIVED = 4
const OPTION_DROPPED = 5
const OPTION_SYSTEM_DROPPED = 7

/** @param end where the options end: the trailing block length is outside */
export function readPcapngInterface(
  data: Uint8Array,
  view: DataView,
  body: number,
  end: number,
  littleEndian: boolean,
  number: number,
  warnings: WarningList,
  notes: CaptureNotes,
): PcapngInterface {
  let resolution = -1
  let offsetSeconds: bigint | undefined
  const overrun = walkPcapngOptions(view, body + 8, end, littleEndian, (code, at, length) => {
    if (code === OPTION_COMMENT) notes.addComment(data, at, length)
    if (code === OPTION_TSRESOL && resolution < 0 && length >= 1) resolution = view.getUint8(at)
    if (code === OPTION_TSOFFSET && offsetSeconds === undefined && length >= 8) {
      offsetSeconds = view.getBigInt64(at, littleEndian)
    }
  })
  if (overrun >= 0) warnings.add(`interface ${number}: an option of ${overrun} bytes runs past its block`)
  return {
    linkType: view.getUint16(body, littleEndian),
    snapLength: view.getUint32(body + 4, littleEndian),
    ticks:
      resolution < 0 && offsetSeconds === undefined
        ? MICROSECOND_TICKS
        : tickLength(resolution < 0 ? 6 : resolution, offsetSeconds ?? 0n),
    received: Number.NaN,
    dropped: Number.NaN,
    systemDropped: Number.NaN,
  }
}

/** Takes the totals of a statistics block over; what it does not say stays. */
export function readPcapngStatistics(
  data: Uint8Array,
  view: DataView,
  options: number,
  end: number,
  littleEndian: boolean,
  source: InterfaceStatistics | undefined,
  notes: CaptureNotes,
): void {
  walkPcapngOptions(view, options, end, littleEndian, (code, at, length) => {
    if (code === OPTION_COMMENT) notes.addComment(data, at, length)
    if (source === undefined || length < 8) return
    if (code === OPTION_RECEIVED) source.received = readUint64(view, at, littleEndian)
    if (code === OPTION_DROPPED) source.dropped = readUint64(view, at, littleEndian)
    if (code === OPTION_SYSTEM_DROPPED) source.systemDropped = readUint64(view, at, littleEndian)
  })
}
