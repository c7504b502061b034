/** A flow record that stands for a device where no flow is at hand: its address, no packets, and no protocol. */
import { parseIpv4, parseIpv6, parseMac } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import type { Device } from './device.js'

export function recordOfDevice(
  { key, address }: Pick<Device, 'key' | 'address'>,
  atMicros: number,
): FlowRecord {
  const ipv6 = parseIpv6(address)
  return {
    ipVersion: ipv6 === null ? 4 : 6,
    protocol: 0,
    initiatorAddress:
      ipv6 === null ? Uint32Array.of(0, 0, 0, parseIpv4(address) ?? 0) : Uint32Array.from(ipv6),
    responderAddress: new Uint32Array(4),
    initiatorPort: 0,
    responderPort: 0,
    initiatorMac: Uint8Array.from(parseMac(key) ?? new Uint8Array(6)),
    responderMac: new Uint8Array(6),
    vlan: 0,
    captureIndex: 0,
    firstPacketNumber: 0,
    flowFirstPacketNumber: 0,
    flowStartMicros: atMicros,
    pieceIndex: 0,
    startMicros: atMicros,
    durationMicros: 0,
    packets: 0,
    bytes: 0,
    initiatorPackets: 0,
    responderPackets: 0,
    initiatorBytes: 0,
    responderBytes: 0,
    initiatorIpBytes: 0,
    responderIpBytes: 0,
    initiatorTcpFlags: 0,
    responderTcpFlags: 0,
    rowPackets: 0,
    endReason: 'idle-timeout',
    row: null,
    noRowReason: null,
    rowGivenEarly: false,
  }
}
