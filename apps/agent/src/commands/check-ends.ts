/**
 * Where alerts go beside the EVE file, and the address at which the agent listens: what doctor says of them, and what a run
 * and --check-config warn of. Nobody is contacted.
 */
import { createServer } from 'node:net'
import { checkOutputFiles, secretFileOf } from '../outputs/output-files.js'
import type { ListenSettings, OutputSettings, Settings } from '../settings.js'
import { type Finding, messageOf } from './finding.js'

export function outputFinding(output: OutputSettings): Finding {
  const what = 'output'
  try {
    checkOutputFiles(output)
  } catch (error) {
    return { what, state: 'missing', detail: `${output.name}: ${messageOf(error)}` }
  }
  return { what, state: 'ok', detail: `${output.name}: to ${endOf(output)}, which was not tried` }
}

/** Without the user, the password and the query, which may be secrets. */
function endOf(output: OutputSettings): string {
  if (output.kind === 'syslog') return `${output.protocol}://${output.host}:${output.port}`
  const { protocol, host } = new URL(output.url)
  return `${protocol}//${host}`
}

/** Listens for a moment. A running agent has its address, which is no fault. */
export function listenFinding({ host, port }: ListenSettings): Promise<Finding> {
  const what = 'listen'
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE'
      const detail = `${host}:${port}: ${isTaken ? 'is taken, perhaps by an agent that runs' : error.message}`
      resolve({ what, state: isTaken ? 'note' : 'missing', detail })
    })
    server.listen(port, host, () => {
      server.close(() => resolve({ what, state: 'ok', detail: `${host}:${port}` }))
    })
  })
}

const LOOPBACK = /^(localhost|127\.[\d.]+|\[?::1\]?)$/

/** Secrets and pages that others on the network could read. */
export function exposures({ outputs, listen, dashboard }: Settings): string[] {
  const found: string[] = []
  for (const output of outputs) {
    if (output.kind === 'syslog' || secretFileOf(output) === null) continue
    const { protocol, hostname } = new URL(output.url)
    if (!/^(http|mqtt):$/.test(protocol) || LOOPBACK.test(hostname)) continue
    const secret = output.kind === 'mqtt' ? 'password' : 'token'
    found.push(`${output.name}: the ${secret} goes to ${hostname} unencrypted; use ${protocol.slice(0, -1)}s`)
  }
  if (listen !== null && !LOOPBACK.test(listen.host)) {
    const what =
      dashboard === null
        ? 'whoever reaches this address can read /metrics'
        : "the dashboard's token and cookie go over the network unencrypted"
    found.push(
      `listen ${listen.host}:${listen.port}: ${what}; listen on 127.0.0.1, behind a proxy with TLS or an ssh tunnel`,
    )
  }
  return found
}
