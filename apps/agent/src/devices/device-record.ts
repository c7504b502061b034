/** A flow record that stands for a device where no flow is at hand: its address, no packets, and no protocol. */
import { parseIpv4, parseIpv6, parseMac } from '@oddflow/capture'
import { createFlowRecord, type FlowRecord } from '@oddflow/flows'
import type { Device } from './device.js'

export function recordOfDevice(
  { key, address }: Pick<Device, 'key' | 'address'>,
  atMicros: number,
): FlowRecord {
  const ipv6 = parseIpv6(address)
  return {
    ...createFlowRecord(),
    ipVersion: ipv6 === null ? 4 : 6,
    initiatorAddress:
      ipv6 === null ? Uint32Array.of(0, 0, 0, parseIpv4(address) ?? 0) : Uint32Array.from(ipv6),
    initiatorMac: Uint8Array.from(parseMac(key) ?? new Uint8Array(6)),
    flowStartMicros: atMicros,
    startMicros: atMicros,
    endReason: 'idle-timeout',
  }
}
