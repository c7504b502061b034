/** Alerts made up for tests; addresses from RFC 5737. */
import type { Alert, AlertFlow } from '../../src/alerts/alert.js'
import type { AlertExplanation } from '../../src/alerts/eve.js'

let count = 0

export function sampleAlert(
  changes: Partial<Omit<Alert, 'flow'>> & { flow?: Partial<AlertFlow> } = {},
): Alert {
  const flow: AlertFlow = {
    protocol: 'tcp',
    source: '192.0.2.10',
    sourcePort: 50_000,
    destination: '198.51.100.1',
    destinationPort: 443,
    startMicros: 1_700_000_000_000_000,
    durationMicros: 250_001,
    packets: 12,
    bytes: 3456,
    piece: 0,
    ...changes.flow,
  }
  return {
    id: String(count++).padStart(32, '0'),
    captureIndex: 0,
    flowFirstPacketNumber: 17,
    sourceWords: Uint32Array.of(0, 0, 0, 0xc000020a),
    destinationWords: Uint32Array.of(0, 0, 0, 0xc6336401),
    ipVersion: 4,
    protocol: 6,
    vlan: 0,
    device: { mac: '02:00:00:00:00:0a', address: flow.source },
    peer: flow.destination,
    peerKey: null,
    flowStartMicros: flow.startMicros,
    initiatorPackets: 7,
    responderPackets: 5,
    initiatorBytes: 1000,
    responderBytes: 2456,
    rule: 'score',
    score: -12.5,
    threshold: -8,
    early: true,
    atMicros: flow.startMicros + flow.durationMicros,
    model: '0123456789abcdef',
    lostPackets: 0,
    lostInWindow: 0,
    rarity: { atMost: 0.001, flows: 2000 },
    row: null,
    folded: null,
    ...changes,
    flow,
  }
}

/** As of a detector that has nothing to explain by. */
export const NO_EXPLANATION: AlertExplanation = {
  reason: 'whole',
  reasons: [],
  summary: 'unlike normal flows',
  mode: null,
  features: [],
  nearestBytes: null,
}
