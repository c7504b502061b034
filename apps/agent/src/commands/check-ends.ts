/** What doctor says of where alerts go beside the EVE file, and of the address at which the agent listens. Nobody is contacted. */
import { createServer } from 'node:net'
import { checkSecret } from '../outputs/secret-file.js'
import type { ListenSettings, OutputSettings } from '../settings.js'
import { type Finding, messageOf } from './finding.js'

export function outputFinding(output: OutputSettings): Finding {
  const what = 'output'
  try {
    checkSecret(output)
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
