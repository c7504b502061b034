/** The real programs and a real server on loopback: captures in, Parquet out, over kills of workers and server. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { Objm } from '@nats-io/obj'
import { parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
// @boundaries-ignore tests alone use it, and no package has it
import {
  freePort,
  hasNatsServer,
  natsEnvironment,
  startNatsServer,
} from '../../../tools/workspace/nats-server.mjs'
import { doneSubject, jobOf, jobSubject, openArchive } from '../src/archive.js'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const fleet = join(repository, 'apps/fleet/dist/main.js')
const oddflow = join(repository, 'apps/trainer/dist/main.js')
const lab = join(repository, 'test/fixtures/lab')
const env = { ...natsEnvironment, ODDFLOW_WAIT_SCALE: '0.1' }

let folder = ''
let url = ''
let port = 0
let server: ChildProcess | null = null
const children = new Set<ChildProcess>()

beforeAll(async () => {
  if (!hasNatsServer) return
  folder = mkdtempSync(join(tmpdir(), 'oddflow-fleet-test-'))
  mkdirSync(join(folder, 'captures/site'), { recursive: true })
  for (const name of readdirSync(lab).filter((file) => file.includes('pcap'))) {
    copyFileSync(join(lab, name), join(folder, 'captures/site', name))
  }
  writeFileSync(join(folder, 'captures/text.pcap'), 'no capture\n')
  writeFileSync(join(folder, 'captures/notes.txt'), 'not submitted\n')
  execFileSync(
    process.execPath,
    [oddflow, 'train', ...[1, 2, 3].map((n) => captureNamed(`normal-${n}`)), '-o', join(folder, 'm.oddflow')],
    { stdio: 'ignore' },
  )
  port = await freePort()
  url = `nats://127.0.0.1:${port}`
  await startServer()
}, 120_000)

afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

it('leaves a server that sends an INFO without end', async () => {
  const endless = createServer((socket) => {
    const fill = (): void => {
      while (!socket.destroyed && socket.write('x'.repeat(65_536)));
    }
    socket.on('error', () => undefined).on('drain', fill)
    socket.write('INFO {"server_id":"')
    fill()
  })
  await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve))
  const { port: at } = endless.address() as AddressInfo
  await expect(openArchive({ server: `nats://127.0.0.1:${at}` })).rejects.toThrow(
    /the server sent no INFO within 65536 bytes/,
  )
  endless.close()
})

describe.runIf(hasNatsServer)('an archive', () => {
  it('scores each capture once, with the verdicts of oddflow score, and sets aside what it cannot read', async () => {
    expect(run('submit', '--captures', at('captures'), '--model', at('m.oddflow'))).toMatchObject({
      code: 0,
      stdout: 'queued 10, set aside 0; queued before 0, scored before 0, set aside before 0\n',
    })
    expect(run('submit', '--captures', at('captures'), '--model', at('m.oddflow')).stdout).toBe(
      'queued 0, set aside 0; queued before 10, scored before 0, set aside before 0\n',
    )
    const worked = run('work', '--captures', at('captures'), '--results', at('results'), '--until-empty')
    expect(worked.stderr).toContain('9 captures scored, 1 set aside')
    expect(worked.code).toBe(1)
    const status = run('status', '--json')
    const report = JSON.parse(status.stdout) as {
      done: number
      failed: number
      failures: { name: string; reason: string }[]
    }
    expect(report).toMatchObject({ waiting: 0, inProgress: 0, done: 9, failed: 1 })
    expect(report.failures[0]).toMatchObject({
      name: 'text.pcap',
      reason: expect.stringMatching(/^not a capture/),
    })
    expect(run('submit', '--captures', at('captures'), '--model', at('m.oddflow')).stdout).toBe(
      'queued 0, set aside 0; queued before 0, scored before 9, set aside before 1\n',
    )
    copyFileSync(captureNamed('novel-scan'), at('captures/text.pcap'))
    utimesSync(at('captures/text.pcap'), 1, 1)
    const changed = run('submit', '--captures', at('captures'), '--model', at('m.oddflow'))
    expect(changed.stdout).toBe(
      'queued 1, set aside 0; queued before 0, scored before 9, set aside before 0\n',
    )
    rmSync(at('captures/text.pcap'))
    run('work', '--captures', at('captures'), '--results', at('results'), '--until-empty')
    writeFileSync(at('captures/text.pcap'), readFileSync(captureNamed('novel-scan')))
    utimesSync(at('captures/text.pcap'), 1, 1)
    const retried = ['--captures', at('captures'), '--model', at('m.oddflow'), '--retry-failed']
    expect(run('submit', ...retried).stdout).toMatch(/^queued 1, set aside 0; .* set aside before 0\n$/)
    expect(
      run('work', '--captures', at('captures'), '--results', at('results'), '--until-empty').stderr,
    ).toContain('1 capture scored, 0 set aside')
    const rows = await resultRows(at('results'))
    const scan = rows.filter(({ capture }) => capture === 'site/novel-scan.pcap')
    const verdicts = execFileSync(
      process.execPath,
      [oddflow, 'score', at('m.oddflow'), captureNamed('novel-scan'), '--format', 'json'],
      { encoding: 'utf8', maxBuffer: 2 ** 26 },
    )
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { score: number | null; novel: boolean })
    const sorted = (list: readonly { score: number | null }[]): (number | null)[] =>
      list.map(({ score }) => score).sort((a, b) => Number(a) - Number(b))
    expect(scan.filter(({ novel }) => novel)).toHaveLength(verdicts.filter(({ novel }) => novel).length)
    expect(sorted(scan)).toEqual(sorted(verdicts))
  })

  it('loses and repeats nothing over kill -9 of workers and of the server', async () => {
    const captures = at('many')
    mkdirSync(captures)
    for (let i = 0; i < 16; i++) copyFileSync(captureNamed('novel-scan'), join(captures, `${i}.pcap`))
    run('submit', '--captures', captures, '--model', at('m.oddflow'))
    const worker = (): ChildProcess =>
      start(process.execPath, [
        fleet,
        'work',
        '--server',
        url,
        '--captures',
        captures,
        '--results',
        at('many-results'),
        '--until-empty',
      ])
    const first = worker()
    const second = worker()
    const written = (): number => filesOf(at('many-results')).length
    await expect.poll(written, { timeout: 60_000 }).toBeGreaterThan(2)
    first.kill('SIGKILL')
    await expect.poll(written, { timeout: 60_000 }).toBeGreaterThan(6)
    server!.kill('SIGKILL')
    await startServer()
    const third = worker()
    await Promise.all([ended(second), ended(third)])
    const { waiting, inProgress, done, failed } = JSON.parse(run('status', '--json').stdout) as Record<
      string,
      number
    >
    expect({ waiting, inProgress, done: done! - 10, failed: failed! - 1 }).toEqual({
      waiting: 0,
      inProgress: 0,
      done: 16,
      failed: 0,
    })
    const rows = await resultRows(at('many-results'))
    const perCapture = new Map<string, number>()
    for (const { capture } of rows) perCapture.set(capture, (perCapture.get(capture) ?? 0) + 1)
    expect(perCapture.size).toBe(16)
    expect(new Set(perCapture.values()).size).toBe(1)
    expect(new Set(rows.map(({ capture, uid }) => `${capture} ${uid}`)).size).toBe(rows.length)
  }, 240_000)

  it('reads captures from an object store of the server', async () => {
    const archive = await openArchive({ server: url })
    try {
      const store = await new Objm(archive.client).create('gateway-7')
      await store.putBlob({ name: 'monday.pcap' }, readFileSync(captureNamed('novel-scan')))
      expect(run('submit', '--bucket', 'gateway-7').stdout).toMatch(/^queued 1, set aside 0;/)
      expect(run('submit', '--bucket', 'none').stderr).toContain('object store none')
      const worked = run('work', '--results', at('object-results'), '--until-empty')
      expect(worked.stderr).toContain('1 capture scored, 0 set aside')
      const rows = await resultRows(at('object-results'))
      expect(rows.length).toBeGreaterThan(100)
      expect(Object.keys(rows[0]!)).not.toContain('score')
    } finally {
      await archive.close()
    }
  })

  it('sets aside damaged objects and names that no job can have, and scores the others', async () => {
    const archive = await openArchive({ server: url })
    const before = JSON.parse(run('status', '--json').stdout) as { done: number; failed: number }
    try {
      const store = await new Objm(archive.client).create('damaged')
      const bytes = readFileSync(captureNamed('novel-scan'))
      const long = `${'e'.repeat(2000)}.pcap`
      for (const name of ['a.pcap', 'b.pcap', 'd.pcap', '../c.pcap', long])
        await store.putBlob({ name }, bytes)
      const forge = async (name: string, change: Record<string, string>): Promise<void> => {
        const subject = `$O.damaged.M.${Buffer.from(name).toString('base64url')}`
        const { data } = (await archive.manager.streams.getMessage('OBJ_damaged', { last_by_subj: subject }))!
        const info = JSON.parse(new TextDecoder().decode(data)) as Record<string, unknown>
        await archive.client.publish(subject, JSON.stringify({ ...info, ...change }))
      }
      const hash = createHash('sha256').update('other bytes').digest('base64url')
      await forge('a.pcap', { digest: `SHA-256=${hash}=` })
      await forge('d.pcap', { nuid: 'NOPARTSOFTHISNAMEEXIST' })
      const submitted = run('submit', '--bucket', 'damaged')
      expect(submitted.code).toBe(1)
      expect(submitted.stdout).toMatch(/^queued 3, set aside 2;/)
      expect(submitted.stderr).toContain(
        '../c.pcap: set aside: cannot be queued: name: expected a path below the folder\n',
      )
      expect(run('submit', '--bucket', 'damaged').stdout).toMatch(/^queued 0, .* set aside before 2\n$/)
      const worked = run('work', '--results', at('damaged-results'), '--until-empty')
      expect(worked.stderr).toContain('a.pcap: set aside: cannot be fetched: received a corrupt object')
      expect(worked.stderr).toContain('d.pcap: set aside: cannot be fetched: the server has only 0 of its')
      expect(worked.stderr).toContain('1 capture scored, 2 set aside')
      const after = JSON.parse(run('status', '--json').stdout) as { done: number; failed: number }
      expect([after.done, after.failed]).toEqual([before.done + 1, before.failed + 4])
    } finally {
      await archive.close()
    }
  })

  it('refuses jobs that lead out of the folder or are none', async () => {
    writeFileSync(at('secret.pcap'), readFileSync(captureNamed('novel-scan')))
    mkdirSync(at('small'))
    symlinkSync(at('secret.pcap'), at('small/link.pcap'))
    const archive = await openArchive({ server: url })
    const before = JSON.parse(run('status', '--json').stdout) as { done: number; failed: number }
    try {
      expect(() =>
        jobOf({ bucket: null, name: '../secret.pcap', sizeBytes: 1, modifiedMillis: 1, model: null }),
      ).toThrow(/below the folder/)
      const link = jobOf({ bucket: null, name: 'link.pcap', sizeBytes: 1, modifiedMillis: 1, model: null })
      const outside = { ...link, id: '0'.repeat(32), name: '../secret.pcap' }
      for (const [i, text] of [
        'not JSON',
        '{}',
        JSON.stringify(outside),
        JSON.stringify({ ...link, more: 1 }),
      ].entries()) {
        await archive.client.publish(jobSubject(`${i}`), text)
      }
      await archive.client.publish(jobSubject(link.id), JSON.stringify(link))
      const worked = run('work', '--captures', at('small'), '--results', at('small-results'), '--until-empty')
      expect(worked.stderr.match(/a message of the queue is dropped/g)).toHaveLength(4)
      expect(worked.stderr).toContain('link.pcap: set aside')
      expect(worked.stderr).toContain('is outside the folder of captures')
      expect(readdirSync(at('small-results'))).toEqual([])
      const after = JSON.parse(run('status', '--json').stdout) as { done: number; failed: number }
      expect([after.done, after.failed]).toEqual([before.done, before.failed + 1])
      const found = await archive.manager.streams.getMessage('oddflow-archive-done', {
        last_by_subj: doneSubject(link.id),
      })
      expect(found).toBeNull()
    } finally {
      await archive.close()
    }
  })

  it('gives a capture back and says so where results cannot be written', () => {
    writeFileSync(at('full'), 'a file where the folder should be\n')
    const captures = at('one')
    mkdirSync(captures)
    copyFileSync(captureNamed('novel-scan'), join(captures, 'one.pcap'))
    // a clock before 1970
    utimesSync(join(captures, 'one.pcap'), -86_400, -86_400)
    const { failed } = JSON.parse(run('status', '--json').stdout) as { failed: number }
    run('submit', '--captures', captures)
    // as often as a service is restarted: no capture is set aside for it
    for (let i = 0; i < 4; i++) run('work', '--captures', captures, '--results', at('full'), '--until-empty')
    const worked = run('work', '--captures', captures, '--results', at('full'), '--until-empty')
    expect(worked.code).toBe(1)
    expect(worked.stderr).toMatch(/oddflow-fleet: .*full/)
    expect(JSON.parse(run('status', '--json').stdout)).toMatchObject({ failed })
    expect(
      run('work', '--captures', captures, '--results', at('one-results'), '--until-empty').stderr,
    ).toContain('1 capture scored')
  })

  it('enrolls gateways, and lists and prints their events', async () => {
    const enrolling = ['enroll', 'kitchen', '--folder', at('enrolled'), '--seed', at('kitchen.seed')]
    expect(spawnResult([fleet, ...enrolling]).code).toBe(2)
    mkdirSync(at('enrolled/gateways'), { recursive: true })
    expect(spawnResult([fleet, ...enrolling]).stdout).toContain('gateway: kitchen, seedFile: kitchen.seed')
    expect(readFileSync(at('enrolled/gateways/kitchen'), 'utf8')).toMatch(
      /^\{"nkey":"U[A-Z2-7]{55}","group":null\}\n$/,
    )
    expect(readFileSync(at('kitchen.seed'), 'utf8')).toMatch(/^SU[A-Z2-7]{56}\n$/)
    expect(statSync(at('kitchen.seed')).mode & 0o777).toBe(0o600)
    const grouped = spawnResult([
      ...[fleet, 'enroll', 'cellar', '--folder', at('enrolled'), '--seed', at('cellar.seed')],
      ...['--group', 'home'],
    ])
    expect(grouped.stdout).toContain(`url: 'tls://${hostname()}:4222'`)
    expect(grouped.stdout).toContain('caFile: ca.pem, models: true, group: home }')
    // a seed that is there already is never overwritten, and its gateway not enrolled
    const other = ['enroll', 'attic', '--folder', at('enrolled'), '--seed', at('kitchen.seed')]
    expect(spawnResult([fleet, ...other]).code).toBe(1)
    expect(readdirSync(at('enrolled/gateways'))).toEqual(['cellar', 'kitchen'])
    expect(spawnResult([fleet, 'enroll', 'a.b', ...enrolling.slice(2)]).code).toBe(2)
    expect(run('gateways').stderr).toContain('no gateway has sent an event or a status')
    expect(run('events')).toMatchObject({ code: 0, stdout: '' })
    const archive = await openArchive({ server: url })
    try {
      for (const [gateway, text] of [
        ['kitchen', '{"timestamp":"2026-11-29T00:00:00.000000+0000","n":1}'],
        ['cellar', 'not JSON'],
        ['kitchen', '{"timestamp":"2026-11-29T00:00:01.000000+0000","n":2}'],
        ['cellar', '{"timestamp":"2026-11-29T00:00:02.000000+0000","n":3}'],
      ]) {
        await archive.client.publish(`oddflow.gateway.${gateway}.event`, text!)
      }
      const counters = {
        captured: 1,
        processed: 1,
        dropped: 0,
        flows: 1,
        novel: 0,
        events: 2,
        waiting: 0,
        lost: 0,
      }
      const told = {
        ...{ format: 1, at: '2026-11-29T00:01:00.000Z', version: '1.2.3', model: null, isWell: false },
        ...{ reasons: ['no packets'], residentBytes: 1, counters, openIncidents: null, deviceCounts: null },
        devices: [],
      }
      for (const [gateway, status] of [
        ['kitchen', { ...told, version: '1.2.2' }],
        ['kitchen', told],
        ['attic', told],
        ['cellar', { ...told, devices: 'none' }],
      ] as const) {
        await archive.client.publish(`oddflow.gateway.${gateway}.status`, JSON.stringify(status))
      }
    } finally {
      await archive.close()
    }
    expect(JSON.parse(run('gateways', '--json').stdout)).toMatchObject([
      { name: 'attic', events: 0, lastEvent: null, status: { version: '1.2.3' } },
      { name: 'cellar', events: 2, status: null },
      { name: 'kitchen', events: 2, status: { isWell: false, version: '1.2.3' } },
    ])
    expect(run('gateways').stdout).toMatch(
      /^attic +0 events; ill at 2026-11-29T00:01:00.000Z, version 1\.2\.3: no packets\ncellar .*; no status\nkitchen /,
    )
    const lines = run('events')
      .stdout.trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map(({ gateway, event }) => [gateway, event.n])).toEqual([
      ['kitchen', 1],
      ['kitchen', 2],
      ['cellar', 3],
    ])
    expect(run('events', '--gateway', 'cellar').stdout.trim().split('\n')).toHaveLength(1)
  })

  it('logs in with the user of the URL, shows no password, and sends nothing in the clear to tls://', async () => {
    const guarded = await freePort()
    await natsServer(guarded, ['--store_dir', at('guarded'), '--user', 'admin', '--pass', 'a@b:c'])
    const as = (login: string): string => `nats://${login}127.0.0.1:${guarded}`
    expect(run('gateways', '--server', as('admin:a%40b%3Ac@'))).toMatchObject({
      code: 0,
      stderr: 'no gateway has sent an event or a status\n',
    })
    const denied = run('gateways', '--server', as('admin:wrong@'))
    expect(denied).toMatchObject({ code: 1, stderr: expect.stringMatching(/^oddflow-fleet: nats:.*uthori/) })
    expect(denied.stderr).not.toContain('wrong')
    expect(run('status', '--server', as('admin:%@')).code).toBe(2)
    expect(run('status', '--server', url.replace('nats:', 'tls:'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("server does not support 'tls'"),
    })
  })

  it('ends without a word when its reader has enough', () => {
    const { stderr } = spawnSync(
      'sh',
      ['-c', '"$0" "$1" status --server "$2" | exec 0<&-', process.execPath, fleet, url],
      { encoding: 'utf8', env },
    )
    expect(stderr).toBe('')
  })

  it('names a server that does not answer, and a model that cannot judge captures', () => {
    const { code, stderr } = run('status', '--server', 'nats://127.0.0.1:1')
    expect([code, stderr]).toEqual([1, expect.stringContaining('oddflow-fleet: nats://127.0.0.1:1: ')])
    expect(stderr.split('\n')).toHaveLength(2)
    writeFileSync(
      at('rows.csv'),
      `a,b\n${Array.from({ length: 300 }, (_, i) => `${i % 17},${(i * 7) % 23}`).join('\n')}\n`,
    )
    execFileSync(process.execPath, [oddflow, 'train', at('rows.csv'), '-o', at('rows.oddflow')], {
      stdio: 'ignore',
    })
    expect(run('submit', '--captures', at('captures'), '--model', at('rows.oddflow'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('rows.oddflow: the model was trained on feature rows'),
    })
    expect(run('submit', '--captures', at('captures'), at('secret.pcap')).code).toBe(2)
  })
})

const at = (name: string): string => join(folder, name)

function captureNamed(name: string): string {
  return join(lab, readdirSync(lab).find((file) => file.startsWith(`${name}.pcap`))!)
}

function run(command: string, ...options: string[]): { code: number; stdout: string; stderr: string } {
  const server = options.includes('--server') ? [] : ['--server', url]
  const child = spawnResult([fleet, command, ...server, ...options])
  return child
}

function spawnResult(args: readonly string[]): { code: number; stdout: string; stderr: string } {
  const errors = join(folder, `stderr-${Math.round(performance.now() * 1000)}`)
  try {
    const stdout = execFileSync('sh', ['-c', `exec "$0" "$@" 2>"${errors}"`, process.execPath, ...args], {
      encoding: 'utf8',
      env,
      timeout: 120_000,
    })
    return { code: 0, stdout, stderr: readFileSync(errors, 'utf8') }
  } catch (error) {
    const { status, stdout } = error as { status: number; stdout: string }
    return { code: status, stdout, stderr: readFileSync(errors, 'utf8') }
  }
}

function start(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: 'ignore', env })
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve()
    else child.once('exit', () => resolve())
  })
}

async function startServer(): Promise<void> {
  server = await natsServer(port, ['--store_dir', at('store')])
}

async function natsServer(on: number, options: readonly string[]): Promise<ChildProcess> {
  const started = await startNatsServer(on, [
    ...['--jetstream', '--addr', '127.0.0.1', '--port', String(on)],
    ...options,
  ])
  children.add(started)
  return started
}

/** Not the hidden temporary file of a worker that was killed. */
function filesOf(results: string): string[] {
  if (!existsSync(results)) return []
  const names = readdirSync(results, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.endsWith('.parquet'))
}

interface ResultRow {
  readonly capture: string
  readonly uid: string
  readonly score: number | null
  readonly novel: boolean
}

async function resultRows(results: string): Promise<ResultRow[]> {
  const rows: ResultRow[] = []
  for (const name of filesOf(results)) {
    const bytes = readFileSync(join(results, name))
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
    rows.push(
      ...((await parquetReadObjects({
        file,
        compressors: { GZIP: (packed: Uint8Array) => gunzipSync(packed) },
      })) as unknown as ResultRow[]),
    )
  }
  return rows
}
