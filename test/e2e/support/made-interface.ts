/** The agent in this process, with a clock of the test, on an interface that made-recorder.mjs makes up. */
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { readSettings } from '../../../apps/agent/src/config/settings-from.js'
import { nodeFileSystem } from '../../../apps/agent/src/files/file-system.js'
import type { Clock } from '../../../apps/agent/src/input/clocks.js'
import { type AgentResult, runAgent } from '../../../apps/agent/src/pipeline/run-agent.js'
import { keepingLog } from '../../../apps/agent/test/support/keeping-log.js'
import { expectSums } from './agent.js'

const recorder = fileURLToPath(new URL('made-recorder.mjs', import.meta.url))

/** Variables of the environment with which tcpdump is the made recorder, told by files in `folder`. */
export function madeInterface(folder: string): Record<string, string> {
  const bin = join(folder, 'bin')
  mkdirSync(bin, { recursive: true })
  symlinkSync(recorder, join(bin, 'tcpdump'))
  return { PATH: `${bin}:${process.env.PATH}`, MADE_RECORDER: folder }
}

/** Runs the agent of `folder`/agent.yaml as long as `during` takes. */
export async function onMadeInterface(
  folder: string,
  clock: Clock,
  memoryLimit: string,
  during: () => Promise<void>,
): Promise<AgentResult & { told: string }> {
  const { lines, ...log } = keepingLog()
  const stop = new AbortController()
  const settings = await readSettings({
    config: join(folder, 'agent.yaml'),
    once: true,
    fold: true,
    memoryLimit,
  })
  const running = runAgent(settings, {
    files: nodeFileSystem,
    clock,
    log,
    stop: stop.signal,
    readAgain: null,
    onReopen: () => undefined,
  })
  try {
    await during()
  } finally {
    stop.abort()
  }
  const result = await running
  expectSums(result.counters)
  return { ...result, told: lines.join('\n') }
}
