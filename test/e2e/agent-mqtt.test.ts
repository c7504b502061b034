/** The real agent and a real broker: alerts arrive, and a killed agent is seen to be gone. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { freePort, hasMosquitto, startBroker, subscribe } from '../../apps/agent/test/support/mosquitto.js'
import { agentMain, agentOnce, readEve } from './support/agent.js'
import { lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')

beforeAll(async () => {
  if (hasMosquitto) await trainLabModel(model)
})

it('gives every alert to the broker, keeps to its memory, and leaves a last will', async (context) => {
  if (!hasMosquitto) context.skip('mosquitto and mosquitto_sub are not installed')
  const port = await freePort()
  const config = join(folder, 'agent.yaml')
  const outputs = `outputs:\n  - {kind: mqtt, url: 'mqtt://127.0.0.1:${port}', prefix: lab/gw}\n`
  writeFileSync(config, `model: home.oddflow\neve: eve.json\n${outputs}`)
  const broker = await startBroker(port, folder)
  const subscriber = await subscribe(port)
  const statuses = (): string[] =>
    subscriber.messages.filter(([topic]) => topic === 'lab/gw/status').map(([, payload]) => payload)
  try {
    const counters = await agentOnce(['-c', config, '--read', lab('novel-scan.pcap').path])
    const events = readEve(join(folder, 'eve.json'))
    expect(counters.alerts.delivered).toEqual({ eve: events.length, mqtt: events.length })
    expect(counters.peakResidentBytes).toBeLessThan(152 * 1_048_576)
    await subscriber.until(() => statuses().length === 2)
    expect(
      subscriber.messages
        .filter(([topic]) => topic === 'lab/gw/alerts')
        .map(([, payload]) => (JSON.parse(payload) as { oddflow: { id: string } }).oddflow.id),
    ).toEqual(events.map(({ oddflow }) => oddflow.id))

    const child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config, '--read', '-'], {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    await subscriber.until(() => statuses().length === 3)
    child.kill('SIGKILL')
    await subscriber.until(() => statuses().length === 4)
    expect(statuses()).toEqual(['online', 'offline', 'online', 'offline'])
  } finally {
    await subscriber.stop()
    await broker.stop()
  }
}, 60_000)
