/** --flow-memory: what does not fit is ended early and told, and the default is a watcher's. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePcap } from '@oddflow/capture'
import { UsageError } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { extract, extractFlows } from '../../src/commands/extract.js'
import { RECIPES } from '../../src/flags.js'
import { flowPlan } from '../../src/pipeline/flow-plan.js'
import { captureInputs } from '../../src/pipeline/read-packets.js'
import { readTrainingCaptures } from '../../src/pipeline/training-captures.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-flow-memory-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** UDP packets one after another in the given number of flows. */
function writeFlood(flows: number, packets = flows): string {
  const frames = Array.from({ length: packets }, (_, packet) => {
    const i = packet % flows
    const bytes = new Uint8Array(42)
    bytes.set([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17])
    bytes.set([10, i >> 16, (i >> 8) & 255, i & 255, 198, 51, 100, 1, 4, 0, 0, 53, 0, 8], 26)
    return { timestampMicros: 1e15 + packet, bytes }
  })
  const file = join(folder, `flood-${flows}${packets === flows ? '' : `-${packets}`}.pcap`)
  writeFileSync(file, encodePcap(frames))
  return file
}

async function evicted(flows: number, flowMemory?: number): Promise<number> {
  const file = writeFlood(flows)
  const output = join(folder, 'flows.jsonl')
  const told: string[] = []
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation((text) => told.push(String(text)) > 0)
  try {
    await extractFlows([file], { output, flows: true, ...(flowMemory === undefined ? {} : { flowMemory }) })
  } finally {
    stderr.mockRestore()
  }
  const records = readFileSync(output, 'utf8').trimEnd().split('\n')
  expect(records).toHaveLength(flows)
  const count = records.filter((line) => line.includes('"evicted"')).length
  const sentence = /(\d+) flows? ended early for lack of memory/.exec(told.join(''))
  expect(Number(sentence?.[1] ?? 0)).toBe(count)
  return count
}

describe('--flow-memory', () => {
  it('bounds the open flows; more of it holds them all, and the default is 32 MiB', async () => {
    // 32 MiB hold 81,589 flows of this contract
    expect(await evicted(92_000)).toBe(92_000 - 81_589)
    expect(await evicted(10_000, 64 * 1024 * 1024)).toBe(0)
    expect(await evicted(10_000, 1024 * 1024)).toBeGreaterThan(5_000)
  })

  it('stops the training of summaries where it does not hold all open flows', async () => {
    const inputs = captureInputs([writeFlood(10_000)], false)
    const plan = flowPlan({}, RECIPES.default)
    const options = {
      filter: null,
      view: { decapsulation: 'outer', joinFragments: false },
      progress: createProgress(),
    } as const
    const { rows } = await readTrainingCaptures(inputs, plan, 'none', options)
    expect(rows.rows).toBe(10_000)
    await expect(
      readTrainingCaptures(inputs, plan, 'none', { ...options, flowMemoryBytes: 1024 * 1024 }),
    ).rejects.toThrow(
      /^.*flood-10000\.pcap: more flows are open at once than fit into 1048576 bytes: .*--flow-memory$/,
    )
  })

  it('holds open flows and no packets where extract makes summaries, and stops it where it does not hold the flows', async () => {
    const rows = join(folder, 'rows.csv')
    const flowMemory = 512 * 1024
    // 20,000 packets take 1.2 MB where they are kept
    await extract([writeFlood(10, 20_000)], { output: rows, flowMemory })
    expect(readFileSync(rows, 'utf8').trimEnd().split('\n')).toHaveLength(11)
    const tooMany = writeFlood(10_000)
    await expect(extract([tooMany], { output: rows, flowMemory })).rejects.toThrow(
      /flood-10000\.pcap: more flows are open at once than fit into 524288 bytes: .*--flow-memory$/,
    )
  })

  it('is refused by its name where not even the smallest table fits', async () => {
    const file = writeFlood(1)
    const options = { output: join(folder, 'none.jsonl'), flows: true, flowMemory: 100 }
    await expect(extractFlows([file], options)).rejects.toThrow(UsageError)
    await expect(extractFlows([file], options)).rejects.toThrow(
      /^--flow-memory: expected at least \d+ bytes, found 100$/,
    )
  })
})
