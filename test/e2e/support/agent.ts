/** The real agent, run as a user runs it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { root } from '../../../tools/workspace/layout.mjs'
import { type Run, type RunOptions, runToEnd } from './oddflow.js'

export const agentMain = join(root, 'apps/agent/dist/main.js')

/** `oddflow-agent ARGS`; a run may be one of root, as tests on a build server are. */
export function agent([command, ...args]: readonly string[], options: RunOptions = {}): Promise<Run> {
  const given = command === 'run' ? [command, '--allow-root', ...args] : [command ?? '', ...args]
  return runToEnd(process.execPath, [...(options.node ?? []), agentMain, ...given], options)
}

export interface Counters {
  captured: number
  processed: number
  dropped: number
  droppedKernel: number
  droppedAgent: number
  droppedDuplicates: number
  check: { ipPackets: number; duplicatePackets: number; wrongChecksums: number; lastHopPackets: number }
  filtered: number
  packetsInFlows: number
  evictedFlows: number
  /** Of the real program alone. */
  peakResidentBytes: number
  notInFlows: Record<string, number>
  verdicts: { total: number; early: number }
  novel: { total: number; score: number; onePacket: number }
  evidence: { written: number; skipped: number; failed: number; removed: number } | null
  devices: { byState: Record<string, number>; found: number; untold: number } | null
  budget: { threshold: { value: number } | null } | null
  alerts: {
    raised: number
    held: number
    announced: number
    answered: number
    suppressed: number
    folded: number
    summaries: number
    given: number
    told: number
    incidentReports: number
    accepted: number
    refused: number
    delivered: Record<string, number>
    setAside: Record<string, number>
    dropped: Record<string, number>
    waiting: Record<string, number>
  }
}

/** Runs with --once, expects exit code 0, and the sums of the counters to be right. */
export async function agentOnce(args: readonly string[], options: RunOptions = {}): Promise<Counters> {
  const run = await agent(['run', '--once', ...args], options)
  expect(run, run.stderr).toMatchObject({ code: 0, signal: null })
  const lines = run.stdout.split('\n')
  expect(lines).toHaveLength(2)
  const counters = JSON.parse(lines[0]!) as Counters
  expectSums(counters)
  return counters
}

/** What must hold whatever the traffic. */
export function expectSums(
  counters: Omit<Counters, 'notInFlows' | 'peakResidentBytes'> & { notInFlows: object },
): void {
  const { alerts } = counters
  const notInFlows = Object.values(counters.notInFlows).reduce((sum: number, n: number) => sum + n, 0)
  expect(counters.processed + counters.dropped + counters.filtered).toBe(counters.captured)
  expect(counters.droppedKernel + counters.droppedAgent + counters.droppedDuplicates).toBe(counters.dropped)
  expect(counters.packetsInFlows + notInFlows).toBe(counters.processed)
  expect(alerts.raised).toBe(counters.novel.total - alerts.held + alerts.announced + alerts.answered)
  expect(alerts.suppressed + alerts.folded + alerts.given - alerts.summaries).toBe(alerts.raised)
  expect(alerts.accepted + alerts.refused).toBe(alerts.given + alerts.told + alerts.incidentReports)
  const { delivered, setAside, dropped, waiting } = alerts
  for (const output of Object.keys(delivered)) {
    const all = [delivered, setAside, dropped, waiting].reduce((sum, each) => sum + (each[output] ?? 0), 0)
    // what an earlier run has left comes on top
    expect(all, output).toBeGreaterThanOrEqual(alerts.accepted)
  }
}

/** An event, as far as tests look into it. */
export interface EveEvent {
  timestamp: string
  event_type: string
  vlan?: number[]
  src_ip: string
  dest_ip: string
  community_id: string
  oddflow: {
    id: string
    model: string | null
    rule: string
    device: { mac: string | null; address: string }
    score: number | null
    decision: number | null
    threshold: number
    rarity: { atMost: number; flows: number } | null
    summary: string
    shadow?: { score: number; threshold: number; novel: boolean; model: string }
    mode: { component: number; weight: number } | null
    features: {
      name: string
      value: number | null
      nearest: number | null
      typical: number | null
      gain: number
    }[]
    lostInWindow: number
    evidence?: string
    evidencePackets?: { kept: number; of: number; later: number }
    flow: {
      protocol: string
      source: string
      sourcePort: number
      destination: string
      destinationPort: number
      startMicros: number
      packets: number
      piece: number
    }
    folded?: { count: number }
    muted?: string
    names?: { address: string; name: string; source: string }[]
  }
}

/** Every line of an EVE file, which must be whole. */
/** Alerts; incidents are `readIncidentEvents`. */
export function readEve(path: string): EveEvent[] {
  return readEvents(path).filter((event) => event.event_type === 'alert') as EveEvent[]
}

interface IncidentOfEve {
  readonly oddflow: {
    readonly id: string
    readonly summary: string
    readonly incident: {
      readonly id: string
      readonly change: string
      readonly kind: string
      readonly level: string
    }
  }
}

export function readIncidentEvents(path: string): IncidentOfEve[] {
  return readEvents(path).filter((event) => event.event_type === 'incident') as unknown as IncidentOfEve[]
}

function readEvents(path: string): { readonly event_type: string }[] {
  const lines = readFileSync(path, 'utf8').split('\n')
  expect(lines.pop()).toBe('')
  return lines.map((line) => JSON.parse(line) as { event_type: string })
}
