/** The HTTP server with metrics and the dashboard, opened from the settings; each part is loaded by who wants it. */
import { fileError } from '@oddflow/program'
import type { TemporarySuppressions } from '../alerts/temporary-suppressions.js'
import type { AlertFeed } from '../dashboard/alert-feed.js'
import type { Dashboard } from '../dashboard/dashboard.js'
import type { ScoreHistory } from '../dashboard/score-history.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import type { AgentSnapshot } from '../metrics/metrics.js'
import type { AgentServer } from '../metrics/server.js'
import type { Settings } from '../settings.js'
import type { AgentEnvironment } from './environment.js'

/** What the dashboard is told while packets pass. */
export interface DashboardRecords {
  readonly feed: AlertFeed
  readonly history: ScoreHistory
  readonly suppressions: TemporarySuppressions
}

/** null where there is no dashboard. Rejects where what an earlier run has kept cannot be read. */
export async function openDashboardRecords(
  { dashboard, state }: Settings,
  { files, log }: AgentEnvironment,
): Promise<DashboardRecords | null> {
  if (dashboard === null || state === null) return null
  const [{ createAlertFeed }, { createScoreHistory }, suppressions] = await Promise.all([
    import('../dashboard/alert-feed.js'),
    import('../dashboard/score-history.js'),
    import('../alerts/temporary-suppressions.js'),
  ])
  const { createTemporarySuppressions, readTemporaryRules, writeTemporaryRules } = suppressions
  const known = await readTemporaryRules(files, state, log).catch((error: unknown) => {
    throw fileError('read', state, error)
  })
  return {
    feed: createAlertFeed(),
    history: createScoreHistory(),
    suppressions: createTemporarySuppressions(known, (rules) => writeTemporaryRules(files, state, rules)),
  }
}

/** null where nobody listens. */
export async function openServer(
  settings: Settings,
  environment: AgentEnvironment,
  snapshot: () => AgentSnapshot,
  records: DashboardRecords | null,
  devices: DeviceWatch | null,
): Promise<AgentServer | null> {
  const { listen } = settings
  if (listen === null) return null
  const [{ createMetrics }, { startServer }] = await Promise.all([
    import('../metrics/metrics.js'),
    import('../metrics/server.js'),
  ])
  const page = await openDashboard(settings, environment, snapshot, records, devices)
  const isHealthy = (): boolean => {
    const { outputs, spoolWorks } = snapshot()
    return spoolWorks && outputs.every(({ works }) => works)
  }
  const server = await startServer(listen, createMetrics(snapshot), isHealthy, page?.answer)
  environment.log.info(`metrics at http://${server.address}/metrics`)
  if (page !== null) environment.log.info(`dashboard at http://${server.address}/${page.invitation}`)
  return server
}

/** The dashboard, and what is told with its address: of a new token the token, once, else where it is kept. */
async function openDashboard(
  { dashboard, state }: Settings,
  { files, clock, log }: AgentEnvironment,
  snapshot: () => AgentSnapshot,
  records: DashboardRecords | null,
  devices: DeviceWatch | null,
): Promise<{ answer: Dashboard; invitation: string } | null> {
  if (dashboard === null || state === null || records === null) return null
  const [{ openToken }, { createDashboard }] = await Promise.all([
    import('../dashboard/token.js'),
    import('../dashboard/dashboard.js'),
  ])
  const { token, file, isNew } = await openToken(files, state, log).catch((error: unknown) => {
    throw fileError('write', state, error)
  })
  return {
    answer: createDashboard({ token, hosts: dashboard.hosts, clock, snapshot, devices, ...records }),
    invitation: isNew ? `#token=${token} (told this once; it is kept in ${file})` : ` (token in ${file})`,
  }
}
