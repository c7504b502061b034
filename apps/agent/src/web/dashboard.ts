/**
 * Whether a request comes from the dashboard's own page, or from another page that a browser has open.
 *
 * *DNS rebinding*: a stranger's page gives its own name this machine's address, and the browser takes both for one
 * site. Its Host header is that name, so only addresses, names without a dot (localhost, or what a container network
 * calls the agent: no public page has such a name), the machine's own name and those of the configuration are taken.
 * *Forged requests*: what another page makes the browser send has another Origin, and no right one can be forged by
 * a page. A request that changes something must have one, unless it shows the token itself, as a script does.
 */

import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { ArgumentError } from '@oddflow/core'
import type { TemporarySuppressions } from '../alerts/temporary-suppressions.js'
import { ControlError, readBody, statusOf } from '../devices/control-socket.js'
import { recentNovelShare, toldOf } from '../devices/device.js'
import { type DeviceTable, usualContactTexts } from '../devices/device-table.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import type { AnswerBook } from '../incidents/answers.js'
import type { Incident } from '../incidents/incident.js'
import type { Clock } from '../input/clocks.js'
import type { NoticedOf } from '../models/noticed.js'
import { PACKAGE_FOLDER } from '../package-folder.js'
import type { OwnModel, Device as ShownDevice, Incident as ShownIncident } from '../page/api.js'
import type { AlertFeed, ScoreHistory } from './alerts.js'
import type { AgentSnapshot } from './metrics.js'
import { SESSION_SECONDS, type Sessions } from './sessions.js'
import { createStateStreams } from './state-streams.js'

interface PageFile {
  readonly type: string
  readonly body: Buffer
}

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  js: 'text/javascript; charset=utf-8',
}

/** What the bundler made of src/page, by the path that a browser asks for. */
export function readPageFiles(): ReadonlyMap<string, PageFile> {
  const folder = new URL('dist/page/', PACKAGE_FOLDER)
  return new Map(
    readdirSync(folder).map((name) => [
      name === 'index.html' ? '/' : `/page/${name}`,
      { type: TYPES[name.slice(name.lastIndexOf('.') + 1)], body: readFileSync(new URL(name, folder)) },
    ]),
  )
}

/** The host of a Host header without its port; null for what is none. */
export function hostOf(header: string | undefined): string | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?$/.exec(header ?? '')
  return match === null ? null : (match[1] ?? match[2]).toLowerCase()
}

export function isOwnHost(header: string | undefined, names: readonly string[]): boolean {
  const host = hostOf(header)
  if (host === null) return false
  if (!host.includes('.') || isIP(host) !== 0) return true
  return [hostname(), ...names].some((name) => name.toLowerCase() === host)
}

/** Whether an Origin is that of the page that the Host header names; https where a proxy speaks it. */
export function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host}` || origin === `https://${host}`
}

/**
 * The dashboard's side of the HTTP server: the page, what it asks for, and what a person does on it.
 *
 *     GET    /  /page/*           the page itself: nothing in it is of this network
 *     POST   /api/session         Authorization: Bearer TOKEN, or the code of a link, for a cookie
 *     DELETE /api/session         signs out
 *     GET    /api/state?after=N   health, devices, score history, rules, and the alerts from number N on
 *     GET    /api/events?after=N  the same, and then what changes (state-streams.ts)
 *     GET    /api/noticed?device=KEY  what its model would notice
 *     POST   /api/devices         { action, devices }, as over the control socket
 *     POST   /api/incidents       { incident, answer, hours? }, as over the control socket
 *     POST   /api/models          { rollback: [owner, …] }, as over the control socket
 *     POST   /api/suppressions    { minutes, device?, peer?, protocol?, port?, rule? }
 *     DELETE /api/suppressions    { name }
 *
 * GET changes nothing. All under /api takes the cookie or the token itself (sessions.ts); bodies are
 * bounded. The page is built of text nodes and may load nothing but its own files (Content-Security-Policy), so that
 * what a device calls itself is never more than text.
 */

export interface DashboardOptions {
  readonly sessions: Sessions
  /** By which the machine may be called in a browser, beside its addresses and localhost. */
  readonly hosts: readonly string[]
  readonly clock: Clock
  readonly snapshot: () => AgentSnapshot
  readonly feed: AlertFeed
  readonly history: ScoreHistory
  readonly suppressions: TemporarySuppressions
  /** null where devices are not kept. */
  readonly devices: Pick<DeviceWatch, 'table' | 'word' | 'forecast'> | null
  /** null where models are not made here. */
  readonly models: DashboardModels | null
  /** null where devices are not kept. */
  readonly incidents: DashboardIncidents | null
  readonly noticed: NoticedOf
}

export interface DashboardIncidents {
  readonly list: () => readonly Incident[]
  readonly answers: Pick<AnswerBook, 'answer' | 'list'>
}

export interface DashboardModels {
  /** The model that judges a device; null where nothing is known of its own. */
  scopeReport(device: string): OwnModel | null
  /** What a person asked for, as over the control socket. */
  change(body: unknown): Promise<unknown>
}

/** Answers a request; false where it is not the dashboard's. A stream stays open, and the dashboard bounds how many there are. */
export type Dashboard = (request: IncomingMessage, response: ServerResponse) => boolean | 'stream'

const MAXIMUM_BODY_BYTES = 65_536
/** Devices that the page is told of, those that wait for a person first. */
const MAXIMUM_DEVICES = 200
const MAXIMUM_INCIDENTS = 30
/** For an answer that a model is made for. */
const WORK_MILLIS = 180_000
const PATHS = [
  '/api/state',
  '/api/events',
  '/api/noticed',
  '/api/session',
  '/api/devices',
  '/api/incidents',
  '/api/models',
  '/api/suppressions',
]
const COOKIE = 'oddflow-session'

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

export function createDashboard(options: DashboardOptions): Dashboard {
  const { clock, feed, sessions, suppressions, devices, models } = options
  const pages = readPageFiles()
  const startedMicros = clock.wallMicros()

  const send = (
    response: ServerResponse,
    status: number,
    body: string | Buffer,
    headers: Readonly<Record<string, string>>,
  ): void => {
    response.writeHead(status, { ...SECURITY_HEADERS, ...headers })
    response.end(response.req.method === 'HEAD' ? undefined : body)
  }
  const json = (
    response: ServerResponse,
    status: number,
    text: string,
    headers: Readonly<Record<string, string>> = {},
  ): void => send(response, status, text, { 'content-type': 'application/json; charset=utf-8', ...headers })
  const refuse = (response: ServerResponse, status: number, error: string): void =>
    json(response, status, JSON.stringify({ error }))

  const streams = createStateStreams(
    clock,
    feed,
    () => ({
      ...options.snapshot(),
      nowMicros: clock.wallMicros(),
      devices: devices === null ? null : shownDevices(devices, models),
      incidents: options.incidents === null ? null : shownIncidents(options.incidents, devices?.table),
      minutes: options.history.minutes(),
      suppressions: suppressions.list(clock.wallMicros()),
      startedMicros,
    }),
    SECURITY_HEADERS,
  )
  /** What a person has asked for; resolves to the answer. Rejects where it will not do. */
  const change = async (request: IncomingMessage, path: string): Promise<unknown> => {
    const body = await readBody(request, MAXIMUM_BODY_BYTES)
    if (path === '/api/devices' && request.method === 'POST') {
      if (devices === null)
        throw new ControlError(
          'control.request',
          'the agent keeps no list of devices: add "devices:" to its configuration',
        )
      return { results: await devices.word(body) }
    }
    if (path === '/api/incidents') {
      if (options.incidents === null)
        throw new ControlError(
          'control.request',
          'the agent keeps no incidents: add "devices:" to its configuration',
        )
      // a model may be made for it
      request.socket.setTimeout(WORK_MILLIS)
      return options.incidents.answers.answer(body)
    }
    if (path === '/api/models') {
      if (models === null)
        throw new ControlError(
          'control.request',
          'the agent makes no models: add "models:" to its configuration',
        )
      return models.change(body)
    }
    if (path === '/api/suppressions' && request.method === 'POST') {
      return suppressions.add(body, clock.wallMicros())
    }
    const { name } = (body ?? {}) as { name?: unknown }
    const isRemoved = typeof name === 'string' && (await suppressions.remove(name))
    if (!isRemoved) throw new ControlError('control.request', 'there is no such rule')
    return { removed: name }
  }

  /** The answer to what is asked under /api; true where it is a stream. */
  const answerApi = (
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
  ): boolean => {
    const { method = 'GET', headers } = request
    const isReading = method === 'GET' || method === 'HEAD'
    const shown = /^Bearer (\S{1,256})$/.exec(headers.authorization ?? '')?.[1] ?? null
    const { origin } = headers
    if (origin === undefined ? !isReading && shown === null : !isOwnOrigin(origin, headers.host)) {
      refuse(response, 403, 'the request is another page’s')
      return false
    }
    const port = request.socket.localPort ?? 0
    const cookieOf = (value: string, seconds: number): Record<string, string> => ({
      'set-cookie': `${COOKIE}-${port}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict`,
    })
    const isSigningIn = path === '/api/session' && method === 'POST'
    const session =
      shown === null ? null : (sessions.signIn(shown) ?? (isSigningIn ? sessions.redeem(shown) : null))
    const cookie = cookieIn(headers.cookie, `${COOKIE}-${port}`)
    if (session === null && !sessions.isSignedIn(cookie)) {
      const wrong = 'that is not the token; a link signs in once, within 5 minutes'
      refuse(response, 401, shown === null ? 'sign in with the token' : wrong)
      return false
    }
    const after = Number(query.get('after') ?? 0)
    const from = Number.isSafeInteger(after) && after >= 0 ? after : 0
    if (isSigningIn && session !== null) {
      json(response, 200, '{}', cookieOf(session, SESSION_SECONDS))
    } else if (path === '/api/session' && method === 'DELETE') {
      sessions.signOut(cookie).then(
        () => {
          json(response, 200, '{}', cookieOf('', 0))
          streams.update()
        },
        (error: unknown) => refuse(response, statusOf(error), messageOf(error)),
      )
    } else if (path === '/api/state' && isReading) {
      json(response, 200, streams.whole(from))
    } else if (path === '/api/noticed' && isReading) {
      request.socket.setTimeout(WORK_MILLIS)
      options.noticed(query.get('device') ?? '').then(
        (noticed) => json(response, 200, JSON.stringify({ noticed })),
        (error: unknown) => refuse(response, statusOf(error), messageOf(error)),
      )
    } else if (path === '/api/events' && method === 'GET') {
      // the alerts of another run of the agent have other numbers
      const isThisRun = query.get('run') === String(startedMicros)
      const isAllowed = (): boolean => shown !== null || sessions.isSignedIn(cookie)
      if (streams.open(response, isThisRun ? from : 0, isAllowed)) return true
      refuse(response, 503, 'the dashboard is open in too many browsers: close one')
    } else if (
      (['/api/devices', '/api/models', '/api/incidents'].includes(path) && method === 'POST') ||
      (path === '/api/suppressions' && (method === 'POST' || method === 'DELETE'))
    ) {
      change(request, path).then(
        (value) => {
          json(response, 200, JSON.stringify(value))
          streams.update()
        },
        (error: unknown) => refuse(response, statusOf(error), messageOf(error)),
      )
    } else refuse(response, PATHS.includes(path) ? 405 : 404, 'there is no such thing to do')
    return false
  }

  return (request, response) => {
    const [path = '/', query] = (request.url ?? '/').split('?', 2)
    const page = pages.get(path)
    if (page === undefined && !path.startsWith('/api/')) return false
    if (!isOwnHost(request.headers.host, options.hosts)) {
      refuse(
        response,
        421,
        'not known by that name: call it by its address, or give the name in dashboard.hosts',
      )
    } else if (page === undefined) {
      if (answerApi(request, response, path, new URLSearchParams(query))) return 'stream'
    } else if (request.method === 'GET' || request.method === 'HEAD') {
      send(response, 200, page.body, { 'content-type': page.type })
    } else refuse(response, 405, 'it can only be read')
    return true
  }
}

/** The value of a cookie, empty where there is none. */
function cookieIn(header: string | undefined, name: string): string {
  for (const part of (header ?? '').split(';')) {
    const [key, value] = part.trim().split('=', 2)
    if (key === name) return value ?? ''
  }
  return ''
}

/** Open ones first, else the newest. */
function shownIncidents(
  { list, answers }: DashboardIncidents,
  table: Pick<DeviceTable, 'get'> | undefined,
): ShownIncident[] {
  const byIncident = new Map(answers.list().map((answer) => [answer.incident, answer]))
  return list()
    .filter(({ state }) => state !== 'gathering')
    .sort((a, b) => Number(b.state === 'open') - Number(a.state === 'open') || b.endMicros - a.endMicros)
    .slice(0, MAXIMUM_INCIDENTS)
    .map(({ reported: _, ...incident }) => {
      const found = byIncident.get(incident.id)
      const answer =
        found === undefined
          ? null
          : {
              answer: found.answer,
              kind: found.kind,
              endsMicros: found.endsMicros,
              changes: found.changes,
            }
      // the name of now
      const name = table?.get(incident.key)?.name?.name
      const device = { ...incident.device, ...(name === undefined ? {} : { name }) }
      return { ...incident, device, answer }
    })
}

const ORDER = { ready: 0, paused: 1, learning: 2, watching: 3 } as const

function shownDevices(
  { table, forecast }: Pick<DeviceWatch, 'table' | 'forecast'>,
  models: DashboardModels | null,
): { total: number; shown: readonly ShownDevice[] } {
  const all = [...table.all()].sort(
    (a, b) => ORDER[a.state] - ORDER[b.state] || b.lastSeenMicros - a.lastSeenMicros,
  )
  const shown = all.slice(0, MAXIMUM_DEVICES).map((device) => {
    const model = models?.scopeReport(device.key) ?? null
    return {
      ...toldOf(device),
      novelShare: recentNovelShare(device),
      forecast: forecast(device, model),
      contacts: usualContactTexts(device, table),
      model,
    }
  })
  return { total: all.length, shown }
}

function messageOf(error: unknown): string {
  if (error instanceof ArgumentError)
    return `${error.field === undefined ? '' : `${error.field}: `}${error.message}`
  return error instanceof Error ? error.message : String(error)
}
