/** Names of peers, from the DNS answers and TLS connections of the lab's devices: in sentences where they are asked for, and nowhere else. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { createCaptureReader, encodePcap, type PcapFrame } from '../../packages/capture/src/index.js'
import { agent, agentOnce, readEve, readIncidentEvents } from './support/agent.js'
import { lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

const CAMERA = '02:50:00:00:00:17'
const DAY = 86_400_000_000

function framesIn(path: string): PcapFrame[] {
  const frames: PcapFrame[] = []
  const reader = createCaptureReader()
  reader.push(readFileSync(path))
  for (let batch = reader.read(); batch !== null; batch = reader.read()) {
    const { count, data, offset, capturedBytes, timestampMicros } = batch
    for (let i = 0; i < count; i++)
      frames.push({
        timestampMicros: timestampMicros[i]!,
        bytes: data.slice(offset[i]!, offset[i]! + capturedBytes[i]!),
      })
  }
  return frames
}

/** Frames to, from or about an address, of another one then. */
function readdressed(
  frames: readonly PcapFrame[],
  from: readonly number[],
  to: readonly number[],
): PcapFrame[] {
  return frames.flatMap(({ timestampMicros, bytes }) => {
    const changed = Buffer.from(bytes)
    let isOf = false
    for (
      let at = changed.indexOf(Buffer.from(from));
      at >= 0;
      at = changed.indexOf(Buffer.from(from), at + 4)
    ) {
      changed.set(to, at)
      isOf = true
    }
    return isOf ? [{ timestampMicros, bytes: changed }] : []
  })
}

let model = ''
beforeAll(async () => {
  model = await trainLabModel(join(temporaryFolder(), 'lab.oddflow'))
}, 60_000)

function configured(peerNames: readonly string[] | undefined) {
  const folder = temporaryFolder()
  const config = join(folder, 'agent.json')
  writeFileSync(
    config,
    JSON.stringify({
      model,
      eve: 'eve.json',
      state: 'state',
      ...(peerNames === undefined ? {} : { peerNames }),
      localNetworks: ['192.168.50.0/24', 'fd50::/64', 'fe80::/10'],
      devices: { approve: 'auto', learnHours: 0.005, judgeHours: 0.01, learnFlows: 5, stableShare: 1 },
    }),
  )
  const read = (path: string) => agentOnce(['-c', config, '--read', path])
  return { config, read, folder, eve: join(folder, 'eve.json'), state: join(folder, 'state') }
}

it('are in sentences and fields for the outputs that are to have them, and forgotten with the device', async () => {
  for (const peerNames of [['eve'], []]) {
    const { read, eve, state } = configured(peerNames)
    await read(lab('normal-4.pcap.gz').path)
    await read(lab('novel-firmware.pcap').path)
    const named = 'from updates.vendor.example (203.0.113.20, tcp port 443)'
    const summaries = readIncidentEvents(eve).map(({ oddflow }) => oddflow.summary)
    const [alert] = readEve(eve).filter(({ oddflow }) => oddflow.flow.destination === '203.0.113.20')
    if (peerNames.length > 0) {
      expect(summaries).toContainEqual(expect.stringContaining(named))
      expect(alert?.oddflow.names).toEqual([
        { address: '203.0.113.20', name: 'updates.vendor.example', source: 'dns' },
      ])
      continue
    }
    expect(summaries.length).toBeGreaterThan(0)
    expect(readFileSync(eve, 'utf8')).not.toContain('vendor.example')
    const [incident] = readIncidentEvents(eve).map(({ oddflow }) => oddflow.incident.id)
    const shown = await agent(['incidents', 'show', incident!, '--state', state])
    expect(shown.stdout).toContain(named)
    expect(await agent(['devices', 'forget', CAMERA, '--state', state])).toMatchObject({ code: 0 })
    const kept = readFileSync(join(state, 'peer-names.json'), 'utf8')
    expect(kept).toContain('api.plug.example')
    expect(kept).not.toContain('upload.camera.example')
  }
}, 120_000)

it('make no first contact known: a known name that an attacker gives to an address of his own is reported as before', async () => {
  const normal = framesIn(lab('normal-1.pcap').path)
  const poisoned = readdressed(normal, [203, 0, 113, 11], [198, 51, 100, 99])
  const at = (frames: readonly PcapFrame[], byMicros: number): PcapFrame[] =>
    frames.map(({ timestampMicros, bytes }) => ({ timestampMicros: timestampMicros + byMicros, bytes }))
  const alerts = new Map<string, string[]>()
  for (const peerNames of [undefined, ['eve']]) {
    const { read, eve, folder } = configured(peerNames)
    const capture = join(folder, 'days.pcap')
    writeFileSync(capture, encodePcap([...normal, ...at(normal, DAY / 2), ...at(poisoned, 3 * DAY)]))
    await read(capture)
    const first = readEve(eve).filter(({ oddflow }) => oddflow.rule === 'first-contact')
    alerts.set(
      String(peerNames),
      first.map(({ oddflow }) => oddflow.summary),
    )
  }
  const fact = '192.168.50.23 contacted 198.51.100.99 (tcp port 443) for the first time'
  expect(alerts.get('undefined')).toContainEqual(expect.stringContaining(fact))
  expect(alerts.get('eve')).toEqual(
    alerts
      .get('undefined')
      ?.map((each) => each.replace('198.51.100.99 (', 'upload.camera.example (198.51.100.99, ')),
  )
}, 120_000)
