/** Captures of alerted flows, and what becomes of an input without a packet; tcpdump reads what was written. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { agent, agentOnce, readEve } from './support/agent.js'
import { can, lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const scan = lab('novel-scan.pcap').path

beforeAll(async () => {
  await trainLabModel(model)
})

const configured = (name: string, evidence: string): string => {
  const path = join(folder, `${name}.yaml`)
  writeFileSync(path, `model: home.oddflow\nread: ${scan}\neve: ${name}.json\nevidence: ${evidence}\n`)
  return path
}

describe('evidence', () => {
  it('of an alert is a capture of its flow, that others cannot read', async (context) => {
    if (!can('tcpdump')) context.skip('tcpdump is not installed')
    const counters = await agentOnce(['-c', configured('kept', '{directory: kept}')])
    const named = readEve(join(folder, 'kept.json')).filter(({ oddflow }) => oddflow.evidence !== undefined)
    const files = readdirSync(join(folder, 'kept'))
    expect(counters.evidence).toEqual({ written: named.length, skipped: 0, failed: 0, removed: 0 })
    expect(named.length).toBeGreaterThan(5)
    expect(files.sort()).toEqual(named.map(({ oddflow }) => oddflow.evidence).sort())
    for (const { src_ip, dest_ip, oddflow } of named) {
      const path = join(folder, 'kept', oddflow.evidence!)
      expect(oddflow.evidence).toBe(`${oddflow.id}.pcap`)
      expect(statSync(path).mode & 0o777).toBe(0o600)
      const lines = execFileSync('tcpdump', ['-nn', '-r', path], { encoding: 'utf8', stdio: 'pipe' })
        .trimEnd()
        .split('\n')
      expect(lines.length).toBeGreaterThanOrEqual(1)
      expect(lines.length).toBeLessThanOrEqual(64)
      const { kept, of, later } = oddflow.evidencePackets!
      expect(kept + later).toBe(lines.length)
      expect(of).toBe(oddflow.flow.packets)
      // the recording is shorter than what is kept of it
      expect(kept).toBe(Math.min(64, of))
      for (const line of lines) {
        expect(line).toContain(src_ip)
        expect(line).toContain(dest_ip)
      }
    }
  }, 60_000)

  it('stays within its budget: the oldest goes', async () => {
    const limit = 2000
    const counters = await agentOnce(['-c', configured('bounded', `{directory: bounded, limit: ${limit}}`)])
    const files = readdirSync(join(folder, 'bounded'))
    const bytes = files.reduce((sum, name) => sum + statSync(join(folder, 'bounded', name)).size, 0)
    expect(bytes).toBeLessThanOrEqual(limit)
    expect(files.length).toBeGreaterThan(0)
    expect(counters.evidence!.removed).toBe(counters.evidence!.written - files.length)
    expect(counters.evidence!.removed).toBeGreaterThan(0)
  }, 60_000)
})

describe('a recording', () => {
  it.each([
    ['cut within its first packet', 40, 1],
    ['with no packet', 24, 1],
    ['cut within a later one', 2000, 0],
  ])('%s: exit code as of the other programs', async (_, bytes, code) => {
    const path = join(folder, `cut-${bytes}.pcap`)
    writeFileSync(path, readFileSync(scan).subarray(0, bytes))
    const eve = join(folder, `cut-${bytes}.json`)
    const run = await agent(['run', '--once', '--read', path, '--model', model, '--eve', eve])
    expect(run.code, run.stderr).toBe(code)
    if (code === 1) expect(run.stderr).toContain(`${path}: no packet in it; check what was captured\n`)
    else expect(run.stderr).toMatch(/warning: .*the \d+ packets before it were used\n/)
    expect(existsSync(eve)).toBe(true)
  })
})
