/**
 * Within a network namespace of its own: the agent on an interface that is switched off and on while it runs, deleted, and made again.
 * Prints one JSON line: what /healthz said before, meanwhile and after, how many synthetic attacks were flagged before and after, and what the agent
 * said.
 *
 *   unshare --net --mount node agent-gone.mjs AGENT ARGUMENT…
 */
import { execFileSync, spawn } from 'node:child_process'
import process from 'node:process'

const [agent, ...args] = process.argv.slice(2)
const ip = (...list) => execFileSync('ip', list, { stdio: ['ignore', 'pipe', 'pipe'] }).toString()
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis))
const make = () => {
  ip('link', 'add', 'take0', 'type', 'veth', 'peer', 'name', 'send0')
  for (const end of ['take0', 'send0']) ip('link', 'set', end, 'up')
}
// the interfaces of this namespace
execFileSync('mount', ['-t', 'sysfs', 'sysfs', '/sys'])
ip('link', 'set', 'lo', 'up')
make()
const child = spawn(
  process.execPath,
  [agent, 'run', '--allow-root', '--once', '--interface', 'take0', ...args],
  {
    stdio: ['ignore', 'pipe', 'pipe'],
  },
)
let stdout = ''
let stderr = ''
child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
const ended = new Promise((resolve) => child.on('close', (code) => resolve(code)))

async function ask(path, isIt) {
  let text = ''
  for (let k = 0; k < 600; k++) {
    const address = /metrics at (http:.*)\/metrics/.exec(stderr)?.[1]
    if (address !== undefined) {
      const answer = await fetch(`${address}${path}`)
      text = `${answer.status} ${await answer.text()}`
      if (isIt(text)) return text
    }
    await pause(100)
  }
  return text
}
const health = (isIt) => ask('/healthz', isIt)
const flaggedIn = (text) => Number(/^oddflow_self_tests_total\{result="flagged"\} (\d+)$/m.exec(text)?.[1])
const flagged = async (least) => flaggedIn(await ask('/metrics', (text) => flaggedIn(text) >= least))
const before = await health((text) => text.startsWith('200'))
const flaggedBefore = await flagged(1)
// a recorder that lived for three seconds has begun to record
await pause(3500)
ip('link', 'set', 'take0', 'down')
const off = await health((text) => text.startsWith('503'))
ip('link', 'set', 'take0', 'up')
const on = await health((text) => text.startsWith('200'))
ip('link', 'del', 'take0')
const gone = await health((text) => text.startsWith('503'))
make()
const after = await health((text) => text.startsWith('200'))
const flaggedAfter = await flagged(flaggedBefore + 1)
child.kill('SIGTERM')
const code = await ended
console.log(
  JSON.stringify({ code, before, off, on, gone, after, flaggedBefore, flaggedAfter, stdout, stderr }),
)
