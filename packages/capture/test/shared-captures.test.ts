import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CAPTURE_DIFFERENCES, type ExplainedDifference, GOLDEN_DIFFERENCES } from './explained-differences.js'
import { type Observation, observe, sameCounts } from './support/observe.js'
import { captures, goldenCaptures, readJson, sharedMissing } from './support/shared.js'

interface CaptureFact {
  file: string
  packets: number
  wire_bytes: number
  first: string | null
  last: string | null
  flows_outer: number
  packets_in_flows: number
}

interface GoldenFact {
  end: string
  packets: number
  wire_bytes: number
  first_ts_ns: string | null
  last_ts_ns: string | null
  linktypes: Record<string, number>
  flows_outer: Record<string, number> & { unassigned: Record<string, number> }
  flows_inner: Record<string, number> & { unassigned: Record<string, number> }
}

/** "seconds.fraction" of tshark with nine places; a longer fraction is not a time. */
function nanos(text: string | null): bigint | string | null {
  if (text === null) return null
  return /^\d+\.\d{9}$/.test(text) ? BigInt(text.replace('.', '')) : text
}

function check(
  found: readonly string[],
  listed: ExplainedDifference | undefined,
  observation: Observation,
): void {
  expect(found).toEqual(listed?.fields ?? [])
  expect(observation.cpuMillis).toBeLessThan(1000)
}

describe.skipIf(sharedMissing)('data/captures', () => {
  const facts = sharedMissing ? [] : (readJson(join(captures, 'index.json')) as CaptureFact[])

  it('lists every file of the folder, and explains none that is not there', () => {
    const files = readdirSync(captures).filter((name) => name !== 'index.json')
    expect(facts.map((fact) => fact.file).sort()).toEqual(files.sort())
    for (const file of Object.keys(CAPTURE_DIFFERENCES)) expect(files).toContain(file)
  })

  it.each(facts.map((fact) => [fact.file, fact] as const))('%s', async (file, fact) => {
    const seen = await observe(join(captures, file))
    const differing: string[] = []
    if (seen.packets !== fact.packets) differing.push('packets')
    if (seen.wireBytes !== fact.wire_bytes) differing.push('wireBytes')
    if (seen.firstNanos !== nanos(fact.first)) differing.push('first')
    if (seen.lastNanos !== nanos(fact.last)) differing.push('last')
    const flows = Object.values(seen.flows).reduce((sum, count) => sum + count, 0)
    if (flows !== fact.flows_outer) differing.push('flows')
    if (seen.packetsInFlows !== fact.packets_in_flows) differing.push('packetsInFlows')
    check(differing, CAPTURE_DIFFERENCES[file], seen)
    expect(seen.refusal).toBeNull()
    expect(seen.end?.error).toBeNull()
  })
})

describe.skipIf(sharedMissing)('data/golden-captures', () => {
  const facts = sharedMissing
    ? {}
    : (readJson(join(goldenCaptures, 'expected.json')) as Record<string, GoldenFact>)

  it('lists every capture, and explains none that is not there', () => {
    const files: string[] = []
    for (const kind of readdirSync(join(goldenCaptures, 'captures'))) {
      if (kind === 'synthetic') continue
      for (const name of readdirSync(join(goldenCaptures, 'captures', kind)))
        files.push(`captures/${kind}/${name}`)
    }
    expect(Object.keys(facts).sort()).toEqual(files.sort())
    for (const file of Object.keys(GOLDEN_DIFFERENCES)) expect(files).toContain(file)
  })

  const views = Object.entries(facts).flatMap(([file, fact]) =>
    (['outer', 'inner'] as const).map((view) => [`${file}, ${view}`, file, view, fact] as const),
  )
  it.each(views)('%s', async (_, file, view, fact) => {
    const seen = await observe(join(goldenCaptures, file), { decapsulate: view })
    const expected = view === 'outer' ? fact.flows_outer : fact.flows_inner
    const differing: string[] = []
    if (seen.packets !== fact.packets) differing.push('packets')
    if (seen.wireBytes !== fact.wire_bytes) differing.push('wireBytes')
    if (String(seen.firstNanos) !== String(fact.first_ts_ns)) differing.push('first')
    if (String(seen.lastNanos) !== String(fact.last_ts_ns)) differing.push('last')
    for (const name of ['ipv4_tcp', 'ipv4_udp', 'ipv6_tcp', 'ipv6_udp']) {
      if ((seen.flows[name] ?? 0) !== (expected[name] ?? 0)) differing.push(name)
    }
    if (seen.packetsInFlows !== expected.packets) differing.push('packetsInFlows')
    if (!sameCounts(seen.unassigned, expected.unassigned)) differing.push('unassigned')
    check(differing, GOLDEN_DIFFERENCES[file], seen)
    expect(seen.linkTypes).toEqual(fact.linktypes)
    if (fact.end === 'clean') expect(seen.end).toMatchObject({ error: null, truncated: false })
    else expect(seen.refusal?.problem).toBe('not-a-capture')
  })
})

describe.skipIf(sharedMissing)('data/golden-captures/captures/synthetic', () => {
  const folder = join(goldenCaptures, 'captures/synthetic')
  const names = sharedMissing ? [] : readdirSync(folder).filter((name) => name.endsWith('.pcap'))
  const facts = sharedMissing
    ? {}
    : (readJson(join(folder, 'expected.json')) as Record<string, { packets?: number[] }>)

  it.each(names)('%s', async (name) => {
    const seen = await observe(join(folder, name))
    expect(seen.end).toMatchObject({ error: null, truncated: false })
    const packets = facts[name]?.packets
    if (packets !== undefined) {
      expect(seen.packetsInFlows).toBe(packets.reduce((sum, count) => sum + count, 0))
    }
  })
})
