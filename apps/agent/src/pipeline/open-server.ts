/** The HTTP server with metrics and the dashboard, opened from the settings; each part is loaded by who wants it. */

import { createTemporarySuppressions, readTemporaryRules, writeTemporaryRules } from '../alerts/suppress.js'
import type { Settings } from '../config/settings.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import type { ModelManager } from '../models/model-manager.js'
import { modelRoutes } from '../models/model-scopes.js'
import { createNoticedOf } from '../models/noticed.js'
import { noticeInChild } from '../training/train-in-child.js'
import type { Dashboard, DashboardIncidents } from '../web/dashboard.js'
import type { AgentSnapshot } from '../web/metrics.js'
import type { Decider } from './counters.js'
import type { OpeningEnvironment } from './environment.js'

type DashboardRecords = Awaited<ReturnType<typeof openDashboardRecords>>

/** null where there is no dashboard. Rejects where what an earlier run has kept cannot be read. */
export async function openDashboardRecords(
  { dashboard, state }: Settings,
  { files, log, faults }: OpeningEnvironment,
) {
  if (dashboard === null || state === null) return null
  const { createAlertFeed, createRecentAlerts, createScoreHistory, readRecentAlerts } = await import(
    '../web/alerts.js'
  )
  const known = await readTemporaryRules(files, state, faults)
  const feed = createAlertFeed(await readRecentAlerts(files, state, faults))
  return {
    feed,
    /** Keeps the feed over a restart. */
    recent: createRecentAlerts(files, state, feed, log),
    history: createScoreHistory(),
    suppressions: createTemporarySuppressions(known, (rules) => writeTemporaryRules(files, state, rules)),
  }
}

/** Where no models are made. */
const NOTICE_SECONDS = 60

/** What the server shows. */
interface Shown {
  readonly snapshot: () => AgentSnapshot
  readonly records: DashboardRecords
  readonly devices: DeviceWatch | null
  readonly models: ModelManager | null
  readonly incidents: DashboardIncidents | null
  readonly modelOf: Decider['modelOf']
}

/** `link` makes a link that signs in to the dashboard once; null where there is no such part. */
export async function openServer(settings: Settings, environment: OpeningEnvironment, shown: Shown) {
  const { listen } = settings
  const { snapshot } = shown
  if (listen === null) return { server: null, link: null }
  const [{ healthOf, startServer }, { createMetrics }] = await Promise.all([
    import('../web/server.js'),
    import('../web/metrics.js'),
  ])
  const page = await openDashboard(settings, environment, shown)
  const names = settings.dashboard?.hosts ?? []
  const server = await startServer(
    listen,
    createMetrics(snapshot),
    () => healthOf(snapshot()),
    names,
    page?.answer,
  )
  environment.log.info(`metrics at http://${server.address}/metrics`)
  if (page === null) return { server, link: null }
  const link = `http://${server.address.replace(/^(0\.0\.0\.0|\[::\])/, 'localhost')}/`
  environment.log.info(`dashboard at ${link}; "oddflow-agent dashboard-link" prints the link that signs in`)
  return { server, link: () => `${link}#token=${page.makeCode()}` }
}

/** The dashboard, and what makes codes for links to it. */
async function openDashboard(
  { dashboard, state, models: modelSettings }: Settings,
  { files, clock, stop, faults }: OpeningEnvironment,
  { records, models: manager, modelOf, ...shown }: Shown,
): Promise<{ answer: Dashboard; makeCode: () => string } | null> {
  if (dashboard === null || state === null || records === null) return null
  const [{ createSessions, openToken, writeToken }, { createDashboard }] = await Promise.all([
    import('../web/sessions.js'),
    import('../web/dashboard.js'),
  ])
  const { token, ended } = await openToken(files, state, faults)
  const models =
    manager === null ? null : { scopeReport: manager.scopeReport, change: modelRoutes(manager)['/models'] }
  const sessions = createSessions(token, clock, ended, (all) =>
    writeToken(files, state, { token, ended: all }),
  )
  const answer = createDashboard({
    sessions,
    hosts: dashboard.hosts,
    clock,
    ...shown,
    models,
    noticed: createNoticedOf(modelOf, (job) =>
      noticeInChild(job, modelSettings?.trainWithinSeconds ?? NOTICE_SECONDS, stop),
    ),
    ...records,
  })
  return { answer, makeCode: sessions.makeCode }
}
