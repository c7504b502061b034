/** One command for a fleet on one machine: nats-server with the configuration of a folder, its streams, and the page. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { OddFlowError, plural } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import { type Archive, openArchive, rest, WAIT_SCALE, wordsOf } from './archive.js'
import { loginOf, prepareFolder, usersChanged, writeGatewaysUrl, writeUsers } from './folder.js'
import { EVENTS, prepareGateways } from './gateways.js'
import { prepareModels } from './models.js'
import { startPage } from './page.js'
import { followFleet } from './view.js'

export interface ServeOptions {
  readonly folder: string
  /** Where gateways connect: HOST:PORT. */
  readonly listen: string
  /** Where the page is: HOST:PORT. */
  readonly page: string
  /** Further names of this machine, separated by commas. */
  readonly host?: string
  /** Servers that run already, with the folder's configuration. */
  readonly server?: string
}

const LOOK_MILLIS = 1000
const STORED_MILLIS = 2000

/**
 * Serves until `stop` is aborted; gateways that are enrolled or removed take effect within a second. Throws OddFlowError if
 * nats-server ends by itself.
 */
export async function serve(
  options: ServeOptions,
  stop: AbortSignal,
  tell: (line: string) => void,
): Promise<void> {
  const { folder } = options
  const listen = endpointOf('--listen', options.listen)
  const pageAt = endpointOf('--page', options.page)
  const names = options.host?.split(',') ?? []
  let users = prepareFolder(folder, names, tell)
  const ended = new AbortController()
  const until = AbortSignal.any([stop, ended.signal])
  const watchUsers = async (): Promise<void> => {
    while (!until.aborted) {
      await rest(LOOK_MILLIS * WAIT_SCALE, until)
      if (until.aborted || usersChanged(folder) === users.changed) continue
      users = writeUsers(folder, tell)
      child?.kill('SIGHUP')
      const count = plural(users.gateways.length, 'gateway')
      tell(child === null ? `${count} in users.conf: reload the servers` : `${count} can log in`)
    }
  }
  const child = options.server === undefined ? startServer(folder, listen, ended) : null
  const watching = watchUsers().catch((error: unknown) => ended.abort(wordsOf(error)))
  let archive: Archive | null = null
  let page: Awaited<ReturnType<typeof startPage>> | null = null
  try {
    const isWild = listen.host === '0.0.0.0' || listen.host === '::'
    const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host
    const server = options.server ?? `tls://${isWild ? '127.0.0.1' : host}:${listen.port}`
    const gatewaysUrl =
      options.server === undefined
        ? `tls://${isWild ? (names[0] ?? hostname()) : host}:${listen.port}`
        : firstServer(options.server)
    writeGatewaysUrl(folder, gatewaysUrl)
    archive = await connected(folder, server, until, tell)
    if (archive !== null) {
      const { connection, manager } = archive
      const view = followFleet(archive, () => users.gateways, until, tell)
      const stored = cached(async () => {
        const { state } = await manager.streams.info(EVENTS)
        return { events: state.messages, bytes: state.bytes }
      })
      let isConnected = true
      void (async () => {
        for await (const { type } of connection.status()) {
          if (type === 'disconnect') isConnected = false
          if (type === 'reconnect') isConnected = true
        }
      })()
      const token = readFileSync(join(folder, 'page.token'), 'utf8').trim()
      page = await startPage(pageAt, token, { view, stored, isConnected: () => isConnected })
      if (child !== null) tell(`gateways connect to ${gatewaysUrl}`)
      tell(
        `page at http://${page.address}/, metrics at /metrics; the token is in ${join(folder, 'page.token')}`,
      )
      await watching
    }
    if (!stop.aborted) throw new OddFlowError('fleet.server', String(ended.signal.reason))
  } finally {
    await page?.close()
    await archive?.close()
    if (child !== null && child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      child.kill('SIGTERM')
      await new Promise<void>((resolve) => child.once('close', () => resolve()))
    }
  }
}

function endpointOf(option: string, text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, host = bracketed, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? []
  if (host === undefined || Number(port) > 65_535)
    throw new UsageError(`${option}: ${text}: expected HOST:PORT`)
  return { host, port: Number(port) }
}

/** The first of several servers, without a login. Others than this machine reach it by its name. */
function firstServer(servers: string): string {
  const [first = ''] = servers.split(',')
  const host = first
    .trim()
    .replace(/^(tls|nats):\/\//, '')
    .replace(/^.*@/, '')
  return `tls://${host.replace(/^(localhost|127\.[\d.]+|\[::1\])(?=:|$)/, hostname())}`
}

/** The server ends with this process, also when it is killed. Ctrl-C reaches only this process, which then ends the server. */
function startServer(
  folder: string,
  { host, port }: { host: string; port: number },
  ended: AbortController,
): ChildProcess {
  const options = ['--config', 'server.conf', '--addr', host, '--port', String(port)]
  const child = spawn('setpriv', ['--pdeathsig', 'TERM', 'nats-server', ...options], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin` },
  })
  child.once('error', ({ message }) =>
    ended.abort(`nats-server cannot be started: ${message} (it needs Linux with util-linux)`),
  )
  child.once('exit', (code, signal) =>
    ended.abort(
      code === 127
        ? 'nats-server not found; install it (2.9 or later)'
        : `nats-server ended: code ${code ?? signal}`,
    ),
  )
  return child
}

/** null: stopped. A server that runs already may be away for now. */
async function connected(
  folder: string,
  server: string,
  until: AbortSignal,
  tell: (line: string) => void,
): Promise<Archive | null> {
  const login = { server, ...loginOf(folder) }
  for (let tries = 0; !until.aborted; tries++) {
    let archive: Archive | null = null
    try {
      archive = await openArchive(login)
      await prepareGateways(archive)
      await prepareModels(archive)
      return archive
    } catch (error) {
      await archive?.close()
      if (tries === 10) tell(`${wordsOf(error)}; trying again every second`)
      await rest(LOOK_MILLIS * WAIT_SCALE, until)
    }
  }
  return null
}

/** So that a page or a scrape that is asked for often asks the server seldom. */
function cached<T>(read: () => Promise<T>): () => Promise<T> {
  let last: { readonly atMillis: number; readonly value: Promise<T> } | null = null
  return () => {
    if (last === null || performance.now() - last.atMillis > STORED_MILLIS) {
      last = { atMillis: performance.now(), value: read() }
    }
    return last.value
  }
}
