/**
 * ICMP (RFC 792) and ICMPv6 (RFC 4443) in the place of ports, as Zeek and Community ID have them.
 *
 * The source port is the type. The destination port is the type of the answer where the type is one half of
 * a question and answer (echo 8 and 0, ICMPv6 echo 128 and 129, …), so that both directions are one unordered
 * 5-tuple; it is the code for all other types. For an echo request that reads 8 and 0, type and code both.
 */
import type { PacketBatch } from './packet-batch.js'

/** Counterparts by type; -1 where a type stands alone. RFC 792, 950, 1256. */
const ICMP = pairs([8, 0], [13, 14], [15, 16], [17, 18], [10, 9])
/** RFC 4443, 2710, 4861, 4620, 6275. */
const ICMPV6 = pairs([128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145])

/** Leaves the ports at 0 where type and code do not lie before `end`. */
export function writeIcmpPorts(
  isIcmpv6: boolean,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): void {
  if (end - at < 2) return
  const type = data[at]!
  const code = data[at + 1]!
  const counterpart = isIcmpv6 ? ICMPV6[type]! : ICMP[type]!
  packets.sourcePort[i] = type
  packets.destinationPort[i] = counterpart < 0 ? code : counterpart
}

/** The code of a message whose ports writeIcmpPorts wrote, as far as it is known: a question's and an answer's is 0. */
export function icmpCodeOf(isIcmpv6: boolean, sourcePort: number, destinationPort: number): number {
  const counterpart = isIcmpv6 ? ICMPV6[sourcePort & 255]! : ICMP[sourcePort & 255]!
  return counterpart < 0 ? destinationPort : 0
}

function pairs(...list: readonly (readonly [number, number])[]): Int16Array {
  const table = new Int16Array(256).fill(-1)
  for (const [request, reply] of list) {
    table[request] = reply
    table[reply] = request
  }
  return table
}
