/**
 * Header bits of the first p packets, in the manner of nPrint (Holland et al., CCS 2021): each bit of a header
 * field is a column, 1 or 0, and −1 where the packet or the field does not exist.
 *
 * Columns of a packet, each field with its most significant bit first:
 *
 *     0       1  direction, 1 = the responder sent it
 *     1–4     4  IP version
 *     5–20   16  length of the IP packet (IPv4 total length; IPv6 40 + payload length; 65,535 if more)
 *     21–28   8  TTL or hop limit
 *     29–36   8  protocol (after IPv6 extension headers)
 *     37–52  16  source port
 *     53–68  16  destination port
 *     69–76   8  TCP flags CWR, ECE, URG, ACK, PSH, RST, SYN, FIN; −1 for UDP
 *
 * Left out, against nPrint: addresses and MACs, which name hosts; checksums, identification, TCP sequence
 * numbers, window and options, which the packet batch does not carry; payload. Entry: [], [IP length, meta].
 */
import { HEADER_BITS_PER_PACKET, type PacketContract } from '@oddflow/core'
import { FROM_RESPONDER, IP_BYTES, META } from '../packet-fields.js'
import type { RowMaker } from './row-maker.js'

const TCP = 6

export function createHeaderBitsRows(contract: PacketContract): RowMaker {
  const maximumEntries = contract.packetsPerFlow
  const { dimension } = contract
  return {
    dimension,
    entryFloats: 0,
    entryWords: 2,
    maximumEntries,
    keeps: (_pool, _last, entries) => entries < maximumEntries,
    write: (pool, at, packet) => {
      pool.words[2 * at] = packet[IP_BYTES]
      pool.words[2 * at + 1] = packet[META]
    },
    settled: (_pool, _last, entries) => entries === maximumEntries,
    fill: (_floats, words, entries, record, row) => {
      let at = 0
      const put = (value: number, bits: number): void => {
        for (let bit = bits - 1; bit >= 0; bit--) row[at++] = (value >>> bit) & 1
      }
      for (let j = 0; j < entries; j++) {
        const meta = words[2 * j + 1]
        const back = (meta & FROM_RESPONDER) !== 0
        put(back ? 1 : 0, 1)
        put(record.ipVersion, 4)
        put(Math.min(words[2 * j], 0xffff), 16)
        put((meta >>> 8) & 0xff, 8)
        put(record.protocol, 8)
        put(back ? record.responderPort : record.initiatorPort, 16)
        put(back ? record.initiatorPort : record.responderPort, 16)
        if (record.protocol === TCP) put(meta & 0xff, 8)
        else {
          row.fill(-1, at, at + 8)
          at += 8
        }
      }
      row.fill(-1, HEADER_BITS_PER_PACKET * entries, dimension)
    },
  }
}
