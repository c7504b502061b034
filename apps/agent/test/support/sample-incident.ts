/** Incidents made up for tests; addresses from RFC 5737. */
import type { PeerName } from '../../src/devices/peer-names.js'
import { encodeIncidentEvent, type Incident, type IncidentChange } from '../../src/incidents/incident.js'

export function sampleIncident(changes: Partial<Incident> = {}): Incident {
  return {
    id: 'cb12ab34'.repeat(4),
    state: 'open',
    key: '02:00:00:00:00:0a',
    device: { mac: '02:00:00:00:00:0a', address: '192.0.2.23', name: 'Camera' },
    kind: 'scan',
    level: 'medium',
    beginMicros: 1_700_000_000_000_000,
    endMicros: 1_700_000_012_000_000,
    evidence: 16,
    totalEvidence: 16,
    reported: null,
    reports: 1,
    flows: 16,
    rarity: null,
    sentBytes: 100,
    receivedBytes: 200,
    facts: [
      {
        rule: 'port-scan',
        key: '02:00:00:00:00:0a',
        count: 1,
        firstMicros: 1_700_000_000_000_000,
        lastMicros: 1_700_000_000_000_000,
        fact: 'Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66',
      },
    ],
    contacts: [],
    summary: 'Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66.',
    reasons: [],
    ...changes,
  }
}

/** The event of its report number `reports`, as outputs get it. */
export function incidentLine(
  changes: Partial<Incident> = {},
  change: IncidentChange = 'opened',
  names: readonly PeerName[] = [],
): Uint8Array {
  return encodeIncidentEvent(sampleIncident(changes), change, 'eth0', names)
}

/** `oddflow.id` of an event. */
export function idOf(line: Uint8Array): string {
  return (JSON.parse(new TextDecoder().decode(line)) as { oddflow: { id: string } }).oddflow.id
}
