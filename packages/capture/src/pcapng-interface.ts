/**
 * The Interface Description Block of pcapng: link type, snapshot length and how its clock counts.
 *
 * Source: draft-ietf-opsawg-pcapng, section 4.2. Of the options only if_tsresol (9) and if_tsoffset (14)
 * bear on packets; the first of each counts. An option that runs past its block ends the list with a
 * warning: nothing after it can be told from noise.
 */
import type { WarningList } from './capture-end.js'
import { MICROSECOND_TICKS, type TickLength, tickLength } from './pcapng-timestamp.js'

export interface PcapngInterface {
  readonly linkType: number
  /** 0 where there is no limit. */
  readonly snapLength: number
  readonly ticks: TickLength
}

const OPTION_END = 0
const OPTION_TSRESOL = 9
const OPTION_TSOFFSET = 14

/** @param end where the options end: the trailing block length is outside */
export function readPcapngInterface(
  view: DataView,
  body: number,
  end: number,
  littleEndian: boolean,
  number: number,
  warnings: WarningList,
): PcapngInterface {
  let resolution = -1
  let offsetSeconds: number | undefined
  let at = body + 8
  while (end - at >= 4) {
    const code = view.getUint16(at, littleEndian)
    const length = view.getUint16(at + 2, littleEndian)
    if (code === OPTION_END) break
    if (at + 4 + length > end) {
      warnings.add(`interface ${number}: an option of ${length} bytes runs past its block`)
      break
    }
    if (code === OPTION_TSRESOL && resolution < 0 && length >= 1) resolution = view.getUint8(at + 4)
    if (code === OPTION_TSOFFSET && offsetSeconds === undefined && length >= 8) {
      offsetSeconds = Number(view.getBigInt64(at + 4, littleEndian))
    }
    at += 4 + ((length + 3) & ~3)
  }
  return {
    linkType: view.getUint16(body, littleEndian),
    snapLength: view.getUint32(body + 4, littleEndian),
    ticks:
      resolution < 0 && offsetSeconds === undefined
        ? MICROSECOND_TICKS
        : tickLength(resolution < 0 ? 6 : resolution, offsetSeconds ?? 0),
  }
}
