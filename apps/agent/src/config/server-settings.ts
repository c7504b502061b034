/** Where the agent listens, and whether it shows a dashboard there. */
import { UsageError } from '@oddflow/program'
import type { DashboardSettings, ListenSettings } from '../settings.js'
import type { Given } from './given.js'

/** null: nowhere. Throws UsageError. */
export function listenFrom({ options, config, located }: Given): ListenSettings | null {
  if (options.listen !== undefined) return parseListen(options.listen, '--listen')
  const text = config.listen
  return text === undefined ? null : located(['listen'], () => parseListen(text, 'listen'))
}

/** null: there is none. Throws UsageError. */
export function dashboardFrom({ options, config, refuse }: Given): DashboardSettings | null {
  const { dashboard } = config
  if (dashboard === undefined) return null
  const missing =
    (options.listen ?? config.listen) === undefined
      ? 'listen, such as 127.0.0.1:9477: there it is served'
      : (options.state ?? config.state) === undefined
        ? 'state: its token is kept there'
        : null
  if (missing !== null) {
    refuse(['dashboard'], `dashboard: give ${missing}`)
  }
  return { hosts: dashboard.hosts ?? [] }
}

/** "127.0.0.1:9477", "[::1]:9477". Throws UsageError. */
export function parseListen(text: string, flag: string): ListenSettings {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) {
    throw new UsageError(`${flag} ${text}: expected HOST:PORT such as 127.0.0.1:9477 or [::1]:9477`)
  }
  return { host: match[1] ?? match[2], port }
}
