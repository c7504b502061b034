/** The agent's command line: configuration, doctor, metrics, signals, and what is refused and how. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { root } from '../../tools/workspace/layout.mjs'
import { agent, agentMain, agentOnce, type Counters, readEve, readIncidentEvents } from './support/agent.js'
import { synFlood } from './support/captures.js'
import { lab, runToEnd, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const scan = lab('novel-scan.pcap').path
const inFolder = (name: string): string => join(folder, name)
/** Outputs that never take anything are given up after two seconds. */
const impatient = { environment: { ODDFLOW_WAIT_SCALE: '0.2' } }

beforeAll(async () => {
  await trainLabModel(model, ['--features', 'iat-size'])
})

describe('folding', () => {
  it('gives out far fewer alerts, and every alert is in a count', async () => {
    const eve = inFolder('folded.json')
    const counters = await agentOnce(['--read', scan, '--model', model, '--eve', eve])
    const events = readEve(eve)
    const counted = events.reduce((sum, { oddflow }) => sum + (oddflow.folded?.count ?? 1), 0)
    expect(counted).toBe(counters.alerts.raised)
    expect(events.length).toBeLessThan(counters.alerts.raised / 4)
    expect(counters.alerts.delivered).toEqual({ eve: events.length })
  })
})

describe('an alert', () => {
  it('says why: how rare, what is nearest, and which features are out', async () => {
    const eve = inFolder('explained.json')
    const firmware = lab('novel-firmware.pcap').path
    await agentOnce(['--read', firmware, '--model', model, '--eve', eve, '--no-fold'])
    const events = readEve(eve)
    const scored = events.filter(({ oddflow }) => oddflow.rule === 'score')
    expect(scored.length).toBeGreaterThan(0)
    for (const { oddflow } of scored) {
      expect(oddflow.rarity?.flows).toBeGreaterThan(100)
      expect(oddflow.rarity?.atMost).toBeLessThan(0.02)
      expect(oddflow.mode?.weight).toBeGreaterThan(0)
      expect(oddflow.features.length).toBeGreaterThan(0)
      expect(oddflow.features.length).toBeLessThanOrEqual(5)
      for (const { name, value, nearest } of oddflow.features) {
        expect(name).toMatch(/^(iat|size)\d+$/)
        expect(value).not.toBe(nearest)
      }
      expect(oddflow.summary).toContain(`${oddflow.features[0]?.name} `)
      expect(oddflow.lostInWindow).toBe(0)
    }
    for (const { oddflow } of events.filter(({ oddflow }) => oddflow.rule === 'one-packet')) {
      expect(oddflow).toMatchObject({ rarity: null, mode: null, features: [] })
    }
  })
})

describe('a state folder', () => {
  it('belongs to one agent, without devices too, and to the next one after a kill -9', async () => {
    const state = inFolder('states/taken')
    const options = ['run', '--once', '--model', model, '--state', state]
    const first = spawn(process.execPath, [
      agentMain,
      ...options,
      '--allow-root',
      '--read',
      '-',
      '--eve',
      inFolder('taken.json'),
    ])
    try {
      for (let i = 0; i < 200 && !existsSync(join(state, 'control.sock')); i++) await pause(50)
      const second = await agent([...options, '--read', scan, '--eve', inFolder('second.json')])
      expect(second).toMatchObject({ code: 1 })
      expect(second.stderr).toMatch(/^oddflow-agent: .*taken: another agent uses this folder/)
    } finally {
      first.kill('SIGKILL')
      await new Promise((resolve) => first.once('close', resolve))
    }
    expect(existsSync(join(state, 'control.sock'))).toBe(true)
    expect(await agent([...options, '--read', scan, '--eve', inFolder('third.json')])).toMatchObject({
      code: 0,
    })
    expect(existsSync(join(state, 'control.sock'))).toBe(false)
  })

  it('is made, and what could not be delivered is delivered by the next run', async () => {
    const state = inFolder('states/one')
    const eve = inFolder('late.json')
    // /dev/full takes no byte: everything stays in the spool
    const given = ['--read', scan, '--model', model, '--eve', '/dev/full', '--state', state]
    const run = await agent(['run', '--once', ...given], impatient)
    expect(run.code).toBe(1)
    expect(run.stderr).toMatch(/\/dev\/full: cannot write it: no space left/)
    const waiting = (JSON.parse(run.stdout) as { alerts: { accepted: number } }).alerts.accepted
    expect(run.stderr).toContain(`${waiting} alerts could not be written and wait in ${state}`)
    const empty = lab('normal-1.pcap').path
    const counters = await agentOnce([
      '--read',
      empty,
      '--model',
      model,
      '--eve',
      eve,
      '--state',
      state,
      '--filter',
      'port 1',
    ])
    expect(counters.alerts.raised).toBe(0)
    expect(readEve(eve)).toHaveLength(waiting)
  }, 60_000)
})

describe('further outputs', () => {
  it('get every alert too, and one that is down holds up no other and loses nothing', async () => {
    const bodies: { oddflow: { id: string } }[] = []
    const server = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (piece: string) => {
        body += piece
      })
      request.on('end', () => {
        bodies.push(...(JSON.parse(body) as typeof bodies))
        response.writeHead(204).end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const hook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const state = inFolder('outputs')
    const config = inFolder('outputs.yaml')
    // nobody listens at port 9
    const written = (other: string): void =>
      writeFileSync(
        config,
        `read: ${scan}\nmodel: home.oddflow\neve: outputs.json\nstate: ${state}\noutputs:\n  - {kind: webhook, name: hub, url: '${hook}'}\n  - {kind: webhook, name: other, url: '${other}'}\n`,
      )
    written('http://127.0.0.1:9/')
    const run = await agent(['run', '-c', config, '--once'], impatient)
    const events = readEve(inFolder('outputs.json'))
    const { alerts } = JSON.parse(run.stdout) as Counters
    expect(run.code).toBe(1)
    expect(alerts.delivered).toEqual({ eve: events.length, hub: events.length, other: 0 })
    expect(bodies.map(({ oddflow }) => oddflow.id)).toEqual(events.map(({ oddflow }) => oddflow.id))
    expect(run.stderr).toContain(
      `http://127.0.0.1:9/: ${events.length} alerts could not be written and wait in ${state}\n`,
    )
    // the next run, with the other one back, delivers what waited and not again what was delivered
    bodies.length = 0
    written(`${hook}other`)
    await agentOnce(['-c', config, '--filter', 'port 1'])
    expect(bodies.map(({ oddflow }) => oddflow.id)).toEqual(events.map(({ oddflow }) => oddflow.id))
    await new Promise((resolve) => server.close(resolve))
  }, 60_000)
})

describe('a configuration file', () => {
  it('is what the flags say, with suppression, and is checked', async () => {
    const config = inFolder('agent.yaml')
    writeFileSync(
      config,
      `read: ${scan}\nmodel: home.oddflow\neve: configured.json\nfold: false\nsuppress:\n  - name: one packet\n    rule: one-packet\n`,
    )
    const counters = await agentOnce(['-c', config])
    expect(counters.alerts.suppressed).toBe(counters.novel.onePacket)
    expect(readEve(inFolder('configured.json'))).toHaveLength(counters.novel.score)
    const check = await agent(['run', '-c', config, '--check-config'])
    expect(check).toMatchObject({ code: 0, stdout: 'configuration OK\n', stderr: '' })
  })

  it('is refused at line and column, each complaint on its line, and nothing is written', async () => {
    const config = inFolder('wrong.yaml')
    writeFileSync(config, `read: ${scan}\nmodle: home.oddflow\neve: 7\n`)
    const run = await agent(['run', '-c', config, '--once'])
    expect(run.code).toBe(2)
    expect(run.stderr.split('\n').sort()).toEqual([
      '',
      `oddflow-agent: ${config}:2:1: modle: no such key`,
      `oddflow-agent: ${config}:3:1: eve: expected string, found 7`,
    ])
    expect(existsSync(inFolder('7'))).toBe(false)
  })
})

describe('an alert budget', () => {
  const calibration = join(folder, 'home.calibration')
  const config = (name: string, budget: string): string => {
    const path = inFolder(`${name}.yaml`)
    writeFileSync(
      path,
      `read: ${scan}\nmodel: home.oddflow\neve: ${name}.json\nfold: false\nbudget: ${budget}\n`,
    )
    return path
  }

  it('is calibrated with captures, told about, and keeps its thresholds', async () => {
    const normal = [lab('normal-3.pcap.gz').path, lab('normal-4.pcap.gz').path]
    const made = await agent([
      'calibrate',
      ...normal,
      '--model',
      model,
      '-o',
      calibration,
      '--format',
      'json',
    ])
    expect(made, made.stderr).toMatchObject({ code: 0, stderr: '' })
    const told = JSON.parse(made.stdout) as {
      flows: number
      devices: number
      network: { flowsPerDay: number; refused: string }
    }
    expect(told.flows).toBeGreaterThan(300)
    expect(told.devices).toBeGreaterThan(4)
    // captures of minutes: a hundred thousand flows a day, of which one may alert
    expect(told.network.refused).toMatch(/too few flows; \d+ normal flows are needed/)
    const refused = await agent([
      'run',
      '-c',
      config('refused', '{falseAlertsPerDay: 1, calibration: home.calibration}'),
      '--once',
    ])
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(
      /^oddflow-agent: .*home\.calibration: the budget allows [^\n]* too few flows[^\n]*\n$/,
    )

    const bearable = told.network.flowsPerDay / 50
    const wide = config(
      'wide',
      `{falseAlertsPerDay: ${bearable}, per: network, calibration: home.calibration}`,
    )
    const counters = await agentOnce(['-c', wide])
    const events = readEve(inFolder('wide.json'))
    expect(counters.budget).toMatchObject({
      state: 'kept',
      per: 'network',
      calibration: { flows: told.flows, flowsNeeded: null },
      threshold: { method: 'conformal' },
      achieved: { alerts: counters.novel.score },
    })
    const thresholds = new Set(events.map(({ oddflow }) => oddflow.threshold))
    const byScore = events.filter(({ oddflow }) => oddflow.score !== null)
    expect(byScore).toHaveLength(counters.novel.score)
    expect(byScore.length).toBeGreaterThan(0)
    for (const { oddflow } of byScore) {
      expect(oddflow.threshold).toBe(counters.budget?.threshold?.value)
      expect(oddflow.score).toBeLessThanOrEqual(oddflow.threshold)
    }
    expect(thresholds.size).toBeLessThanOrEqual(2)
    const check = await agent(['doctor', '-c', wide, '--format', 'json'])
    expect(check.stdout).toMatch(/"what":"budget","state":"ok"/)
  }, 60_000)

  it('is for one model, and a file that is none is refused in a line', async () => {
    for (const [file, says] of [
      [model, /expected JSON/],
      [inFolder('none'), /no such file/],
    ] as const) {
      const run = await agent([
        'run',
        '-c',
        config('bad', `{falseAlertsPerDay: 1, calibration: ${file}}`),
        '--once',
      ])
      expect(run.code).toBe(1)
      expect(run.stderr).toMatch(says)
      expect(run.stderr).toMatch(/^oddflow-agent: [^\n]*\n$/)
    }
    const alone = await agent(['run', '-c', config('alone', '{falseAlertsPerDay: 1}'), '--once'])
    expect(JSON.parse(alone.stdout)).toMatchObject({ budget: { state: 'calibrating', achieved: null } })
    const wrong = await agent([
      'calibrate',
      scan,
      '--model',
      model,
      '-o',
      inFolder('x'),
      '--false-alerts-per-day',
      '0',
    ])
    expect(wrong).toMatchObject({ code: 2, stdout: '' })
    expect(wrong.stderr).toMatch(/--false-alerts-per-day 0: expected a number above 0/)
  })
})

describe('a scale of waiting', () => {
  it.each(['0', '2', 'fast', ''])('that is none is refused: %j', async (scale) => {
    const args = ['run', '--once', '--read', scan, '--model', model, '--eve', inFolder('scaled.json')]
    const run = await agent(args, { environment: { ODDFLOW_WAIT_SCALE: scale } })
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toMatch(
      /^oddflow-agent: ODDFLOW_WAIT_SCALE [^\n]*: expected a number above 0, at most 1\n$/,
    )
  })
})

describe('refusals are one line', () => {
  const given = ['--model', model, '--eve', inFolder('refused.json')]
  it.each([
    [['run'], 2, /--read is missing/],
    [['run', '--read', scan, '--interface', 'eth0', ...given], 2, /--read and --interface/],
    [['run', '--read', scan, ...given, '--filter', 'hots 1'], 2, /--filter: /],
    [['run', '--read', scan, ...given, '--memory-limit', '40M'], 2, /--memory-limit 40M: too little/],
    [
      ['run', '--read', scan, ...given, '--memory-limit', 'much'],
      2,
      /--memory-limit much: expected a whole number of bytes/,
    ],
    [['run', '--read', scan, ...given, '--listen', '9477'], 2, /--listen 9477: expected HOST:PORT/],
    [['run', '--read', scan, ...given, '--listen', '192.0.2.1:9477'], 1, /192\.0\.2\.1:9477: cannot listen/],
    [['run', '--read', inFolder('none.pcap'), '--once', ...given], 1, /none\.pcap: no such file/],
    [['run', '--read', model, '--once', ...given], 1, /home\.oddflow: /],
    [['run', '--read', scan, '--model', scan, '--eve', inFolder('x')], 1, /this is a capture/],
    [
      ['run', '--read', scan, '--model', model, '--eve', inFolder('none/eve.json')],
      1,
      /there is no folder \S*none; create it first/,
    ],
    [['run', '--read', scan, ...given, '--state', model], 1, /home\.oddflow.*cannot write/],
    [['run', '-c', inFolder('none.yaml')], 1, /none\.yaml: cannot read it: no such file/],
    [
      ['run', '--reed', scan],
      2,
      /unknown option '--reed' \(Did you mean --read\?\); try: oddflow-agent run --help/,
    ],
    [['walk'], 2, /unknown command 'walk'/],
  ])('%j', async (args, code, says) => {
    const run = await agent(args)
    expect(run, run.stderr).toMatchObject({ code, stdout: '' })
    const refusal = run.stderr.replaceAll(/^oddflow-agent: warning: .*\n/gm, '')
    expect(refusal).toMatch(/^oddflow-agent: [^\n]*\n$/)
    expect(refusal).toMatch(says)
  })
})

describe('a flood', () => {
  it('of a hundred thousand SYNs of different flows stays under the memory ceiling, and is one story', async () => {
    const path = inFolder('flood.pcap')
    writeFileSync(path, synFlood(100_000))
    const eve = inFolder('flood.json')
    const counters = await agentOnce([
      '--read',
      path,
      '--model',
      model,
      '--eve',
      eve,
      '--state',
      inFolder('flood'),
    ])
    expect(counters).toMatchObject({ captured: 100_000, processed: 100_000, dropped: 0 })
    expect(counters.evictedFlows).toBeGreaterThan(10_000)
    expect(counters.verdicts.total).toBe(100_000)
    expect(readEve(eve).length).toBeLessThan(3000)
    expect(counters.peakResidentBytes).toBeLessThan(128 * 1_048_576)
  })
})

describe('the unit of systemd', () => {
  it('is one', async (context) => {
    const unit = join(root, 'apps/agent/deploy/oddflow-agent.service')
    const run = await runToEnd('systemd-analyze', ['verify', unit]).catch(() => null)
    if (run === null) context.skip('systemd-analyze is not installed')
    expect(run).toMatchObject({ code: 0, stderr: '' })
  })

  it('lets its group read the alerts, and nobody the state', async () => {
    const unit = readFileSync(join(root, 'apps/agent/deploy/oddflow-agent.service'), 'utf8')
    const settings = Object.fromEntries(
      Array.from(unit.matchAll(/^(\w+)=(.*)$/gm), ([, key, value]) => [key, value]),
    )
    expect(settings).toMatchObject({ User: 'oddflow', Group: 'oddflow', LogsDirectoryMode: '0750' })
    expect(readFileSync(join(root, 'apps/agent/deploy/oddflow-agent.sysusers'), 'utf8')).toMatch(
      /^u oddflow /m,
    )
    const args = [
      '--once',
      '--read',
      scan,
      '--model',
      model,
      '--eve',
      inFolder('unit.json'),
      '--state',
      inFolder('unit'),
    ]
    const shell = [
      '-c',
      `umask ${settings.UMask} && exec "$@"`,
      'sh',
      process.execPath,
      agentMain,
      'run',
      '--allow-root',
      ...args,
    ]
    expect(await runToEnd('sh', shell)).toMatchObject({ code: 0 })
    expect(statSync(inFolder('unit.json')).mode & 0o777).toBe(0o640)
    expect(statSync(inFolder('unit')).mode & 0o777).toBe(0o700)
  })
})

describe('doctor', () => {
  it('says where alerts go and where the agent listens, and no secret', async () => {
    const config = inFolder('doctor-ends.yaml')
    writeFileSync(inFolder('doctor-token'), 'hush\n')
    // a password may have what a token may not
    writeFileSync(inFolder('doctor-password'), 'hush hush\n')
    writeFileSync(
      config,
      `read: ${scan}\nmodel: ${model}\neve: ${inFolder('doctor-ends.json')}\nlisten: 127.0.0.1:0\n` +
        `evidence: { directory: ${inFolder('doctor-evidence')}, limit: 1M }\noutputs:\n` +
        `  - { kind: webhook, url: 'https://hub.example/a?key=hush', tokenFile: doctor-token }\n` +
        `  - { kind: syslog, host: 192.0.2.9 }\n  - { kind: mqtt, url: 'mqtt://192.0.2.5:1883', username: gateway, passwordFile: none }\n` +
        `  - { kind: mqtt, name: second, url: 'mqtt://192.0.2.6:1883', username: gateway, passwordFile: doctor-password }\n`,
    )
    const said = await agent(['doctor', '-c', config])
    expect(said.stdout).toMatch(
      /^ok {7}output {5}webhook: to https:\/\/hub\.example, not tried \(--try sends a test incident\)$/m,
    )
    expect(said.stdout).toMatch(
      /^ok {7}output {5}syslog: to udp:\/\/192\.0\.2\.9:514, not tried \(--try sends a test incident\)$/m,
    )
    expect(said.stdout).toMatch(/^missing {2}output {5}mqtt: .*none/m)
    expect(said.stdout).toMatch(
      /^ok {7}output {5}second: to mqtt:\/\/192\.0\.2\.6:1883, not tried \(--try sends a test incident\)$/m,
    )
    expect(said.stdout).toMatch(/^ok {7}listen {5}127\.0\.0\.1:0$/m)
    expect(said.stdout).toMatch(/^ok {7}evidence {3}.*doctor-evidence can be written$/m)
    expect(said.stdout + said.stderr).not.toContain('hush')
    expect(said.code).toBe(1)
  })

  it('says what is there and what is missing', async () => {
    mkdirSync(inFolder('doctor'))
    const good = [
      '--read',
      scan,
      '--model',
      model,
      '--eve',
      inFolder('doctor/eve.json'),
      '--state',
      inFolder('doctor/a/b'),
      '--allow-root',
    ]
    const well = await agent(['doctor', ...good, '--format', 'json'])
    expect(well.code).toBe(0)
    const findings = well.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { what: string; state: string })
    expect(findings.map(({ what }) => what)).toEqual([
      'node',
      'memory',
      'model',
      'capture',
      'alerts',
      'state',
      'user',
    ])
    expect(findings.filter(({ state }) => state === 'missing')).toEqual([])
    const ill = await agent([
      'doctor',
      '--interface',
      'none0',
      '--model',
      scan,
      '--eve',
      inFolder('nowhere/eve.json'),
    ])
    expect(ill.code).toBe(1)
    expect(ill.stdout).toMatch(/^missing {2}model .*this is a capture/m)
    expect(ill.stdout).toMatch(/^missing {2}alerts .*nowhere/m)
    expect(ill.stdout).toMatch(/^(missing {2}interface {2}there is no none0|note {5}interface)/m)
    expect(ill.stdout).toMatch(/^note {5}state/m)
  })
})

interface Running {
  address: string
  /** Sends SIGHUP, and waits until something of the kind is on standard error. */
  sighup(says: RegExp): Promise<void>
  stop(): Promise<{ code: number | null; stdout: string; stderr: string; millis: number }>
}

/** An agent that waits for more on standard input, with metrics. */
async function running(args: readonly string[]): Promise<Running> {
  const child = spawn(
    process.execPath,
    [agentMain, 'run', '--allow-root', '--read', '-', '--listen', '127.0.0.1:0', ...args],
    {
      stdio: 'pipe',
    },
  )
  const seen = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen.stdout += text
  })
  const address = await new Promise<string>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      seen.stderr += text
      const found = /metrics at http:\/\/([^/]+)\/metrics/.exec(seen.stderr)
      if (found !== null) resolve(found[1]!)
    })
    child.on('close', () => reject(new Error(seen.stderr)))
  })
  child.stdin.on('error', () => undefined)
  child.stdin.write(readFileSync(scan))
  const all = `oddflow_packets_total{fate="processed"} ${lab('novel-scan.pcap').packets}\n`
  await expect
    .poll(() => get(`http://${address}/metrics`).then(({ text }) => text), { timeout: 60_000 })
    .toContain(all)
  return {
    address,
    async sighup(says) {
      child.kill('SIGHUP')
      for (let i = 0; i < 200 && !says.test(seen.stderr); i++)
        await new Promise((resolve) => setTimeout(resolve, 50))
      expect(seen.stderr).toMatch(says)
    },
    stop: () =>
      new Promise((resolve) => {
        const begun = performance.now()
        child.on('close', (code) => resolve({ code, ...seen, millis: performance.now() - begun }))
        child.kill('SIGTERM')
      }),
  }
}

function get(url: string, method = 'GET'): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    request(url, { method }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
      .on('error', reject)
      .end()
  })
}

describe('SIGHUP', () => {
  it('takes over the rules of suppression, says what it does not, and keeps what it has where the file is wrong', async () => {
    const config = inFolder('reload.yaml')
    const base = 'model: home.oddflow\neve: reload.json\n'
    writeFileSync(config, base)
    const { sighup, stop } = await running(['-c', config, '--no-fold', '--once'])
    writeFileSync(config, `${base}supress: []\n`)
    await sighup(/reload\.yaml:3:1: supress: no such key; the old configuration stays active\n/)
    writeFileSync(config, `${base}spoolLimit: 1M\nsuppress: [{name: lone packets, rule: one-packet}]\n`)
    await sighup(/reloaded: 1 suppression rules\n.*spoolBytes: the change takes effect after a restart\n/)
    // flows of one packet end with the agent
    const { code, stdout } = await stop()
    expect(code).toBe(0)
    const { novel, alerts } = JSON.parse(stdout) as Counters
    expect(novel.onePacket).toBeGreaterThan(10)
    expect(alerts.suppressed).toBe(novel.onePacket)
    expect(readEve(inFolder('reload.json'))).toHaveLength(novel.score)
  })
})

describe('SIGHUP after a model has changed on disk', () => {
  it('reads it, and keeps the old one where the new one is damaged, of other rows, or under a budget', async () => {
    const own = inFolder('changing.oddflow')
    const idOf = (file: string): string =>
      createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
    copyFileSync(model, own)
    const other = await trainLabModel(inFolder('other.oddflow'), ['--features', 'iat-size', '--seed', '2'])
    const summaries = await trainLabModel(inFolder('summaries.oddflow'))
    const eve = inFolder('changing.json')
    const { sighup, stop } = await running(['--model', own, '--eve', eve, '--no-fold', '--once'])
    writeFileSync(own, readFileSync(other).subarray(0, 1000))
    await sighup(/changing\.oddflow: .*; the old model stays active\n/)
    copyFileSync(summaries, own)
    await sighup(/flow-summary.*; the old model stays active\n/)
    copyFileSync(other, own)
    await sighup(new RegExp(`the changed model was read: ${idOf(other)}\\n`))
    // open flows end with the agent
    expect((await stop()).code).toBe(0)
    const alerts = readEve(eve)
    expect(alerts.length).toBeGreaterThan(10)
    expect([...new Set(alerts.map(({ oddflow }) => oddflow.model))]).toEqual([idOf(other)])

    copyFileSync(model, own)
    const config = inFolder('changing.yaml')
    writeFileSync(config, 'model: changing.oddflow\neve: budgeted.json\nbudget: { falseAlertsPerDay: 1 }\n')
    const budgeted = await running(['-c', config, '--once'])
    copyFileSync(other, own)
    await budgeted.sighup(
      /budget: its threshold belongs to the previous model.*; the old model stays active\n/,
    )
    await budgeted.stop()
  }, 60_000)
})

describe('SIGUSR1', () => {
  it('opens no debugger: the agent goes on', async () => {
    const args = [
      'run',
      '--allow-root',
      '--model',
      'home.oddflow',
      '--eve',
      'usr1.json',
      '--read',
      '-',
      '--once',
    ]
    const child = spawn(process.execPath, [agentMain, ...args], { cwd: inFolder('.'), stdio: 'pipe' })
    let told = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      told += text
    })
    const ended = new Promise<unknown[]>((resolve) => child.once('close', (...how) => resolve(how)))
    // the alert file is there when handlers are
    for (let i = 0; i < 400 && !existsSync(inFolder('usr1.json')); i++) await pause(50)
    child.kill('SIGUSR1')
    await pause(500)
    child.stdin.end(readFileSync(scan))
    expect(await ended, told).toEqual([0, null])
    expect(told).not.toMatch(/debugger/i)
  })
})

describe('SIGHUP while the agent starts', () => {
  it('does not end it, and counts once it is ready', async () => {
    const config = inFolder('early.yaml')
    writeFileSync(config, `model: home.oddflow\neve: early.json\nread: ${scan}\n`)
    // before anything is opened
    const early = inFolder('early.mjs')
    writeFileSync(
      early,
      "process.on('newListener', (name) => name === 'SIGTERM' && process.kill(process.pid, 'SIGHUP'))\n",
    )
    const child = spawn(
      process.execPath,
      ['--import', early, agentMain, 'run', '--allow-root', '-c', config],
      {
        stdio: 'pipe',
      },
    )
    let told = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      told += text
    })
    const ended = new Promise<unknown[]>((resolve) => child.once('close', (...how) => resolve(how)))
    for (let i = 0; i < 400 && !told.includes('was reloaded') && child.exitCode === null; i++) {
      await pause(50)
    }
    child.kill('SIGTERM')
    expect(await ended, told).toEqual([0, null])
    expect(told.match(/the configuration was reloaded/g)).toHaveLength(1)
  })
})

describe('a running agent', () => {
  it('tells its counts, names no address, and brings out what is there when it is stopped', async () => {
    const eve = inFolder('running.json')
    const { address, stop } = await running(['--model', model, '--eve', eve, '--no-fold', '--once'])
    const url = `http://${address}`
    const packets = lab('novel-scan.pcap').packets
    const { text } = await get(`${url}/metrics`)
    expect(text).toMatch(/^# TYPE oddflow_packets_total counter$/m)
    expect(text).toMatch(/^oddflow_output_up\{output="eve"\} 1$/m)
    expect(Number(/^oddflow_memory_resident_bytes (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(2e7)
    for (const { oddflow } of readEve(eve)) {
      expect(text).not.toContain(oddflow.flow.source)
      expect(text).not.toContain(oddflow.flow.destination)
    }
    expect(await get(`${url}/healthz`)).toMatchObject({ status: 200 })
    expect(await get(`${url}/metrics`, 'POST')).toMatchObject({ status: 405 })
    expect(await get(`${url}/`)).toMatchObject({ status: 404 })
    const { code, stdout, millis } = await stop()
    expect(code).toBe(0)
    const counters = JSON.parse(stdout) as { captured: number; novel: { total: number } }
    expect(counters.captured).toBe(packets)
    expect(readEve(eve)).toHaveLength(counters.novel.total)
    // less than systemd waits, also on a busy machine
    expect(millis).toBeLessThan(6000)
  })
})

describe('devices', () => {
  const intruder = '02:50:00:00:00:42'
  const state = inFolder('devices')
  const config = (name: string, devices: string, more = `state: ${state}\n`): string => {
    const path = inFolder(`${name}.yaml`)
    writeFileSync(
      path,
      `read: ${scan}\nmodel: home.oddflow\neve: ${name}.json\nfold: false\n${more}devices: ${devices}\n`,
    )
    return path
  }
  const devices = (...args: string[]) => agent(['devices', ...args, '--state', state])

  it('are learnt before they are watched, and watched when a person has said so', async () => {
    const learn = config('learn', '{learnFlows: 100000}')
    const first = await agentOnce(['-c', learn])
    expect(first.novel.total).toBeGreaterThan(100)
    // what needs no model is told meanwhile
    const scans = readEve(inFolder('learn.json')).map(({ oddflow }) => oddflow.rule)
    expect(new Set(scans)).toEqual(new Set(['port-scan', 'host-scan']))
    const told = { announced: scans.length, raised: scans.length }
    expect(first.alerts).toMatchObject({ held: first.novel.total, ...told })
    expect(first.devices?.byState).toMatchObject({ ready: 0, watching: 0, paused: 0 })
    expect(first.devices?.byState.learning).toBeGreaterThan(4)

    const listed = await devices('list', '--format', 'json')
    const known = listed.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { key: string; state: string })
    expect(known).toHaveLength(first.devices?.byState.learning ?? 0)
    expect(known).toContainEqual(
      expect.objectContaining({ key: intruder, randomised: true, state: 'learning' }),
    )
    expect((await devices('list')).stdout).toMatch(
      /^device +address +name +group +vendor +state .*\n(.*\n)*02:50:00:00:00:42 +[\da-f.:]+ +learning: \d+ flows /,
    )

    expect(await devices('approve', intruder)).toMatchObject({ code: 0, stdout: `${intruder}: is watched\n` })
    const second = await agentOnce(['-c', learn])
    const events = readEve(inFolder('learn.json'))
    expect(events).toHaveLength(scans.length + second.alerts.given)
    const verdicts = events.filter(({ oddflow }) => !oddflow.rule.endsWith('-scan'))
    expect(verdicts.length).toBeGreaterThan(50)
    expect(new Set(verdicts.map(({ oddflow }) => oddflow.device.mac))).toEqual(new Set([intruder]))

    expect(await devices('pause', intruder.toUpperCase())).toMatchObject({ code: 0 })
    const third = await agentOnce(['-c', learn])
    expect(third.alerts).toMatchObject({ held: second.novel.total, raised: third.alerts.announced })
    const refused = await devices('pause', intruder, '192.0.2.77')
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toBe(
      `oddflow-agent: ${intruder} is paused already\noddflow-agent: there is no device 192.0.2.77\n`,
    )
    expect(await devices('resume')).toMatchObject({ code: 2 })
  }, 60_000)

  it('that are new are told of, and a flood of them once', async () => {
    const path = config('new', '{approve: auto, inventoryMinutes: 0, floodPerMinute: 3}', '')
    const counters = await agentOnce(['-c', path])
    const events = readEve(inFolder('new.json')).filter(({ oddflow }) => !oddflow.rule.endsWith('-scan'))
    const scans = counters.alerts.announced - events.length
    expect(events.map(({ oddflow }) => oddflow.rule)).toEqual([
      'new-device',
      'new-device',
      'new-device',
      'device-flood',
    ])
    expect(new Set(events.map(({ oddflow }) => oddflow.id)).size).toBe(4)
    expect(counters.alerts).toMatchObject({ raised: 4 + scans, held: counters.novel.total })
    expect(counters.devices?.untold).toBe((counters.devices?.found ?? 0) - 3)
    expect(events[0]?.oddflow.summary).toMatch(/is a new device; its first flow: /)
  })

  it('have incidents: a scan by a new one is one, with a sentence, in the file and the state folder', async () => {
    const path = config(
      'incidents',
      '{approve: auto, inventoryMinutes: 0}',
      `state: ${inFolder('incident-devices')}\n`,
    )
    const counters = await agentOnce(['-c', path])
    const reports = readIncidentEvents(inFolder('incidents.json')).map(({ oddflow }) => oddflow)
    expect(counters.alerts.incidentReports).toBe(reports.length)
    const scans = reports.filter(({ incident }) => incident.kind === 'scan')
    expect(new Set(scans.map(({ incident }) => incident.id)).size).toBe(1)
    expect(scans.at(-1)?.summary).toMatch(
      /^192\.168\.50\.\d+ was contacted on \d+ ports in \d+ s by 192\.168\.50\.66/,
    )
    const alerts = readEve(inFolder('incidents.json')).filter(({ oddflow }) => oddflow.rule === 'port-scan')
    for (const { oddflow } of alerts) expect(oddflow).toMatchObject({ incident: scans[0]?.incident.id })
    const kept = JSON.parse(readFileSync(join(inFolder('incident-devices'), 'incidents.json'), 'utf8')) as {
      incidents: unknown[]
    }
    expect(kept.incidents).toContainEqual(
      expect.objectContaining({ id: scans[0]?.incident.id, state: 'open', kind: 'scan' }),
    )
    const ask = (...args: string[]) => agent(['incidents', ...args, '--state', inFolder('incident-devices')])
    const id = scans[0]?.incident.id ?? ''
    const listed = await ask('list')
    expect(listed.stdout).toMatch(
      new RegExp(`^id +begin .*\\n(.*\\n)*${id.slice(0, 8)} .* open +\\w+ +scan +\\S+ \\(\\S+\\) +- +192`),
    )
    const shown = await ask('show', id.slice(0, 8))
    expect(shown.stdout).toMatch(new RegExp(`^${id} {2}scan, \\w+, open\\n(.*\\n)*fact {2}port-scan`))
    expect(JSON.parse((await ask('show', id, '--format', 'json')).stdout)).toMatchObject({ id })
    expect(await ask('show', 'nothing')).toMatchObject({ code: 2, stdout: '' })
  })

  it('of a running agent are told by it and changed in it', async () => {
    const plug = '02:50:00:00:00:16'
    const live = inFolder('live-devices')
    const path = inFolder('live.yaml')
    writeFileSync(path, `model: home.oddflow\neve: live.json\nstate: ${live}\ndevices: {}\n`)
    const { address, stop } = await running(['-c', path])
    const ask = (...args: string[]) => agent(['devices', ...args, '--state', live])
    let text = ''
    for (let i = 0; i < 20 && !text.includes(plug); i++) text = (await ask('list')).stdout
    expect(text).toContain(plug)
    // another agent has no business there
    const other = await agent(['run', '-c', path, '--read', scan, '--once'])
    expect(other).toMatchObject({ code: 1, stdout: '' })
    expect(other.stderr).toMatch(/another agent uses this folder; give each its own --state\n$/)
    expect(await ask('approve', plug)).toMatchObject({ code: 0 })
    expect((await ask('list', '--format', 'json')).stdout).toMatch(
      new RegExp(`"key":"${plug}"[^\\n]*"state":"watching"`),
    )
    // it was kept before the command ended
    expect(readFileSync(join(live, 'devices.json'), 'utf8')).toContain('"watching"')
    const metrics = (await get(`http://${address}/metrics`)).text
    expect(metrics).toMatch(/^oddflow_devices\{state="watching"\} 1$/m)
    expect((await stop()).code).toBe(0)
    expect((await ask('approve', '--ready')).code).toBe(0)
    expect((await ask('list')).stdout).toContain(plug)
  }, 60_000)

  it('cannot be approved where nothing is kept, which is said', async () => {
    const run = await agent(['run', '-c', config('none', '{}', ''), '--once'])
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toMatch(/none\.yaml:5:1: devices: without a state folder no device can be approved/)
  })
})
