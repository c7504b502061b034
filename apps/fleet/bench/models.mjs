/**
 * Models offered to 1,000 gateways: a good one, and bad ones of five kinds. The clients run the agent's own code for the channel, the
 * checks, the shadow and the way back, in this process, each with its own key, connection and state folder; `publish` and
 * `rollout --follow` are the programs. What differs from agents: their flows are rows of the lab's captures, and the self-test of a
 * model runs once for all clients, because the same model gives the same verdicts on the same made frames.
 *
 *     node apps/fleet/bench/models.mjs [--clients 1000] [--canaries 10] [--shadow 10] [--only KIND]
 *
 * Needs nats-server; `npm run build` first.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { nkeys } from '@nats-io/transport-node'
import { createRng, decodeNpy } from '@oddflow/core'
import { decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import { PRIVATE_NETWORKS, parseNetwork } from '@oddflow/program'
// @boundaries-ignore tests alone use it, and no package has it
import { freePort, startNatsServer } from '../../../tools/workspace/nats-server.mjs'
// @boundaries-ignore the measurement runs the agent's own code, and no package has it
import { nodeFileSystem } from '../../agent/build/files/file-system.js'
// @boundaries-ignore as above
import { createFleetModelStore, readKeptFleetModel } from '../../agent/build/fleet/fleet-model-store.js'
// @boundaries-ignore as above
import { FleetModels } from '../../agent/build/fleet/fleet-models.js'
// @boundaries-ignore as above
import { systemClock } from '../../agent/build/input/clocks.js'
// @boundaries-ignore as above
import { createJudgingModel } from '../../agent/build/models/judging.js'
// @boundaries-ignore as above
import { trainRows } from '../../agent/build/models/train.js'
// @boundaries-ignore as above
import { createNats } from '../../agent/build/outputs/nats.js'
// @boundaries-ignore as above
import { missedAttacks } from '../../agent/build/pipeline/self-test.js'
import { openArchive } from '../build/archive.js'
import { permissionsOf } from '../build/gateways.js'
import { prepareModels } from '../build/models.js'

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '1000' },
    canaries: { type: 'string', default: '10' },
    shadow: { type: 'string', default: '10' },
    only: { type: 'string' },
  },
})
const [count, canaries, shadowSeconds] = [values.clients, values.canaries, values.shadow].map(Number)
const FLOWS_PER_SECOND = 5
const EARLIER_FLOWS = 200
const TOGETHER = 20
/** Share of flows, once a `narrow` model is in use, of the service that it does not know. */
const NEW_SHARE = 0.3
/** As rows have them: protocol and port. */
const [MQTT, HTTPS] = [601_883, 600_443]
const repository = fileURLToPath(new URL('../../..', import.meta.url))
const fleet = join(repository, 'apps/fleet/dist/main.js')
const oddflow = join(repository, 'apps/trainer/dist/main.js')
const folder = mkdtempSync('/dev/shm/oddflow-models-')
const at = (name) => join(folder, name)
const say = (text) => console.error(`${new Date().toISOString().slice(11, 19)} ${text}`)
const sha256Of = (bytes) => createHash('sha256').update(bytes).digest('hex')
const fileOf = (bytes) => ({
  saved: decodeModelFile(bytes),
  sha256: sha256Of(bytes),
  sizeBytes: bytes.length,
})

// rows of the lab's captures
const captures = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz', 'normal-4.pcap.gz']
execFileSync(
  process.execPath,
  [
    oddflow,
    'extract',
    ...captures.map((name) => join(repository, 'test/fixtures/lab', name)),
    '-o',
    at('rows.npy'),
  ],
  { stdio: 'ignore' },
)
execFileSync(
  process.execPath,
  [oddflow, 'train', join(repository, 'test/fixtures/lab/normal-1.pcap'), '-o', at('any.oddflow')],
  {
    stdio: 'ignore',
  },
)
const { contract } = decodeModelFile(readFileSync(at('any.oddflow')))
const D = contract.dimension
const { data } = decodeNpy(readFileSync(at('rows.npy')))
const all = Array.from({ length: data.length / D }, (_, i) => data.slice(i * D, (i + 1) * D))
const rowsOf = (service) => all.filter((row) => row[D - 1] === service)
const known = all.filter((row) => row[D - 1] !== MQTT && row[D - 1] !== HTTPS)

// models
const trained = (rows, seed, of = contract) =>
  trainRows({
    rows: Float64Array.from(rows.flatMap((row) => [...row])),
    contract: of,
    onePacketRule: null,
    falsePositiveRate: 0.005,
    seed,
    oddflowVersion: '0.0.0',
  }).file
const configured = trained(all, 1)
const good = trained(all.slice(0, -100), 2)
const { threshold, ...rest } = decodeModelFile(good)
const keys = ['ours', 'stranger'].map((name) => {
  const pair = generateKeyPairSync('ed25519')
  writeFileSync(at(`${name}.key`), pair.privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  return pair.publicKey
})
const KINDS = {
  good: { what: 'a good model', file: good },
  contract: {
    what: 'of other features',
    file: trained(
      all.map((row) => row.slice(0, 5)),
      1,
      {
        ...contract,
        featureSet: 'iat-size',
        dimension: 5,
        packetsPerFlow: 3,
        activeTimeoutMicros: null,
        truncation: { mode: 'split', durationMicros: 60_000_000 },
        minimumPackets: 2,
        iatUnit: 'seconds',
      },
    ),
  },
  nothing: {
    what: 'flags nothing',
    file: encodeModelFile({ ...rest, threshold: { ...threshold, value: -1e300 } }),
  },
  everything: {
    what: 'flags everything',
    file: trained(
      all.map((row) => row.map((value, i) => (i === D - 1 ? value : value + 50))),
      1,
    ),
  },
  narrow: {
    what: `passes all checks; ${100 * NEW_SHARE} % of the flows after that are of a service that it does not know`,
    file: trained(
      all.filter((row) => row[D - 1] !== MQTT),
      3,
    ),
    later: rowsOf(MQTT),
  },
  // without canaries the gateways have their own checks alone
  everythingToAll: { what: 'flags everything', share: 100 },
  narrowToAll: {
    what: 'as the one before the last, for another service',
    file: trained(
      all.filter((row) => row[D - 1] !== HTTPS),
      4,
    ),
    later: rowsOf(HTTPS),
    share: 100,
  },
  signature: { what: 'signed with another key', file: trained(all, 5), key: 'stranger' },
}
KINDS.everythingToAll.file = KINDS.everything.file
for (const [kind, { file }] of Object.entries(KINDS)) writeFileSync(at(`${kind}.oddflow`), file)

// server
const names = Array.from({ length: count }, (_, i) => `client-${String(i).padStart(4, '0')}`)
const users = names.map((name) => {
  const key = nkeys.createUser()
  writeFileSync(at(`${name}.seed`), new TextDecoder().decode(key.getSeed()), { mode: 0o600 })
  return JSON.stringify({ nkey: key.getPublicKey(), permissions: permissionsOf(name, 'home') })
})
const port = await freePort()
writeFileSync(
  at('server.conf'),
  `listen: 127.0.0.1:${port}\njetstream { store_dir: "${at('store')}" }\nauthorization { timeout: 60, users: [ { user: admin, password: secret }, ${users.join(',\n')} ] }\n`,
)
const server = await startNatsServer(port, ['-c', at('server.conf')])
const url = `nats://admin:secret@127.0.0.1:${port}`
const archive = await openArchive({ server: url })
await prepareModels(archive)

// clients
const row = new Float64Array(D)
const record = { row, noRowReason: null, protocol: 6 }
const judges = new Map()
const judgeOf = (model) => {
  if (!judges.has(model.sha256)) judges.set(model.sha256, createJudgingModel(model, row))
  return judges.get(model.sha256)
}
const selfTests = new Map()
const selfTest = (model) => {
  if (!selfTests.has(model.sha256)) {
    const settings = { localNetworks: PRIVATE_NETWORKS.map(parseNetwork), dropDuplicates: false }
    selfTests.set(model.sha256, missedAttacks(model, settings, systemClock, new AbortController().signal))
  }
  return selfTests.get(model.sha256)
}
const rng = createRng(1)
const base = fileOf(configured)
/** Rows that come to gateways which use the model of this hash. */
let later = { sha256: '', rows: [] }
const open = async (name) => {
  const state = at(name)
  mkdirSync(state)
  const store = createFleetModelStore(nodeFileSystem, state)
  const client = { used: base, taken: new Set(), output: null, models: null }
  client.models = new FleetModels({
    gateway: name,
    group: 'home',
    publicKey: keys[0],
    row,
    configured: base,
    contract,
    kept: await readKeptFleetModel(store, contract, { warn: say }),
    store,
    use(model) {
      client.used = model
      client.taken.add(model.sha256)
    },
    selfTest,
    wallMicros: systemClock.wallMicros,
    log: { info: () => undefined, warn: () => undefined },
    tell: () => undefined,
  })
  client.output = await createNats(
    {
      kind: 'nats',
      name: 'fleet',
      url: `nats://127.0.0.1:${port}`,
      gateway: name,
      seedFile: at(`${name}.seed`),
      caFile: null,
      models: true,
      group: 'home',
    },
    {
      version: '0.0.0',
      hostname: name,
      alertFile: '',
      clock: systemClock,
      log: { warn: say },
      fleetModels: client.models,
    },
  )
  return client
}
const flow = (client) => {
  const isNew = client.used.sha256 === later.sha256 && rng.nextFloat() < NEW_SHARE
  const rows = isNew ? later.rows : known
  row.set(rows[rng.nextBelow(rows.length)])
  const { novel } = judgeOf(client.used).judge(record)
  client.models.note(record, { novel, model: client.used.sha256.slice(0, 16) })
}
const reported = async () => (await archive.manager.streams.info('KV_oddflow-model-states')).state.messages
const clients = []
// one process signs the server's challenges of all
for (let i = 0; i < count; i += TOGETHER) {
  clients.push(...(await Promise.all(names.slice(i, i + TOGETHER).map(open))))
  while ((await reported()) < clients.length) await pause(50)
}
for (const client of clients) for (let i = 0; i < EARLIER_FLOWS; i++) flow(client)
const ticking = setInterval(() => {
  for (const client of clients) {
    for (let i = 0; i < FLOWS_PER_SECOND; i++) flow(client)
    client.models.tick()
  }
}, 1000)
const until = async (is, seconds) => {
  for (let i = 0; i < 10 * seconds; i++) {
    if (clients.every(is)) return true
    await pause(100)
  }
  return false
}
say(`${count} clients are connected and have reported`)

/** Processor seconds of a process. */
const cpuOf = (pid) => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}
const run = (...args) =>
  spawnSync(process.execPath, [fleet, args[0], '--server', url, ...args.slice(1)], { encoding: 'utf8' })
const offer = async (kind) => {
  const { what, file, key = 'ours', share = canaries, later: rows = [] } = KINDS[kind]
  const sha256 = sha256Of(file)
  for (const client of clients) client.taken.clear()
  later = rows.length > 0 ? { sha256, rows } : { sha256: '', rows }
  const cpu = [process.pid, server.pid].map(cpuOf)
  const published = run(
    'publish',
    at(`${kind}.oddflow`),
    '--group',
    'home',
    '--key',
    at(`${key}.key`),
    '--canaries',
    String(share),
    ...(key === 'ours' ? [] : ['--new-key']),
    '--shadow-minutes',
    String(shadowSeconds / 60),
  )
  if (published.status !== 0) throw new Error(published.stderr)
  const begun = Date.now()
  const seconds = () => ((Date.now() - begun) / 1000).toFixed(0)
  const rollout = spawn(process.execPath, [
    fleet,
    'rollout',
    '--server',
    url,
    '--group',
    'home',
    '--follow',
    '--canary-hours',
    '0',
  ])
  let text = ''
  for (const stream of [rollout.stdout, rollout.stderr]) stream.on('data', (more) => (text += more))
  const code = await new Promise((done) => rollout.once('exit', done))
  const decided = seconds()
  const isRolledBack = code === 1
  const isBack = isRolledBack ? await until(({ used }) => used.sha256 !== sha256, 120) : true
  const back = seconds()
  const took = clients.filter(({ taken }) => taken.has(sha256)).length
  const using = clients.filter(({ used }) => used.sha256 === sha256).length
  const spent = [process.pid, server.pid].map((pid, i) => cpuOf(pid) - cpu[i])
  const reason = (/^ {2}[^:]+: (.*)$/m.exec(text)?.[1] ?? '').slice(0, 90)
  say(text.trim().split('\n').slice(-3).join('\n'))
  console.log(
    `| ${what} | ${share} % | ${took} | ${isRolledBack ? `${decided} s` : `none (in use everywhere after ${decided} s)`} | ${isRolledBack ? (isBack ? `${back} s` : 'not') : '–'} | ${using} | ${reason} | ${spent.map((s) => s.toFixed(1)).join(' / ')} |`,
  )
}
try {
  console.log(
    `${count} clients, ${FLOWS_PER_SECOND} flows a second each, ${shadowSeconds} s in shadow; ${cpus()[0].model}, ${cpus().length} logical CPUs, load ${loadavg()[0].toFixed(1)}, Node ${process.version}; models of ${good.length} bytes\n`,
  )
  console.log(
    '| model | canaries | gateways that used it | roll-back after | all back after | still in use | first reason | CPU s clients / server |',
  )
  console.log('| --- | --: | --: | --: | --: | --: | --- | --: |')
  for (const kind of Object.keys(KINDS)) {
    if (values.only !== undefined && values.only !== kind) continue
    await offer(kind)
  }
} finally {
  clearInterval(ticking)
  await Promise.all(clients.map(({ output }) => output.close().catch(() => undefined)))
  await archive.close()
  server.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
