/** What a dashboard tells, made up for tests; addresses from RFC 5737. */
import { eveEvent } from '../../src/alerts/eve.js'
import type { AgentSnapshot } from '../../src/web/metrics.js'
import { sampleAlert } from './sample-alert.js'

export function sampleAlertEvent(summary: string): Record<string, unknown> {
  const alert = sampleAlert({
    device: { mac: '02:50:00:00:00:16', address: '192.168.7.16' },
    peer: '198.51.100.7',
    flow: { source: '192.168.7.16', destination: '198.51.100.7' },
    lostInWindow: 3,
    shadow: { score: 3.5, threshold: -7, novel: false, model: '0123456789abcdef' },
  })
  const features = [
    { name: 'size3', unit: 'bytes', value: 1400, nearest: 60, typical: 62, gain: 9 },
    { name: 'iat3', unit: 's', value: 0.5, nearest: null, typical: null, gain: 2 },
    { name: 'size5', unit: 'bytes', value: null, nearest: 80, typical: 80, gain: 1 },
  ]
  return eveEvent(alert, null, {
    reason: 'features',
    reasons: [],
    summary,
    mode: null,
    features,
    nearestBytes: null,
  })
}

export function sampleSnapshot(): AgentSnapshot {
  return {
    counters: {
      captured: 1_234_567,
      processed: 1_234_560,
      dropped: 7,
      droppedKernel: 7,
      droppedAgent: 0,
      droppedDuplicates: 0,
      filtered: 0,
      notInFlows: {},
      check: { duplicatePackets: 0, wrongChecksums: 0, lastHopPackets: 0 },
      interruptions: 0,
      selfTests: { flagged: 0, missed: 0, notNoticed: 0 },
      overloads: 0,
      flows: 4400,
      evictedFlows: 0,
      novel: { total: 14, score: 13, onePacket: 1 },
      verdicts: { total: 4321, early: 4000, score: 4300, onePacket: 21, notJudged: 0 },
      alerts: {
        held: 5,
        announced: 1,
        answered: 0,
        raised: 9,
        suppressed: 2,
        folded: 3,
        summaries: 1,
        given: 5,
        told: 0,
        incidentReports: 0,
        accepted: 5,
        refused: 0,
        delivered: { eve: 5 },
        setAside: { eve: 0 },
        dropped: { eve: 0 },
        waiting: { eve: 0 },
      },
      incidents: null,
      models: {
        learning: {
          rows: { learnt: 140, heldBack: 3, disregarded: 2, refused: 0, overBudget: 0, crowded: 0 },
          rounds: { accepted: 2, refused: 0, failed: 0 },
          shadow: { bothNormal: 900, bothNovel: 5, onlyNow: 1, onlyTrained: 4 },
        },
      },
    } as unknown as AgentSnapshot['counters'],
    openFlows: 12,
    maximumFlows: 9000,
    residentBytes: 98_000_000,
    memoryLimitBytes: 134_217_728,
    lagSeconds: 0.3,
    outputs: [{ name: 'eve', works: true }],
    spoolWorks: true,
    overloaded: false,
    degraded: [],
    warnings: [],
    model: '0123456789abcdef',
    version: '0.0.0',
  }
}
