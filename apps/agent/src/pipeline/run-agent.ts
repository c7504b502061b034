/**
 * One run of the agent: opens everything, moves packets through, and closes everything in the order in which nothing gets lost:
 * input, flows, alerts that wait for similar ones, log, outputs. An input that can wait does so while alerts in memory wait for a
 * disk or an output that works (watcher.ts).
 */
import type { Settings } from '../config/settings.js'
import type { ControlSocket } from '../devices/control-socket.js'
import { withPeerNames } from '../devices/peer-names.js'
import type { VendorSeeker } from '../devices/vendors.js'
import { createStateFaults } from '../files/state-file.js'
import { readFleetModels } from '../fleet/fleet-model-store.js'
import { openFleetModels } from '../fleet/fleet-models.js'
import type { Incident } from '../incidents/incident.js'
import { CaptureClock, type Clock } from '../input/clocks.js'
import { openInput, readFrames } from '../input/read-frames.js'
import type { AgentStatus } from '../outputs/output.js'
import { createProgress } from '../service/service.js'
import { VERSION } from '../version.js'
import type { AgentSnapshot } from '../web/metrics.js'
import type { AgentServer } from '../web/server.js'
import { createLossHistory } from './conditions.js'
import { type AgentCounters, agentCounters } from './counters.js'
import type { AgentEnvironment, Component, OpeningEnvironment, RunContext } from './environment.js'
import { openAlerting, openAnswers } from './open-alerting.js'
import { controlAnswers, openVendors, readDevices } from './open-devices.js'
import { createReload, type GivenModels, openModels, openThresholds, readModels } from './open-models.js'
import { agentStatus, deviceStatuses, openEve, openLog, openState, startDeliveries } from './open-outputs.js'
import { openServer } from './open-server.js'
import { bringOut, closeAll, createStopTime, endFlows } from './shutdown.js'
import { createUpkeep } from './upkeep.js'
import { isWorthWaiting } from './watcher.js'
import { createIntake, createWatching } from './watching.js'

export interface AgentResult {
  /** A recording that was read to its end, and no packet in it. */
  readonly nothingRead: boolean
  readonly counters: AgentCounters
  /** Alerts that were accepted and that the state folder could not take in: they are lost. */
  readonly lost: number
  /** Alerts that were accepted and not delivered; with a state folder they wait there. */
  readonly undelivered: readonly { readonly target: string; readonly alerts: number }[]
}

const TICK_MILLIS = 1000
/** Verdicts that time alone makes due are given within this time and the slack of the capture's clock. */
export const EXPIRE_MILLIS = 100
const LONG_MILLIS = 2 ** 31 - 1
/** Rejects with an error of ours when the model, the state, the input or an output cannot be opened. */
export async function runAgent(settings: Settings, environment: AgentEnvironment): Promise<AgentResult> {
  const given = readModels(settings)
  const control = await openState(settings, environment)
  const faults = createStateFaults(environment.log, environment.clock.wallMicros)
  try {
    return await runWith(settings, { ...environment, faults }, given, control)
  } finally {
    await control?.close()
  }
}

/** `control`: holds the state folder for this run; null where there is none. */
async function runWith(
  settings: Settings,
  environment: OpeningEnvironment,
  given: GivenModels,
  control: ControlSocket | null,
): Promise<AgentResult> {
  const stoppedMillis = createStopTime(environment)
  const run = await openRun(settings, environment, given, control)
  const { input, watching, upkeep, path, alertLog, deliveries, room } = run
  const { watcher, overload } = watching
  const { clock, log, stop, service = null } = environment
  const progress = createProgress(clock.monotonicMillis)
  const { stopTicking, stopExpiring } = startTimers(run, clock)
  const stopFeeding = service?.feed(progress.isStuck)
  service?.ready()
  const reload = createReload({ settings, given, environment, path, replaceGiven: run.replaceGiven })
  environment.onReopen(() => {
    run.eve.reopen()
    service?.reloading()
    void reload().then(() => service?.ready())
  })
  stop.addEventListener('abort', () => service?.stopping(), { once: true })
  try {
    await readFrames(input, environment, (frames) =>
      progress.during(() => {
        upkeep.lookAtClock()
        if (frames.count > 0) upkeep.packetsCame()
        return run.take(frames)
      }),
    )
    for (const line of input.warnings()) log.warn(line)
    upkeep.warnOfPackets()
    run.alerting.devices?.inputEnded()
    if (!settings.once && !stop.aborted) {
      log.info('the input has ended; waiting for a signal to stop')
      path.flush()
      upkeep.inputEnded()
      while (!stop.aborted) await clock.sleep(LONG_MILLIS, stop)
    }
    // the end of all flows comes before the next time that some are due, and there is none after it
    stopExpiring()
    await endFlows(watcher, room, environment, stoppedMillis)
    path.flush()
    overload.end()
    await bringOut(alertLog, deliveries, environment, stoppedMillis)
  } finally {
    stopTicking()
    stopExpiring()
    stopFeeding?.()
    await closeAll(
      log,
      run.components.map((component) => async () => component.close?.()),
    )
  }
  return {
    nothingRead: watcher.counts.frames === 0 && settings.input.kind === 'recorded' && !stop.aborted,
    counters: run.counters(),
    lost: alertLog.lost,
    undelivered: deliveries
      .map(({ target, backlog }) => ({ target, alerts: backlog }))
      .filter(({ alerts }) => alerts > 0),
  }
}

/** What time alone makes due: each component once a second, and verdicts. */
function startTimers({ components, captureClock, upkeep, watching }: Parts, clock: Clock) {
  const stopTicking = clock.every(TICK_MILLIS, () => {
    for (const component of components) component.tick?.()
    const now = captureClock.nowMicros()
    if (now !== null) for (const component of components) component.advance?.(now)
  })
  const stopExpiring = clock.every(EXPIRE_MILLIS, () => {
    upkeep.lookAtClock()
    const now = captureClock.nowMicros()
    if (now !== null) watching.watcher.expire(now)
  })
  return { stopTicking, stopExpiring }
}

type Parts = Awaited<ReturnType<typeof openParts>>

/** All that packets and alerts pass through, up to the deliveries. */
async function openParts(
  settings: Settings,
  environment: OpeningEnvironment,
  given: GivenModels,
  control: ControlSocket | null,
) {
  const { clock } = environment
  const keptFleet = await readFleetModels(settings, environment, given)
  const first = { ...given, base: keptFleet?.kept.inUse ?? given.base }
  const thresholds = await openThresholds(settings, environment, first.base)
  const earlier = await readDevices(settings, environment)
  const { answers, rows } = await openAnswers(settings, environment, () => incidents?.all() ?? [])
  const opened = await openModels(settings, environment, first, thresholds, earlier, answers)
  const { explain, room: models, known, forAnnouncements } = opened
  const decider = answers.judging(opened.decider, models)
  const input = openInput(settings, environment)
  const alertLog = await openLog(settings, environment, given.memory.queueBytes)
  const eve = await openEve(environment, settings.eve)
  const losses = createLossHistory()
  const lostPackets = (): number => input.kernelDrops() + watcher.counts.shed
  const common: RunContext = { settings, environment, input, models, decider, explain, losses, lostPackets }
  const { dimension } = given.contract
  const alerting = await openAlerting({
    ...common,
    known,
    forAnnouncements,
    answers,
    rows,
    alertLog,
    dimension,
  })
  const { path, devices, incidents } = alerting
  const fleet = openFleetModels(settings, environment, given, keptFleet, {
    decider,
    replaceGiven: opened.replaceGiven,
    tell: (summary) => path.tell({ rule: 'fleet-model', atMicros: clock.wallMicros(), summary }),
  })
  const replaceGiven = (next: GivenModels): void => {
    if (next.base !== null) fleet?.configure(next.base)
    opened.replaceGiven({ ...next, base: fleet?.inUse ?? next.base })
  }
  const components: Component[] = []
  const watching = createWatching({ ...common, memory: given.memory, alerting, fleet, components })
  const { watcher } = watching
  const captureClock = new CaptureClock(clock, input.liveness)
  const onClockSet = (byMicros: number): void => answers.clockSet(byMicros)
  const upkeep = createUpkeep({ ...common, ...watching, alerting, captureClock, control, onClockSet })
  const statuses = () =>
    deviceStatuses(
      devices?.table.all() ?? [],
      incidents?.all() ?? [],
      clock.wallMicros(),
      new Set(answers.list().map(({ incident }) => incident)),
    )
  /** Filled when there is a snapshot. */
  const status: { of: (output: string) => Promise<AgentStatus | null> } = { of: async () => null }
  const deliveries = await startDeliveries(
    settings,
    environment,
    alertLog,
    eve,
    incidents === null ? null : answers.remote,
    statuses,
    (output) => status.of(output),
    fleet,
  )
  const room = async (): Promise<void> => {
    if (!input.waits) return
    const enoughBytes = given.memory.queueBytes / 4
    while (isWorthWaiting(alertLog, deliveries, enoughBytes) && !environment.stop.aborted)
      await clock.sleep(2)
  }
  const take = createIntake({ ...common, ...watching, alerting, captureClock, thresholds, known, room })
  return {
    environment,
    given,
    control,
    thresholds,
    answers,
    models,
    decider,
    input,
    alertLog,
    eve,
    alerting,
    path,
    fleet,
    replaceGiven,
    components,
    watching,
    captureClock,
    upkeep,
    statuses,
    status,
    deliveries,
    room,
    take,
    forAnnouncements,
  }
}

/** What a run has counted, and its state for the health check, metrics, dashboard and outputs. */
function reportsOf(parts: Parts) {
  const { input, watching, alerting, models, thresholds, upkeep, alertLog, deliveries, components } = parts
  const { watcher, overload } = watching
  const counters = (): AgentCounters =>
    agentCounters({
      watcher,
      droppedKernel: input.kernelDrops(),
      interruptions: input.interruptions(),
      overloads: overload.times,
      alerts: alerting.path.totals(),
      devices: alerting.devices?.report() ?? null,
      models: models?.report() ?? null,
      budget: thresholds.report(),
      incidents: alerting.report(),
      evidence: alerting.evidence?.evidence.report() ?? null,
      selfTests: upkeep.selfTests,
      log: alertLog,
      deliveries,
    })
  const snapshot = (): AgentSnapshot => ({
    counters: counters(),
    openFlows: watcher.openFlows,
    maximumFlows: watcher.maximumFlows,
    residentBytes: process.memoryUsage.rss(),
    memoryLimitBytes: parts.given.memory.limitBytes,
    lagSeconds: parts.captureClock.lagSeconds(),
    outputs: deliveries.map(({ name, lastError }) => ({ name, works: lastError === null })),
    spoolWorks: alertLog.lastError === null && deliveries.every(({ commitError }) => commitError === null),
    overloaded: overload.isOverloaded,
    degraded: [...upkeep.reasons(), ...components.flatMap((component) => component.trouble?.() ?? [])],
    warnings: components.flatMap((component) => component.warnings?.() ?? []),
    model: parts.forAnnouncements.model,
    version: VERSION,
  })
  return { counters, snapshot }
}

/** In the order of their end. */
function componentsOf(parts: Parts, server: AgentServer | null, vendors: VendorSeeker | null): Component[] {
  const { environment, control, thresholds, answers, models, alertLog, alerting, fleet, upkeep } = parts
  const { path, devices, evidence, rate, keeper, peerNames, records } = alerting
  const { steady, overload } = parts.watching
  const all = [
    upkeep,
    { close: () => control?.serve(null) },
    server,
    path,
    { advance: (nowMicros) => thresholds.advance(steady(nowMicros)), close: () => thresholds.close() },
    evidence && { close: () => evidence.evidence.close() },
    { ...rate, advance: (nowMicros) => rate.advance(steady(nowMicros)) },
    models && {
      tick: () => models.tick((key) => devices?.table.get(key) !== undefined),
      advance: (nowMicros) => models.advance(nowMicros),
      clockSet: (byMicros) => models.clockSet(byMicros),
    },
    devices && {
      tick: () => devices.tick(),
      advance: (nowMicros) => devices.advance(nowMicros),
      clockSet: (byMicros) => devices.clockSet(byMicros),
      warnings: () => devices.warnings(),
      trouble: () => devices.saveError(),
      close: () => devices.save(),
    },
    fleet && { tick: () => fleet.tick(), warnings: () => fleet.warnings(), close: () => fleet.idle() },
    { tick: () => vendors?.tick(devices?.table.all() ?? []) },
    { tick: () => upkeep.lookForUnjudged() },
    keeper,
    peerNames && {
      tick: () => peerNames.tick(),
      advance: (nowMicros) => peerNames.advance(nowMicros),
      clockSet: (byMicros) => peerNames.clockSet(byMicros),
      close: () => peerNames.save(),
    },
    { tick: () => answers.tick(), close: () => answers.idle() },
    models && { warnings: () => models.warnings(), close: () => models.save() },
    records && {
      tick: () => records.recent.tick(),
      clockSet: (byMicros) => records.history.clockSet(byMicros),
      close: () => records.recent.save(),
    },
    { tick: () => overload.tick() },
    { close: () => alertLog.close() },
    // at once: outputs that hang must not add up their waits
    {
      close: () =>
        Promise.all(parts.deliveries.map((each) => closeAll(environment.log, [() => each.stop()]))),
    },
  ] satisfies (Component | null)[]
  return all.filter((each) => each !== null)
}

async function openRun(
  settings: Settings,
  environment: OpeningEnvironment,
  given: GivenModels,
  control: ControlSocket | null,
) {
  const parts = await openParts(settings, environment, given, control)
  const { alerting, answers, models, statuses, alertLog, deliveries, upkeep, components } = parts
  const { devices, peerNames, records, path } = alerting
  const { counters, snapshot } = reportsOf(parts)
  parts.status.of = (output) => agentStatus(snapshot(), statuses(), environment.clock.wallMicros(), output)
  const namedIncidents = (): readonly Incident[] =>
    (alerting.incidents?.all() ?? []).map((each) =>
      peerNames === null ? each : withPeerNames(each, (device, addresses) => peerNames.of(device, addresses)),
    )
  const incidents = alerting.incidents === null ? null : { list: namedIncidents, answers }
  const { modelOf } = parts.decider
  const shown = { snapshot, records, devices, models, incidents, modelOf }
  const { server, link } = await openServer(settings, environment, shown).catch(async (error: unknown) => {
    for (const each of deliveries) await each.stop()
    await alertLog.close()
    throw error
  })
  control?.serve(controlAnswers(devices, models, link, alerting.incidents === null ? null : answers))
  environment.faults.tellBy(path.tell)
  // a short recording ends before the first tick
  upkeep.lookForUnjudged()
  components.push(...componentsOf(parts, server, await openVendors(settings, environment)))
  return { ...parts, counters }
}
