/**
 * What the agent reads is a regular file, or there is one clear line that names it: each file that it is given as a folder, a pipe that
 * nobody writes to, a socket, a link to a device without end and a link to itself. None is waited for. Of those in the state folder
 * none ends it (agent-state-folder.test.ts).
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { run as runCommand } from '../../apps/agent/src/commands/run.js'
import { nodeFileSystem } from '../../apps/agent/src/files/file-system.js'
import { ModelStore } from '../../apps/agent/src/models/model-store.js'
import { agent } from './support/agent.js'
import { synFlood } from './support/captures.js'
import { temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const sockets: Server[] = []

/** Each makes something at a path that is no regular file. */
const kinds: Record<string, (path: string) => void | Promise<void>> = {
  'a folder': (path) => mkdirSync(path),
  'a pipe': (path) => {
    execFileSync('mkfifo', [path])
  },
  'a socket': (path) =>
    new Promise<void>((resolve) => {
      sockets.push(createServer().listen(path, resolve))
    }),
  'a device': (path) => symlinkSync('/dev/zero', path),
  'a circle': (path) => symlinkSync(basename(path), path),
}
const SAYS: Record<string, RegExp> = {
  'a folder': /cannot read it: is a directory; name a file$/,
  'a pipe': /is not a regular file; give one$/,
  'a socket': /is not a regular file; give one$/,
  'a device': /is not a regular file; give one$/,
  'a circle': /cannot read it: symbolic links form a loop; check the path$/,
}

beforeAll(async () => {
  await trainLabModel(inFolder('home.oddflow'))
  writeFileSync(inFolder('some.pcap'), synFlood(3))
})
afterAll(() => {
  for (const socket of sockets) socket.close()
})

const STATE = 'read: some.pcap\neve: eve.json\nstate: st\n'
const GIVEN = `model: home.oddflow\n${STATE}`
const HOOK = "kind: webhook, url: 'http://127.0.0.1:9/'"

/** Where it lies, and the configuration under which it is read. */
const files: [path: string, config: string][] = [
  ['odd.oddflow', `model: odd.oddflow\n${STATE}`],
  ['odd.oddflow', `models: {per: all, files: {all: odd.oddflow}}\n${STATE}`],
  ['odd.calibration', `${GIVEN}budget: {falseAlertsPerDay: 1, calibration: odd.calibration}\n`],
  ['odd.token', `${GIVEN}outputs: [{${HOOK}, tokenFile: odd.token}]\n`],
  [
    'odd.password',
    `${GIVEN}outputs: [{kind: mqtt, url: 'mqtt://127.0.0.1:9', passwordFile: odd.password}]\n`,
  ],
  ['agent.yaml', ''],
]

describe.each(Object.keys(kinds))('%s', (kind) => {
  it.each(files)('in place of %s', async (name, config) => {
    rmSync(inFolder('st'), { recursive: true, force: true })
    rmSync(inFolder('agent.yaml'), { recursive: true, force: true })
    const path = inFolder(name)
    mkdirSync(dirname(path), { recursive: true })
    if (config !== '') writeFileSync(inFolder('agent.yaml'), config)
    await kinds[kind]!(path)
    const told: string[] = []
    const error = vi.spyOn(process.stderr, 'write').mockImplementation((line) => told.push(String(line)) > 0)
    const out = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    const checkConfig = /token|password/.test(name)
    let failure: unknown = null
    try {
      await runCommand({
        config: inFolder('agent.yaml'),
        fold: true,
        once: true,
        checkConfig,
        allowRoot: true,
      })
    } catch (thrown) {
      failure = thrown
    } finally {
      error.mockRestore()
      out.mockRestore()
      process.exitCode = 0
      rmSync(path, { recursive: true, force: true })
    }
    expect((failure as { code?: string } | null)?.code, `${failure} ${told.join('')}`).toMatch(/^file\./)
    const { message } = failure as Error
    expect(message).toMatch(SAYS[kind]!)
    expect(message.startsWith(path), message).toBe(true)
  })

  it('in place of a model or rows that were made here, or of a finished segment', async () => {
    const state = inFolder(`store-${kind.replace(' ', '-')}`)
    mkdirSync(join(state, 'models'), { recursive: true })
    const store = new ModelStore(nodeFileSystem, state, (owner) => owner)
    const record = {
      owner: 'all',
      sha256: 'a'.repeat(64),
      previous: null,
      source: 'trained',
      pinned: false,
      rows: 1,
      unsettledShare: 0,
      trainedAtMicros: 0,
    } as const
    await kinds[kind]!(join(state, 'models', `all-${'a'.repeat(16)}.oddflow`))
    await kinds[kind]!(join(state, 'models', 'all.rows'))
    // there no link is followed, wherever it leads
    const says =
      kind === 'a device' || kind === 'a circle' ? /is a link, which is not followed here/ : SAYS[kind]
    await expect(store.readFile(record)).rejects.toThrow(says)
    const told: string[] = []
    expect(await store.readRows('all', () => 0, { warn: (line) => told.push(line) })).toBe(null)
    expect(told).toEqual([
      expect.stringMatching(/all\.rows: .*; it is kept as .*all\.rows\.damaged, and its contents are lost/),
    ])
    const segment = join(state, 'x.spool')
    await kinds[kind]!(segment)
    for (const mode of ['read', 'read-write'] as const) {
      await expect(nodeFileSystem.open(segment, mode)).rejects.toThrow(says)
    }
  })
})

it('the program ends where its configuration is a pipe', async () => {
  const path = inFolder('odd.yaml')
  execFileSync('mkfifo', [path])
  const { code, stderr } = await agent(['run', '-c', path, '--once'])
  expect(code).toBe(1)
  expect(stderr).toBe(`oddflow-agent: ${path}: is not a regular file; give one\n`)
})

it.each(Object.keys(kinds))('a calibration that is %s in the state folder begins anew', async (kind) => {
  rmSync(inFolder('st'), { recursive: true, force: true })
  mkdirSync(inFolder('st'))
  writeFileSync(inFolder('budget.yaml'), `${GIVEN}budget: {falseAlertsPerDay: 1}\n`)
  await kinds[kind]!(inFolder('st/calibration.json'))
  const { code, stderr } = await agent(['run', '-c', inFolder('budget.yaml'), '--once'])
  expect(code).toBe(0)
  expect(stderr).toMatch(
    /calibration\.json: .*; it is kept as .*calibration\.json\.damaged, and its contents are lost/,
  )
})
