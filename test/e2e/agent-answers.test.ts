/** A person answers incidents at the running agent: what was said to be normal is silent, and attacks are found as before. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { agent, agentMain, agentOnce, type EveEvent, readEve, readIncidentEvents } from './support/agent.js'
import { lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

interface Listed {
  readonly id: string
  readonly kind: string
  readonly device: { readonly mac: string | null }
  readonly answer: { readonly answer: string; readonly changes: readonly string[] } | null
}

/** The answers that mute alerts on flows of a device to an address; "none" of those that are not muted. */
function mutedOf(eve: string, { mac }: Listed['device'], destination: string): string[] {
  return readEve(eve)
    .filter(({ oddflow }) => oddflow.device.mac === mac && oddflow.flow.destination === destination)
    .map(({ oddflow }) => oddflow.muted ?? 'none')
}

let child: ChildProcess | null = null
let receiver: Server | null = null
afterEach(() => {
  child?.kill('SIGKILL')
  receiver?.close()
})

/** A webhook's receiver, and the events that it has taken. */
async function openReceiver(): Promise<{ url: string; received: EveEvent[] }> {
  const received: EveEvent[] = []
  receiver = createServer(async (request, response) => {
    received.push(...(JSON.parse(await text(request)) as EveEvent[]))
    response.end()
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  return { url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`, received }
}

/** An agent that watches the lab's devices, and whose word is asked after a recording. */
async function home() {
  const folder = temporaryFolder()
  const { url, received } = await openReceiver()
  const state = join(folder, 'state')
  const eve = join(folder, 'eve.json')
  const config = join(folder, 'agent.json')
  writeFileSync(
    config,
    JSON.stringify({
      model: await trainLabModel(join(folder, 'lab.oddflow')),
      eve: 'eve.json',
      state: 'state',
      outputs: [{ kind: 'webhook', url }],
      localNetworks: ['192.168.50.0/24', 'fd50::/64', 'fe80::/10'],
      devices: { approve: 'auto', learnHours: 0.005, judgeHours: 0.01, learnFlows: 5, stableShare: 1 },
    }),
  )
  await agentOnce(['-c', config, '--read', lab('normal-4.pcap.gz').path])
  /** Reads a recording and goes on until it is killed. */
  const watch = async (capture: string): Promise<void> => {
    child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config, '--read', capture], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let told = ''
    for await (const piece of child.stderr ?? []) {
      told += piece
      if (told.includes('waiting for a signal')) break
    }
  }
  const kill = async (): Promise<void> => {
    const ended = new Promise((done) => child?.once('exit', done))
    child?.kill('SIGKILL')
    await ended
  }
  /** What opens while a recording is read once. */
  const opens = async (capture: string): Promise<string[]> => {
    const before = readIncidentEvents(eve).length
    await agentOnce(['-c', config, '--read', capture])
    return readIncidentEvents(eve)
      .slice(before)
      .map(({ oddflow: { incident } }) => `${incident.change} ${incident.kind}`)
  }
  const list = async (): Promise<Listed[]> => {
    const { stdout } = await agent(['incidents', 'list', '--state', state, '--format', 'json'])
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Listed)
  }
  const answer = (id: string, ...words: string[]) =>
    agent(['incidents', 'answer', id, ...words, '--state', state])
  return { eve, state, watch, kill, opens, list, answer, received }
}

describe('an answer at the running agent', () => {
  it('"normal" makes the same traffic silent and leaves attacks to be found, over a kill and until it is taken back', async () => {
    const { eve, watch, kill, opens, list, answer } = await home()
    const download = lab('novel-firmware.pcap').path
    await watch(download)
    await expect
      .poll(async () => (await list()).map(({ kind }) => kind), { timeout: 20_000 })
      .toEqual(['download', 'download'])
    // the camera's, and the plug's
    const [{ id, device }, other] = (await list()) as [Listed, Listed]
    expect(await answer(other.id, 'normal')).toMatchObject({ code: 0 })
    const refused = await answer(id.slice(0, 6), 'perhaps')
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toContain('snooze, not-this-kind, attack, normal')
    const answered = await answer(id.slice(0, 6), 'normal')
    expect(answered, answered.stderr).toMatchObject({ code: 0 })
    expect(answered.stdout).toMatch(/normal with .*203\.0\.113\.20 \(tcp port 443\)/)
    expect(answered.stdout).toMatch(
      /(\d+) of \d+ earlier flows change verdict: \1 of \1 of this incident, 0 of \d+ usual/,
    )
    await kill()
    expect((await list()).find((each) => each.id === id)?.answer).toMatchObject({
      answer: 'normal',
      changes: [expect.any(String)],
    })
    const flagged = mutedOf(eve, device, '203.0.113.20')
    expect(new Set(flagged)).toEqual(new Set(['none']))
    expect(await opens(download)).toEqual([])
    // the same flows, in the EVE file alone
    const again = mutedOf(eve, device, '203.0.113.20').slice(flagged.length)
    expect(new Set(again)).toEqual(new Set(['normal']))
    expect(await opens(lab('novel-publishing.pcap.gz').path)).toContain('opened upload')
    expect(await opens(lab('novel-scan.pcap').path)).toContain('opened scan')
    await watch(lab('normal-1.pcap').path)
    expect(await answer(id.slice(0, 6), 'none')).toMatchObject({ code: 0 })
    expect((await list()).find((each) => each.id === id)?.answer).toBe(null)
  }, 240_000)

  it('"snooze" gives no report of such an incident, and its alerts reach the EVE file alone', async () => {
    const { eve, watch, kill, list, answer, opens, received } = await home()
    const upload = lab('novel-publishing.pcap.gz').path
    await watch(upload)
    await expect
      .poll(async () => (await list()).map(({ kind }) => kind), { timeout: 20_000 })
      .toEqual(['upload'])
    const [{ id, device }] = (await list()) as [Listed]
    expect(await answer(id, 'snooze', '--hours', '8')).toMatchObject({ code: 0 })
    await kill()
    const before = mutedOf(eve, device, '203.0.113.30')
    expect(new Set(before)).toEqual(new Set(['none']))
    expect(received.length).toBeGreaterThanOrEqual(before.length)
    const sent = received.length
    expect(await opens(upload)).toEqual([])
    expect(new Set(mutedOf(eve, device, '203.0.113.30').slice(before.length))).toEqual(new Set(['snooze']))
    expect(
      received.slice(sent).filter(({ oddflow }) => oddflow.flow?.destination === '203.0.113.30'),
    ).toEqual([])
    expect(await answer(id, 'none')).toMatchObject({ code: 2, stderr: expect.stringContaining('no agent') })
  }, 240_000)
})
