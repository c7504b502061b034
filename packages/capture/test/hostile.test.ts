import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { createCaptureReader } from '../src/capture-reader.js'
import { HOSTILE_DIFFERENCES } from './explained-differences.js'
import { liveBytes } from './support/live-bytes.js'
import { observe, sameCounts } from './support/observe.js'
import { hostile, readJson, sharedMissing } from './support/shared.js'

interface HostileFact {
  name: string
  accept: string
  expect: {
    end?: string
    packets?: number
    linktypes?: Record<string, number>
    flow_packets_outer?: number
    unassigned?: Record<string, number>
  }
}

/** The bomb unpacks to 256 MiB: it may take its time, not memory. */
const SLOW = new Set(['gzip/bomb_256MiB.pcap.gz'])

describe.skipIf(sharedMissing)('data/hostile', () => {
  const facts = sharedMissing ? [] : (readJson(join(hostile, 'index.json')) as HostileFact[])

  it('explains no file that is not there', () => {
    const names = facts.map((fact) => fact.name)
    for (const name of Object.keys(HOSTILE_DIFFERENCES)) expect(names).toContain(name)
  })

  it.each(facts.map((fact) => [fact.name, fact] as const))('%s', async (name, fact) => {
    const isSlow = SLOW.has(name)
    // all buffers that a small file ever asks for count; of the bomb, those that are still held
    const held = isSlow ? liveBytes : () => process.memoryUsage().arrayBuffers
    const before = held()
    let [batches, most] = [0, 0]
    const seen = await observe(join(hostile, name), {}, () => {
      batches++
      if (!isSlow || batches % 500 === 1) most = Math.max(most, held() - before)
    })
    expect(seen.cpuMillis).toBeLessThan(isSlow ? 20_000 : 1000)
    expect(Math.max(most, held() - before)).toBeLessThan(128e6)
    const error = seen.refusal ?? seen.end?.error ?? null
    const damaged = error !== null || seen.end?.truncated === true

    const exactly = /^read exactly (\d+) packets, no error/.exec(fact.accept)
    const report = /^read (\d+) packets \(fewer only if .*\), then report: (.*)$/.exec(fact.accept)
    const refuse = /^refuse, or read (\d+) packets and warn$/.exec(fact.accept)
    if (exactly !== null) {
      expect(damaged).toBe(false)
      expect(seen.packets).toBe(Number(exactly[1]))
    } else if (report !== null) {
      expect(seen.packets).toBe(Number(report[1]))
      expect(damaged).toBe(true)
      if (report[2]!.startsWith('truncated-record')) expect(seen.end?.truncated).toBe(true)
    } else if (refuse !== null) {
      if (error === null) expect(seen.packets).toBe(Number(refuse[1]))
    } else if (fact.accept.startsWith('report the damage; 0 to 0 packets')) {
      expect(seen.packets === 0 ? [] : ['packets']).toEqual(HOSTILE_DIFFERENCES[name]?.fields ?? [])
      expect(damaged).toBe(true)
    } else {
      expect(fact.accept).toContain('ends within the time and memory bounds')
      expect(seen.packets).toBe(4469)
    }

    // whose packets they are, where the evidence says so
    if (exactly !== null && fact.expect.unassigned !== undefined) {
      const differing: string[] = []
      if (seen.packetsInFlows !== fact.expect.flow_packets_outer) differing.push('packetsInFlows')
      // a later fragment is one whatever it carries; the evidence calls it so for TCP and UDP alone
      const { fragment = 0, ...expected } = fact.expect.unassigned
      if (fragment > 0) expected['later-fragment'] = (expected['later-fragment'] ?? 0) + fragment
      if (!sameCounts(seen.unassigned, expected)) differing.push('unassigned')
      expect(differing).toEqual(HOSTILE_DIFFERENCES[name]?.fields ?? [])
      expect(seen.linkTypes).toEqual(fact.expect.linktypes)
    }
  })
})

describe.skipIf(sharedMissing)('data/hostile/truncation.json', () => {
  const cuts = sharedMissing
    ? {}
    : (readJson(join(hostile, 'truncation.json')) as Record<string, [number, number, string][]>)

  it.each(Object.entries(cuts))('every cut of %s', (name, expected) => {
    const file = readFileSync(join(hostile, name))
    const whole = name.endsWith('.gz') ? gunzipSync(file) : file
    expect(expected.length).toBe(whole.length + 1)
    for (const [bytes, packets, end] of expected) {
      const reader = createCaptureReader()
      let found = 0
      reader.push(whole.subarray(0, bytes))
      for (let batch = reader.read(); batch !== null; batch = reader.read()) found += batch.count
      const state = reader.end()
      expect([bytes, found, state.packets]).toEqual([bytes, packets, packets])
      expect([bytes, state.truncated]).toEqual([bytes, end !== 'clean' && end !== 'empty-file'])
      // an error is said while there is no whole file header
      const headless = bytes < (name.startsWith('pcapng/') ? 28 : 24)
      expect([bytes, state.error !== null]).toEqual([bytes, headless])
      expect([bytes, state.detail === null]).toEqual([bytes, end === 'clean'])
    }
  })
})
