/** The channel of models against a real server on loopback, with the rights of a gateway and no others. */
import type { ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DiscardPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection, nkeys } from '@nats-io/transport-node'
import {
  decodeModelState,
  type GatewayModelState,
  MODELS_BUCKET,
  modelPermissions,
  modelStateSubject,
  modelSubject,
  offerSubject,
} from '@oddflow/program'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
// @boundaries-ignore tests alone use it, and no package has it
import { freePort, hasNatsServer, startNatsServer } from '../../../../tools/workspace/nats-server.mjs'
import { createSystemClock } from '../../src/input/clocks.js'
import { createNats } from '../../src/outputs/nats.js'
import type { Output } from '../../src/outputs/output.js'
import { fleetGateway, home, makeModels, offerOf, sha256Of, type TestModels } from '../support/fleet.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'

const folder = temporaryFolder()
const key = nkeys.createUser()
let port = 0
let server: ChildProcess
let admin: NatsConnection
let models: TestModels
let output: Output | null = null
const log = keepingLog()

const start = async (): Promise<void> => {
  server = await startNatsServer(port, ['-c', join(folder, 'server.conf')])
}

beforeAll(async () => {
  if (!hasNatsServer) return
  models = makeModels()
  port = await freePort()
  const { publish, subscribe } = modelPermissions('kitchen', 'home')
  const permissions = JSON.stringify({ publish, subscribe: [...subscribe, '_INBOX.kitchen.>'] })
  writeFileSync(
    join(folder, 'server.conf'),
    `listen: 127.0.0.1:${port}
jetstream { store_dir: "${folder}/store" }
authorization { users: [ { user: admin, password: secret }, { nkey: ${key.getPublicKey()}, permissions: ${permissions} } ] }
`,
  )
  writeFileSync(join(folder, 'kitchen.seed'), new TextDecoder().decode(key.getSeed()), { mode: 0o600 })
  await start()
  admin = await connect({
    servers: `nats://127.0.0.1:${port}`,
    user: 'admin',
    pass: 'secret',
    maxReconnectAttempts: -1,
    reconnectTimeWait: 50,
  })
}, 60_000)

afterAll(async () => {
  if (!hasNatsServer) return
  await output?.close()
  await admin.close()
  server.kill('SIGKILL')
})

async function put(subject: string, data: Uint8Array): Promise<void> {
  const manager = await jetstreamManager(admin)
  await manager.streams.purge(`KV_${MODELS_BUCKET}`, { filter: subject })
  await jetstream(admin).publish(subject, data)
}

async function offer(version: number, model: Uint8Array): Promise<void> {
  await put(modelSubject(home, sha256Of(model)), model)
  await put(offerSubject(home), offerOf(version, model))
}

async function state(): Promise<GatewayModelState | null> {
  try {
    const manager = await jetstreamManager(admin)
    const subject = modelStateSubject('kitchen')
    const message = await manager.streams.getMessage('KV_oddflow-model-states', { last_by_subj: subject })
    return message === null ? null : decodeModelState(message.data)
  } catch {
    return null
  }
}

describe.runIf(hasNatsServer)('models over a server', () => {
  it('come when they are offered, are reported, and stay while the server is away', async () => {
    const own = await fleetGateway(models, join(folder, 'state'))
    await own.flow(150)
    output = await createNats(
      {
        kind: 'nats',
        name: 'fleet',
        url: `nats://127.0.0.1:${port}`,
        gateway: 'kitchen',
        seedFile: join(folder, 'kitchen.seed'),
        models: true,
        group: 'home',
      },
      {
        version: '0.0.0',
        hostname: 'kitchen',
        alertFile: 'eve.json',
        clock: createSystemClock(0.05),
        log,
        fleetModels: own.fleet,
      },
    )
    // the server is not set up yet
    await expect.poll(() => log.lines.join(), { timeout: 20_000 }).toContain('cannot receive fleet models')
    const manager = await jetstreamManager(admin)
    await manager.streams.add({
      name: `KV_${MODELS_BUCKET}`,
      subjects: [`$KV.${MODELS_BUCKET}.>`],
      allow_direct: true,
      max_msgs_per_subject: 1,
      discard: DiscardPolicy.New,
      discard_new_per_subject: true,
    })
    await manager.streams.add({ name: 'KV_oddflow-model-states', subjects: ['$KV.oddflow-model-states.*'] })
    await expect.poll(async () => (await state())?.stage, { timeout: 20_000 }).toBe('none')
    expect(log.lines.join()).toContain('receiving fleet models again')
    await offer(7, models.good)
    await expect
      .poll(state, { timeout: 20_000 })
      .toMatchObject({ stage: 'proving', version: 7, inUse: { sha256: sha256Of(models.good) } })
    await own.flow(120)
    await expect.poll(async () => (await state())?.stage, { timeout: 20_000 }).toBe('in-use')
    server.kill('SIGKILL')
    await own.flow(120)
    expect([own.stage(), own.used()]).toEqual(['in-use', sha256Of(models.good).slice(0, 16)])
    await start()
    await expect
      .poll(
        () =>
          offer(9, models.flagsAll).then(
            () => true,
            () => false,
          ),
        { timeout: 20_000 },
      )
      .toBe(true)
    await expect.poll(state, { timeout: 30_000 }).toMatchObject({
      stage: 'refused',
      version: 9,
      reason: expect.stringContaining('normal to the model in use'),
    })
    expect(own.used()).toBe(sha256Of(models.good).slice(0, 16))
  }, 120_000)
})
