/** `oddflow-fleet serve` as it runs: real nats-server, a real agent and a browser's requests on loopback. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection, nkeyAuthenticator } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
// @boundaries-ignore tests alone use it, and no package has it
import {
  freePort,
  hasNatsServer,
  natsEnvironment,
  startNatsServer,
} from '../../../tools/workspace/nats-server.mjs'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const fleet = join(repository, 'apps/fleet/dist/main.js')
const agent = join(repository, 'apps/agent/dist/main.js')
const oddflow = join(repository, 'apps/trainer/dist/main.js')
const lab = join(repository, 'test/fixtures/lab')
const env = { ...natsEnvironment, ODDFLOW_WAIT_SCALE: '0.1' }
const children = new Set<ChildProcess>()
let scratch = ''
let port = 0
let pageUrl = ''
let serving: ChildProcess

const at = (name: string): string => join(scratch, name)

beforeAll(async () => {
  if (!hasNatsServer) return
  scratch = mkdtempSync(join(tmpdir(), 'oddflow-serve-test-'))
  port = await freePort()
  pageUrl = `http://127.0.0.1:${await freePort()}`
  serving = await startServing('fleet')
  for (const name of ['kitchen', 'cellar']) {
    const told = run('enroll', name, '--folder', at('fleet'), '--seed', at(`${name}.seed`))
    expect(told).toContain(`url: 'tls://127.0.0.1:${port}', gateway: ${name},`)
  }
}, 60_000)

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  if (scratch !== '') rmSync(scratch, { recursive: true, force: true })
})

function start(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env })
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}

async function startServing(folder: string): Promise<ChildProcess> {
  const child = start(process.execPath, [
    ...[fleet, 'serve', '--folder', at(folder), '--listen', `127.0.0.1:${port}`],
    ...['--page', pageUrl.slice('http://'.length)],
  ])
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  await vi.waitFor(() => expect(said).toContain(`page at ${pageUrl}/`), { timeout: 30_000, interval: 50 })
  return child
}

const ended = (child: ChildProcess): Promise<number | null> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode)
    : new Promise((resolve) => child.once('exit', resolve))

function run(...args: string[]): string {
  return execFileSync(process.execPath, [fleet, ...args], { encoding: 'utf8', env })
}

/** A gateway without an agent. */
function gateway(
  name: string,
  { folder = 'fleet', servers = [`tls://127.0.0.1:${port}`] } = {},
): Promise<NatsConnection> {
  return connect({
    servers,
    authenticator: nkeyAuthenticator(
      new TextEncoder().encode(readFileSync(at(`${name}.seed`), 'utf8').trim()),
    ),
    tls: { ca: readFileSync(at(`${folder}/ca.pem`), 'utf8') },
    inboxPrefix: `_INBOX.${name}`,
    timeout: 5000,
  })
}

/** Once the server has read the new users. */
async function whenEnrolled(name: string): Promise<NatsConnection> {
  let made: NatsConnection | null = null
  await expect
    .poll(
      async () => {
        made = await gateway(name).catch(() => null)
        return made !== null
      },
      { timeout: 20_000 },
    )
    .toBe(true)
  return made!
}

const incident = (id: string, kind: string, summary: string): string =>
  JSON.stringify({
    timestamp: '2026-11-29T00:00:00.000000+0000',
    oddflow: { id, summary, incident: { id, change: 'opened', kind, level: 'high' } },
  })

/** Each request has a connection of its own: the page closes an idle one while a slow test may use it again. */
const request = (path = '/', { headers, ...init }: RequestInit = {}): Promise<Response> =>
  fetch(`${pageUrl}${path}`, { ...init, headers: { ...headers, connection: 'close' } })

const page = async (path = '/'): Promise<string> => {
  const token = readFileSync(at('fleet/page.token'), 'utf8').trim()
  return (await request(path, { headers: { authorization: `Bearer ${token}` } })).text()
}

const eventsIn = (folder: string): string[] =>
  run('events', '--folder', folder, '--server', `tls://127.0.0.1:${port}`)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { event: { oddflow: { id: string } } }).event.oddflow.id)

describe.runIf(hasNatsServer)('serve', () => {
  it('shows a gateway that runs the agent, with its health and version', async () => {
    const normal = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => join(lab, name))
    execFileSync(process.execPath, [oddflow, 'train', ...normal, '-o', at('m.oddflow')], { stdio: 'ignore' })
    writeFileSync(
      at('agent.yaml'),
      `read: ${join(lab, 'novel-scan.pcap')}
model: m.oddflow
eve: eve.json
state: state
devices: {}
outputs:
  - { kind: nats, url: 'tls://127.0.0.1:${port}', gateway: kitchen, seedFile: kitchen.seed, caFile: fleet/ca.pem }
`,
    )
    const running = start(process.execPath, [agent, 'run', '--allow-root', '-c', at('agent.yaml')])
    running.stderr!.resume()
    await expect.poll(() => page(), { timeout: 30_000 }).toMatch(/<td>kitchen<\/td><td class="(well|ill)">/)
    const listed = JSON.parse(
      run('gateways', '--json', '--folder', at('fleet'), '--server', `tls://127.0.0.1:${port}`),
    ) as { name: string; status: { version: string; counters: { captured: number }; devices: unknown[] } }[]
    expect(listed).toMatchObject([
      { name: 'kitchen', status: { version: '0.0.0', model: expect.any(String) } },
    ])
    expect(listed[0]!.status.counters.captured).toBeGreaterThan(100)
    expect(await page()).toContain('<td>cellar</td><td class="never reported">')
    running.kill('SIGTERM')
    await ended(running)
  }, 90_000)

  it('shows the kinds that many gateways have at once, and what gateways send only as text', async () => {
    for (const name of ['kitchen', 'cellar']) {
      const connection = await whenEnrolled(name)
      const client = jetstream(connection)
      const markup = incident(`${name}-1`, 'upload', `<script>alert(1)</script> & "${name}"`)
      await client.publish(`oddflow.gateway.${name}.event`, markup, { msgID: `${name}-1` })
      await client.publish(`oddflow.gateway.${name}.event`, markup, { msgID: `${name}-1` })
      if (name === 'cellar') {
        for (let i = 0; i < 40; i++) {
          const made = incident(`made-${i}`, `made-${i}`, '').replace('"high"', `"made-${i}"`)
          await client.publish(`oddflow.gateway.${name}.event`, made, { msgID: `made-${i}` })
        }
      }
      await connection.close()
    }
    await expect.poll(() => page(), { timeout: 20_000 }).toContain('2 of 2</td><td>cellar, kitchen</td>')
    const html = await page()
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;')
    expect(html).not.toContain('<script')
    expect(html).toMatch(/<td>upload<\/td><td>2 of 2<\/td>/)
    const metrics = await page('/metrics')
    expect(metrics).toContain('oddflow_fleet_kind_gateways{kind="upload"} 2')
    // one gateway cannot make as many series as it likes
    expect(metrics.match(/oddflow_fleet_kind_gateways\{/g)!.length).toBeLessThanOrEqual(33)
    expect(metrics.match(/oddflow_fleet_incidents_opened\{/g)!.length).toBeLessThanOrEqual(8)
    expect(metrics).toContain('oddflow_fleet_incidents_opened{level="high"} 2')
    expect(metrics).toMatch(/oddflow_fleet_gateways\{state="never_reported"\} 1\n/)
    expect(metrics).toMatch(/oddflow_fleet_versions\{version="0\.0\.0"\} 1\n/)
    expect(eventsIn(at('fleet')).filter((id) => id === 'kitchen-1')).toHaveLength(1)
  }, 60_000)

  it('takes no event that is too long to be read again', async () => {
    const connection = await gateway('kitchen')
    const subject = 'oddflow.gateway.kitchen.event'
    const before = eventsIn(at('fleet'))
    await expect(jetstream(connection).publish(subject, 'x'.repeat(900_000))).rejects.toThrow(/size/)
    await jetstream(connection).publish(subject, incident('long', 'upload', 'x'.repeat(500_000)))
    await connection.close()
    expect(eventsIn(at('fleet'))).toEqual([...before, 'long'])
  })

  it('shows nothing without the token', async () => {
    for (const path of ['/', '/metrics']) {
      const { status } = await request(path)
      expect(status).toBe(401)
    }
    expect((await request('/healthz')).status).toBe(200)
    const signIn = (token: string): Promise<Response> =>
      request('/', { method: 'POST', body: new URLSearchParams({ token }), redirect: 'manual' })
    expect((await signIn('wrong')).status).toBe(403)
    expect((await signIn('x'.repeat(5000))).status).toBe(403)
    const signedIn = await signIn(readFileSync(at('fleet/page.token'), 'utf8').trim())
    expect(signedIn.status).toBe(303)
    const cookie = signedIn.headers.get('set-cookie')!
    expect(cookie).toMatch(/HttpOnly; SameSite=Strict/)
    const shown = await request('/', { headers: { cookie: cookie.split(';')[0]! } })
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('kitchen')])
    expect(shown.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect((await request('/', { method: 'DELETE' })).status).toBe(405)
  })

  it('loses nothing when it is killed, takes its server along, and can be restored from a copy of its folder', async () => {
    const before = eventsIn(at('fleet'))
    serving.kill('SIGKILL')
    await ended(serving)
    // its port is free when nats-server has ended too
    serving = await startServing('fleet')
    expect(eventsIn(at('fleet'))).toEqual(before)
    serving.kill('SIGTERM')
    await ended(serving)
    cpSync(at('fleet'), at('backup'), { recursive: true })
    rmSync(at('fleet'), { recursive: true })
    cpSync(at('backup'), at('fleet'), { recursive: true })
    serving = await startServing('fleet')
    expect(eventsIn(at('fleet'))).toEqual(before)
    const connection = await gateway('kitchen')
    const subject = 'oddflow.gateway.kitchen.event'
    // an id of before the backup is known still
    const again = await jetstream(connection).publish(subject, incident('kitchen-1', 'upload', ''), {
      msgID: 'kitchen-1',
    })
    expect(again.duplicate).toBe(true)
    await connection.close()
  }, 60_000)

  it('lets no key reach other subjects by the reply of a request', async () => {
    const thief = await gateway('kitchen')
    const own = 'oddflow.gateway.kitchen.event'
    const ask = '$JS.API.DIRECT.GET.KV_oddflow-models.$KV.oddflow-models.gateway.kitchen.offer'
    const before = eventsIn(at('fleet'))
    expect(before.length).toBeGreaterThan(0)
    for (const reply of [
      '$JS.API.STREAM.DELETE.oddflow-gateways',
      '$JS.API.STREAM.PURGE.oddflow-gateways',
      '$JS.API.STREAM.DELETE.KV_oddflow-models',
      'oddflow.gateway.cellar.event',
      'oddflow.gateway.cellar.status',
      '$KV.oddflow-model-states.cellar',
      '$KV.oddflow-models.gateway.cellar.offer',
    ]) {
      // an answer without a body, which the API takes as a request, one with a body, and an acknowledgment
      thief.publish(ask, '{"no":"request"}', { reply })
      thief.publish(ask, '', { reply })
      thief.publish(own, '{}', { reply })
    }
    await thief.flush()
    // the answers were sent before this one
    await jetstream(thief).publish(own, '{}')
    await thief.close()
    expect(eventsIn(at('fleet'))).toEqual(before)
    const admin = await connect({
      servers: [`tls://127.0.0.1:${port}`],
      authenticator: nkeyAuthenticator(
        new TextEncoder().encode(readFileSync(at('fleet/admin.seed'), 'utf8').trim()),
      ),
      tls: { ca: readFileSync(at('fleet/ca.pem'), 'utf8') },
    })
    const manager = await jetstreamManager(admin)
    const subjects: string[] = []
    for (const name of [
      'oddflow-gateways',
      'oddflow-status',
      'KV_oddflow-models',
      'KV_oddflow-model-states',
    ]) {
      const { state } = await manager.streams.info(name, { subjects_filter: '>' })
      subjects.push(...Object.keys(state.subjects ?? {}))
    }
    await admin.close()
    expect(subjects).toContain(own)
    expect(subjects.filter((subject) => /status|model/.test(subject) && subject.includes('cellar'))).toEqual(
      [],
    )
  }, 60_000)

  it('takes a folder of before accounts only once its events were moved', () => {
    mkdirSync(at('older/store/jetstream/$G'), { recursive: true })
    expect(() => run('serve', '--folder', at('older'))).toThrow(/then run: mv '.*\$G' '.*FLEET'/)
    expect(existsSync(at('older/users.conf'))).toBe(false)
  })

  it('refuses the login of a gateway whose file was removed, and enrolls a name once', async () => {
    expect(() => run('enroll', 'kitchen', '--folder', at('fleet'), '--seed', at('second.seed'))).toThrow(
      /kitchen: is enrolled already/,
    )
    expect(existsSync(at('second.seed'))).toBe(false)
    expect(() => run('enroll', 'attic', '--folder', at('none'), '--seed', at('attic.seed'))).toThrow(
      /run oddflow-fleet serve first/,
    )
    const connection = await gateway('cellar')
    const closed = connection.closed()
    // keeps no other gateway out
    writeFileSync(at('fleet/gateways/damaged'), 'no JSON')
    rmSync(at('fleet/gateways/cellar'))
    await closed
    await expect(gateway('cellar')).rejects.toThrow(/uthorization|uthentication/)
    await (await gateway('kitchen')).close()
  }, 60_000)

  it('gives gateways time to log in, since all of them come at once after a restart', () => {
    expect(readFileSync(at('fleet/users.conf'), 'utf8')).toContain('authorization { timeout: 30 }')
    expect(readFileSync(at('fleet/server.conf'), 'utf8')).toContain('timeout: 30 }')
  })

  it('ends with a reason when nats-server cannot run', async () => {
    const other = start(process.execPath, [
      ...[fleet, 'serve', '--folder', at('other'), '--listen', `127.0.0.1:${port}`, '--page', '127.0.0.1:0'],
    ])
    let said = ''
    other.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    expect(await ended(other)).toBe(1)
    expect(said).toContain('oddflow-fleet: nats-server ended: code 1')
  }, 60_000)
})

describe.runIf(hasNatsServer)('three servers of one folder', () => {
  it('store what a gateway sends while one of them is killed', async () => {
    const ports = await Promise.all([freePort(), freePort(), freePort()])
    const routes = await Promise.all([freePort(), freePort(), freePort()])
    const servers = ports.map((each) => `tls://127.0.0.1:${each}`)
    const pagePort = await freePort()
    const watching = start(process.execPath, [
      ...[fleet, 'serve', '--folder', at('cluster'), '--server', servers.join(',')],
      ...['--page', `127.0.0.1:${pagePort}`],
    ])
    let said = ''
    watching.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    await expect.poll(() => existsSync(at('cluster/users.conf')), { timeout: 20_000 }).toBe(true)
    run('enroll', 'kitchen', '--folder', at('cluster'), '--seed', at('cluster.seed'))
    await expect
      .poll(() => readFileSync(at('cluster/users.conf'), 'utf8'), { timeout: 20_000 })
      .toContain('oddflow.gateway.kitchen.event')
    const nodes: ChildProcess[] = []
    for (const [i, own] of ports.entries()) {
      const others = routes.filter((_, each) => each !== i).map((each) => `nats://127.0.0.1:${each}`)
      const env = {
        NAME: `nats-${i + 1}`,
        LISTEN: `127.0.0.1:${own}`,
        CLUSTER: `127.0.0.1:${routes[i]}`,
        STORE: at(`store-${i + 1}`),
        ROUTE_1: others[0]!,
        ROUTE_2: others[1]!,
      }
      nodes.push(await startNatsServer(own, ['--config', 'cluster.conf'], { cwd: at('cluster'), env }))
      children.add(nodes.at(-1)!)
    }
    const compose = readFileSync(join(repository, 'apps/fleet/deploy/compose.yaml'), 'utf8')
    for (const [, name] of readFileSync(at('cluster/cluster.conf'), 'utf8').matchAll(/\$([A-Z_\d]+)/g)) {
      expect(compose).toContain(` ${name}: `)
    }
    await expect.poll(() => said, { timeout: 60_000 }).toContain('page at')
    const seed = new TextEncoder().encode(readFileSync(at('cluster.seed'), 'utf8').trim())
    const connection = await connect({
      servers,
      authenticator: nkeyAuthenticator(seed),
      tls: { ca: readFileSync(at('cluster/ca.pem'), 'utf8') },
      inboxPrefix: '_INBOX.kitchen',
      maxReconnectAttempts: -1,
    })
    const client = jetstream(connection)
    const ids = Array.from({ length: 30 }, (_, i) => `c-${i}`)
    for (const [i, id] of ids.entries()) {
      if (i === 10) nodes[0]!.kill('SIGKILL')
      // as the agent does: again until the server acknowledges
      await expect
        .poll(
          () =>
            client
              .publish('oddflow.gateway.kitchen.event', incident(id, 'scan', ''), {
                msgID: id,
                timeout: 2000,
              })
              .then(() => true)
              .catch(() => false),
          { timeout: 60_000 },
        )
        .toBe(true)
    }
    await connection.close()
    const told = run('enroll', 'cellar', '--folder', at('cluster'), '--seed', at('cluster-cellar.seed'))
    expect(told).toContain(`url: 'tls://${hostname()}:${ports[0]}'`)
    await expect
      .poll(() => said, { timeout: 20_000 })
      .toContain('2 gateways in users.conf: reload the servers')
    for (const node of nodes.slice(1)) node.kill('SIGHUP')
    await expect
      .poll(
        () =>
          gateway('cluster-cellar', { folder: 'cluster', servers: servers.slice(1) })
            .then((made) => made.close())
            .then(
              () => true,
              () => false,
            ),
        { timeout: 20_000 },
      )
      .toBe(true)
    // the servers choose a leader again after they have reloaded
    let stored = ''
    await expect
      .poll(
        () => {
          try {
            stored = run('events', '--folder', at('cluster'), '--server', servers.slice(1).join(','))
          } catch {}
          return stored
        },
        { timeout: 60_000 },
      )
      .not.toBe('')
    const found = stored.match(/"c-\d+"/g)!.map((id) => id.slice(1, -1))
    expect([...new Set(found)].sort()).toEqual([...ids].sort())
  }, 180_000)
})
