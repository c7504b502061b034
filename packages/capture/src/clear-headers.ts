/**
 * clearHeaders: 0 in all columns of one packet from the IP header on, for decoders that fill only what they find.
 *
 * Scalar stores, since `fill` costs ten times as much for one element.
 */
import type { PacketBatch } from './packet-batch.js'

export function clearHeaders(packets: PacketBatch, i: number): void {
  packets.ipBytes[i] = 0
  packets.ipVersion[i] = 0
  packets.protocol[i] = 0
  for (let w = 4 * i; w < 4 * i + 4; w++) {
    packets.sourceAddress[w] = 0
    packets.destinationAddress[w] = 0
  }
  packets.sourcePort[i] = 0
  packets.destinationPort[i] = 0
  packets.tcpFlags[i] = 0
  packets.payloadBytes[i] = 0
  packets.hopLimit[i] = 0
  packets.ipOffset[i] = 0
  packets.transportOffset[i] = 0
}
