/** Flow records made up for tests: a device of the local network, by its last byte, and a server outside. */
import type { FlowRecord } from '@oddflow/flows'

export function sampleRecord(device: number, changes: Partial<FlowRecord> = {}): FlowRecord {
  return {
    ipVersion: 4,
    protocol: 6,
    initiatorAddress: Uint32Array.of(0, 0, 0, 0xc0a80000 + device),
    responderAddress: Uint32Array.of(0, 0, 0, 0xc6336401),
    initiatorPort: 50_000,
    responderPort: 443,
    initiatorMac: Uint8Array.of(2, 0, 0, 0, device >> 8, device & 255),
    responderMac: Uint8Array.of(2, 0, 0, 0, 255, 255),
    vlan: 0,
    captureIndex: 0,
    firstPacketNumber: 0,
    flowFirstPacketNumber: 0,
    flowStartMicros: 1_700_000_000_000_000,
    pieceIndex: 0,
    startMicros: 1_700_000_000_000_000,
    durationMicros: 20_000,
    packets: 3,
    bytes: 300,
    initiatorPackets: 2,
    responderPackets: 1,
    initiatorBytes: 200,
    responderBytes: 100,
    initiatorIpBytes: 200,
    responderIpBytes: 100,
    initiatorTcpFlags: 2,
    responderTcpFlags: 18,
    rowPackets: 3,
    endReason: 'idle-timeout',
    row: null,
    noRowReason: null,
    rowGivenEarly: false,
    ...changes,
  }
}
