/**
 * Within a network namespace of its own: a veth pair, the agent on one end, a capture sent into the other. What
 * the agent's tcpdump wrote is copied to a file. Prints one JSON line: the packets sent and what the agent said.
 *
 *   unshare --net node agent-live.mjs CAPTURE FOLDER AGENT ARGUMENT…
 *
 * Where KILL_RECORDER is set, the recorder is killed once before the capture is sent; where STALL_RECORDER is set, it gets
 * no processor while the capture is sent, at 20,000 packets a second.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { untilIdle } from './until-idle.mjs'

const [capture, folder, agent, ...args] = process.argv.slice(2)
const run = (program, ...list) =>
  execFileSync(program, list, { stdio: ['ignore', 'pipe', 'pipe'] }).toString()
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

run('sysctl', '-q', '-w', 'net.ipv6.conf.default.disable_ipv6=1')
run('ip', 'link', 'add', 'send0', 'type', 'veth', 'peer', 'name', 'take0')
for (const end of ['send0', 'take0']) run('ip', 'link', 'set', end, 'mtu', '9000', 'up')

const recorder = run('sh', '-c', 'command -v tcpdump').trim()
const copy = join(folder, 'copy.pcap')
mkdirSync(join(folder, 'bin'))
symlinkSync(fileURLToPath(new URL('copying-recorder.mjs', import.meta.url)), join(folder, 'bin/tcpdump'))
const child = spawn(
  process.execPath,
  [agent, 'run', '--allow-root', '--once', '--interface', 'take0', ...args],
  {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
      RECORDER: recorder,
      COPY: copy,
    },
  },
)
let stdout = ''
let stderr = ''
child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })))

/** The header of a capture file says that the recorder has begun. */
async function begun() {
  for (let k = 0; k < 300; k++) {
    if ((statSync(copy, { throwIfNoEntry: false })?.size ?? 0) >= 24) return
    await pause(100)
  }
  throw new Error(`the recorder did not begin: ${stderr}`)
}
try {
  await begun()
} catch (error) {
  child.kill()
  throw error
}
/** The copying recorder and the one that it runs. */
const below = (pid) =>
  run('sh', '-c', `pgrep -P ${pid} || true`)
    .split('\n')
    .filter(Boolean)
    .flatMap((id) => [id, ...below(id)])
const signalRecorder = (signal) => {
  for (const pid of below(child.pid)) {
    try {
      process.kill(Number(pid), signal)
    } catch (error) {
      // a shell that guards the recorder ends with it
      if (error.code !== 'ESRCH') throw error
    }
  }
}
if (process.env.KILL_RECORDER) {
  // the next recorder makes a new copy
  renameSync(copy, `${copy}.killed`)
  signalRecorder('SIGKILL')
  await begun()
}
if (process.env.STALL_RECORDER) signalRecorder('SIGSTOP')
const pace = process.env.STALL_RECORDER ? '20000' : '4000'
const told = run('tcpreplay', '-q', '-i', 'send0', '--pps', pace, capture)
if (process.env.STALL_RECORDER) signalRecorder('SIGCONT')
const sent = Number(/Successful packets:\s+(\d+)/.exec(told)?.[1])
await untilIdle(child.pid, ...below(child.pid).map(Number))
const stopping = Date.now()
child.kill('SIGTERM')
const ending = await ended
console.log(JSON.stringify({ sent, copy, ...ending, stopMillis: Date.now() - stopping, stdout, stderr }))
