/** CRC-32 by zlib where Node has it (20.15 and 22.2 on; several times as fast), else by core's own. */
import * as zlib from 'node:zlib'
import { crc32 as ownCrc32 } from '@oddflow/core'

const { crc32: zlibCrc32 } = zlib as { crc32?: (bytes: Uint8Array, previous?: number) => number }

/** The checksum of `bytes`; pass the checksum so far as `previous` to go on with the next piece. */
export const crc32: (bytes: Uint8Array, previous?: number) => number = zlibCrc32 ?? ownCrc32
