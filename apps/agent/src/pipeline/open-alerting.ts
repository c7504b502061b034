/** What becomes of verdicts, opened from the settings: devices, incidents, alerts and their packets. */

import { createAlertPipeline } from '../alerts/alert-pipeline.js'
import { createSuppression } from '../alerts/suppress.js'
import { createIncidentRate, overBudgetText } from '../budget/alert-budget.js'
import type { Settings } from '../config/settings.js'
import type { KnownDevices } from '../devices/device-table.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import { openKeptPackets } from '../evidence/evidence.js'
import { AnswerBook, readAnswers } from '../incidents/answers.js'
import { createIncidentKeeper, INCIDENTS, type Incident, type IncidentChange } from '../incidents/incident.js'
import { createIncidentRows, INCIDENT_ROWS, type IncidentRows } from '../incidents/incident-rows.js'
import { IncidentBook } from '../incidents/incidents.js'
import type { AlertLog } from '../spool/alert-log.js'
import { acceptInChild } from '../training/train-in-child.js'
import { type IncidentsReport, incidentsReport } from './counters.js'
import type { OpeningEnvironment, RunContext } from './environment.js'
import { openDevices, openPeerNames } from './open-devices.js'
import type { OpenedModels } from './open-models.js'
import { openDashboardRecords } from './open-server.js'

interface AlertingOptions extends RunContext {
  readonly forAnnouncements: OpenedModels['forAnnouncements']
  /** Devices of an earlier run. */
  readonly known: KnownDevices
  readonly answers: AnswerBook
  readonly rows: IncidentRows
  readonly alertLog: AlertLog
  /** D, the numbers of a row. */
  readonly dimension: number
}

export type Alerting = Awaited<ReturnType<typeof openAlerting>>

/** Each part is null where the settings do not ask for it. */
export async function openAlerting(options: AlertingOptions) {
  const { settings, environment, answers, models, explain } = options
  const { clock } = environment
  const { budget } = settings
  const evidence = await openKeptPackets(settings, environment)
  const records = await openDashboardRecords(settings, environment)
  const peerNames = await openPeerNames(settings, environment, (key) => devices?.table.get(key)?.state)
  // models that are made here are made for one false alert a day and device
  const rate = createIncidentRate(
    budget ?? (settings.models === null ? null : { falseAlertsPerDay: 1, per: 'device' }),
  )
  const isAttack = (incident: string): boolean =>
    answers.list().some((each) => each.incident === incident && each.answer === 'attack')
  const { incidents, keeper } = await openIncidents(options, (incident, change) => {
    if (change === 'opened') rate.opened(incident.id)
    path.report(incident, change)
  })
  let devices: DeviceWatch | null = null
  const path = createAlertPipeline({
    context: {
      localNetworks: settings.localNetworks,
      labelsOf(key) {
        const { name = null, group = null } = devices?.table.get(key) ?? {}
        return { ...(name === null ? {} : { name: name.name }), ...(group === null ? {} : { group }) }
      },
      ...(peerNames === null
        ? {}
        : { peerNamesOf: (device: string, addresses: readonly string[]) => peerNames.of(device, addresses) }),
    },
    suppression: createSuppression(settings.suppress),
    alsoSuppresses: (alert) => (records?.suppressions.take(alert, clock.wallMicros()) ?? null) !== null,
    keepEvidence: (alert) => evidence?.evidence.take(alert) ?? null,
    onGiven: (line) => records?.feed.add(line),
    incidents,
    answers,
    fold: settings.fold,
    log: options.alertLog,
    interfaceName: options.input.interfaceName,
    dimension: options.dimension,
    explain,
    rarity: options.decider.rarity,
    model: options.forAnnouncements,
    lostPackets: options.lostPackets,
    losses: options.losses,
  })
  devices = await openDevices(settings, environment, path, options.known, models, answers, incidents)
  return {
    path,
    devices,
    incidents,
    evidence,
    records,
    peerNames,
    report: (): IncidentsReport | null =>
      incidents === null ? null : incidentsReport(incidents.all(), answers.counts(), rate.report(isAttack)),
    /** Counts incidents against the budget, up to a time of a clock that was never set. */
    rate: {
      advance: (steadyMicros: number) => rate.advance(steadyMicros, devices?.report().byState.watching ?? 0),
      warnings: () => [overBudgetText(rate.report(isAttack)) ?? []].flat(),
    },
    keeper: {
      tick: () => keeper?.tick(),
      trouble: () => (keeper?.isTroubled === true ? 'incidents cannot be kept in the state folder' : null),
      close: () => keeper?.save(),
    },
  }
}

const LOST_INCIDENTS = 'earlier incidents are lost'

/** What gathers alerts into incidents, and what saves them; null where devices or a state folder are not kept. */
async function openIncidents(
  { settings, environment, answers, rows, models, explain }: AlertingOptions,
  onChange: (incident: Incident, change: IncidentChange) => void,
) {
  const { files, log, faults } = environment
  const { devices, state, localNetworks } = settings
  if (devices === null) return { incidents: null, keeper: null }
  const incidents = new IncidentBook({
    known: (state === null ? null : await INCIDENTS.readTwice(files, state, LOST_INCIDENTS, faults)) ?? [],
    explain,
    rows,
    ...(models === null
      ? {}
      : { onAttackFlow: (pair, micros) => models.unlearn(new Set([pair]), micros, micros) }),
    localNetworks,
    mutedBy: (incident) => answers.mutedBy(incident),
    onChange,
  })
  return {
    incidents,
    keeper: state === null ? null : createIncidentKeeper(incidents, rows, files, state, log),
  }
}

/** Where no models are made. */
const WITHIN_SECONDS = 60

/** Rejects where what an earlier run has kept cannot be read. */
export async function openAnswers(
  { devices, state, localNetworks, models }: Settings,
  { files, clock, log, stop, faults }: OpeningEnvironment,
  incidents: () => readonly Incident[],
): Promise<{ answers: AnswerBook; rows: IncidentRows }> {
  const isKept = devices !== null && state !== null
  const rows = createIncidentRows(
    (isKept ? await INCIDENT_ROWS.read(files, state, faults) : null) ?? new Map(),
  )
  const kept = isKept ? await readAnswers(files, state, faults) : { known: [], models: new Map() }
  const answers = new AnswerBook({
    ...kept,
    folder: isKept ? state : null,
    files,
    localNetworks,
    rows,
    incidents,
    nowMicros: clock.wallMicros,
    accept: (job) => acceptInChild(job, models?.trainWithinSeconds ?? WITHIN_SECONDS, stop),
    log,
  })
  return { answers, rows }
}
