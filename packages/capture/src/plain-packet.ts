/**
 * decodePlainPacket: all columns of an ordinary packet in one go.
 *
 * Nine packets in ten are TCP or UDP in IPv4 without options or IPv6 without extension headers, in Ethernet with
 * at most one VLAN tag, and captured as far as their flags. For those the layers' functions, one calling the
 * next, find nothing that they have to look for; this one reads what is at known places and writes each column
 * once. Whatever else there is, and whatever is odd in the least, is left to them (decodeLinkLayer): false then,
 * and no column has been written. Where it is true the columns are those that they would have written.
 */
import type { PacketBatch } from './packet-batch.js'
import { PROTOCOL_TCP, PROTOCOL_UDP, tcpHeaderBytes, UDP_BYTES } from './transport.js'

const ETHERNET_BYTES = 14
const IPV4_BYTES = 20
const IPV6_BYTES = 40
const PORT_BYTES = 4
/** To the end of the flags. */
const TCP_BYTES = 14

/** @param at, end where the frame's captured bytes lie in `data` */
export function decodePlainPacket(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): boolean {
  if (end - at < ETHERNET_BYTES + IPV4_BYTES + PORT_BYTES) return false
  let type = (data[at + 12]! << 8) | data[at + 13]!
  let ip = at + ETHERNET_BYTES
  let vlan = 0
  let tags = 0
  if (type === 0x8100) {
    vlan = ((data[at + 14]! & 0x0f) << 8) | data[at + 15]!
    tags = (1 << 24) | vlan
    type = (data[at + 16]! << 8) | data[at + 17]!
    ip += 4
  }
  let transport: number
  let ipBytes: number
  let protocol: number
  if (type === 0x0800) {
    transport = ip + IPV4_BYTES
    if (end - transport < PORT_BYTES || data[ip]! !== 0x45) return false
    if ((((data[ip + 6]! << 8) | data[ip + 7]!) & 0x1fff) !== 0) return false
    ipBytes = (data[ip + 2]! << 8) | data[ip + 3]!
    protocol = data[ip + 9]!
  } else if (type === 0x86dd) {
    transport = ip + IPV6_BYTES
    if (end - transport < PORT_BYTES || data[ip]! >>> 4 !== 6) return false
    ipBytes = IPV6_BYTES + ((data[ip + 4]! << 8) | data[ip + 5]!)
    protocol = data[ip + 6]!
  } else return false
  const room = Math.min(end, ip + ipBytes) - transport
  let flags = 0
  let headerBytes = UDP_BYTES
  if (protocol === PROTOCOL_TCP) {
    if (room < TCP_BYTES) return false
    flags = data[transport + 13]!
    headerBytes = tcpHeaderBytes(data[transport + 12]!)
  } else if (protocol !== PROTOCOL_UDP || room < PORT_BYTES) return false

  const { sourceAddress, destinationAddress, sourceMac, destinationMac } = packets
  const address = 4 * i
  if (type === 0x0800) {
    packets.ipVersion[i] = 4
    packets.hopLimit[i] = data[ip + 8]!
    sourceAddress[address] = 0
    sourceAddress[address + 1] = 0
    sourceAddress[address + 2] = 0
    sourceAddress[address + 3] =
      (data[ip + 12]! << 24) | (data[ip + 13]! << 16) | (data[ip + 14]! << 8) | data[ip + 15]!
    destinationAddress[address] = 0
    destinationAddress[address + 1] = 0
    destinationAddress[address + 2] = 0
    destinationAddress[address + 3] =
      (data[ip + 16]! << 24) | (data[ip + 17]! << 16) | (data[ip + 18]! << 8) | data[ip + 19]!
  } else {
    packets.ipVersion[i] = 6
    packets.hopLimit[i] = data[ip + 7]!
    for (let w = 0; w < 4; w++) {
      const s = ip + 8 + 4 * w
      const d = s + 16
      sourceAddress[address + w] =
        (data[s]! << 24) | (data[s + 1]! << 16) | (data[s + 2]! << 8) | data[s + 3]!
      destinationAddress[address + w] =
        (data[d]! << 24) | (data[d + 1]! << 16) | (data[d + 2]! << 8) | data[d + 3]!
    }
  }
  packets.protocol[i] = protocol
  packets.ipBytes[i] = ipBytes
  packets.sourcePort[i] = (data[transport]! << 8) | data[transport + 1]!
  packets.destinationPort[i] = (data[transport + 2]! << 8) | data[transport + 3]!
  packets.tcpFlags[i] = flags
  packets.payloadBytes[i] = Math.max(0, ip + ipBytes - transport - headerBytes)
  packets.vlan[i] = vlan
  packets.vlanTags[i] = tags
  packets.ipOffset[i] = ip
  packets.transportOffset[i] = transport
  // unrolled: as a loop it was a third of the cost of a packet
  const mac = 6 * i
  destinationMac[mac] = data[at]!
  destinationMac[mac + 1] = data[at + 1]!
  destinationMac[mac + 2] = data[at + 2]!
  destinationMac[mac + 3] = data[at + 3]!
  destinationMac[mac + 4] = data[at + 4]!
  destinationMac[mac + 5] = data[at + 5]!
  sourceMac[mac] = data[at + 6]!
  sourceMac[mac + 1] = data[at + 7]!
  sourceMac[mac + 2] = data[at + 8]!
  sourceMac[mac + 3] = data[at + 9]!
  sourceMac[mac + 4] = data[at + 10]!
  sourceMac[mac + 5] = data[at + 11]!
  return true
}
