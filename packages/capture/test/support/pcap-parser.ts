/** Which captures pcap-parser can read: microsecond pcap in either byte order, perhaps gzip. */
import { readFileSync, statSync } from 'node:fs'
import { constants, gunzipSync } from 'node:zlib'

export type { CaptureEnd } from '../../src/index.js'
export { encodePcap, encodePcapRecord } from '../../src/index.js'

export function readableMagic(file: string): boolean {
  if (!statSync(file).isFile() || !/\.(pcap|cap|gz)$/.test(file)) return false
  const head = readFileSync(file)
  let bytes: Uint8Array = head.subarray(0, 24)
  if (head[0] === 0x1f && head[1] === 0x8b) {
    // a bomb and a million empty records are measured elsewhere
    if (/bomb|one_million/.test(file)) return false
    // without its trailer, which may be wrong
    bytes = gunzipSync(head.subarray(0, Math.min(4096, head.length - 9)), {
      finishFlush: constants.Z_SYNC_FLUSH,
    }).subarray(0, 24)
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.byteLength < 24) return false
  const little = view.getUint32(0, true) === 0xa1b2c3d4
  // before version 2.4 the two lengths may stand the other way round, which pcap-parser does not know
  return (little || view.getUint32(0, false) === 0xa1b2c3d4) && view.getUint16(6, little) >= 4
}
