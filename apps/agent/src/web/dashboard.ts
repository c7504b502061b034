/**
 * The dashboard's part of the HTTP server: the page, and the requests that docs/dashboard.md lists. GET changes nothing. All paths under
 * /api need the cookie or the token (sessions.ts), and bodies are bounded. Other web pages in the same browser are kept out:
 *
 * - DNS rebinding: the Host header must be an address, a name without a dot, the machine's own name or one of the configuration.
 * - Forged requests: a request that changes something needs the right Origin, unless it shows the token itself, as a script does.
 * - Hostile names stay text: the page sets no markup, and its Content-Security-Policy loads only its own files.
 */
import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { ArgumentError } from '@oddflow/core'
import type { TemporarySuppressions } from '../alerts/suppress.js'
import { ControlError, readBody, statusOf } from '../devices/control-socket.js'
import { recentNovelShare, toldOf } from '../devices/device.js'
import { type DeviceTable, usualContactTexts } from '../devices/device-table.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import type { AnswerBook } from '../incidents/answers.js'
import { INCIDENT_LEVELS, type Incident } from '../incidents/incident.js'
import type { Clock } from '../input/clocks.js'
import type { NoticedOf } from '../models/noticed.js'
import type { ScopeReport } from '../models/progress.js'
import { PACKAGE_FOLDER } from '../version.js'
import type { AlertFeed, ScoreHistory } from './alerts.js'
import type { AgentSnapshot } from './metrics.js'
import { SESSION_SECONDS, type Sessions } from './sessions.js'

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  js: 'text/javascript; charset=utf-8',
}

/** What the bundler made of src/page, by the path that a browser asks for. */
export function readPageFiles() {
  const folder = new URL('dist/page/', PACKAGE_FOLDER)
  return new Map(
    readdirSync(folder).map((name) => [
      name === 'index.html' ? '/' : `/page/${name}`,
      { type: TYPES[name.slice(name.lastIndexOf('.') + 1)], body: readFileSync(new URL(name, folder)) },
    ]),
  )
}

/** Whether a Host header, with or without a port, is of this machine. */
export function isOwnHost(header: string | undefined, names: readonly string[]): boolean {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?$/.exec(header ?? '')
  if (match === null) return false
  const host = (match[1] ?? match[2]).toLowerCase()
  if (!host.includes('.') || isIP(host) !== 0) return true
  return [hostname(), ...names].some((name) => name.toLowerCase() === host)
}

/** Whether an Origin is that of the page that the Host header names; https where a proxy speaks it. */
function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host}` || origin === `https://${host}`
}

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
  /** The model that judges a device; null if it is unknown. */
  scopeReport(device: string): ScopeReport | null
  /** What a person asked for, as over the control socket. */
  change(body: unknown): Promise<unknown>
}

/** Answers a request; false where it is not the dashboard's. A stream stays open, and the dashboard bounds how many there are. */
export type Dashboard = (request: IncomingMessage, response: ServerResponse) => boolean | 'stream'

const MAXIMUM_BODY_BYTES = 65_536
/** Devices sent to the page; devices waiting for a person come first. */
const MAXIMUM_DEVICES = 200
const MAXIMUM_INCIDENTS = 30
/** For an answer that a model is made for. */
const WORK_MILLIS = 180_000
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

class HttpError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export function createDashboard(options: DashboardOptions): Dashboard {
  const { clock, feed, sessions } = options
  const pages = readPageFiles()
  const startedMicros = clock.wallMicros()
  const stateNow = (): ShownState => shownState(options, startedMicros)
  const streams = createStateStreams(clock, feed, stateNow, SECURITY_HEADERS)
  const routes = createRoutes(options, streams)

  /** Answers a request under /api. Throws HttpError. */
  const answerApi = (
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
  ): boolean | 'stream' => {
    const caller = callerOf(request, path, sessions)
    const route = `${request.method} ${path}`
    if (route === STREAM) {
      // the alerts of another run of the agent have other numbers
      const after = query.get('run') === String(startedMicros) ? firstAlert(query) : 0
      const isAllowed = (): boolean => caller.hasToken || sessions.isSignedIn(caller.cookie)
      if (streams.open(response, after, isAllowed)) return 'stream'
      throw new HttpError(503, 'the dashboard is open in too many browsers: close one')
    }
    if (!Object.hasOwn(routes, route)) {
      const isKnown = [STREAM, ...Object.keys(routes)].some((each) => each.endsWith(` ${path}`))
      if (isKnown) throw new HttpError(405, `${request.method} is not allowed here`)
      throw new HttpError(404, 'there is no such path')
    }
    routes[route]({ request, response, query, caller }).then(
      (text) => {
        sendJson(response, 200, text)
        if (request.method !== 'GET' && request.method !== 'HEAD') streams.update()
      },
      (error: unknown) => sendError(response, error),
    )
    return true
  }

  return (request, response) => {
    const [path = '/', query] = (request.url ?? '/').split('?', 2)
    const page = pages.get(path)
    if (page === undefined && !path.startsWith('/api/')) return false
    try {
      if (!isOwnHost(request.headers.host, options.hosts)) {
        const why = 'unknown host name: use the address, or add the name to dashboard.hosts'
        throw new HttpError(421, why)
      }
      if (page === undefined) return answerApi(request, response, path, new URLSearchParams(query))
      if (request.method !== 'GET' && request.method !== 'HEAD')
        throw new HttpError(405, 'only GET and HEAD are allowed here')
      send(response, 200, page.body, page.type)
    } catch (error) {
      sendError(response, error)
    }
    return true
  }
}

const STREAM = 'GET /api/events'

function send(response: ServerResponse, status: number, body: string | Buffer, type: string): void {
  response.writeHead(status, { ...SECURITY_HEADERS, 'content-type': type })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

function sendJson(response: ServerResponse, status: number, text: string): void {
  send(response, status, text, 'application/json; charset=utf-8')
}

function sendError(response: ServerResponse, error: unknown): void {
  const status = error instanceof HttpError ? error.status : statusOf(error)
  sendJson(response, status, JSON.stringify({ error: messageOf(error) }))
}

interface Caller {
  /** Shown by a script; a browser has a cookie. */
  readonly hasToken: boolean
  /** For a cookie: of the token, or of a link's code; null without them. */
  readonly session: string | null
  /** What the cookie holds; empty without one. */
  readonly cookie: string
  readonly cookieName: string
}

/** Who asks. Throws HttpError where that is another page, or a caller that is not signed in. */
function callerOf(request: IncomingMessage, path: string, sessions: Sessions): Caller {
  const { method = 'GET', headers, socket } = request
  const { origin } = headers
  const shown = /^Bearer (\S{1,256})$/.exec(headers.authorization ?? '')?.[1] ?? null
  const isReading = method === 'GET' || method === 'HEAD'
  if (origin === undefined ? !isReading && shown === null : !isOwnOrigin(origin, headers.host))
    throw new HttpError(403, 'the request comes from another web page')
  const isSigningIn = path === '/api/session' && method === 'POST'
  const session =
    shown === null ? null : (sessions.signIn(shown) ?? (isSigningIn ? sessions.redeem(shown) : null))
  const cookieName = `${COOKIE}-${socket.localPort ?? 0}`
  const cookie = cookieIn(headers.cookie, cookieName)
  if (session === null && !sessions.isSignedIn(cookie)) {
    const wrong = 'wrong token or used link: a link signs in once, within 5 minutes; print a new one'
    throw new HttpError(401, shown === null ? 'sign in with the token' : wrong)
  }
  return { hasToken: shown !== null, session, cookie, cookieName }
}

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly query: URLSearchParams
  readonly caller: Caller
}

/** Resolves to JSON. */
type Route = (asked: Asked) => Promise<string>

/** By method and path. */
function createRoutes(options: DashboardOptions, streams: StateStreams): Readonly<Record<string, Route>> {
  const { sessions, suppressions, devices, models, incidents, clock } = options
  const change =
    (work: (body: unknown, request: IncomingMessage) => unknown): Route =>
    async ({ request }) =>
      JSON.stringify(await work(await readBody(request, MAXIMUM_BODY_BYTES), request))
  const state: Route = async ({ query }) => streams.whole(firstAlert(query))
  const noticed: Route = async ({ request, query }) => {
    request.socket.setTimeout(WORK_MILLIS)
    return JSON.stringify({ noticed: await options.noticed(query.get('device') ?? '') })
  }
  return {
    'GET /api/state': state,
    'HEAD /api/state': state,
    'GET /api/noticed': noticed,
    'HEAD /api/noticed': noticed,
    'POST /api/session': async ({ response, caller }) => {
      if (caller.session === null) throw new HttpError(401, 'sign in with the token')
      setCookie(response, caller, caller.session, SESSION_SECONDS)
      return '{}'
    },
    'DELETE /api/session': async ({ response, caller }) => {
      await sessions.signOut(caller.cookie)
      setCookie(response, caller, '', 0)
      return '{}'
    },
    'POST /api/devices': change(async (body) => ({
      results: await partOf(devices, 'keeps no list of devices', 'devices').word(body),
    })),
    'POST /api/incidents': change((body, { socket }) => {
      const { answers } = partOf(incidents, 'keeps no incidents', 'devices')
      // a model may be made for it
      socket.setTimeout(WORK_MILLIS)
      return answers.answer(body)
    }),
    'POST /api/models': change((body) => partOf(models, 'makes no models', 'models').change(body)),
    'POST /api/suppressions': change((body) => suppressions.add(body, clock.wallMicros())),
    'DELETE /api/suppressions': change(async (body) => {
      const { name } = (body ?? {}) as { name?: unknown }
      const isRemoved = typeof name === 'string' && (await suppressions.remove(name))
      if (!isRemoved) throw new ControlError('control.request', 'there is no such rule')
      return { removed: name }
    }),
  }
}

/** A part of the agent that its configuration may leave out. Throws ControlError. */
function partOf<T>(part: T | null, lacks: string, key: string): T {
  if (part !== null) return part
  throw new ControlError('control.request', `the agent ${lacks}: add "${key}:" to its configuration`)
}

function firstAlert(query: URLSearchParams): number {
  const after = Number(query.get('after') ?? 0)
  return Number.isSafeInteger(after) && after >= 0 ? after : 0
}

function setCookie(response: ServerResponse, { cookieName }: Caller, value: string, seconds: number): void {
  response.setHeader(
    'set-cookie',
    `${cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict`,
  )
}

/** The value of a cookie, empty where there is none. */
function cookieIn(header: string | undefined, name: string): string {
  for (const part of (header ?? '').split(';')) {
    const [key, value] = part.trim().split('=', 2)
    if (key === name) return value ?? ''
  }
  return ''
}

export type ShownState = ReturnType<typeof shownState>

/** What the page is shown, but for the alerts. @param startedMicros - tells one run of the agent from another. */
function shownState(options: DashboardOptions, startedMicros: number) {
  const { clock, devices, models, incidents } = options
  return {
    ...options.snapshot(),
    nowMicros: clock.wallMicros(),
    /** null where devices are not kept. */
    devices: devices === null ? null : shownDevices(devices, models),
    /** Open ones and the last that are over, the newest first; null where devices are not kept. */
    incidents: incidents === null ? null : shownIncidents(incidents, devices?.table),
    minutes: options.history.minutes(),
    suppressions: options.suppressions.list(clock.wallMicros()),
    startedMicros,
  }
}

export type ShownIncident = ReturnType<typeof shownIncidents>[number]

/** Open ones first, else the newest. */
function shownIncidents({ list, answers }: DashboardIncidents, table: Pick<DeviceTable, 'get'> | undefined) {
  const answered = new Map(
    answers
      .list()
      .map(({ incident, answer, kind, endsMicros, changes }) => [
        incident,
        { answer, kind, endsMicros, changes },
      ]),
  )
  return list()
    .filter(({ state }) => state !== 'gathering')
    .sort((a, b) => urgency(b) - urgency(a) || b.endMicros - a.endMicros)
    .slice(0, MAXIMUM_INCIDENTS)
    .map(({ reported: _, ...incident }) => {
      // the name of now
      const name = table?.get(incident.key)?.name?.name
      const device = { ...incident.device, ...(name === undefined ? {} : { name }) }
      /** `answer.kind` is that of the incident when it was answered. */
      return { ...incident, device, answer: answered.get(incident.id) ?? null }
    })
}

/** Open incidents come first, the highest level before all, so that many low ones hide no high one. */
const urgency = ({ state, level }: Incident): number =>
  state === 'open' ? 1 + INCIDENT_LEVELS.indexOf(level) : 0

export type ShownDevice = ReturnType<typeof shownDevices>['shown'][number]

const ORDER = { ready: 0, paused: 1, learning: 2, watching: 3 } as const

function shownDevices(devices: Pick<DeviceWatch, 'table' | 'forecast'>, models: DashboardModels | null) {
  const all = [...devices.table.all()].sort(
    (a, b) => ORDER[a.state] - ORDER[b.state] || b.lastSeenMicros - a.lastSeenMicros,
  )
  const shown = all.slice(0, MAXIMUM_DEVICES).map((device) => {
    const model = models?.scopeReport(device.key) ?? null
    return {
      ...toldOf(device),
      /** Of its recent flows; null before the first. */
      novelShare: recentNovelShare(device),
      /** null of one that has learned. */
      forecast: devices.forecast(device, model),
      /** Of the time while it learned, the most frequent first. */
      contacts: usualContactTexts(device, devices.table),
      /** null if the agent makes no models, or none of this device is known. */
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

interface Stream {
  readonly response: ServerResponse
  readonly isAllowed: () => boolean
  /** The number of the next alert to send. */
  next: number
  isBehind: boolean
}

const MAXIMUM_STREAMS = 8
const UPDATE_MILLIS = 1000

export type StateStreams = ReturnType<typeof createStateStreams>

/**
 * The dashboard's live updates: server-sent events (HTML standard, section 9.2) with the parts of the state that changed, made
 * once a second while there is a stream. The first event of a stream has the whole state, and so has the next one for a
 * browser that was too slow: a stream never holds more than one event.
 */
export function createStateStreams(
  clock: Clock,
  feed: AlertFeed,
  stateNow: () => ShownState,
  headers: Readonly<Record<string, string>>,
) {
  const streams = new Set<Stream>()
  /** The parts of the state as JSON, by name. */
  const parts = new Map<string, string>()
  let stop: (() => void) | null = null

  /** These parts, and the alerts from this number on. */
  const textOf = (names: Iterable<string>, after: number): { text: string; next: number } => {
    const { json, next } = feed.since(after)
    const members = [...names].map((name) => `"${name}":${parts.get(name)},`)
    // alerts are as they were encoded for the outputs (AlertEvent)
    return { text: `{${members.join('')}"alerts":${json},"next":${next}}`, next }
  }
  const send = (stream: Stream, names: Iterable<string>): void => {
    const { text, next } = textOf(names, stream.next)
    stream.next = next
    stream.isBehind = false
    stream.response.write(`data: ${text}\n\n`)
  }
  const update = (): void => {
    const changed: string[] = []
    for (const [name, value] of Object.entries(stateNow())) {
      const json = JSON.stringify(value)
      if (parts.get(name) === json) continue
      parts.set(name, json)
      changed.push(name)
    }
    for (const stream of streams) {
      if (!stream.isAllowed()) stream.response.end()
      else if (stream.response.writableNeedDrain) stream.isBehind = true
      else send(stream, stream.isBehind ? parts.keys() : changed)
    }
  }

  return {
    /** Sends the state until the browser leaves or may not see it any more; false where there are MAXIMUM_STREAMS. */
    open(response: ServerResponse, after: number, isAllowed: () => boolean): boolean {
      if (streams.size >= MAXIMUM_STREAMS) return false
      update()
      const stream = { response, isAllowed, next: after, isBehind: false }
      streams.add(stream)
      stop ??= clock.every(UPDATE_MILLIS, update)
      response.once('close', () => {
        streams.delete(stream)
        if (streams.size > 0) return
        stop?.()
        stop = null
      })
      // the connection ends with the stream, since the server does not count it among the others
      response.writeHead(200, {
        ...headers,
        'content-type': 'text/event-stream',
        connection: 'close',
        // nginx would gather events
        'x-accel-buffering': 'no',
      })
      send(stream, parts.keys())
      return true
    },
    update,
    /** All of the state, and the alerts from this number on. */
    whole(after: number): string {
      update()
      return textOf(parts.keys(), after).text
    },
  }
}
