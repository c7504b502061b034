/**
 * Options of pcapng blocks: (code, length, value) padded to four bytes, until opt_endofopt or the block's end.
 *
 * Source: draft-ietf-opsawg-pcapng, section 3.5. An option that runs past its block ends the list: nothing
 * after it can be told from noise. Each option is at least four bytes, so the block's length bounds the walk.
 */
export const OPTION_END = 0
export const OPTION_COMMENT = 1

/**
 * Calls `visit` for every option between `at` and `end`, with where its value begins and how long it is.
 * Returns the length of an option that runs past the end, −1 where all of them are whole.
 */
export function walkPcapngOptions(
  view: DataView,
  at: number,
  end: number,
  littleEndian: boolean,
  visit: (code: number, at: number, length: number) => void,
): number {
  let here = at
  while (end - here >= 4) {
    const code = view.getUint16(here, littleEndian)
    const length = view.getUint16(here + 2, littleEndian)
    if (code === OPTION_END) break
    if (here + 4 + length > end) return length
    visit(code, here + 4, length)
    here += 4 + ((length + 3) & ~3)
  }
  return -1
}

/** A 64-bit unsigned value as a double (exact below 2^53). */
export function readUint64(view: DataView, at: number, littleEndian: boolean): number {
  const first = view.getUint32(at, littleEndian)
  const second = view.getUint32(at + 4, littleEndian)
  return littleEndian ? second * 4294967296 + first : first * 4294967296 + second
}
