/**
 * The agent raises exactly the flows that `oddflow score` calls novel: by flow key, with bit-equal scores. By the
 * real programs on the repository's captures, and in one process on every golden capture.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '../../apps/agent/src/config/settings.js'
import { nodeFileSystem } from '../../apps/agent/src/files/file-system.js'
import { systemClock } from '../../apps/agent/src/input/clocks.js'
import { runAgent } from '../../apps/agent/src/pipeline/run-agent.js'
import { PRIVATE_NETWORKS, parseNetwork } from '../../packages/program/src/index.js'
import { root } from '../../tools/workspace/layout.mjs'
import { agentOnce, type EveEvent, expectSums, readEve } from './support/agent.js'
import { oddflowAmongMany } from './support/many-commands.js'
import { jsonLines, lab, labCaptures, temporaryFolder, trainLabModel } from './support/oddflow.js'

interface ScoredFlow {
  score: number | null
  decision: number | null
  novel: boolean
  rule: string
  protocol: string
  source: string
  sourcePort: number
  destination: string
  destinationPort: number
  startMicros: number
  piece: number
}

const folder = temporaryFolder()
const models = {
  split: join(folder, 'split.oddflow'),
  truncate: join(folder, 'truncate.oddflow'),
  summary: join(folder, 'summary.oddflow'),
}

beforeAll(async () => {
  await trainLabModel(models.split, ['--features', 'iat-size'])
  await trainLabModel(models.truncate, [
    ...['--features', 'iat-size', '--truncation', 'truncate', '--iat-unit', 'us', '--size', 'ip'],
  ])
  await trainLabModel(models.summary, ['--features', 'flow-summary', '--active-timeout', '60'])
})

type Verdict = Pick<ScoredFlow, 'score' | 'decision' | 'rule'>
const keyOf = (flow: Omit<ScoredFlow, keyof Verdict | 'novel'>, { score, decision, rule }: Verdict): string =>
  [
    flow.protocol,
    flow.source,
    flow.sourcePort,
    flow.destination,
    flow.destinationPort,
    flow.startMicros,
    flow.piece,
    rule,
    score,
    decision,
  ].join(' ')

const alertKeys = (events: readonly EveEvent[]): string[] =>
  events.map(({ oddflow }) => keyOf(oddflow.flow, oddflow)).sort()

/** What `oddflow score` calls novel. A capture without a flow is refused there, and has none. */
async function novelKeys(model: string, capture: string): Promise<string[]> {
  const run = await oddflowAmongMany(['score', model, capture, '--format', 'json'], folder)
  if (run.code !== 0) {
    expect(run.stderr).toMatch(/: no flows \(/)
    return []
  }
  return jsonLines<ScoredFlow>(run)
    .filter(({ novel }) => novel)
    .map((flow) => keyOf(flow, flow))
    .sort()
}

describe('the real programs', () => {
  it.each(labCaptures.map(({ file }) => file))('agree on %s', async (file) => {
    const eve = join(folder, `${file}.eve`)
    const capture = lab(file)
    const counters = await agentOnce([
      '--read',
      capture.path,
      '--model',
      models.split,
      '--eve',
      eve,
      '--no-fold',
    ])
    const events = readEve(eve)
    expect(alertKeys(events)).toEqual(await novelKeys(models.split, capture.path))
    expect(counters).toMatchObject({ captured: capture.packets, dropped: 0, filtered: 0 })
    expect(counters.alerts.delivered).toEqual({ eve: events.length })
    expect(new Set(events.map(({ oddflow }) => oddflow.id)).size).toBe(events.length)
  })

  it('agree on standard input, and the same packets give the same bytes', async () => {
    const { path } = lab('novel-scan.pcap')
    const files = ['file.eve', 'stdin.eve'].map((name) => join(folder, name))
    const options = ['--model', models.split, '--no-fold', '--eve']
    await agentOnce(['--read', path, ...options, files[0]!])
    await agentOnce(['--read', '-', ...options, files[1]!], { stdin: readFileSync(path) })
    expect(readFileSync(files[1]!).equals(readFileSync(files[0]!))).toBe(true)
  })

  it('count what a filter takes out', async () => {
    const { path, packets } = lab('novel-scan.pcap')
    const eve = join(folder, 'filtered.eve')
    const counters = await agentOnce([
      '--read',
      path,
      '--model',
      models.split,
      '--eve',
      eve,
      '--filter',
      'udp',
    ])
    expect(counters.captured).toBe(packets)
    expect(counters.filtered).toBeGreaterThan(1000)
    expect(counters.processed).toBeGreaterThan(0)
  })
})

const golden = join(process.env.ODDFLOW_SHARED ?? join(root, '../shared'), 'data/golden-captures/captures')
const goldenCaptures = existsSync(golden)
  ? (readdirSync(golden, { recursive: true }) as string[])
      .filter((name) => /\.(pcap|pcapng|cap)(\.\w+)?$/.test(name))
      .sort()
  : []

describe('every golden capture', () => {
  it.for(Object.entries(models))(
    'gives the same novel flows under the model %s',
    async ([mode, model], context) => {
      if (goldenCaptures.length === 0) context.skip('no evidence folder: set ODDFLOW_SHARED')
      let novel = 0
      const tried = sampleOf(goldenCaptures.entries())
      for (const [i, name] of tried) {
        const capture = join(golden, name)
        const eve = join(folder, `${mode}-${i}.eve`)
        const { counters, undelivered } = await runAgent(settings(capture, model, eve), {
          files: nodeFileSystem,
          clock: systemClock,
          log: { info: () => undefined, warn: () => undefined, error: () => undefined },
          stop: new AbortController().signal,
          readAgain: null,
          onReopen: () => undefined,
        })
        const events = readEve(eve)
        expect(alertKeys(events), name).toEqual(await novelKeys(model, capture))
        expect(undelivered).toEqual([])
        expectSums(counters)
        novel += events.length
      }
      expect(novel).toBeGreaterThan(2 * tried.length)
    },
  )
})

function settings(path: string, model: string, eve: string): Settings {
  return {
    input: { kind: 'recorded', path, filter: null },
    dropDuplicates: false,
    model,
    eve,
    fold: null,
    peerNames: null,
    once: true,
    state: null,
    spoolBytes: 0,
    memoryLimitBytes: 512 * 1_048_576,
    listen: null,
    dashboard: null,
    models: null,
    modelKey: null,
    learning: null,
    evidence: null,
    allowRoot: true,
    localNetworks: PRIVATE_NETWORKS.map(parseNetwork),
    suppress: [],
    budget: null,
    outputs: [],
    devices: null,
  }
}
