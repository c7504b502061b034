/** A real server on loopback: models are published, rolled out and rolled back, and a stolen key is tried. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connect, type NatsConnection, nkeyAuthenticator } from '@nats-io/transport-node'
import {
  decodeOffer,
  directGetSubject,
  encodeModelState,
  type GatewayModelState,
  MODELS_BUCKET,
  type ModelStage,
  modelStateSubject,
  modelSubject,
  offerSubject,
  readManifest,
} from '@oddflow/program'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
// @boundaries-ignore tests alone use it, and no package has it
import { freePort, hasNatsServer, startNatsServer } from '../../../tools/workspace/nats-server.mjs'
import { type Archive, openArchive } from '../src/archive.js'
import { enroll, prepareFolder, writeUsers } from '../src/folder.js'
import { prepareGateways, readEvents } from '../src/gateways.js'
import {
  nextStep,
  prepareModels,
  progressOf,
  publishModel,
  readModelStates,
  readOffer,
  type TargetOptions,
} from '../src/models.js'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const program = join(repository, 'apps/fleet/dist/main.js')
const lab = join(repository, 'test/fixtures/lab')
const home = { kind: 'group', name: 'home' } as const
const cellar = { kind: 'gateway', name: 'cellar' } as const

let folder = ''
let url = ''
let server: ChildProcess | null = null
let admin: Archive
const connections: NatsConnection[] = []
const at = (name: string): string => join(folder, name)

beforeAll(async () => {
  if (!hasNatsServer) return
  folder = mkdtempSync(join(tmpdir(), 'oddflow-fleet-models-'))
  const trainer = join(repository, 'apps/trainer/dist/main.js')
  for (const [name, captures] of [
    ['one', ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz']],
    ['two', ['normal-2.pcapng', 'normal-3.pcap.gz', 'normal-4.pcap.gz']],
  ] as const) {
    const files = captures.map((capture) => join(lab, capture))
    execFileSync(process.execPath, [trainer, 'train', ...files, '-o', at(`${name}.oddflow`)], {
      stdio: 'ignore',
    })
  }
  for (const name of ['ours', 'other']) {
    const { privateKey } = generateKeyPairSync('ed25519')
    writeFileSync(at(`${name}.key`), privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  }
  prepareFolder(folder, [], () => undefined)
  enroll(folder, 'kitchen', at('kitchen.seed'), 'home')
  enroll(folder, 'cellar', at('cellar.seed'), 'home')
  enroll(folder, 'attic', at('attic.seed'), null)
  writeUsers(folder, () => undefined)
  const gateways = readFileSync(at('users.conf'), 'utf8').match(/^.*"permissions".*$/gm)!
  const port = await freePort()
  writeFileSync(
    at('server.conf'),
    `listen: 127.0.0.1:${port}
jetstream { store_dir: "${at('store')}" }
authorization { users: [ { user: admin, password: secret }, ${gateways.join(', ')} ] }
`,
  )
  server = await startNatsServer(port, ['-c', at('server.conf')])
  url = `nats://admin:secret@127.0.0.1:${port}`
  admin = await openArchive({ server: url })
  await prepareModels(admin)
  await prepareGateways(admin)
}, 120_000)

afterAll(async () => {
  for (const each of connections) await each.close()
  await admin?.close()
  server?.kill('SIGKILL')
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

function run(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [program, args[0]!, '--server', url, ...args.slice(1)],
    { encoding: 'utf8', env: { ...process.env, ODDFLOW_WAIT_SCALE: '0.1' } },
  )
  return { code: status, stdout, stderr }
}

const publish = (model: string, target: TargetOptions, canaries = 10) =>
  publishModel(admin, at(`${model}.oddflow`), { ...target, key: at('ours.key'), canaries, shadowMinutes: 0 })
const sha256Of = (model: string): string =>
  createHash('sha256')
    .update(readFileSync(at(`${model}.oddflow`)))
    .digest('hex')
const publicKey = (name: string) => createPublicKey(readFileSync(at(`${name}.key`)))

async function login(gateway: string): Promise<NatsConnection> {
  const seed = readFileSync(at(`${gateway}.seed`))
  const connection = await connect({
    servers: new URL(url).host,
    authenticator: nkeyAuthenticator(new Uint8Array(seed.subarray(0, -1))),
    inboxPrefix: `_INBOX.${gateway}`,
    timeout: 2000,
  })
  connections.push(connection)
  return connection
}

const get = async (from: NatsConnection, subject: string): Promise<Uint8Array | null> => {
  const answer = await from.request(directGetSubject(MODELS_BUCKET, subject), '', { timeout: 1000 })
  return answer.headers?.code ? null : answer.data
}

const stateOf = (stage: ModelStage, version: number, more: Partial<GatewayModelState> = {}) => ({
  group: 'home',
  stage,
  version,
  inUse: null,
  reason: null,
  flows: 0,
  falseAlarms: 0,
  at: new Date().toISOString(),
  ...more,
})

describe.runIf(hasNatsServer)('models for gateways', () => {
  it('come signed, with rising versions and a roll-back to the last good one', async () => {
    const given = ['--group', 'home', '--key', at('ours.key')]
    expect(run('publish', at('one.oddflow'), ...given, '--canaries', '100')).toMatchObject({
      code: 0,
      stdout: `group.home: version 1 (${sha256Of('one').slice(0, 16)}) is offered; a roll-back goes to the model of each gateway's configuration\n`,
    })
    expect(run('publish', at('two.oddflow'), ...given).stdout).toContain(
      `version 3 (${sha256Of('two').slice(0, 16)}) is offered; a roll-back goes to ${sha256Of('one').slice(0, 16)}`,
    )
    const kitchen = await login('kitchen')
    const offer = decodeOffer((await get(kitchen, offerSubject(home)))!)
    expect(offer.share).toBe(0.1)
    const manifest = readManifest(offer.signed, publicKey('ours'))
    expect(manifest).toMatchObject({ target: home, version: 3, shadowSeconds: 3600 })
    expect(manifest.provenance.dataSha256).toMatch(/^[0-9a-f]{64}$/)
    expect(() => readManifest(offer.signed, publicKey('other'))).toThrow('pinned key')
    for (const model of ['one', 'two']) {
      const bytes = await get(kitchen, modelSubject(home, sha256Of(model)))
      expect(Buffer.from(bytes!).equals(readFileSync(at(`${model}.oddflow`)))).toBe(true)
    }
    // canaries alone have version 3, so the last good model stays
    expect(await publish('one', { group: 'home' })).toMatchObject({ version: 5, lastGood: sha256Of('one') })
    expect(await get(kitchen, modelSubject(home, sha256Of('two')))).toBeNull()
    expect(await publish('two', { gateway: 'cellar' })).toMatchObject({
      target: 'gateway.cellar',
      version: 7,
    })
  })

  it('are refused where the file, the key, the target or the number will not do', async () => {
    await expect(publish('one', {})).rejects.toThrow('expected either --gateway or --group')
    await expect(publish('one', { group: 'home', gateway: 'cellar' })).rejects.toThrow('expected either')
    await expect(publish('one', { group: 'Home' })).rejects.toThrow('lowercase letters')
    const keys = { group: 'home', canaries: 10, shadowMinutes: 0 }
    await expect(publishModel(admin, at('ours.key'), { ...keys, key: at('ours.key') })).rejects.toThrow(
      'give a whole model file',
    )
    await expect(publishModel(admin, at('one.oddflow'), { ...keys, key: at('one.oddflow') })).rejects.toThrow(
      'expected a private key of Ed25519',
    )
    const other = { ...keys, key: at('other.key') }
    await expect(publishModel(admin, at('one.oddflow'), other)).rejects.toThrow('signed with another key')
    expect(await publishModel(admin, at('one.oddflow'), { ...other, newKey: true })).toMatchObject({
      lastGood: null,
    })
    await publishModel(admin, at('one.oddflow'), { ...keys, key: at('ours.key'), newKey: true })
    expect(run('rollout', '--group', 'home', '--canary-hours', '721').stderr).toContain('from 0 to 720')
  })

  it('are rolled back when canaries refuse them, and a roll-back has a higher version', async () => {
    await publish('one', { group: 'home' }, 100)
    const { version } = await publish('two', { group: 'home' }, 100)
    const report = async (gateway: string, state: GatewayModelState): Promise<void> => {
      await admin.client.publish(modelStateSubject(gateway), encodeModelState(state))
    }
    await report('kitchen', stateOf('in-use', version, { inUse: { version, sha256: sha256Of('two') } }))
    await report('cellar', stateOf('waiting', version - 1))
    expect(run('rollout', '--group', 'home').stdout).toMatch(
      /offered to 2 of 2 gateways \(100 %\): 1 not reached, .* 1 in use, 0 refused, 0 rolled back; 1 gateway use/,
    )
    await report('cellar', stateOf('waiting', version))
    expect(run('rollout', '--group', 'home').stdout).toMatch(/offered to 2 of 2 .*: 1 not reached, /)
    await report('cellar', stateOf('rolled-back', version, { reason: 'flags 9 of 100 flows' }))
    const rolled = run('rollout', '--group', 'home', '--follow')
    expect(rolled.stdout).toContain('cellar: flags 9 of 100 flows')
    expect(rolled.stderr).toContain(`rolled back: version ${version + 1} is ${sha256Of('one').slice(0, 16)}`)
    expect(rolled.code).toBe(1)
    const back = (await readOffer(admin, home))!
    expect(readManifest(back.signed, publicKey('ours'))).toMatchObject({
      version: version + 1,
      model: { sha256: sha256Of('one') },
    })
    expect(run('rollout', '--group', 'home', '--roll-back').stderr).toContain('rolled back already')
    // what is published next is higher still
    expect(await publish('two', { group: 'home' })).toMatchObject({ version: version + 2 })
    expect(run('rollout', '--group', 'home', '--to-all').stderr).toContain('is offered to all gateways')
    expect((await readOffer(admin, home))!.share).toBe(1)
  })

  it('are taken by an agent, and used after a restart', async () => {
    writeFileSync(at('ours.pub'), publicKey('ours').export({ type: 'spki', format: 'pem' }))
    const trainer = join(repository, 'apps/trainer/dist/main.js')
    execFileSync(process.execPath, [trainer, 'sign', at('one.oddflow'), '--key', at('ours.key')])
    const { version } = await publish('two', { gateway: 'attic' }, 100)
    const runAgent = async (capture: string, stages: readonly ModelStage[]): Promise<string> => {
      writeFileSync(
        at('agent.yaml'),
        `read: ${join(lab, capture)}
model: one.oddflow
modelKey: ours.pub
eve: eve.json
state: agent
allowRoot: true
outputs:
  - { kind: nats, url: 'nats://${new URL(url).host}', gateway: attic, seedFile: attic.seed, models: true }
`,
      )
      const agent = join(repository, 'apps/agent/dist/main.js')
      const child = spawn(process.execPath, [agent, 'run', '-c', at('agent.yaml')], {
        env: { ...process.env, ODDFLOW_WAIT_SCALE: '0.1' },
      })
      let log = ''
      child.stderr.on('data', (text) => {
        log += text
      })
      try {
        await expect
          .poll(async () => (await readModelStates(admin)).get('attic') ?? log, { timeout: 30_000 })
          .toMatchObject({
            version,
            stage: expect.toSatisfy((stage: ModelStage) => stages.includes(stage)),
            inUse: { sha256: sha256Of('two') },
          })
      } finally {
        // its events go out first
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
      return log
    }
    expect(await runAgent('normal-3.pcap.gz', ['proving', 'in-use'])).toContain(
      `model version ${version} of the fleet is in use`,
    )
    await admin.manager.streams.purge('KV_oddflow-model-states')
    await runAgent('normal-4.pcap.gz', ['in-use'])
    expect(run('rollout', '--gateway', 'attic').stdout).toContain('1 in use, 0 refused')
    const events = run('events', '--gateway', 'attic').stdout
    expect(events).toContain('"rule":"fleet-model"')
  }, 90_000)

  it('a stolen key reads nothing of others and forges nothing of others', async () => {
    await publish('one', { gateway: 'cellar' }, 100)
    const offers = [offerSubject(cellar), offerSubject(home)]
    const before = await Promise.all(offers.map((subject) => lastOf('KV_oddflow-models', subject)))
    const cellarState = encodeModelState(stateOf('none', 0))
    const cellarConnection = await login('cellar')
    await cellarConnection.request(modelStateSubject('cellar'), cellarState)
    const thief = await login('kitchen')
    const seen: string[] = []
    for (const subject of ['>', '$KV.>', offerSubject(cellar), 'oddflow.gateway.cellar.event', '_INBOX.>']) {
      thief.subscribe(subject, {
        callback: (error, message) => {
          if (error === null) seen.push(message.subject)
        },
      })
    }
    const bucket = `$KV.${MODELS_BUCKET}`
    const denied = [
      directGetSubject(MODELS_BUCKET, offerSubject(cellar)),
      directGetSubject(MODELS_BUCKET, modelSubject(cellar, sha256Of('one'))),
      directGetSubject(MODELS_BUCKET, `${bucket}.gateway.*.offer`),
      directGetSubject(MODELS_BUCKET, `${bucket}.*.*.*`),
      directGetSubject(MODELS_BUCKET, `${bucket}.>`),
      `$JS.API.DIRECT.GET.KV_${MODELS_BUCKET}`,
      directGetSubject('oddflow-model-states', modelStateSubject('cellar')),
      `$JS.API.STREAM.INFO.KV_${MODELS_BUCKET}`,
      `$JS.API.STREAM.MSG.GET.KV_${MODELS_BUCKET}`,
      `$JS.API.STREAM.PURGE.KV_${MODELS_BUCKET}`,
      `$JS.API.STREAM.DELETE.KV_${MODELS_BUCKET}`,
      `$JS.API.CONSUMER.CREATE.KV_${MODELS_BUCKET}`,
      `$JS.API.CONSUMER.CREATE.KV_${MODELS_BUCKET}.thief.${offerSubject(cellar)}`,
      offerSubject(cellar),
      offerSubject(home),
      offerSubject({ kind: 'gateway', name: 'kitchen' }),
      modelSubject(home, sha256Of('one')),
      modelStateSubject('cellar'),
      'oddflow.gateway.cellar.event',
    ]
    for (const subject of denied) {
      await expect(thief.request(subject, '', { timeout: 1000 }), subject).rejects.toThrow(/ermission/)
    }
    // the server's own answers go wherever a request asks for: they replace no offer and pass for nothing
    const own = directGetSubject(MODELS_BUCKET, offerSubject(home))
    for (const reply of [...offers, 'oddflow.gateway.cellar.event', modelStateSubject('cellar')]) {
      thief.publish(own, '', { reply })
      thief.publish('oddflow.gateway.kitchen.event', 'x', { reply })
    }
    await thief.flush()
    await expect.poll(() => lastOf('oddflow-gateways', 'oddflow.gateway.cellar.event')).not.toBeNull()
    expect(await Promise.all(offers.map((subject) => lastOf('KV_oddflow-models', subject)))).toEqual(before)
    expect((await readModelStates(admin)).has('cellar')).toBe(false)
    await cellarConnection.request(modelStateSubject('cellar'), cellarState)
    expect((await readModelStates(admin)).get('cellar')?.stage).toBe('none')
    const events: unknown[] = []
    for await (const event of readEvents(admin, { gateway: 'cellar' }, new AbortController().signal)) {
      events.push(event)
    }
    expect(events).toEqual([])
    await publish('two', { gateway: 'cellar' }, 100)
    await cellarConnection.flush()
    // that of its group, whose offer is its own to read
    expect(seen.filter((subject) => subject !== offerSubject(home))).toEqual([])
  })
})

/** Last, since it removes the offers. */
it.runIf(hasNatsServer)(
  'models get higher versions than gateways had, also when the server lost its offers',
  async () => {
    const report = (gateway: string, version: number) =>
      admin.client.publish(modelStateSubject(gateway), encodeModelState(stateOf('in-use', version)))
    await report('kitchen', 1000)
    await report('attic', Number.MAX_SAFE_INTEGER)
    await admin.manager.streams.purge(`KV_${MODELS_BUCKET}`)
    const given = ['--group', 'home', '--key', at('ours.key')]
    const published = run('publish', at('one.oddflow'), ...given)
    expect(published.stdout).toContain('group.home: version 1001 ')
    expect(published.stderr).toContain('gateways had version 1000, which this server does not have')
    expect(run('publish', at('one.oddflow'), ...given)).toMatchObject({ code: 0, stderr: '' })
  },
)

async function lastOf(stream: string, subject: string): Promise<string | null> {
  const message = await admin.manager.streams.getMessage(stream, { last_by_subj: subject })
  return message === null ? null : new TextDecoder().decode(message.data)
}

describe('the next step of a roll-out', () => {
  const progress = {
    ...progressOf(
      {
        signed: {
          manifest: JSON.stringify({
            format: 1,
            target: 'group.home',
            version: 3,
            model: null,
            shadowSeconds: 0,
            provenance: { publishedAt: '2026-11-29T12:00:00.000Z', oddflowVersion: '', dataSha256: '' },
          }),
          signature: '',
        },
        rollback: null,
        share: 0.1,
      },
      new Map(),
    ),
    offered: 100,
  }
  it.each([
    ['waits for canaries', { notReached: 100 }, true, 'wait'],
    ['waits for the time', { inUse: 100 }, false, 'wait'],
    [
      'goes to all when the time is over and half of the canaries use it',
      { inUse: 50, notReached: 50 },
      true,
      'to-all',
    ],
    ['waits where less than half do', { inUse: 49, proving: 51 }, true, 'wait'],
    ['does not believe one liar in ten', { inUse: 90, refused: 5, rolledBack: 5 }, true, 'to-all'],
    [
      'goes back when more than one in ten is unhappy',
      { inUse: 89, refused: 5, rolledBack: 6 },
      true,
      'roll-back',
    ],
    ['is over when all have decided', { inUse: 95, refused: 5, share: 1 }, false, 'over'],
    ['goes on while some prove it', { inUse: 95, proving: 5, share: 1 }, false, 'wait'],
    ['goes back later too', { inUse: 80, rolledBack: 20, share: 1 }, false, 'roll-back'],
  ] as const)('%s', (_, numbers, isTimeOver, step) => {
    expect(nextStep({ ...progress, ...numbers }, true, isTimeOver)).toBe(step)
  })
  it('cannot go back twice', () => {
    expect(nextStep({ ...progress, refused: 100, share: 1 }, false, true)).toBe('over')
  })
})
