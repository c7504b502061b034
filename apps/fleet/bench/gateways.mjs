/**
 * A fleet on one machine: agents as processes and control clients that speak the same protocol (gateway-clients.mjs), in a
 * network namespace of their own, against `oddflow-fleet serve`. Counts events that are lost or stored twice over kill -9 of
 * an agent, a process of clients, nats-server and serve, and over a partition (the link is taken down).
 *
 *     node apps/fleet/bench/gateways.mjs [--clients 1000] [--agents 20] [--per-minute 10000] [--partition 300]
 *
 * Needs root, nats-server, openssl and ip; `npm run build` first.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { AckPolicy } from '@nats-io/jetstream'
import { openArchive } from '../build/archive.js'
import { enroll, loginOf, prepareFolder } from '../build/folder.js'

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '1000' },
    agents: { type: 'string', default: '20' },
    'per-minute': { type: 'string', default: '10000' },
    partition: { type: 'string', default: '300' },
  },
})
const [clients, agents, perMinute, partitionSeconds] = Object.values(values).map(Number)
const CLIENTS_PER_PROCESS = 100
const STEADY_SECONDS = 60
const repository = fileURLToPath(new URL('../../..', import.meta.url))
const fleet = join(repository, 'apps/fleet/dist/main.js')
const agentProgram = join(repository, 'apps/agent/dist/main.js')
const lab = join(repository, 'test/fixtures/lab')
// state of gateways in memory: a kill of a process does not lose it, and 1,000 spools share no disk in the field
const gatewaysFolder = mkdtempSync('/dev/shm/oddflow-gateways-')
const serverFolder = mkdtempSync('/var/tmp/oddflow-gateways-')
const folder = join(serverFolder, 'fleet')
const namespace = `oddflow-gw-${process.pid}`
const link = `ofg${process.pid % 100_000}`
const [serverAddress, gatewayAddress] = ['10.213.7.1', '10.213.7.2']
const url = `tls://${serverAddress}:14222`
const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'inherit'] })
const children = new Set()
const keep = (child) => {
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}
const ended = (child) =>
  child.exitCode !== null || child.signalCode !== null
    ? null
    : new Promise((done) => child.once('exit', done))
const say = (text) => console.error(`${new Date().toISOString().slice(11, 19)} ${text}`)
const names = (what, count) =>
  Array.from({ length: count }, (_, i) => `${what}-${String(i).padStart(4, '0')}`)
const clientNames = names('client', clients)
const agentNames = names('agent', agents)
const seed = (name) => join(gatewaysFolder, `${name}.seed`)
const truthOf = (name) => join(gatewaysFolder, `${name}.truth`)

async function startServe() {
  const child = keep(
    spawn(
      process.execPath,
      [fleet, 'serve', '--folder', folder, '--listen', `${serverAddress}:14222`, '--page', '127.0.0.1:0'],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    ),
  )
  // it reaches its own server by the loopback address, which this one does not listen on
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text
  })
  while (!said.includes('page at')) {
    if (child.exitCode !== null) throw new Error(`serve ended: ${said}`)
    await pause(100)
  }
  return child
}

const serverPid = ({ pid }) =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0])

function startClients(group) {
  const settings = {
    ...{
      names: group.names,
      url,
      folder: gatewaysFolder,
      seeds: gatewaysFolder,
      caFile: join(folder, 'ca.pem'),
    },
    ...{ everyMillis: 60_000 / ((perMinute - 10 * agents) / clients), truth: truthOf(group.names[0]) },
  }
  const child = keep(
    spawn(
      'ip',
      [
        'netns',
        'exec',
        namespace,
        process.execPath,
        join(repository, 'apps/fleet/bench/gateway-clients.mjs'),
        JSON.stringify(settings),
      ],
      {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      },
    ),
  )
  return { ...group, child, ready: new Promise((done) => child.once('message', done)) }
}

/** Live packets on standard input: each minute ten connections to services that the model does not know. */
function startAgent(name) {
  const state = join(gatewaysFolder, name)
  const config = join(gatewaysFolder, `${name}.yaml`)
  writeFileSync(
    config,
    `read: '-'\nmodel: m.oddflow\neve: ${name}.eve.json\nstate: ${name}\nfold: false\noutputs:\n  - { kind: nats, url: '${url}', gateway: ${name}, seedFile: ${name}.seed, caFile: ${join(folder, 'ca.pem')} }\n`,
  )
  mkdirSync(state, { recursive: true })
  const child = keep(
    spawn(
      'ip',
      ['netns', 'exec', namespace, process.execPath, agentProgram, 'run', '--allow-root', '-c', config],
      {
        stdio: ['pipe', 'ignore', 'ignore'],
      },
    ),
  )
  child.stdin.on('error', () => undefined)
  const header = Buffer.alloc(24)
  header.writeUInt32LE(0xa1b2c3d4, 0)
  header.writeUInt16LE(2, 4)
  header.writeUInt16LE(4, 6)
  header.writeUInt32LE(65_535, 16)
  header.writeUInt32LE(1, 20)
  child.stdin.write(header)
  const timer = setInterval(() => isMaking && child.stdin.write(connectionAttempt()), 6000)
  child.once('exit', () => clearInterval(timer))
  return { name, child }
}

let attempts = 0
/** A TCP SYN to a port that no other attempt has, as a record of a capture. */
function connectionAttempt() {
  const packet = Buffer.alloc(16 + 54)
  const now = Date.now()
  packet.writeUInt32LE(Math.floor(now / 1000), 0)
  packet.writeUInt32LE((now % 1000) * 1000, 4)
  packet.writeUInt32LE(54, 8)
  packet.writeUInt32LE(54, 12)
  Buffer.from('02005e00000102005e0000100800', 'hex').copy(packet, 16)
  Buffer.from('450000280000400040060000c0a8010a', 'hex').copy(packet, 30)
  Buffer.from([203, 0, 113, 1 + (attempts % 250)]).copy(packet, 46)
  packet.writeUInt16BE(1024 + (attempts % 60_000), 50)
  packet.writeUInt16BE(2000 + (attempts++ % 60_000), 52)
  packet[62] = 0x50
  packet[63] = 2
  packet.writeUInt16BE(64_240, 64)
  return packet
}

/** User and system time in seconds. */
function processorSeconds(pid) {
  const [, fields] = /\) (.*)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  const numbers = fields.split(' ')
  return (Number(numbers[11]) + Number(numbers[12])) / 100
}
const residentMegabytes = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024
const linkBytes = (what) => Number(readFileSync(`/sys/class/net/${link}a/statistics/${what}_bytes`, 'utf8'))
const sum = (numbers) => numbers.reduce((total, each) => total + each, 0)
const quantile = (sorted, q) =>
  sorted.length === 0 ? Number.NaN : sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]

function cleanUp() {
  for (const child of children) child.kill('SIGKILL')
  for (const args of [
    ['link', 'del', `${link}a`],
    ['netns', 'del', namespace],
  ]) {
    try {
      ip(...args)
    } catch {}
  }
  for (const path of [gatewaysFolder, serverFolder]) rmSync(path, { recursive: true, force: true })
}
process.once('exit', cleanUp)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

let isMaking = true
ip('netns', 'add', namespace)
ip('link', 'add', `${link}a`, 'type', 'veth', 'peer', 'name', `${link}b`)
ip('link', 'set', `${link}b`, 'netns', namespace)
ip('addr', 'add', `${serverAddress}/30`, 'dev', `${link}a`)
ip('link', 'set', `${link}a`, 'up')
ip('-n', namespace, 'addr', 'add', `${gatewayAddress}/30`, 'dev', `${link}b`)
ip('-n', namespace, 'link', 'set', `${link}b`, 'up')
ip('-n', namespace, 'link', 'set', 'lo', 'up')
const normal = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => join(lab, name))
execFileSync(
  process.execPath,
  [
    join(repository, 'apps/trainer/dist/main.js'),
    'train',
    ...normal,
    '-o',
    join(gatewaysFolder, 'm.oddflow'),
  ],
  { stdio: 'ignore' },
)
prepareFolder(folder, [], say)
for (const name of [...clientNames, ...agentNames]) enroll(folder, name, seed(name), null)
let serving = await startServe()
say('the server runs')
const running = agentNames.map(startAgent)
const groups = []
for (let i = 0; i < clients; i += CLIENTS_PER_PROCESS) {
  groups.push(startClients({ names: clientNames.slice(i, i + CLIENTS_PER_PROCESS) }))
}
await Promise.all(groups.map(({ ready }) => ready))
say(`${agents} agents and ${clients} clients run`)
await pause(30_000)

const pids = {
  server: [serverPid(serving)],
  agents: running.map(({ child }) => child.pid),
  clients: groups.map(({ child }) => child.pid),
}
const seconds = (of) => sum(of.map(processorSeconds))
const before = {
  server: seconds(pids.server),
  agents: seconds(pids.agents),
  clients: seconds(pids.clients),
  sent: linkBytes('rx'),
  received: linkBytes('tx'),
}
const steadyFrom = Date.now()
await pause(1000 * STEADY_SECONDS)
const steadyTo = Date.now()
const gateways = agents + clients
const minutes = (steadyTo - steadyFrom) / 60_000
const used = {
  server: (seconds(pids.server) - before.server) / minutes,
  agent: (seconds(pids.agents) - before.agents) / minutes / agents,
  client: (seconds(pids.clients) - before.clients) / minutes / clients,
  sent: (linkBytes('rx') - before.sent) / minutes / gateways,
  received: (linkBytes('tx') - before.received) / minutes / gateways,
  serverMegabytes: residentMegabytes(pids.server[0]),
}
const load = loadavg()[0]
say(`steady minute: ${JSON.stringify(used)}`)

running[0].child.kill('SIGKILL')
groups[0].child.kill('SIGKILL')
await Promise.all([ended(running[0].child), ended(groups[0].child)])
running[0] = startAgent(running[0].name)
groups[0] = startClients(groups[0])
await groups[0].ready
say('an agent and 100 clients were killed and run again')
process.kill(serverPid(serving), 'SIGKILL')
await ended(serving)
await pause(5000)
serving = await startServe()
say('nats-server was killed and runs again')
await pause(20_000)
serving.kill('SIGKILL')
await ended(serving)
await pause(5000)
serving = await startServe()
say('serve was killed and runs again')
await pause(20_000)
ip('link', 'set', `${link}a`, 'down')
const partitionFrom = Date.now()
say(`the link is down for ${partitionSeconds} s`)
await pause(1000 * partitionSeconds)
ip('link', 'set', `${link}a`, 'up')
const partitionTo = Date.now()
say('the link is up')
await pause(30_000)
isMaking = false
for (const { child } of groups) child.kill('SIGUSR2')
// flows of one packet are judged when they have ended
await pause(90_000)
for (const { child } of [...groups, ...running]) child.kill('SIGTERM')
await Promise.all([...groups, ...running].map(({ child }) => ended(child)))
say('all gateways have ended')

const made = new Set()
for (const {
  names: [first],
} of groups) {
  for (const id of readFileSync(truthOf(first), 'utf8').split('\n')) if (id !== '') made.add(id)
}
const fromClients = made.size
for (const { name } of running) {
  const path = join(gatewaysFolder, `${name}.eve.json`)
  if (!existsSync(path)) continue
  for (const line of readFileSync(path, 'utf8').split('\n'))
    if (line !== '') made.add(JSON.parse(line).oddflow.id)
}
const archive = await openArchive({ server: url, ...loginOf(folder) })
const stored = new Map()
const steady = []
const disturbed = []
let last = 0
const { state } = await archive.manager.streams.info('oddflow-gateways')
const { name: consumerName } = await archive.manager.consumers.add('oddflow-gateways', {
  ack_policy: AckPolicy.None,
  mem_storage: true,
})
const consumer = await archive.client.consumers.get('oddflow-gateways', consumerName)
for await (const message of await consumer.consume()) {
  const event = JSON.parse(new TextDecoder().decode(message.data))
  const { id } = event.oddflow
  stored.set(id, (stored.get(id) ?? 0) + 1)
  if (event.event_type === 'incident') {
    const madeMillis = Date.parse(event.timestamp)
    const late = Number(message.timestampNanos / 1_000_000n) - madeMillis
    if (madeMillis >= steadyFrom && madeMillis < steadyTo) steady.push(late)
    else if (madeMillis >= steadyTo) disturbed.push(late)
    last = Math.max(last, madeMillis >= partitionFrom && madeMillis < partitionTo ? madeMillis + late : 0)
  }
  if (message.seq >= state.last_seq) break
}
await archive.close()
const lost = [...made].filter((id) => !stored.has(id))
for (const list of [steady, disturbed]) list.sort((a, b) => a - b)
const round = (value, digits = 1) => value.toFixed(digits)
const copies = state.messages - stored.size
console.log(
  `${agents} agents and ${clients} control clients, ${perMinute} incidents and ${gateways} statuses a minute; ${cpus()[0].model}, ${cpus().length} logical CPUs, load ${round(load)}, Node ${process.version}\n`,
)
console.log('| | |\n| --- | --: |')
for (const [what, value] of [
  ['events made (of agents)', `${made.size} (${made.size - fromClients})`],
  ['lost', lost.length],
  ['stored twice, with one id', copies],
  [
    'stored, of processes that were killed before they had noted it',
    [...stored.keys()].filter((id) => !made.has(id)).length,
  ],
  ['incidents of clients in the steady minute', steady.length],
  ['from made to stored, steady minute: p50, p99, ms', `${quantile(steady, 0.5)}, ${quantile(steady, 0.99)}`],
  [
    'kills and partition: p50, p99, s',
    `${round(quantile(disturbed, 0.5) / 1000)}, ${round(quantile(disturbed, 0.99) / 1000)}`,
  ],
  [
    `last event of the partition (${partitionSeconds} s) stored after its end, s`,
    round((last - partitionTo) / 1000),
  ],
  ['sent by a gateway, bytes a minute, with TLS, TCP and IP', Math.round(used.sent)],
  ['received by a gateway, bytes a minute', Math.round(used.received)],
  ['processor time of a control client, ms a minute', round(1000 * used.client)],
  ['processor time of an agent, ms a minute', round(1000 * used.agent)],
  [
    'processor time of nats-server, s a minute (ms a gateway)',
    `${round(used.server, 2)} (${round((1000 * used.server) / gateways, 2)})`,
  ],
  ['resident memory of nats-server, MB', Math.round(used.serverMegabytes)],
  ['stored bytes of an event', Math.round(state.bytes / state.messages)],
]) {
  console.log(`| ${what} | ${value} |`)
}
if (lost.length > 0) {
  writeFileSync('/var/tmp/oddflow-gateways-lost.txt', lost.join('\n'))
  process.exitCode = 1
}
serving.kill('SIGTERM')
await ended(serving)
process.exit()
