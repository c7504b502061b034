/// <reference lib="dom" />
/**
 * The agent's dashboard in a real browser and by bare requests: who is let in, what a hostile network can do to the
 * page (nothing), and whether a person can work with it: by keyboard, on a phone, in the dark.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { encodeNotice, type Notice } from '../../apps/agent/build/alerts/eve.js'
import { createTemporarySuppressions } from '../../apps/agent/build/alerts/suppress.js'
import { DEFAULT_DEVICES } from '../../apps/agent/build/config/settings.js'
import { ControlError } from '../../apps/agent/build/devices/control-socket.js'
import { DeviceTable } from '../../apps/agent/build/devices/device-table.js'
import { type ActionResult, act } from '../../apps/agent/build/devices/device-watch.js'
import type { Answer } from '../../apps/agent/build/incidents/answer.js'
import type { Incident } from '../../apps/agent/build/incidents/incident.js'
import { systemClock } from '../../apps/agent/build/input/clocks.js'
import type { AgentState, AlertEvent } from '../../apps/agent/build/page/api.js'
import { createAlertFeed, createScoreHistory } from '../../apps/agent/build/web/alerts.js'
import { createDashboard, readPageFiles } from '../../apps/agent/build/web/dashboard.js'
import { type AgentServer, startServer } from '../../apps/agent/build/web/server.js'
import { createSessions, type EndedSession } from '../../apps/agent/build/web/sessions.js'
import { brokenProof } from '../../apps/agent/test/support/broken-proof.js'
import { sampleAlertEvent, sampleSnapshot } from '../../apps/agent/test/support/sample-dashboard.js'
import { agentMain } from '../e2e/support/agent.js'
import { lab, trainLabModel } from '../e2e/support/oddflow.js'
import { chromiumFlags, findChromium } from './chromium.js'
import { contrastOf } from './contrast.js'

const executablePath = findChromium()
if (executablePath === null)
  console.warn(
    'SKIPPED: the dashboard was not opened in a browser: no chromium or google-chrome on the PATH.',
  )

const token = 'a'.repeat(21) + 'B'.repeat(22)
const plug = '02:50:00:00:00:16'
const hostile = '"><img src=x onerror="window.__pwned=1"><script>window.__pwned=1</script>'
const nowMicros = Date.now() * 1000

const plugModel = {
  owner: plug,
  state: 'learnt-on' as const,
  model: '89abcdef01234567',
  previous: '0123456789abcdef',
  rows: 740,
  rowsNeeded: null,
  modelRows: 740,
  falseAlarmShare: 0.0123,
  keepsPromise: false,
  proving: null,
  refused: null,
  damage: null,
  flows: 0,
  unsettledShare: 0,
}
/** It learns, and the proof of its model is broken. */
const lamp = '02:50:00:00:00:18'
const lampModel = {
  owner: lamp,
  model: '76543210fedcba98',
  flows: 1000,
  unsettledShare: 0,
  ...brokenProof,
}

const idOf = (n: number): string => String(n).padStart(32, '0')
function sampleIncident(n: number, changes: Partial<Incident> = {}): Incident {
  return {
    id: idOf(n),
    state: 'open',
    key: plug,
    device: { mac: plug, address: '192.168.7.16', name: 'Kitchen plug' },
    kind: 'password-guessing',
    level: 'high',
    beginMicros: nowMicros - n * 600_000_000,
    endMicros: nowMicros - n * 300_000_000,
    evidence: 20,
    totalEvidence: 24,
    reported: null,
    reports: 1,
    flows: 24,
    rarity: null,
    sentBytes: 12_400,
    receivedBytes: 3100,
    facts: [
      {
        rule: 'password-guessing',
        key: plug,
        count: 1,
        firstMicros: nowMicros,
        lastMicros: nowMicros,
        fact: 'Kitchen plug (192.168.7.16) had 24 connections (tcp port 80) in 1 s from 192.168.7.66, which had never used this service: possible password guessing',
      },
    ],
    contacts: [{ peer: '192.168.7.66', service: 'tcp port 80', alerts: 24 }],
    summary:
      'Kitchen plug (192.168.7.16) had 24 connections (tcp port 80) in 1 s from 192.168.7.66, which had never used this service: possible password guessing. None of 1696 usual flows is as unusual.',
    reasons: [],
    ...changes,
  }
}

const sampleAnswer = (incident: string, answer: Answer['answer']): Answer => ({
  incident,
  answer,
  device: plug,
  kind: 'password-guessing',
  summary: '',
  beginMicros: nowMicros,
  atMicros: nowMicros,
  endsMicros: answer === 'snooze' ? nowMicros + 86_400_000_000 : null,
  contacts: [],
  rows: [],
  models: [],
  changes: ['17 of 145 earlier flows change verdict'],
})

/** A dashboard with a few devices and alerts, served on loopback. */
async function serve(port = 0) {
  const table = new DeviceTable({ ...DEFAULT_DEVICES, learnHours: 0, learnFlows: 1, stableShare: 1 })
  const addDevice = (key: string, address: string, name?: string): void => {
    const device = table.add(key, address, nowMicros)
    if (device === undefined) return
    table.note(device, false, nowMicros, true)
    if (name !== undefined) device.name = { name, source: 'dhcp' }
  }
  addDevice(plug, '192.168.7.16')
  const feed = createAlertFeed()
  const addAlert = (text: string, changes: Partial<AlertEvent['oddflow']> = {}, timestamp?: string): void => {
    const event = sampleAlertEvent(text)
    const changed = { ...event, oddflow: { ...(event.oddflow as AlertEvent['oddflow']), ...changes } }
    feed.add(
      new TextEncoder().encode(JSON.stringify(timestamp === undefined ? changed : { ...changed, timestamp })),
    )
  }
  addAlert('tcp between a plug and 198.51.100.7, port 443: unlike normal flows in size3 1400 (normal 60)')
  const history = createScoreHistory()
  for (let i = 0; i < 90; i++) {
    history.note(nowMicros - (90 - i) * 60_000_000, i === 70, i === 70 ? -40 : 5 + (i % 7))
    history.note(nowMicros - (90 - i) * 60_000_000, false, 12)
  }
  const suppressions = createTemporarySuppressions([], null)
  let changes: Partial<ReturnType<typeof sampleSnapshot>> = {}
  const change = (next: typeof changes): void => {
    changes = next
  }
  const addNotice = (notice: Notice): void => feed.add(encodeNotice(notice, null))
  let saves = 0
  const word = async (body: unknown): Promise<ActionResult[]> => {
    const results = act(table, body)
    saves++
    return results
  }
  const rolledBack: unknown[] = []
  const incidents: Incident[] = [
    sampleIncident(1),
    sampleIncident(2, { state: 'over', kind: 'scan', level: 'medium' }),
  ]
  const answers: Answer[] = []
  let refusal: string | null = null
  const answer = async (asked: unknown): Promise<{ said: string[] }> => {
    const given = asked as { incident: string; answer: Answer['answer'] | 'none' }
    if (refusal !== null) throw new ControlError('control.request', refusal)
    const at = answers.findIndex(({ incident }) => incident === given.incident)
    if (at >= 0) answers.splice(at, 1)
    if (given.answer !== 'none') answers.push(sampleAnswer(given.incident, given.answer))
    return { said: [`It was answered "${given.answer}".`] }
  }
  const models = {
    scopeReport: (key: string) =>
      key === plug
        ? { ...plugModel, previous: rolledBack.length > 0 ? null : plugModel.previous }
        : key === lamp
          ? lampModel
          : null,
    change: async (body: unknown) => {
      rolledBack.push(body)
      return { results: [{ owner: plug, refused: null }] }
    },
  }
  let ticking = 0
  const every = (millis: number, work: () => void): (() => void) => {
    const stop = systemClock.every(millis, work)
    ticking++
    return () => {
      ticking--
      stop()
    }
  }
  const dashboard = createDashboard({
    sessions: createSessions(token, systemClock, ended, async (all) => {
      ended = all
    }),
    hosts: ['gateway.example'],
    clock: { ...systemClock, every },
    snapshot: () => ({ ...sampleSnapshot(), ...changes }),
    feed,
    history,
    suppressions,
    devices: {
      table,
      word,
      forecast: ({ state }) => (state === 'learning' ? { flows: 400, hours: 48 } : null),
    },
    models,
    noticed: async (device) =>
      device === plug ? [{ kind: 'scan of one host', from: 'from 13 ports' }] : null,
    incidents: { list: () => incidents, answers: { answer, list: () => answers } },
  })
  const metrics = { contentType: 'text/plain', text: async () => 'metrics\n' }
  const server = await startServer(
    { host: '127.0.0.1', port },
    metrics,
    () => ({ isWell: true, reasons: [] }),
    [],
    dashboard,
  )
  return {
    server,
    table,
    addDevice,
    addAlert,
    addNotice,
    change,
    suppressions,
    rolledBack,
    incidents,
    answers,
    refuse: (text: string | null) => {
      refusal = text
    },
    saves: () => saves,
    /** Whether the state is made again and again: 1 while somebody looks. */
    ticking: () => ticking,
  }
}

interface Response {
  readonly status: number
  readonly text: string
  readonly headers: Record<string, string | string[] | undefined>
}

function ask(
  server: AgentServer,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    request(`http://${server.address}${path}`, { method, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }))
    })
      .on('error', reject)
      .end(body)
  })
}

/** A stream of /api/events: the events so far, and whether it has ended. */
async function openStream(server: AgentServer, headers: Record<string, string>, query = '') {
  const events: Partial<AgentState>[] = []
  const stream = { status: 0, events, hasEnded: false, leave: () => asking.destroy() }
  const asking = request(`http://${server.address}/api/events${query}`, { headers, agent: false })
  await new Promise<void>((resolve, reject) => {
    asking.on('response', (response) => {
      stream.status = response.statusCode ?? 0
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        const parts = (text + piece).split('\n\n')
        text = parts.pop() ?? ''
        for (const part of parts) events.push(JSON.parse(part.slice('data: '.length)))
      })
      response.on('close', () => {
        stream.hasEnded = true
      })
      resolve()
    })
    asking.on('error', reject).end()
  })
  return stream
}

/** Sessions that were signed out, as a state folder keeps them. */
let ended: readonly EndedSession[] = []

describe('the dashboard by bare requests', () => {
  let at: Awaited<ReturnType<typeof serve>>
  const bearer = { authorization: `Bearer ${token}` }

  beforeEach(async () => {
    at = await serve()
  })
  afterEach(() => at.server.close())

  it('tells nothing without the token, and all with it', async () => {
    expect(await ask(at.server, 'GET', '/api/state')).toMatchObject({ status: 401 })
    const cookie = {
      cookie: `oddflow-session-${at.server.address.split(':')[1]}=99999999999.${'a'.repeat(22)}.${'a'.repeat(43)}`,
    }
    expect(await ask(at.server, 'GET', '/api/state', cookie)).toMatchObject({ status: 401 })
    const answer = await ask(at.server, 'GET', '/api/state', bearer)
    expect(answer.status).toBe(200)
    expect(answer.text).toContain(plug)
    expect(await ask(at.server, 'GET', '/metrics')).toMatchObject({ status: 200, text: 'metrics\n' })
    expect(await ask(at.server, 'GET', '/none')).toMatchObject({ status: 404 })
  })

  it('gives a cookie that scripts do not see and other sites do not send', async () => {
    const { status, headers } = await ask(at.server, 'POST', '/api/session', bearer)
    expect(status).toBe(200)
    const [cookie = ''] = headers['set-cookie'] ?? []
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict$/)
    expect(cookie).not.toContain(token)
    const session = { cookie: cookie.split(';')[0]! }
    expect(await ask(at.server, 'GET', '/api/state', session)).toMatchObject({ status: 200 })
    // a cookie alone changes nothing without the page's own origin
    const body = JSON.stringify({ action: 'approve', devices: [plug] })
    expect(await ask(at.server, 'POST', '/api/devices', session, body)).toMatchObject({ status: 403 })
    for (const origin of ['http://evil.example', 'null', `http://${at.server.address}.evil.example`]) {
      const forged = { ...session, origin }
      expect(await ask(at.server, 'POST', '/api/devices', forged, body)).toMatchObject({ status: 403 })
    }
    expect(at.table.get(plug)?.state).toBe('ready')
    const own = { ...session, origin: `http://${at.server.address}` }
    expect(await ask(at.server, 'POST', '/api/devices', own, body)).toMatchObject({ status: 200 })
    expect(at.table.get(plug)?.state).toBe('watching')
    expect(at.saves()).toBe(1)
  })

  it('is not found under a name that somebody else gave this address', async () => {
    for (const path of ['/', '/api/state']) {
      const rebound = await ask(at.server, 'GET', path, { ...bearer, host: 'evil.example' })
      expect(rebound).toMatchObject({ status: 421 })
      expect(await ask(at.server, 'GET', path, { ...bearer, host: 'Gateway.example:80' })).toMatchObject({
        status: 200,
      })
    }
  })

  it('changes nothing by GET, and refuses what is no request of its page', async () => {
    for (const [method, path, body, status] of [
      ['GET', '/api/devices', undefined, 405],
      ['PUT', '/api/state', '{}', 405],
      ['POST', '/', '{}', 405],
      ['POST', '/api/none', '{}', 404],
      ['POST', '/api/devices', 'no JSON', 400],
      ['POST', '/api/devices', '{"action":"explode","devices":[]}', 400],
      ['POST', '/api/devices', `{"action":"approve","devices":["${'x'.repeat(70_000)}"]}`, 400],
      ['POST', '/api/suppressions', '{"minutes":60}', 400],
      ['POST', '/api/suppressions', '{"minutes":60,"device":"<b>"}', 400],
      ['POST', '/api/suppressions', '{"minutes":1e9,"port":1}', 400],
      ['POST', '/api/suppressions', '{"minutes":60,"color":"red"}', 400],
      ['POST', '/api/suppressions', '{"minutes":60,"rule":"scores"}', 400],
      ['POST', '/api/suppressions', '{"minutes":60,"protocol":"tpc"}', 400],
      ['DELETE', '/api/suppressions', '{"name":"temporary 0"}', 400],
    ] as const) {
      const answer = await ask(at.server, method, path, bearer, body)
      expect(answer.status, `${method} ${path} ${body?.slice(0, 60)}`).toBe(status)
    }
    expect(at.suppressions.list(0)).toEqual([])
  })

  it('takes the token whatever others have guessed, from elsewhere or through the same proxy', async () => {
    for (let i = 0; i < 300; i++) {
      const wrong = { authorization: `Bearer ${'x'.repeat(40)}${i}` }
      expect(await ask(at.server, 'GET', '/api/state', wrong)).toMatchObject({ status: 401 })
    }
    expect(await ask(at.server, 'GET', '/api/state', bearer)).toMatchObject({ status: 200 })
  })

  it('ends the session that signs out, and no other, also after a restart', async () => {
    const signIn = async (): Promise<{ cookie: string; origin: string }> => {
      const { headers } = await ask(at.server, 'POST', '/api/session', bearer)
      return {
        cookie: (headers['set-cookie']?.[0] ?? '').split(';')[0]!,
        origin: `http://${at.server.address}`,
      }
    }
    const [first, second] = [await signIn(), await signIn()]
    expect(first.cookie).not.toBe(second.cookie)
    expect(await ask(at.server, 'DELETE', '/api/session', first)).toMatchObject({ status: 200 })
    expect(await ask(at.server, 'GET', '/api/state', first)).toMatchObject({ status: 401 })
    expect(await ask(at.server, 'GET', '/api/state', second)).toMatchObject({ status: 200 })
    expect(ended).toHaveLength(1)
    const again = await serve()
    const port = (address: string): string => address.split(':')[1]!
    const moved = ({ cookie }: { cookie: string }) => ({
      cookie: cookie.replace(port(at.server.address), port(again.server.address)),
    })
    expect(await ask(again.server, 'GET', '/api/state', moved(first))).toMatchObject({ status: 401 })
    expect(await ask(again.server, 'GET', '/api/state', moved(second))).toMatchObject({ status: 200 })
    await again.server.close()
  })

  it('sends the whole state once, then what changes, to those who are signed in', async () => {
    expect(await openStream(at.server, {})).toMatchObject({ status: 401 })
    expect(await ask(at.server, 'POST', '/api/events', bearer, '{}')).toMatchObject({ status: 405 })
    const stream = await openStream(at.server, bearer)
    await expect.poll(() => stream.events.length).toBeGreaterThan(0)
    const [first] = stream.events
    expect(first).toMatchObject({ version: expect.any(String), devices: { total: 1 }, next: 1 })
    expect(first?.alerts).toHaveLength(1)
    at.addAlert('a second story')
    await ask(at.server, 'POST', '/api/devices', bearer, `{"action":"approve","devices":["${plug}"]}`)
    const changed = () => stream.events.slice(1).find(({ devices }) => devices !== undefined)
    await expect.poll(changed).toMatchObject({ devices: { shown: [{ state: 'watching' }] }, next: 2 })
    expect(changed()?.alerts).toHaveLength(1)
    expect(changed()).not.toHaveProperty('version')
    // one that comes back is sent what it lacks of this run, and all of another run
    const run = first?.startedMicros
    for (const [query, alerts] of [
      [`?run=${run}&after=1`, 1],
      ['?run=1&after=1', 2],
    ] as const) {
      const again = await openStream(at.server, bearer, query)
      await expect.poll(() => again.events[0]?.alerts).toHaveLength(alerts)
      expect(again.events[0]).toHaveProperty('version')
    }
  })

  it('ends the streams of a session that signs out, and all when the agent stops', async () => {
    const { headers } = await ask(at.server, 'POST', '/api/session', bearer)
    const session = {
      cookie: (headers['set-cookie']?.[0] ?? '').split(';')[0]!,
      origin: `http://${at.server.address}`,
    }
    const [own, other] = [await openStream(at.server, session), await openStream(at.server, bearer)]
    await ask(at.server, 'DELETE', '/api/session', session)
    await expect.poll(() => own.hasEnded).toBe(true)
    expect(other.hasEnded).toBe(false)
    await at.server.close()
    await expect.poll(() => other.hasEnded).toBe(true)
  })

  it('has at most eight streams, which take no connection from others and lose none to them', async () => {
    const streams: Awaited<ReturnType<typeof openStream>>[] = []
    for (let i = 0; i < 8; i++) streams.push(await openStream(at.server, bearer))
    expect(await openStream(at.server, bearer)).toMatchObject({ status: 503 })
    const [host = '', port = ''] = at.server.address.split(':')
    const idle = Array.from({ length: 24 }, () => connect(Number(port), host).on('error', () => undefined))
    await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
    expect(await ask(at.server, 'GET', '/healthz')).toMatchObject({ status: 200 })
    const before = streams.map(({ events }) => events.length)
    await expect.poll(() => streams.every(({ events }, i) => events.length > before[i]!)).toBe(true)
    expect(streams.some(({ hasEnded }) => hasEnded)).toBe(false)
    for (const socket of idle) socket.destroy()
    streams[0]?.leave()
    await expect.poll(async () => (await openStream(at.server, bearer)).status).toBe(200)
  })

  it('is a page of at most 60 kB in all that may load nothing of elsewhere', async () => {
    const { headers, text } = await ask(at.server, 'GET', '/')
    const policy = String(headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toMatch(/unsafe|\*|http/)
    expect(text).not.toMatch(/<script>|<style|style=|onclick/)
    let bytes = 0
    for (const path of readPageFiles().keys()) {
      const part = await ask(at.server, 'GET', path)
      expect(part.status, path).toBe(200)
      bytes += part.text.length
    }
    expect(bytes).toBeGreaterThan(text.length)
    expect(bytes).toBeLessThan(60_000)
  })
})

describe.skipIf(executablePath === null)('the dashboard in a browser', () => {
  let browser: Browser
  let at: Awaited<ReturnType<typeof serve>>

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath!, args: chromiumFlags })
  }, 60_000)
  afterAll(() => browser?.close())
  beforeEach(async () => {
    at = await serve()
  })
  afterEach(() => at.server.close())

  /** Opens the page, runs `check`, and holds that it asked nobody else and complained of nothing. */
  async function open(
    options: BrowserContextOptions,
    fragment: string,
    check: (page: Page) => Promise<void>,
    server: AgentServer = at.server,
  ): Promise<void> {
    const context = await browser.newContext(options)
    try {
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('console', (message) => {
        if (!/status of 40[01]|net::ERR_(INCOMPLETE|CONNECTION)/.test(message.text()))
          complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(error.message))
      page.on('request', (asked) => {
        if (!asked.url().startsWith(`http://${server.address}/`)) complaints.push(asked.url())
      })
      await page.goto(`http://${server.address}/${fragment}`)
      if (fragment === signedIn)
        for (const folded of ['#alerts-details', '#health-title ~ details'])
          await page.locator(`${folded} > summary`).click()
      await check(page)
      expect(complaints).toEqual([])
      expect(await page.evaluate(() => '__pwned' in window)).toBe(false)
    } finally {
      await context.close()
    }
  }

  const signedIn = `#token=${token}`
  const axeViolations = async (): Promise<string[]> => {
    const { axe: inPage } = window as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
    }
    const { violations } = await inPage.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
  }
  const shot = async (page: Page, name: string): Promise<void> => {
    const folder = process.env.ODDFLOW_SCREENSHOTS
    if (folder !== undefined) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
  }

  it('lets in who has the token, takes it out of the address, and forgets who signs out', async () => {
    await open({}, '#token=wrong', async (page) => {
      await page.getByText('wrong token or used link').waitFor()
      expect(page.url()).not.toContain('token')
      expect(await page.locator('#watch').isVisible()).toBe(false)
      // by keyboard
      await page.getByLabel('Token').focus()
      await page.keyboard.type(token)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Alerts' }).waitFor()
      expect(await page.evaluate(() => document.cookie)).toBe('')
      await page.reload()
      await page.getByRole('heading', { name: 'Alerts' }).waitFor()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByLabel('Token').waitFor()
      await shot(page, 'dashboard-signed-out')
      await page.reload()
      await page.getByLabel('Token').waitFor()
    })
  }, 60_000)

  it('shows an alert as it comes, and only once', async () => {
    await open({}, signedIn, async (page) => {
      await page.getByText('size3 1400').waitFor()
      at.addAlert('a second story')
      await page.getByText('a second story').waitFor({ timeout: 10_000 })
      expect(await page.locator('#alerts article').count()).toBe(2)
      expect(await page.locator('#alerts article').first().textContent()).toContain('a second story')
      expect(await page.locator('#scores circle.novel').count()).toBe(1)
      expect(await page.locator('#health').textContent()).toMatch(/Dropped by the kernel7/)
    })
  }, 60_000)

  it('falls silent while it is hidden, and finds the agent again after a restart', async () => {
    await open({}, signedIn, async (page) => {
      const alerts = page.locator('#alerts article')
      await page.getByText('size3 1400').waitFor()
      const hide = (hidden: boolean) =>
        page.evaluate((value) => {
          Object.defineProperty(document, 'hidden', { configurable: true, value })
          document.dispatchEvent(new Event('visibilitychange'))
        }, hidden)
      await hide(true)
      await expect.poll(at.ticking).toBe(0)
      at.addAlert('while it was hidden')
      await hide(false)
      await page.getByText('while it was hidden').waitFor()
      expect(await alerts.count()).toBe(2)
      await at.server.close()
      const standing = page.locator('#standing')
      await expect.poll(() => standing.textContent()).toBe('The agent does not answer')
      const again = await serve(Number(at.server.address.split(':')[1]))
      await expect.poll(() => standing.textContent(), { timeout: 10_000 }).toBe('Watching')
      // those of the other run
      await expect.poll(() => alerts.count()).toBe(1)
      await again.server.close()
    })
  }, 60_000)

  it('draws the timeline and the scores at the size of the window, as soon as that has changed', async () => {
    await open({}, signedIn, async (page) => {
      await page.locator('#timeline rect').first().waitFor()
      const widths = (): Promise<number[]> =>
        page.evaluate(async () => {
          // the next picture but one
          for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame)
          return ['timeline', 'scores'].flatMap((id) => {
            const box = document.getElementById(id) as HTMLElement
            return [box.clientWidth, box.querySelector('svg')?.viewBox.baseVal.width ?? 0]
          })
        })
      for (const width of [1000, 500, 800]) {
        await page.setViewportSize({ width, height: 700 })
        const [timeline, drawn, scores, drawnScores] = await widths()
        expect(timeline).toBeGreaterThan(width / 2)
        expect([drawn, drawnScores]).toEqual([timeline, scores])
        await shot(page, `dashboard-${width}`)
      }
    })
  }, 60_000)

  it('shows incidents first, takes answers by keyboard, and says what changed or why not', async () => {
    await open({}, signedIn, async (page) => {
      const card = page.locator(`[data-incident="${idOf(1)}"]`)
      await card.getByText('possible password guessing').first().waitFor()
      expect(await page.locator('#today').textContent()).toMatch(
        /^(Today: 2 incidents, 1 still open without an answer\.|No incident today)/,
      )
      expect(await page.locator('#to-do').textContent()).toBe(
        'To do: answer 1 open incident, approve 1 device.',
      )
      expect(await card.locator('h3').textContent()).toBe('Password guessing: Kitchen plug high')
      expect(await card.textContent()).toContain('change the password')
      expect(await card.locator('p').first().textContent()).toMatch(/, 192\.168\.7\.\d+$/)
      const timeline = page.locator('#timeline svg')
      expect(await timeline.getAttribute('aria-label')).toMatch(
        /^Kitchen plug: Password guessing, high, .*; Scan, medium, /,
      )
      expect(await timeline.locator('rect').count()).toBe(2)
      expect(await timeline.locator('rect').last().getAttribute('data-level')).toBe('high')
      await card.getByText('Evidence').click()
      await card.getByText('with 192.168.7.66 (tcp port 80): 24 alerts').waitFor()

      at.refuse('the model would no longer notice scan of one host of any size')
      const normal = card.getByRole('button', { name: 'This is normal: Password guessing of Kitchen plug' })
      await normal.focus()
      await page.keyboard.press('Enter')
      await page.locator('#message').getByText('would no longer notice').waitFor()
      expect(await page.locator('#answer-said').textContent()).toBe('')
      at.refuse(null)
      await page.keyboard.press('Enter')
      await page.locator('#answer-said').getByText('It was answered "normal".').waitFor()
      await card.getByText('Your answer: Normal. 17 of 145 earlier flows change verdict.').waitFor()
      expect(at.answers).toMatchObject([{ incident: idOf(1), answer: 'normal' }])
      expect(await page.locator('#to-do').textContent()).toBe('To do: approve 1 device.')
      expect(await page.locator('#today').textContent()).toMatch(
        /^(Today: 2 incidents, all over or answered\.|No incident today)/,
      )
      // what was unfolded stays so, and the focus is in the card
      expect(await card.locator('details').getAttribute('open')).not.toBe(null)
      const back = card.getByRole('button', { name: /^Remove the answer/ })
      expect(await back.evaluate((button) => button === document.activeElement)).toBe(true)
      await page.keyboard.press('Enter')
      await card.getByRole('button', { name: /^Snooze for a day/ }).waitFor()
      expect(at.answers).toEqual([])
      await card.getByRole('button', { name: /^Snooze for a day/ }).click()
      await card.getByText('Your answer: Snoozed until').waitFor()

      await shot(page, 'dashboard-answered')
      // one that became another kind waits for an answer again
      const first = at.incidents[0] as Incident
      at.incidents[0] = { ...first, kind: 'upload' }
      await card.getByText('Your answer when this was “Password guessing”: Snoozed until').waitFor()
      expect(await page.locator('#to-do').textContent()).toBe(
        'To do: answer 1 open incident, approve 1 device.',
      )
      await card.getByRole('button', { name: 'This is normal: Upload of Kitchen plug' }).waitFor()
      at.incidents[0] = first
      at.incidents.push(
        sampleIncident(3, { device: { mac: null, address: hostile.slice(0, 60) }, summary: hostile }),
      )
      await page.locator(`[data-incident="${idOf(3)}"]`).waitFor({ timeout: 10_000 })
      expect(await page.locator('img, body script').count()).toBe(0)
      expect(await page.locator('#incidents article').first().getAttribute('data-state')).toBe('open')
      // low ones hide no high one, however many and how much later they are
      const low = Array.from({ length: 40 }, (_, i) => sampleIncident(100 + i, { level: 'low' }))
      at.incidents.splice(0, at.incidents.length, ...low, sampleIncident(200))
      const articles = page.locator('#incidents article')
      await expect.poll(() => articles.count(), { timeout: 10_000 }).toBe(30)
      expect(await articles.first().getAttribute('data-incident')).toBe(idOf(200))
      at.incidents.splice(0)
      await page.getByText('No incident yet.').waitFor({ timeout: 10_000 })
      expect(await page.locator('#timeline-figure').isVisible()).toBe(false)
      expect(await page.locator('#incidents article').count()).toBe(0)
      await shot(page, 'dashboard-empty')
    })
  }, 60_000)

  it('shows the latest ten alerts, and all of them when asked', async () => {
    for (let i = 0; i < 15; i++) at.addAlert(`alert number ${i}`)
    await open({}, signedIn, async (page) => {
      const visible = page.locator('#alerts > li:visible')
      await expect.poll(() => visible.count()).toBe(10)
      await page.getByRole('button', { name: 'Show all 16 alerts' }).press('Enter')
      expect(await visible.count()).toBe(16)
      await page.getByRole('button', { name: 'Show the latest 10 alerts' }).press('Enter')
      expect(await visible.count()).toBe(10)
    })
  }, 60_000)

  it('says that the agent is degraded and why, what it warns of, and lists what it told of itself', async () => {
    await open({}, signedIn, async (page) => {
      const standing = (text: string) =>
        expect.poll(() => page.locator('#standing').textContent(), { timeout: 10_000 }).toBe(text)
      await standing('Watching')
      at.change({
        degraded: [`device ${plug}: a synthetic attack is not flagged`],
        warnings: ['model 0123 notices none'],
      })
      at.addNotice({ rule: 'degraded', atMicros: nowMicros, summary: `${hostile} is not judged` })
      await standing(`Degraded: device ${plug}: a synthetic attack is not flagged`)
      expect(await page.locator('#health').textContent()).toContain('Warningmodel 0123 notices none')
      const notice = page.locator('#alerts article', { hasText: 'is not judged' })
      expect(await notice.textContent()).toContain(`${hostile} is not judged`)
      expect(await notice.getByRole('button').count()).toBe(0)
      await shot(page, 'degraded')
      at.change({})
      await standing('Watching')
    })
  }, 60_000)

  it('tells of each model what it promises and where it comes from, and goes back by keyboard', async () => {
    await open({}, signedIn, async (page) => {
      const row = page.locator(`tr[data-device="${plug}"]`)
      await row.getByText('trained here and updated since').waitFor()
      expect(await row.textContent()).toContain('false alarms up to 1.2 %, more than allowed')
      expect(await page.locator('#health').textContent()).toMatch(
        /Updates140 rows learned, 3 quarantined, 2 discarded.*unusual only to the updated model 1, only to the trained one 4/,
      )
      await page.locator('#alerts article').first().getByText('Why').click()
      await page
        .getByText('the originally trained model does not flag it (score 3.5, threshold -7)')
        .waitFor()
      await row.getByRole('button', { name: `Approve ${plug}` }).focus()
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await expect.poll(() => at.rolledBack).toEqual([{ rollback: [plug] }])
      await row.getByRole('button', { name: /^Roll back/ }).waitFor({ state: 'detached' })
      expect(
        await row
          .getByRole('button')
          .first()
          .evaluate((button) => button === document.activeElement),
      ).toBe(true)
    })
  }, 60_000)

  it('says that a proof is broken and a training was refused, and asks again before it approves', async () => {
    at.addDevice(lamp, '192.168.7.18', 'hall lamp')
    const device = at.table.get(lamp)
    if (device !== undefined) Object.assign(device, { state: 'learning', flows: 4000, novelShare: 0.31 })
    await open({}, signedIn, async (page) => {
      const row = page.locator(`tr[data-device="${lamp}"]`)
      await row.getByText('retraining').waitFor()
      expect(await row.textContent()).toContain('learning: 4,000 of about 4,000 flows, ready in about 2 days')
      expect(await row.textContent()).toContain(
        'trained here; false alarms up to 9.8 %; about 9408 false alarms a day; 398 of 896 flows unusual, more than promised; retraining; the last training (1000 rows) was refused: it flagged 36.5 % more of the later flows than promised',
      )
      const approve = row.getByRole('button', { name: 'Approve hall lamp' })
      await approve.focus()
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: 'hall lamp is not ready' })
      await dialog.waitFor()
      expect(await dialog.textContent()).toMatch(
        /398 of 896 flows unusual, more than promised[\s\S]*about 31 % of the flows/,
      )
      await dialog.getByRole('button', { name: 'Cancel' }).press('Enter')
      await dialog.waitFor({ state: 'hidden' })
      expect(device?.state).toBe('learning')
      expect(await approve.evaluate((button) => button === document.activeElement)).toBe(true)
      await approve.press('Enter')
      await shot(page, 'dashboard-approve')
      await dialog.getByRole('button', { name: 'Approve anyway' }).press('Enter')
      await expect.poll(() => device?.state).toBe('watching')
    })
  }, 60_000)

  it('names a device and puts it in a group by keyboard, and lists the devices of a group', async () => {
    at.addDevice('02:50:00:00:00:17', '192.168.7.17', 'laptop')
    await open({}, signedIn, async (page) => {
      await page.getByRole('button', { name: `Name and group of ${plug}` }).press('Enter')
      const dialog = page.getByRole('dialog', { name: `Name and group of ${plug}` })
      await dialog.getByLabel('Name for this device').fill('Plug <b>in the hall</b>')
      await dialog.getByLabel('Group, such as cameras').fill('plugs')
      // the text stays when the state changes
      at.change({ lagSeconds: 17 })
      await page.locator('#health-line').getByText('17 s behind').waitFor({ timeout: 10_000 })
      await page.keyboard.press('Enter')
      const row = page.locator(`tr[data-device="${plug}"]`)
      await row.getByText('group plugs').waitFor()
      expect(await row.locator('th').textContent()).toMatch(/^Plug <b>in the hall<\/b>/)
      expect(at.table.get(plug)).toMatchObject({ name: { source: 'person' }, group: 'plugs' })
      // incidents have the name of now
      await page.getByRole('heading', { name: 'Password guessing: Plug <b>in the hall</b>' }).waitFor()
      await page.locator('#timeline').getByText('Plug <b>in the hall</b>').waitFor()
      await page.getByLabel('Show', { exact: true }).selectOption('plugs')
      expect(await page.locator('#devices tbody tr:visible').count()).toBe(1)
      await shot(page, 'dashboard-group')
      at.table.act('group', plug)
      await expect.poll(() => page.locator('#devices tbody tr:visible').count()).toBe(2)
      expect(await page.locator('#group-choice').isVisible()).toBe(false)
    })
  }, 60_000)

  it('lists alerts by their times, calls devices by name, and says why where no feature does', async () => {
    const named = { mac: plug, address: '192.168.7.16', name: 'the <b>plug</b>' }
    const folded = { count: 4, peers: 1, services: 2 }
    at.addAlert(
      'newest (4 more like it)',
      { device: named, folded, features: [], reason: 'whole' },
      '2030-01-02T00:00:00.000000+0000',
    )
    at.addAlert('oldest', { id: 'same' }, '2001-01-01T00:00:00.000000+0000')
    await open({}, signedIn, async (page) => {
      const articles = page.locator('#alerts article')
      await page.getByText('oldest').waitFor()
      await articles.last().getByText('Why').click()
      at.addAlert('middle', { id: 'same' }, '2030-01-01T00:00:00.000000+0000')
      await page.getByText('middle').waitFor({ timeout: 10_000 })
      // the part that was opened, of alerts that have the same id
      expect(await page.locator('#alerts details[open]').count()).toBe(1)
      expect(await articles.last().locator('details').getAttribute('open')).not.toBe(null)
      const texts = await articles.allTextContents()
      expect(texts.map((text) => /newest|middle|size3 1400|oldest/.exec(text)?.[0])).toEqual([
        'newest',
        'middle',
        'size3 1400',
        'oldest',
      ])
      expect(texts[0]).toContain(`the <b>plug</b> (${plug}, 192.168.7.16)`)
      expect(texts[0]).toContain('similar: 1 peer, 2 services')
      expect(texts[0]?.match(/similar:/g)).toHaveLength(1)
      expect(texts[0]).toContain('No single feature explains the difference')
      await articles
        .first()
        .getByRole('button', { name: 'Suppress alerts like this one of the <b>plug</b>' })
        .click()
      await page.getByLabel(`device the <b>plug</b> (${plug})`).waitFor()
    })
  }, 60_000)

  it('shows no flow with an alert about ARP, which has none', async () => {
    const { flow } = sampleAlertEvent('').oddflow as AlertEvent['oddflow']
    at.addAlert('16 addresses were asked for (ARP)', { flow: { ...flow, packets: 0 } })
    await open({}, signedIn, async (page) => {
      const latest = page.locator('#alerts article').first()
      const other = page.locator('#alerts article').nth(1)
      await latest.getByText('(ARP)').waitFor({ state: 'attached' })
      expect(await latest.textContent()).not.toContain(' packets, ')
      expect(await other.textContent()).toContain(' packets, ')
    })
  }, 60_000)

  it('is text alone, whatever the network says', async () => {
    at.addDevice(hostile, hostile)
    at.addDevice('02:50:00:00:00:17', '192.168.7.17', hostile.slice(0, 63))
    at.addAlert(hostile)
    // the policy is lifted here, so that it is the page itself that is tested
    await open({ bypassCSP: true }, signedIn, async (page) => {
      await page.getByRole('button', { name: `Approve ${hostile}`, exact: true }).waitFor()
      await page.getByRole('button', { name: `Approve ${hostile.slice(0, 63)}`, exact: true }).waitFor()
      await page.locator('#alerts article').first().getByText('Why').click()
      await page
        .locator('#alerts article')
        .first()
        .getByRole('button', { name: /Suppress/ })
        .click()
      await page.waitForTimeout(300)
      expect(await page.locator('img, body script').count()).toBe(0)
    })
  }, 60_000)

  it('approves, pauses and suppresses by keyboard, and the focus stays', async () => {
    await open({}, signedIn, async (page) => {
      const approve = page.getByRole('button', { name: `Approve ${plug}` })
      await approve.waitFor()
      await approve.focus()
      await page.keyboard.press('Enter')
      const pause = page.getByRole('button', { name: `Pause ${plug}` })
      await page.waitForFunction(() =>
        document.querySelector('#devices tbody')?.textContent?.includes('watching'),
      )
      expect(at.table.get(plug)?.state).toBe('watching')
      expect(await pause.evaluate((button) => button === document.activeElement)).toBe(true)
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: `Resume ${plug}` }).waitFor()
      expect(at.table.get(plug)?.state).toBe('paused')

      await page.getByRole('button', { name: /^Suppress alerts like this one/ }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').waitFor()
      await page.getByLabel('For', { exact: true }).selectOption('60')
      await page.getByRole('button', { name: 'Suppress', exact: true }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: /^End the rule for/ }).waitFor()
      const [rule] = at.suppressions.list(Date.now() * 1000)
      expect(rule).toMatchObject({ device: plug, protocol: 'tcp', port: 443, peer: '198.51.100.7' })
      expect(rule!.endsMicros / 1000 - Date.now()).toBeGreaterThan(3_500_000)
      await page.getByRole('button', { name: /^End the rule for/ }).press('Enter')
      await page.locator('#rules-section').waitFor({ state: 'hidden' })
      expect(at.suppressions.list(Date.now() * 1000)).toEqual([])
    })
  }, 60_000)

  for (const [name, viewport] of [
    ['phone', { width: 390, height: 844 }],
    ['desk', { width: 1280, height: 900 }],
  ] as const)
    for (const colorScheme of ['light', 'dark'] as const)
      it(`reads well on a ${name} in ${colorScheme} mode`, async () => {
        at.addDevice('2001:db8:1234:5678:9abc:def0:1234:5678', '2001:db8:1234:5678:9abc:def0:1234:5678')
        at.addAlert('x'.repeat(300))
        await open({ viewport, colorScheme, reducedMotion: 'reduce' }, signedIn, async (page) => {
          await page.getByRole('button', { name: `Approve ${plug}` }).waitFor()
          await page.locator('#incidents summary').first().click()
          await page.locator('#devices summary').first().click()
          await page.locator('#devices').getByText('scan of one host: from 13 ports').waitFor()
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(
            viewport.width,
          )
          const tops = await page.evaluate(() =>
            Array.from(
              document.querySelectorAll('#incidents > li'),
              (card) => card.getBoundingClientRect().top,
            ),
          )
          // beside each other where there is room
          expect(tops[0] === tops[1]).toBe(name === 'desk')
          const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
          expect(back).toBe(colorScheme === 'dark' ? 'rgb(20, 23, 26)' : 'rgb(251, 250, 247)')
          for (const selector of [
            'h1',
            '#standing',
            'article .faint',
            'time',
            'button',
            '#devices td',
            'figcaption',
            '#health dt',
            '#health .ill',
            '#incidents strong',
            '[data-level="high"] .level',
            '[data-level="medium"] .level',
            '#scores text',
            '#timeline text',
            'summary',
          ])
            expect(
              await page.evaluate(contrastOf, selector),
              `contrast of ${selector}`,
            ).toBeGreaterThanOrEqual(4.5)
          const heights = await page.evaluate(() =>
            Array.from(
              document.querySelectorAll('#watch button:not([hidden])'),
              (button) => button.getBoundingClientRect().height,
            ),
          )
          expect(Math.min(...heights)).toBeGreaterThanOrEqual(44)
          await page.evaluate(axe.source)
          expect(await page.evaluate(axeViolations)).toEqual([])
          const moving = await page.evaluate(() => document.getAnimations().length)
          expect(moving).toBe(0)
          await shot(page, `dashboard-${name}-${colorScheme}`)
          await page
            .getByRole('button', { name: /^Suppress/ })
            .first()
            .click()
          await shot(page, `dashboard-suppress-${name}-${colorScheme}`)
        })
      }, 60_000)

  it('of a real agent is opened by the link that it tells when it is asked', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-dashboard-'))
    try {
      await trainLabModel(join(folder, 'home.oddflow'))
      const config = join(folder, 'agent.yaml')
      writeFileSync(
        config,
        'model: home.oddflow\neve: eve.json\nstate: state\nlisten: 127.0.0.1:0\ndashboard: {}\ndevices: {approve: auto, learnHours: 0, learnFlows: 1, stableShare: 1, inventoryMinutes: 0}\n',
      )
      const first = await runningAgent(config)
      const link = (): [address: string, code: string] => {
        const said = execFileSync(process.execPath, [agentMain, 'dashboard-link', '-c', config], {
          encoding: 'utf8',
        })
        const [, address = '', code = ''] = /^http:\/\/([^/]+)\/#token=([\w-]{22})\n$/.exec(said) ?? []
        return [address, code]
      }
      const [address, told] = link()
      expect(told).not.toBe('')
      const file = join(folder, 'state/dashboard-token.json')
      expect(statSync(file).mode & 0o777).toBe(0o600)
      expect(readFileSync(file, 'utf8')).not.toContain(told)
      const server = { address, close: async () => undefined }
      const read = async (page: Page) => {
        await page.locator('#alerts-details > summary').click({ timeout: 30_000 })
        await page.locator('#alerts article').first().waitFor({ timeout: 30_000 })
      }
      await open(
        {},
        `#token=${told}`,
        async (page) => {
          first.child.stdin.write(readFileSync(lab('novel-scan.pcap').path))
          await read(page)
          expect(await page.locator('#alerts article').count()).toBeGreaterThan(3)
          await page.locator('#devices').getByText(plug).waitFor()
          await page.locator(`tr[data-device="${plug}"] summary`).click()
          await page.getByText(/^scan of one host: /).waitFor({ timeout: 30_000 })
          await shot(page, 'dashboard-agent')
        },
        server,
      )
      await first.stop()
      const second = await runningAgent(config)
      const [again, anotherCode] = link()
      await open(
        {},
        `#token=${anotherCode}`,
        async (page) => {
          await read(page)
          expect(await page.locator('#alerts article').count()).toBeGreaterThan(3)
        },
        { address: again, close: async () => undefined },
      )
      for (const { said } of [first, second]) expect(said()).not.toContain(told)
      await second.stop()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }, 120_000)
})

async function runningAgent(config: string) {
  const child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config, '--read', '-'], {
    stdio: 'pipe',
  })
  let said = ''
  child.stdin.on('error', () => undefined)
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (/dashboard at .*\n/.test(said)) resolve()
    })
    child.on('close', () => reject(new Error(said)))
  })
  const closed = new Promise<void>((resolve) => child.on('close', () => resolve()))
  return {
    child,
    said: () => said,
    stop: async () => {
      child.kill('SIGTERM')
      await closed
    },
  }
}
