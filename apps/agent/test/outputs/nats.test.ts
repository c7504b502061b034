/** A real server on loopback with a user for each gateway: what is stored, what is denied, and what a restart costs. */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection, nkeyAuthenticator, nkeys } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
// @boundaries-ignore tests alone use it, and no package has it
import { freePort, hasNatsServer, startNatsServer } from '../../../../tools/workspace/nats-server.mjs'
import { createSystemClock } from '../../src/input/clocks.js'
import { createNats, type NatsSettings, reconnectDelayMillis } from '../../src/outputs/nats.js'
import { type AgentStatus, type OutputEnvironment, RefusedError } from '../../src/outputs/output.js'

const STREAM = 'oddflow-gateways'
const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
let folder = ''
let port = 0
let server: ChildProcess
let admin: NatsConnection
const keys = { admin: nkeys.createUser(), kitchen: nkeys.createUser(), cellar: nkeys.createUser() }

const seedFile = (name: keyof typeof keys): string => join(folder, `${name}.seed`)

beforeAll(async () => {
  if (!hasNatsServer) return
  folder = mkdtempSync(join(tmpdir(), 'oddflow-nats-'))
  port = await freePort()
  const user = (name: 'kitchen' | 'cellar'): string =>
    `{ nkey: ${keys[name].getPublicKey()}, permissions: { publish: ["oddflow.gateway.${name}.event", "oddflow.gateway.${name}.status"], subscribe: ["_INBOX.${name}.>"] } }`
  writeFileSync(
    join(folder, 'server.conf'),
    `listen: 127.0.0.1:${port}
max_payload: 4096
jetstream { store_dir: "${folder}/store" }
authorization { users: [ { nkey: ${keys.admin.getPublicKey()} }, ${user('kitchen')}, ${user('cellar')} ] }
`,
  )
  for (const name of ['admin', 'kitchen', 'cellar'] as const) {
    writeFileSync(seedFile(name), `${decode(keys[name].getSeed())}\n`, { mode: 0o600 })
  }
  await start()
  admin = await connect({
    servers: `nats://127.0.0.1:${port}`,
    authenticator: nkeyAuthenticator(keys.admin.getSeed()),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 50,
  })
  const manager = await jetstreamManager(admin)
  await manager.streams.add({ name: STREAM, subjects: ['oddflow.gateway.*.event'] })
  await manager.streams.add({
    name: 'oddflow-status',
    subjects: ['oddflow.gateway.*.status'],
    max_msgs_per_subject: 1,
  })
}, 60_000)

afterAll(async () => {
  if (!hasNatsServer) return
  await admin.close()
  server.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  server = await startNatsServer(port, ['-c', join(folder, 'server.conf')])
}

function output(given: Partial<NatsSettings> = {}, more: Partial<OutputEnvironment> = {}) {
  return createNats(
    {
      kind: 'nats',
      name: 'fleet',
      url: `nats://127.0.0.1:${port}`,
      gateway: 'kitchen',
      seedFile: seedFile('kitchen'),
      models: false,
      ...given,
    },
    {
      version: '0.0.0',
      hostname: 'Gateway.Home',
      alertFile: 'eve.json',
      clock: createSystemClock(0.1),
      log: { warn: () => undefined },
      ...more,
    },
  )
}

/** A busy machine takes more than a tenth of the time to connect. */
const PATIENT = { clock: createSystemClock() }

const lineOf = (id: string, more = ''): Uint8Array =>
  new TextEncoder().encode(
    JSON.stringify({ timestamp: '2026-11-29T00:00:00.000000+0000', more, oddflow: { id } }),
  )
const signal = new AbortController().signal
const batch = (...lines: Uint8Array[]): { first: number; lines: Uint8Array[] } => ({ first: 0, lines })

async function stored(): Promise<number> {
  return (await (await jetstreamManager(admin)).streams.info(STREAM)).state.messages
}

it('connects again within two seconds at first and a minute later on, spread evenly', () => {
  const delays = (lostForMillis: number): number[] =>
    [0, 0.5, 0.999].map((random) => Math.round(reconnectDelayMillis(lostForMillis, () => random)))
  expect(delays(0)).toEqual([0, 1000, 1998])
  expect(delays(10_000)).toEqual([0, 5000, 9990])
  expect(delays(86_400_000)).toEqual([0, 30_000, 59_940])
})

describe.runIf(hasNatsServer)('an output of kind nats', () => {
  it('stores events under the name of the gateway, and one that comes again once', async () => {
    const out = await output({}, PATIENT)
    const before = await stored()
    expect(await out.deliver(batch(lineOf('a'), lineOf('b')), signal)).toBe('stored by the server')
    await out.deliver(batch(lineOf('b'), lineOf('c')), signal)
    expect((await stored()) - before).toBe(3)
    const manager = await jetstreamManager(admin)
    const last = await manager.streams.getMessage(STREAM, { last_by_subj: 'oddflow.gateway.kitchen.event' })
    expect(JSON.parse(decode(last!.data))).toMatchObject({ oddflow: { id: 'c' } })
    await out.close()
  })

  it('stores an event of each gateway that makes the same one', async () => {
    const before = await stored()
    for (const gateway of ['kitchen', 'cellar'] as const) {
      const out = await output({ gateway, seedFile: seedFile(gateway) }, PATIENT)
      await out.deliver(batch(lineOf('seen-by-both')), signal)
      await out.deliver(batch(lineOf('seen-by-both')), signal)
      await out.close()
    }
    expect((await stored()) - before).toBe(2)
  })

  it('cannot write the events of another gateway, nor read anything', async () => {
    const before = await stored()
    const thief = await output({ gateway: 'cellar' })
    await expect(thief.deliver(batch(lineOf('stolen')), signal)).rejects.toThrow(
      /^nats:\/\/127\.0\.0\.1:\d+: oddflow\.gateway\.cellar\.event: .*ermission/,
    )
    await thief.close()
    expect(await stored()).toBe(before)
    const stolen = await connect({
      servers: `nats://127.0.0.1:${port}`,
      authenticator: nkeyAuthenticator(keys.kitchen.getSeed()),
      inboxPrefix: '_INBOX.kitchen',
      timeout: 2000,
    })
    const seen: string[] = []
    for (const subject of ['>', 'oddflow.gateway.cellar.event', '_INBOX.cellar.>', '$JS.EVENT.>']) {
      stolen.subscribe(subject, {
        callback(error, message) {
          if (error === null) seen.push(message.subject)
        },
      })
    }
    await expect(
      stolen.request('$JS.API.STREAM.INFO.oddflow-gateways', '', { timeout: 1000 }),
    ).rejects.toThrow()
    await expect(
      stolen.request('$JS.API.STREAM.MSG.GET.oddflow-gateways', '{"seq":1}', { timeout: 1000 }),
    ).rejects.toThrow()
    await expect(
      stolen.request('$JS.API.STREAM.DELETE.oddflow-gateways', '', { timeout: 1000 }),
    ).rejects.toThrow()
    const other = await output({ gateway: 'cellar', seedFile: seedFile('cellar') })
    await other.deliver(batch(lineOf('own')), signal)
    await other.close()
    expect(seen).toEqual([])
    expect(await stored()).toBe(before + 1)
    await stolen.close()
  })

  it('keeps the last status of the gateway, with fewer devices where all are too many', async () => {
    const manager = await jetstreamManager(admin)
    const kept = async (): Promise<AgentStatus | null> => {
      const last = await manager.streams.getMessage('oddflow-status', {
        last_by_subj: 'oddflow.gateway.kitchen.status',
      })
      return last === null ? null : (JSON.parse(decode(last.data)) as AgentStatus)
    }
    const device = {
      key: '1',
      name: 'lamp',
      group: null,
      state: 'watching',
      incidentsToday: 0,
      lastIncident: '',
      unanswered: null,
    }
    let made = 0
    const status = async (): Promise<AgentStatus> => ({
      format: 1,
      at: new Date(1000 * made++).toISOString(),
      version: '0.0.0',
      model: null,
      isWell: false,
      reasons: ['no packets'],
      residentBytes: 1,
      counters: { captured: 1, processed: 1, dropped: 0, flows: 1, novel: 0, events: 0, waiting: 0, lost: 0 },
      openIncidents: null,
      deviceCounts: null,
      devices: Array.from({ length: 64 }, () => ({ ...device, lastIncident: 'x'.repeat(100) })),
    })
    const warnings: string[] = []
    // five seconds last 0.05 s
    const clock = createSystemClock(0.01)
    const out = await output({}, { status, clock, log: { warn: (text) => warnings.push(text) } })
    await expect
      .poll(async () => Date.parse((await kept())?.at ?? ''), { timeout: 20_000 })
      .toBeGreaterThan(1000)
    const { isWell, reasons, devices } = (await kept())!
    expect({ isWell, reasons }).toEqual({ isWell: false, reasons: ['no packets'] })
    // the server of this test takes messages of 4096 bytes
    expect(devices.length).toBe(16)
    expect(warnings).toEqual([])
    await out.close()
    const thief = await output(
      { gateway: 'cellar' },
      { status, clock, log: { warn: (text) => warnings.push(text) } },
    )
    await expect
      .poll(() => warnings, { timeout: 20_000 })
      .toEqual([
        expect.stringMatching(/oddflow\.gateway\.cellar\.status: .*ermission.*sent again each minute$/),
      ])
    await thief.close()
  }, 60_000)

  it('delivers what waited when the server is back after a kill', async () => {
    const out = await output()
    const before = await stored()
    await out.deliver(batch(lineOf('before')), signal)
    server.kill('SIGKILL')
    await expect(out.deliver(batch(lineOf('during')), signal)).rejects.toThrow(
      /oddflow\.gateway\.kitchen\.event: /,
    )
    await start()
    await expect
      .poll(() => out.deliver(batch(lineOf('during')), signal).catch(() => null), { timeout: 30_000 })
      .toBe('stored by the server')
    await expect.poll(() => stored().catch(() => 0), { timeout: 30_000 }).toBe(before + 2)
    await out.close()
  }, 60_000)

  it('reports the error: no login, no server, no TLS, no stream, an event that is too long', async () => {
    const nobody = await output({ seedFile: undefined })
    await expect(nobody.deliver(batch(lineOf('x')), signal)).rejects.toThrow(/uthorization|uthentication/)
    const away = await output({ url: 'nats://127.0.0.1:1' })
    await expect(away.deliver(batch(lineOf('x')), signal)).rejects.toThrow(/127\.0\.0\.1:1/)
    const plain = await output({ url: `tls://127.0.0.1:${port}` })
    await expect(plain.deliver(batch(lineOf('x')), signal)).rejects.toThrow("server does not support 'tls'")
    const out = await output()
    await expect(out.deliver(batch(lineOf('long', 'x'.repeat(5000))), signal)).rejects.toBeInstanceOf(
      RefusedError,
    )
    await (await jetstreamManager(admin)).streams.delete(STREAM)
    await expect(out.deliver(batch(lineOf('x')), signal)).rejects.toThrow('oddflow-fleet gateways')
    for (const each of [nobody, away, plain, out]) await each.close()
  })

  it('takes its name from the machine', async () => {
    await (await jetstreamManager(admin)).streams.add({ name: STREAM, subjects: ['oddflow.gateway.*.event'] })
    const out = await output({ gateway: undefined, seedFile: seedFile('admin') })
    await out.deliver(batch(lineOf('named')), signal)
    const manager = await jetstreamManager(admin)
    const last = await manager.streams.getMessage(STREAM, {
      last_by_subj: 'oddflow.gateway.gateway-home.event',
    })
    expect(last).not.toBeNull()
    await out.close()
  })
})
