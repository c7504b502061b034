/**
 * One run of the agent: opens everything, moves packets through, and closes everything in the order in which
 * nothing gets lost: input, flows, folds, log, outputs.
 *
 * An input that can wait does so while alerts in memory wait for the disk, or without a state folder for an output, as long
 * as these work (watcher.ts): nothing is refused, and memory holds what ends at once beside a few alerts. While they fail it
 * goes on, and what does not fit is counted.
 */
import { randomInt } from 'node:crypto'
import type { FrameBatch } from '@oddflow/capture'
import { DEFAULT_KERNEL_BUFFER_FRAMES } from '@oddflow/capture/node'
import { createAlertPath } from '../alerts/alert-path.js'
import { createSuppression } from '../alerts/suppress.js'
import { createIncidentRate, overBudgetText } from '../budget/incident-rate.js'
import type { Settings } from '../config/settings.js'
import type { ControlSocket } from '../devices/control-socket.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import { findNames } from '../devices/names.js'
import { withPeerNames } from '../devices/peer-names.js'
import { openKeptPackets } from '../evidence/evidence.js'
import { createStateFaults } from '../files/state-file.js'
import type { Incident } from '../incidents/incident.js'
import { createIncidentBook, type IncidentBook } from '../incidents/incidents.js'
import { createIncidentKeeper, readIncidents } from '../incidents/keep-incidents.js'
import { CaptureClock, createClockWatch, secondsText, stepSince } from '../input/clocks.js'
import { openInput, partsByCount, partsByTime, readFrames } from '../input/read-frames.js'
import type { ModelRoom } from '../models/model-room.js'
import type { AgentStatus } from '../outputs/output.js'
import type { NoticeRule } from '../page/api.js'
import { createProgress } from '../service/service.js'
import { VERSION } from '../version.js'
import type { AgentSnapshot } from '../web/metrics.js'
import { bringOut, endEach, endFlows } from './bring-to-end.js'
import { createCondition, createLossHistory, createPacketWarnings, createSilence } from './conditions.js'
import { type AgentCounters, agentCounters, incidentsReport, type PacketTotals } from './counters.js'
import { agentStatus, deviceStatuses } from './device-status.js'
import type { AgentEnvironment, OpeningEnvironment } from './environment.js'
import { openAnswers } from './open-answers.js'
import { controlAnswers, openDevices, openPeerNames, openVendors, readDevices } from './open-devices.js'
import { type GivenModels, openModels, openThresholds, readModels } from './open-models.js'
import { openEve, openLog, openState, startDeliveries } from './open-outputs.js'
import { openDashboardRecords, openServer } from './open-server.js'
import { createOverload } from './overload.js'
import { createReload } from './reload.js'
import { createSelfTest } from './self-test.js'
import { createWatcher, isWorthWaiting } from './watcher.js'

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
/** Ticks between two rounds of made attacks. */
const SELF_TEST_TICKS = 180
const FIRST_SELF_TEST_TICKS = 10
/** Verdicts that time alone makes due are given within this time and the slack of the capture's clock. */
export const EXPIRE_MILLIS = 100
/** Packets of a recording that are later than this are of another flow, where models are made of it. */
const RECORDED_SLACK_MICROS = 30_000_000
/** Of a recording that teaches models, between two looks for what is due: as short as for live traffic it would take a year. */
const RECORDED_STEP_MICROS = 60_000_000
/** Of an input that waits, between two looks whether it has to: each may raise an alert, of up to four thousand bytes. */
const WAITING_FRAMES = 64
const LONG_MILLIS = 2 ** 31 - 1
/** Packets in which copies and wrong checksums are looked for at a time. */
const CHECKED_PACKETS = 1000

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
  const { clock, log, stop, service = null, faults } = environment
  const { memory, contract } = given
  const suppression = createSuppression(settings.suppress)
  const thresholds = await openThresholds(settings, environment, given.base)
  const earlier = await readDevices(settings, environment)
  const { answers, rows } = await openAnswers(settings, environment, () => incidents?.all() ?? [])
  const {
    decider: modelDecider,
    explain,
    replaceGiven,
    room: models,
    forAnnouncements,
    known,
  } = await openModels(settings, environment, given, thresholds, earlier, answers.attackRows)
  const decider = answers.judging(modelDecider)
  const input = openInput(settings, environment)
  const alertLog = await openLog(settings, environment, memory.queueBytes)
  const eve = await openEve(environment, settings.eve)
  const packets: PacketTotals = { framesRead: 0, droppedKernel: 0 }
  const lostPackets = (): number => input.kernelDrops() + watcher.counts.shed
  const losses = createLossHistory()
  const kept = await openKeptPackets(settings, environment)
  const records = await openDashboardRecords(settings, environment)
  const peerNames = await openPeerNames(settings, environment, (key) => devices?.table.get(key)?.state)
  const labelsOf = (key: string): { name?: string; group?: string } => {
    const { name = null, group = null } = devices?.table.get(key) ?? {}
    return { ...(name === null ? {} : { name: name.name }), ...(group === null ? {} : { group }) }
  }
  // models that are made here are made for one false alert a day and device
  const rate = createIncidentRate(
    settings.budget ?? (settings.models === null ? null : { falseAlertsPerDay: 1, per: 'device' }),
  )
  const isAttack = (incident: string): boolean =>
    answers.list().some((each) => each.incident === incident && each.answer === 'attack')
  const advanceRate = (nowMicros: number): void =>
    rate.advance(nowMicros + steadyMicros, devices?.report().byState.watching ?? 0)
  const incidents: IncidentBook | null =
    settings.devices === null
      ? null
      : createIncidentBook({
          known:
            settings.state === null ? [] : await readIncidents(environment.files, settings.state, faults),
          explain,
          rows,
          mutedBy: answers.mutedBy,
          onChange(incident, change) {
            if (change === 'opened') rate.opened(incident.id)
            path.report(incident, change)
          },
        })
  const incidentKeeper =
    incidents === null || settings.state === null
      ? null
      : createIncidentKeeper(incidents, rows, environment.files, settings.state, log)
  const path = createAlertPath({
    context: {
      localNetworks: settings.localNetworks,
      labelsOf,
      ...(peerNames === null ? {} : { peerNamesOf: peerNames.of }),
    },
    suppression,
    alsoSuppresses: (alert) => (records?.suppressions.take(alert, clock.wallMicros()) ?? null) !== null,
    keepEvidence: (alert) => kept?.evidence.take(alert) ?? null,
    onGiven: (line) => records?.feed.add(line),
    incidents,
    answers,
    fold: settings.fold,
    log: alertLog,
    interfaceName: input.interfaceName,
    dimension: contract.dimension,
    explain,
    rarity: decider.rarity,
    model: forAnnouncements,
    lostPackets,
    losses,
  })
  /** Time of the packets as if their clock had never been set, but for a constant. */
  let steadyMicros = 0
  let devices: DeviceWatch | null = null
  devices = await openDevices(settings, environment, path, known, models, answers)
  let isWatched = true
  const tellOverload = (rule: NoticeRule, summary: string, more: Record<string, number>): void => {
    const { captured, droppedKernel, droppedAgent } = counters()
    const numbers = { captured, droppedKernel, droppedAgent, ...more }
    path.tell({ rule, atMicros: clock.wallMicros(), summary, numbers })
  }
  const condition = createCondition({ clock, log, tell: path.tell })
  const silence = createSilence()
  const selfTest = createSelfTest({
    decider,
    explain,
    localNetworks: settings.localNetworks,
    dropDuplicates: settings.dropDuplicates,
    watched: () =>
      devices === null ? null : [...devices.table.all()].filter(({ state }) => state === 'watching'),
    clock,
    stop,
    onResult: (reason) => condition.set('self-test', reason),
    onBlind(summary) {
      log.warn(summary)
      path.tell({ rule: 'blind-model', atMicros: clock.wallMicros(), summary })
    },
  })
  const hashSeed = randomInt(2 ** 48 - 1)
  const overload = createOverload({
    memoryLimitBytes: memory.processBytes,
    bufferFrames: DEFAULT_KERNEL_BUFFER_FRAMES,
    seed: randomInt(2 ** 31),
    monotonicMillis: clock.monotonicMillis,
    residentBytes: () => process.memoryUsage.rss(),
    shedPackets: () => watcher.counts.shed,
    onEntered(message) {
      log.warn(message)
      tellOverload('overload-entered', message, {})
    },
    onLeft(message, leftOut) {
      log.info(message)
      tellOverload('overload-left', message, { leftOut })
    },
  })
  const watcher = createWatcher({
    overload,
    decider,
    filter: settings.input.kind === 'recorded' ? settings.input.filter : null,
    dropDuplicates: settings.dropDuplicates,
    memoryBytes: memory.flowBytes,
    hashSeed,
    onPackets(frames, of) {
      if (devices !== null) findNames(frames, of, devices.named)
      devices?.packets(frames, of)
      peerNames?.packets(frames, of)
      kept?.ring.add(frames, of)
    },
    onClockStep(byMicros) {
      steadyMicros -= byMicros
      path.clockSet(byMicros)
      devices?.clockSet(byMicros)
      peerNames?.clockSet(byMicros)
      models?.clockSet(byMicros)
      records?.history.clockSet(byMicros)
    },
    onVerdict(record, novel, decision) {
      records?.history.note(record.startMicros + record.durationMicros, novel, decision)
      isWatched = devices?.verdict(record, novel) ?? true
    },
    onNovel(record, verdict, clockMicros) {
      if (isWatched) path.raise(record, verdict, clockMicros)
      else if (verdict.novel) path.hold()
    },
  })
  const statuses = () =>
    deviceStatuses(
      devices?.table.all() ?? [],
      incidents?.all() ?? [],
      clock.wallMicros(),
      new Set(answers.list().map(({ incident }) => incident)),
    )
  let statusFor: (output: string) => Promise<AgentStatus | null> = async () => null
  const deliveries = await startDeliveries(
    settings,
    environment,
    alertLog,
    eve,
    incidents === null ? null : answers.remote,
    statuses,
    (output) => statusFor(output),
  )
  const captureClock = new CaptureClock(clock, input.liveness)
  const counters = (): AgentCounters => {
    packets.droppedKernel = input.kernelDrops()
    return agentCounters(
      packets,
      input.interruptions(),
      overload.times,
      watcher.counts,
      watcher.check,
      watcher.flowCounters(),
      watcher.openFlows,
      path.totals(),
      devices?.report() ?? null,
      models?.report() ?? null,
      thresholds.report(),
      incidents === null ? null : incidentsReport(incidents.all(), answers.counts(), rate.report(isAttack)),
      kept?.evidence.report() ?? null,
      selfTest.counts,
      alertLog,
      deliveries,
    )
  }
  const snapshot = (): AgentSnapshot => ({
    counters: counters(),
    openFlows: watcher.openFlows,
    maximumFlows: watcher.maximumFlows,
    residentBytes: process.memoryUsage.rss(),
    memoryLimitBytes: memory.limitBytes,
    lagSeconds: captureClock.lagSeconds(),
    outputs: deliveries.map(({ name, trouble }) => ({ name, works: trouble === null })),
    spoolWorks: alertLog.trouble === null && deliveries.every(({ unkept }) => unkept === null),
    overloaded: overload.isOverloaded,
    degraded: [...condition.reasons, devices?.unkept() ?? [], incidentKeeper?.unkept() ?? []].flat(),
    warnings: [
      ...selfTest.warnings,
      ...faults.reasons(),
      ...[overBudgetText(rate.report(isAttack)) ?? []].flat(),
      ...(devices?.warnings() ?? []),
      ...(models?.warnings() ?? []),
    ],
    model: forAnnouncements.model,
    version: VERSION,
  })
  statusFor = (output) => agentStatus(snapshot(), statuses(), clock.wallMicros(), output)
  const namedIncidents = (): readonly Incident[] =>
    (incidents?.all() ?? []).map((each) => (peerNames === null ? each : withPeerNames(each, peerNames.of)))
  const { server, link } = await openServer(
    settings,
    environment,
    snapshot,
    records,
    devices,
    models,
    incidents === null ? null : { list: namedIncidents, answers },
  ).catch(async (error: unknown) => {
    for (const each of deliveries) await each.stop()
    await alertLog.close()
    throw error
  })
  control?.serve(controlAnswers(devices, models, link, incidents === null ? null : answers))
  faults.tellBy(path.tell)
  // a short recording ends before the first tick
  condition.set('unjudged', unjudgedReason(devices, models))
  const room = async (): Promise<void> => {
    if (!input.waits) return
    while (isWorthWaiting(alertLog, deliveries, memory.queueBytes / 4) && !stop.aborted) await clock.sleep(2)
  }
  const vendors = await openVendors(settings, environment)
  const progress = createProgress(clock.monotonicMillis)
  const warnOfPackets = createPacketWarnings(watcher.check, log.warn)
  let ticks = 0
  let hasEnded = false
  const watchItself = (): void => {
    const trouble = hasEnded ? 'the input has ended: nothing is watched any more' : input.trouble()
    condition.set('recorder', trouble)
    if (trouble === null) condition.set('silence', silence.tick())
    // not before the models of a start are there, and not while every moment is needed
    if (++ticks % SELF_TEST_TICKS === FIRST_SELF_TEST_TICKS && !overload.isOverloaded) void selfTest.round()
  }
  const clockWatch = createClockWatch(clock)
  const lookAtClock = (): void => {
    const change = clockWatch.look()
    if (change === null) return
    const { setMicros, suspendedSeconds, stoppedSeconds } = change
    if (setMicros !== 0) {
      const direction = setMicros > 0 ? 'forward' : 'back'
      log.warn(
        `the clock was set ${direction} by ${secondsText(Math.abs(setMicros) / 1e6)}; open flows and learning continue`,
      )
      // a file's packets have another clock, and a pipe's may
      if (input.liveness === 'live') watcher.clockSet(setMicros)
      records?.suppressions.clockSet(setMicros)
      answers.clockSet(setMicros)
    }
    if (suspendedSeconds > 0) log.info(`the machine was suspended for ${secondsText(suspendedSeconds)}`)
    if (stoppedSeconds > 0) {
      log.warn(`the agent did not run for ${secondsText(stoppedSeconds)} (stopped, or without a processor)`)
    }
    if (suspendedSeconds > 0 || stoppedSeconds > 0) {
      overload.resume()
      captureClock.resume()
    }
  }
  const stopTicking = clock.every(TICK_MILLIS, () => {
    lookAtClock()
    warnOfPackets(CHECKED_PACKETS)
    if (input.liveness === 'live' || captureClock.lagSeconds() !== null) watchItself()
    devices?.tick()
    void control?.renew().then(
      (isRenewed) => {
        condition.set('folder', null)
        // perhaps the whole folder was removed
        if (isRenewed) void devices?.save()
      },
      (error: Error) => condition.set('folder', error.message),
    )
    peerNames?.tick()
    if (devices !== null) vendors?.tick(devices.table.all())
    records?.recent.tick()
    incidentKeeper?.tick()
    answers.tick()
    models?.tick((key) => devices?.table.get(key) !== undefined)
    condition.set('unjudged', unjudgedReason(devices, models))
    overload.tick()
    const now = captureClock.nowMicros()
    if (now === null) return
    path.advance(now)
    thresholds.advance(now + steadyMicros)
    advanceRate(now)
    models?.advance(now)
    devices?.advance(now)
    peerNames?.advance(now)
  })
  const stopExpiring = clock.every(EXPIRE_MILLIS, () => {
    lookAtClock()
    const now = captureClock.nowMicros()
    if (now !== null) watcher.expire(now)
  })

  const stopFeeding = service?.feed(progress.isStuck)
  service?.ready()
  const reload = createReload({ settings, given, environment, path, replaceGiven })
  environment.onReopen(() => {
    eve.reopen()
    service?.reloading()
    void reload().then(() => service?.ready())
  })
  stop.addEventListener('abort', () => service?.stopping(), { once: true })

  let isFirst = true
  /** What was kept has times of the clock as it was then. */
  const joinWithKept = (nowMicros: number): void => {
    if (!isFirst || input.liveness !== 'live' || !Number.isFinite(nowMicros)) return
    isFirst = false
    const step = stepSince(known.devices, nowMicros)
    if (step === null) return
    const { byMicros, state } = step
    devices?.clockSet(byMicros, state)
    models?.clockSet(byMicros)
    if (state === undefined) incidents?.clockSet(byMicros)
    if (state !== undefined) return
    log.warn(
      `devices were last seen ${secondsText(-byMicros / 1e6)} in the future: the clock was set back since; their times are moved back too`,
    )
  }
  const onFrames = (frames: FrameBatch): Promise<void> =>
    progress.during(async () => {
      lookAtClock()
      if (frames.count > 0) silence.end()
      const isTeaching = models !== null && input.waits
      for (const part of isTeaching ? partsByTime(frames, RECORDED_STEP_MICROS) : [frames]) await take(part)
    })
  const take = async (frames: FrameBatch): Promise<void> => {
    packets.framesRead += frames.count
    const { shed } = watcher.counts
    const { flows } = watcher
    // what a file or a pipe holds back waits where it is, and its clock may be another
    const newestMicros = frames.count === 0 ? Number.NaN : frames.timestampMicros[frames.count - 1]
    const lagSeconds = input.waits ? null : Math.max(0, (clock.wallMicros() - newestMicros) / 1e6)
    overload.arrived(frames.count, Number.isNaN(lagSeconds) ? null : lagSeconds, newestMicros / 1e6)
    joinWithKept(newestMicros)
    for (const part of input.waits ? partsByCount(frames, WAITING_FRAMES) : [frames]) {
      watcher.add(part)
      if (input.waits) await room()
    }
    overload.judged(frames.count, watcher.counts.shed - shed, watcher.flows - flows)
    captureClock.note(watcher.counts.latestMicros)
    losses.note(watcher.counts.latestMicros, lostPackets())
    thresholds.advance(watcher.counts.latestMicros + steadyMicros)
    advanceRate(watcher.counts.latestMicros)
    if (models !== null && input.waits) {
      // short flows are judged within a minute of the packets' time, so that they are learnt with the others
      watcher.expire(watcher.counts.latestMicros - RECORDED_SLACK_MICROS)
      // a recording waits for its models, so that the same one always teaches the same
      models.advance(watcher.counts.latestMicros)
      models.trainDue()
      await models.idle()
    }
    devices?.advance(watcher.counts.latestMicros)
    await room()
  }
  try {
    await readFrames(input, environment, onFrames)
    for (const line of input.complaints()) log.warn(line)
    warnOfPackets(1)
    if (!settings.once && !stop.aborted) {
      log.info('the input has ended; waiting for a signal to stop')
      hasEnded = true
      while (!stop.aborted) await clock.sleep(LONG_MILLIS, stop)
    }
    // the end of all flows comes before the next time that some are due, and there is none after it
    stopExpiring()
    await endFlows(watcher, room, environment)
    path.flush()
    overload.end()
    await bringOut(alertLog, deliveries, environment)
  } finally {
    selfTest.end()
    stopTicking()
    stopExpiring()
    stopFeeding?.()
    control?.serve(null)
    await endEach(log, [
      async () => server?.close(),
      () => thresholds.close(),
      async () => kept?.evidence.close(),
      async () => devices?.save(),
      async () => incidentKeeper?.save(),
      async () => peerNames?.save(),
      () => answers.idle(),
      async () => models?.save(),
      async () => records?.recent.save(),
      () => alertLog.close(),
      // at once: outputs that hang must not add up their waits
      () => Promise.all(deliveries.map((each) => endEach(log, [() => each.stop()]))),
    ])
  }
  return {
    nothingRead: packets.framesRead === 0 && settings.input.kind === 'recorded' && !stop.aborted,
    counters: counters(),
    lost: alertLog.lost,
    undelivered: deliveries
      .map(({ target, backlog }) => ({ target, alerts: backlog }))
      .filter(({ alerts }) => alerts > 0),
  }
}

/** Of watched devices that have no model, nothing is reported. */
function unjudgedReason(devices: DeviceWatch | null, models: ModelRoom | null): string | null {
  let unjudged = 0
  for (const { key, state } of devices?.table.all() ?? []) {
    if (state === 'watching' && models?.isJudged(key) === false) unjudged++
  }
  if (unjudged === 0) return null
  const which = unjudged === 1 ? 'one watched device is' : `${unjudged} watched devices are`
  return `${which} not judged: no model, learning again; see "oddflow-agent devices list"`
}
