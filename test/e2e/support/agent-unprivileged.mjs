/**
 * Within a network namespace of its own: the agent as a user without any privilege beside a tcpdump that has its two,
 * a capture sent to it, and what the kernel counts of packets that left. Prints one JSON line.
 *
 *   unshare --net node agent-unprivileged.mjs CAPTURE FOLDER AGENT ARGUMENT…
 *
 * There is a route to everywhere, so what the agent would say to anybody goes out and is counted.
 */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { untilIdle } from './until-idle.mjs'

const [capture, folder, agent, ...args] = process.argv.slice(2)
const NOBODY = '65534'
const run = (program, ...list) =>
  execFileSync(program, list, { stdio: ['ignore', 'pipe', 'pipe'] }).toString()
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

run('sysctl', '-q', '-w', 'net.ipv6.conf.default.disable_ipv6=1')
run('ip', 'link', 'set', 'lo', 'up')
run('ip', 'link', 'add', 'send0', 'type', 'veth', 'peer', 'name', 'take0')
for (const end of ['send0', 'take0']) run('ip', 'link', 'set', end, 'mtu', '9000', 'up')
run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'take0')
run('ip', 'neighbour', 'add', '192.0.2.2', 'lladdr', '02:00:5e:10:00:02', 'dev', 'take0')
run('ip', 'route', 'add', 'default', 'via', '192.0.2.2')

const bin = join(folder, 'bin')
mkdirSync(bin)
const recorder = join(bin, 'tcpdump')
copyFileSync(run('sh', '-c', 'command -v tcpdump').trim(), recorder)
chmodSync(recorder, 0o755)
run('setcap', 'cap_net_raw+eip', recorder)
const home = join(folder, 'home')
mkdirSync(home, { mode: 0o700 })
run('chown', NOBODY, home)

/** What the kernel counts, such as Tcp.ActiveOpens. */
function counts() {
  const lines = readFileSync('/proc/net/snmp', 'utf8').trim().split('\n')
  const found = {}
  for (let i = 0; i < lines.length; i += 2) {
    const [names, values] = [lines[i].split(' '), lines[i + 1].split(' ')]
    for (let k = 1; k < names.length; k++) found[`${names[0].slice(0, -1)}.${names[k]}`] = Number(values[k])
  }
  return found
}
/** Ids and capabilities of a process. */
function rights(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const of = (name) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1]
  return { name: of('Name'), uid: of('Uid'), permitted: of('CapPrm'), effective: of('CapEff') }
}

const identity = [
  '--reuid',
  NOBODY,
  '--regid',
  NOBODY,
  '--clear-groups',
  '--inh-caps=-all',
  '--ambient-caps=-all',
]
const child = spawn(
  'setpriv',
  [...identity, process.execPath, agent, 'run', '--interface', 'take0', ...args],
  {
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { HOME: home, PATH: `${bin}:${process.env.PATH}` },
  },
)
let stdout = ''
let stderr = ''
child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })))

try {
  for (let k = 0; readFileSync('/proc/net/packet', 'utf8').trim().split('\n').length < 2; k++) {
    if (k === 300 || child.exitCode !== null) throw new Error(`the recorder did not begin: ${stderr}`)
    await pause(100)
  }
  await pause(500)
  const before = counts()
  const told = run('tcpreplay', '-q', '-i', 'send0', '--pps', '4000', capture)
  const sent = Number(/Successful packets:\s+(\d+)/.exec(told)?.[1])
  // long enough to say something to somebody
  await pause(2500)
  const childPids = run('sh', '-c', `pgrep -P ${child.pid} || true`).split('\n').filter(Boolean)
  await untilIdle(child.pid, ...childPids.map(Number))
  const agentRights = rights(child.pid)
  const children = childPids.map(rights)
  const listening = run('ss', '-Hltun').trim()
  child.kill('SIGTERM')
  const ending = await ended
  const after = counts()
  const since = (name) => after[name] - before[name]
  console.log(
    JSON.stringify({
      sent,
      ...ending,
      stdout,
      stderr,
      agent: agentRights,
      children,
      listening,
      files: readdirSync(home).sort(),
      out: {
        packets: since('Ip.OutRequests'),
        connections: after['Tcp.ActiveOpens'],
        datagrams: after['Udp.OutDatagrams'],
      },
    }),
  )
} finally {
  child.kill('SIGKILL')
}
