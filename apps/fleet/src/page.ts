/**
 * The page of the fleet and its metrics: HTML without scripts that a browser reloads by itself. Both need the token (a
 * browser gets a cookie, Prometheus sends a bearer token). Connections and requests are bounded, and all that gateways
 * send is escaped.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { OddFlowError, plural } from '@oddflow/core'
import { Gauge, Registry } from 'prom-client'
import { type FleetView, type GatewayView, WINDOW_MILLIS } from './view.js'

export interface FleetState {
  readonly view: FleetView
  /** What the streams hold. Rejects while the server is away. */
  stored(): Promise<{ readonly events: number; readonly bytes: number }>
  /** Whether the server is there. */
  isConnected(): boolean
}

export interface Page {
  /** "127.0.0.1:9480" */
  readonly address: string
  close(): Promise<void>
}

const MAXIMUM_CONNECTIONS = 64
const PATIENCE_MILLIS = 10_000
const MAXIMUM_FORM_BYTES = 1024
const COOKIE = 'oddflow-fleet'
/** More rows make a page that is slow to read; gateways that need attention come first. */
const SHOWN_GATEWAYS = 500
const SHOWN_NAMES = 12
const RELOAD_SECONDS = 30

/** Rejects with OddFlowError where it cannot listen. */
export async function startPage(
  { host, port }: { readonly host: string; readonly port: number },
  token: string,
  state: FleetState,
): Promise<Page> {
  const isToken = (shown: string): boolean => timingSafeEqual(hashOf(shown), hashOf(token))
  const metrics = createMetrics(state)
  const server = createServer(
    { headersTimeout: PATIENCE_MILLIS, requestTimeout: PATIENCE_MILLIS },
    (request, response) => {
      answer(request, response).catch(() => {
        if (!response.headersSent) send(response, 503, 'text/plain', 'the server does not answer\n')
        else response.destroy()
      })
    },
  )
  server.maxConnections = MAXIMUM_CONNECTIONS
  server.setTimeout(PATIENCE_MILLIS)

  const isSignedIn = ({ headers }: IncomingMessage): boolean => {
    const [, bearer] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
    const [, cookie] = new RegExp(`(?:^|; )${COOKIE}=([^;]+)`).exec(headers.cookie ?? '') ?? []
    const shown = bearer ?? cookie
    return shown !== undefined && isToken(shown)
  }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url?.split('?', 1)[0]
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (path === '/healthz' && isRead) {
      const isWell = state.isConnected()
      send(response, isWell ? 200 : 503, 'text/plain', isWell ? 'well\n' : 'no connection to the server\n')
    } else if (path === '/' && request.method === 'POST') {
      const shown = new URLSearchParams(await bodyOf(request)).get('token') ?? ''
      if (!isToken(shown)) send(response, 403, 'text/html', signInHtml('Wrong token.'))
      else {
        response.setHeader('set-cookie', `${COOKIE}=${token}; HttpOnly; SameSite=Strict; Path=/`)
        response.writeHead(303, { location: '/' }).end()
      }
    } else if (!isRead) send(response, 405, 'text/plain', 'only GET and HEAD\n')
    else if (path !== '/' && path !== '/metrics')
      send(response, 404, 'text/plain', '/, /metrics and /healthz\n')
    else if (!isSignedIn(request)) {
      if (path === '/') send(response, 401, 'text/html', signInHtml(''))
      else send(response, 401, 'text/plain', 'send the token: Authorization: Bearer …\n')
    } else if (path === '/') send(response, 200, 'text/html', await pageHtml(state))
    else send(response, 200, metrics.contentType, await metrics.metrics())
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', ({ message }) =>
      reject(new OddFlowError('fleet.page', `${host}:${port}: cannot listen: ${message}`)),
    )
    server.listen(port, host, resolve)
  })
  const { address, family, port: found } = server.address() as AddressInfo
  return {
    address: `${family === 'IPv6' ? `[${address}]` : address}:${found}`,
    async close() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, {
    'content-type': type.includes('charset') ? type : `${type}; charset=utf-8`,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-security-policy':
      "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  })
  response.end(text)
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of request.setEncoding('latin1')) {
    // read to its end, since the answer is lost with the connection
    if (text.length <= MAXIMUM_FORM_BYTES) text += part as string
  }
  return text.length <= MAXIMUM_FORM_BYTES ? text : ''
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (value: string | number): string =>
  String(value).replace(/[&<>"']/g, (each) => ESCAPES[each]!)

const STYLE = `body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:70rem;padding:0 1rem;color:#1a2027;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.8rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid #d9dee3;vertical-align:top}td.n{text-align:right}
.ill,.silent{color:#a11212;font-weight:600}@media(prefers-color-scheme:dark){body{color:#e3e7eb;background:#14181c}
th,td{border-color:#333b43}.ill,.silent{color:#ff8a80}}`

const documentHtml = (body: string, head = ''): string =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">${head}<title>OddFlow fleet</title><style>${STYLE}</style></head><body>${body}</body></html>\n`

const signInHtml = (complaint: string): string =>
  documentHtml(
    `<h1>OddFlow fleet</h1><p role="alert">${complaint}</p><form method="post" action="/"><label>Token (in page.token of the server's folder) <input type="password" name="token" autofocus required autocomplete="current-password"></label> <button>Sign in</button></form>`,
  )

async function pageHtml({ view, stored }: FleetState): Promise<string> {
  const now = Date.now()
  const gateways = view.gateways(now)
  const count = (state: GatewayView['state']): number =>
    gateways.filter((gateway) => gateway.state === state).length
  const { events, bytes } = await stored()
  const body = [
    `<h1>OddFlow fleet</h1><p>${plural(gateways.length, 'gateway')}: ${count('well')} well, ${count('ill')} ill, ${count('silent')} silent, ${count('never reported')} never reported. ${plural(events, 'event')} stored, ${(bytes / 1e6).toFixed(1)} MB.</p>`,
    `<h2>The same kind on many gateways</h2>${kindsHtml(view, gateways.length, now)}`,
    `<h2>Gateways</h2>${gatewaysHtml(gateways, now)}`,
    `<h2>Latest incidents</h2>${incidentsHtml(view, now)}`,
  ]
  return documentHtml(body.join('\n'), `<meta http-equiv="refresh" content="${RELOAD_SECONDS}">`)
}

function kindsHtml(view: FleetView, total: number, now: number): string {
  const rows = view
    .kinds(now)
    .filter(({ gateways }) => gateways.length > 1)
    .map(({ kind, gateways }) => {
      const more = gateways.length > SHOWN_NAMES ? ` and ${gateways.length - SHOWN_NAMES} more` : ''
      return [kind, `${gateways.length} of ${total}`, `${gateways.slice(0, SHOWN_NAMES).join(', ')}${more}`]
    })
  const minutes = WINDOW_MILLIS / 60_000
  if (rows.length === 0)
    return `<p>In the last ${minutes} minutes no two gateways had the same kind of incident.</p>`
  return `<p>Incidents opened in the last ${minutes} minutes.</p>${tableHtml(['Kind', 'Gateways', 'Which'], rows)}`
}

function gatewaysHtml(gateways: readonly GatewayView[], now: number): string {
  if (gateways.length === 0) return '<p>None yet: see oddflow-fleet enroll.</p>'
  const rows = gateways.slice(0, SHOWN_GATEWAYS).map(({ name, state, status, receivedMillis }) => {
    const open = Object.entries(status?.openIncidents ?? {}).filter(([, n]) => n > 0)
    const devices = Object.values(status?.deviceCounts ?? {}).reduce((sum, n) => sum + n, 0)
    const { waiting = 0, lost = 0 } = status?.counters ?? {}
    const notes = [
      ...(status?.reasons ?? []),
      ...(waiting > 0 ? [`${waiting} events wait`] : []),
      ...(lost > 0 ? [`${lost} events lost`] : []),
    ]
    return [
      name,
      { state },
      receivedMillis === null ? '' : ageText(now - receivedMillis),
      status?.version ?? '',
      status === null ? '' : (status.model ?? 'of each device'),
      open.map(([level, n]) => `${n} ${level}`).join(', '),
      status?.deviceCounts === null ? '' : String(devices),
      notes.join('; '),
    ]
  })
  const hidden = gateways.length - rows.length
  const more =
    hidden > 0 ? `<p>${plural(hidden, 'more gateway')}: oddflow-fleet gateways lists all of them.</p>` : ''
  const heads = ['Gateway', 'State', 'Reported', 'Version', 'Model', 'Open incidents', 'Devices', 'Notes']
  return tableHtml(heads, rows) + more
}

function incidentsHtml(view: FleetView, now: number): string {
  if (view.incidents.length === 0) return '<p>None.</p>'
  const rows = view.incidents.map(({ atMillis, gateway, kind, level, summary }) => [
    ageText(now - atMillis),
    gateway,
    level,
    kind,
    summary,
  ])
  return tableHtml(['When', 'Gateway', 'Level', 'Kind', 'Summary'], rows)
}

type Cell = string | { readonly state: string }

function tableHtml(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell): string =>
    typeof value === 'string'
      ? `<td>${escaped(value)}</td>`
      : `<td class="${escaped(value.state)}">${escaped(value.state)}</td>`
  return `<table><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join('')}</tr></thead><tbody>${rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n')}</tbody></table>`
}

function ageText(millis: number): string {
  const seconds = Math.max(0, Math.round(millis / 1000))
  if (seconds < 120) return `${seconds} s ago`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`
}

/** No label is a name of a gateway, which would make as many series as there are gateways. */
function createMetrics({ view, stored, isConnected }: FleetState): Registry {
  const registry = new Registry()
  const gauge = (
    name: string,
    help: string,
    labelNames: string[],
    of: () => Promise<readonly (readonly [Record<string, string>, number])[]>,
  ): void => {
    new Gauge({
      name: `oddflow_fleet_${name}`,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        this.reset()
        if (labelNames.length === 0) this.remove()
        for (const [labels, value] of await of()) this.set(labels, value)
      },
    })
  }
  gauge('gateways', 'Gateways by state.', ['state'], async () => {
    const counts: Record<string, number> = { well: 0, ill: 0, silent: 0, 'never reported': 0 }
    for (const { state } of view.gateways(Date.now())) counts[state]!++
    return Object.entries(counts).map(([state, n]) => [{ state: state.replaceAll(' ', '_') }, n])
  })
  gauge('kind_gateways', 'Gateways with an incident of the kind in the last hour.', ['kind'], async () =>
    view.kinds(Date.now()).map(({ kind, gateways }) => [{ kind }, gateways.length]),
  )
  gauge('incidents_opened', 'Incidents opened since an hour before the start.', ['level'], async () =>
    [...view.opened].map(([level, n]) => [{ level }, n]),
  )
  gauge('versions', 'Gateways by version of the agent.', ['version'], async () => {
    const counts = new Map<string, number>()
    for (const { status } of view.gateways(Date.now())) {
      if (status !== null) counts.set(status.version, (counts.get(status.version) ?? 0) + 1)
    }
    return [...counts].map(([version, n]) => [{ version }, n])
  })
  // while the server is away, these have no sample
  const ofStored = async (field: 'events' | 'bytes'): Promise<[Record<string, string>, number][]> => {
    const found = await stored().catch(() => null)
    return found === null ? [] : [[{}, found[field]]]
  }
  gauge('stored_events', 'Events that the server holds.', [], () => ofStored('events'))
  gauge('stored_bytes', 'Bytes of these on the disk.', [], () => ofStored('bytes'))
  gauge('up', 'Whether the server is connected.', [], async () => [[{}, isConnected() ? 1 : 0]])
  return registry
}
