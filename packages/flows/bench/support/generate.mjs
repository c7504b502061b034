/**
 * Generated traffic: a capture in memory, and contracts to extract it under.
 */
import { encodePcapFileHeader } from '@oddflow/capture'
import { createRng, featureDimension } from '@oddflow/core'

const SNAP_BYTES = 96
const RECORD_BYTES = 16 + SNAP_BYTES

/** A classic pcap of `packets` packets, 10 µs apart, each of one of `flows` flows taken at random. */
export function makeCapture(packets, flows) {
  const rng = createRng(1)
  const header = encodePcapFileHeader()
  const bytes = new Uint8Array(header.length + packets * RECORD_BYTES)
  bytes.set(header)
  const view = new DataView(bytes.buffer)
  for (let i = 0; i < packets; i++) {
    const flow = i < flows ? i : rng.nextBelow(flows)
    const back = i >= flows && rng.nextBelow(2) === 1
    const tcp = flow % 3 !== 0
    const wire = SNAP_BYTES + rng.nextBelow(1418)
    const at = header.length + i * RECORD_BYTES
    view.setUint32(at, 1_600_000_000 + Math.floor(i / 100_000), true)
    view.setUint32(at + 4, 10 * (i % 100_000), true)
    view.setUint32(at + 8, SNAP_BYTES, true)
    view.setUint32(at + 12, wire, true)
    const frame = at + 16
    view.setUint16(frame + 12, 0x0800)
    const ip = frame + 14
    view.setUint8(ip, 0x45)
    view.setUint16(ip + 2, wire - 14)
    view.setUint8(ip + 8, 64)
    view.setUint8(ip + 9, tcp ? 6 : 17)
    const client = 0x0a000000 + (flow >>> 6)
    view.setUint32(ip + 12, back ? 0xc0a80001 : client)
    view.setUint32(ip + 16, back ? client : 0xc0a80001)
    const port = 1024 + (flow & 63)
    view.setUint16(ip + 20, back ? 443 : port)
    view.setUint16(ip + 22, back ? port : 443)
    if (tcp) {
      view.setUint8(ip + 32, 0x50)
      view.setUint8(ip + 33, i < flows ? 2 : 24)
    }
  }
  return bytes
}

/** A contract of split records of 10 s. */
export function contractFor(featureSet, packetsPerFlow) {
  const own = {
    'iat-size': { iatUnit: 'seconds' },
    iat: { iatUnit: 'seconds' },
    'stats-header': { iatUnit: 'seconds', packetsKept: 65_536 },
    'samp-size': { samplingIntervalMicros: 500_000 },
    'samp-num': { samplingIntervalMicros: 500_000 },
  }
  return {
    featureSet,
    featureSetVersion: 1,
    dimension: featureDimension(featureSet, packetsPerFlow, 'split'),
    packetsPerFlow,
    sizeMeasure: 'frame',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: 600_000_000,
    activeTimeoutMicros: null,
    truncation: { mode: 'split', durationMicros: 10_000_000 },
    minimumPackets: 2,
    scaler: 'none',
    ...own[featureSet],
  }
}
