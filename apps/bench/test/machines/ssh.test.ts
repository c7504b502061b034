/**
 * A target behind ssh, against a real sshd on the loopback of a network namespace of its own. Needs root, ip and sshd;
 * where they are absent the tests say so.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DETECTOR_NAMES } from '@oddflow/detectors'
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest'
import { isEqualReading, readReadings } from '../../src/machines/reading.js'
import { readTrials } from '../../src/run/trials-file.js'
import { benchMain, type Outcome, runProcess } from '../support/run-bench.js'
import { type SmallWork, writeSmallWork } from '../support/small-bundle.js'

const SSHD = '/usr/sbin/sshd'
const PORT = 2222
const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-ssh-'))
const namespace = `oddflow-${process.pid}`
const there = join(folder, 'there')
/** Busy without end, and no other test's. */
const BUSY = `for (;;) {} // ${namespace}`
let small: SmallWork
let server: ChildProcess | undefined
let absent: string | null = null

const run = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0

function startServer(): string | null {
  if (process.getuid?.() !== 0) return 'needs root for a network namespace'
  if (!existsSync(SSHD)) return 'no sshd'
  if (!run('ip', 'netns', 'add', namespace)) return 'no network namespaces here'
  run('ip', '-n', namespace, 'link', 'set', 'lo', 'up')
  for (const name of ['host', 'other', 'user']) {
    run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', join(folder, name))
  }
  copyFileSync(join(folder, 'user.pub'), join(folder, 'authorized'))
  const key = (name: string): string => readFileSync(join(folder, `${name}.pub`), 'utf8')
  writeFileSync(join(folder, 'known'), `[127.0.0.1]:${PORT} ${key('host')}`)
  writeFileSync(join(folder, 'known-other'), `[127.0.0.1]:${PORT} ${key('other')}`)
  const config = `Port ${PORT}
ListenAddress 127.0.0.1
HostKey ${join(folder, 'host')}
PidFile none
AuthorizedKeysFile ${join(folder, 'authorized')}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
`
  writeFileSync(join(folder, 'sshd_config'), config)
  // where sshd puts its unprivileged half
  mkdirSync('/run/sshd', { recursive: true })
  server = spawn('ip', ['netns', 'exec', namespace, SSHD, '-D', '-e', '-f', join(folder, 'sshd_config')], {
    stdio: 'ignore',
  })
  return null
}

async function waitForServer(): Promise<string | null> {
  const probe = ['ip', 'netns', 'exec', namespace, 'ssh-keyscan', '-p', `${PORT}`, '-T', '1', '127.0.0.1']
  for (let attempt = 0; attempt < 50; attempt++) {
    if (spawnSync(probe[0]!, probe.slice(1), { encoding: 'utf8' }).stdout.includes('ssh-ed25519')) return null
    await sleep(100)
  }
  return 'sshd does not answer'
}

beforeAll(async () => {
  mkdirSync(there)
  absent = startServer() ?? (await waitForServer())
  if (absent === null) small = writeSmallWork(folder)
}, 60_000)

afterAll(() => {
  server?.kill()
  if (server !== undefined) run('ip', 'netns', 'del', namespace)
  rmSync(folder, { recursive: true, force: true })
})

/** A target with the given fields, and what the command does inside the namespace with it and models of `detectors`. */
function machines(
  name: string,
  fields: Record<string, unknown>,
  context: TestContext,
  detectors = 'nearest',
) {
  if (absent !== null) context.skip(absent)
  const trials = join(folder, `${name}-trials.jsonl`)
  const readings = join(folder, `${name}-readings.jsonl`)
  const target = {
    ...{ name: 'rspi', kind: 'ssh', host: '127.0.0.1', user: 'root', port: PORT, configFile: 'none' },
    ...{ identityFile: join(folder, 'user'), knownHostsFile: join(folder, 'known') },
    ...{ node: process.execPath, directory: there },
    ...fields,
  }
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ format: 1, targets: [target] }))
  copyFileSync(small.trialsFile, trials)
  const args = [
    ...['netns', 'exec', namespace, process.execPath, benchMain, 'machines'],
    ...['--targets', join(folder, `${name}.json`), '--trials', trials, '--readings', readings],
    ...['--data', small.data, '--manifests', small.manifests, '--test-runs', '2', '--refit-rows', '40'],
    ...['--detectors', detectors],
  ]
  const start = (onStart?: (child: ChildProcess) => void): Promise<Outcome> => runProcess('ip', args, onStart)
  return { trials, readings, start }
}

/** A Node that hashes as it should, and otherwise does as it is told. */
function strangeNode(name: string, command: string): string {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\ncase "$1" in -e) exec '${process.execPath}' "$@";; esac\n${command}\n`)
  chmodSync(path, 0o755)
  return path
}

it('gives the same bytes and scores over ssh, and leaves nothing behind', async (context) => {
  const detectors = sampleOf(DETECTOR_NAMES, 0.3)
  const { trials, readings, start } = machines('plain', {}, context, detectors.join())
  expect(await start()).toMatchObject({ code: 0, stderr: 'making the bundle\n' })
  const found = readReadings(readings)
  expect(found.length).toBe(2 * detectors.length)
  expect(found.every((reading) => isEqualReading(reading) === true && reading.reach === 'ssh')).toBe(true)
  const own = readTrials(trials).filter(({ machine }) => machine.name === 'rspi')
  expect(own.length).toBe(detectors.length)
  expect(readdirSync(there)).toEqual([])
}, 120_000)

it('brings a Node along', async (context) => {
  const node = join(folder, 'own-node')
  writeFileSync(node, `#!/bin/sh\nexec '${process.execPath}' "$@"\n`)
  const { readings, start } = machines('brought', { node: undefined, bringNode: node }, context)
  expect(await start()).toMatchObject({ code: 0, stderr: 'making the bundle\n' })
  expect(readReadings(readings).length).toBe(2)
  expect(readdirSync(there)).toEqual([])
}, 120_000)

it.for(
  sampleOf<[string, Record<string, unknown>, RegExp]>(
    [
      ['another host key', { knownHostsFile: join(folder, 'known-other') }, /rspi: .*[Hh]ost key/],
      ['a key that is not known', { identityFile: join(folder, 'other') }, /rspi: .*Permission denied/],
      ['a port where nobody listens', { port: 2 }, /rspi: .*(refused|host key)/i],
      ['a directory that is not there', { directory: join(folder, 'nowhere') }, /rspi: .*No such file/],
      [
        'a Node that is not there',
        { node: '/nowhere/node' },
        /rspi: .*nowhere\/node.*(No such file|not found)/,
      ],
    ],
    0.4,
  ),
)(
  'says so of %s, and leaves nothing behind',
  { timeout: 60_000 },
  async ([name, fields, message], context) => {
    const { readings, start } = machines(name.replaceAll(' ', '-'), fields, context)
    const outcome = await start()
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toMatch(message)
    expect(existsSync(readings)).toBe(false)
    expect(readdirSync(there)).toEqual([])
  },
)

it.for(
  sampleOf<[string, string, RegExp]>(
    [
      ['endless output', 'yes "$(head -c 4000 /dev/zero | tr "\\0" x)"', /rspi: (result: |printed more)/],
      ['control characters', 'printf "\\033]0;owned\\007\\n"', /rspi: result: /],
      ['a death half way', 'kill -9 $$', /rspi: /],
      ['silence', 'sleep 600', /rspi: took longer than 3 s/],
    ],
    0.5,
  ),
)(
  'takes no harm from %s over there, and leaves nothing behind',
  { timeout: 60_000 },
  async ([name, command, message], context) => {
    const node = strangeNode(name.replaceAll(' ', '-'), command)
    const { readings, start } = machines(
      `strange-${name.replaceAll(' ', '-')}`,
      // of the others, none would end by its time
      { node, timeoutSeconds: name === 'silence' ? 3 : 50 },
      context,
    )
    const outcome = await start()
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toMatch(message)
    expect(outcome.stderr).not.toContain('\u001b')
    expect(existsSync(readings)).toBe(false)
    expect(readdirSync(there)).toEqual([])
  },
)

it.for(
  sampleOf<[string, string]>(
    [
      ['that is busy without end', `exec '${process.execPath}' -e '${BUSY}'`],
      ['and what it started', `'${process.execPath}' -e '${BUSY}'`],
    ],
    0.5,
  ),
)(
  'ends a hung Node over there %s, when the time is over',
  { timeout: 60_000 },
  async ([name, busy], context) => {
    const pids = join(folder, `hung-${name.length}`)
    const node = strangeNode(`busy-${name.length}`, `echo $$ > '${pids}'\n${busy}`)
    const { start } = machines(`busy-${name.length}`, { node, timeoutSeconds: 10 }, context)
    const outcome = await start()
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toContain('rspi: took longer than 10 s')
    const pid = readFileSync(pids, 'utf8').trim()
    await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 20_000 }).toBe(false)
    await expect.poll(countBusy, { timeout: 20_000 }).toBe(0)
    expect(readdirSync(there)).toEqual([])
  },
)

it('ends a hung Node over there when it is killed itself', async (context) => {
  const pids = join(folder, 'hung-killed')
  const node = strangeNode('busy-killed', `echo $$ > '${pids}'\nexec '${process.execPath}' -e '${BUSY}'`)
  const { start } = machines('busy-killed', { node }, context)
  await start(async (child) => {
    for (let i = 0; i < 300 && !existsSync(pids); i++) await sleep(50)
    await sleep(300)
    child.kill('SIGKILL')
  })
  const pid = readFileSync(pids, 'utf8').trim()
  await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 20_000 }).toBe(false)
  await expect.poll(() => readdirSync(there), { timeout: 20_000 }).toEqual([])
}, 60_000)

/** Processes of this test that are busy without end. */
function countBusy(): number {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`\0-e\0${BUSY}\0`)
    } catch {
      return false
    }
  }).length
}

it('leaves nothing behind when it is killed itself: the far end sees its input end', async (context) => {
  const node = strangeNode('waiting', 'cat > /dev/null')
  const { start } = machines('killed', { node }, context)
  const outcome = start(async (child) => {
    for (let i = 0; i < 300; i++) {
      const [made] = readdirSync(there)
      if (made !== undefined && existsSync(join(there, made, 'work.json'))) break
      await sleep(50)
    }
    await sleep(500)
    child.kill('SIGKILL')
  })
  expect((await outcome).signal).toBe('SIGKILL')
  for (let i = 0; i < 100 && readdirSync(there).length > 0; i++) await sleep(50)
  expect(readdirSync(there)).toEqual([])
}, 60_000)
