/**
 * One run of the agent: opens everything, moves packets through, and closes everything in the order in which
 * nothing gets lost: input, flows, folds, log, outputs.
 *
 * An input that can wait does so while alerts wait for a disk or an output, as long as these work: memory
 * stays bounded and nothing is refused. While they fail it goes on, and what does not fit is counted.
 */
import { randomInt } from 'node:crypto'
import { hostname } from 'node:os'
import type { FrameBatch } from '@oddflow/capture'
import type { Threshold } from '@oddflow/detectors'
import { fileError, inFile, readModelFile } from '@oddflow/program'
import { createAlertExplainer } from '../alerts/explain-alert.js'
import { createSuppression } from '../alerts/suppress.js'
import { createAlertBudget, readKeptCalibration, writeKeptCalibration } from '../budget/alert-budget.js'
import { readCalibrationFile } from '../budget/calibration-file.js'
import { modelThresholds, type Thresholds } from '../budget/thresholds.js'
import type { Clock } from '../clock.js'
import { type ControlSocket, openControlSocket } from '../devices/control-socket.js'
import {
  createDeviceWatch,
  type DeviceWatch,
  readKnownDevices,
  writeKnownDevices,
} from '../devices/device-watch.js'
import type { FileSystem } from '../files/file-system.js'
import type { Log } from '../log.js'
import type { AgentSnapshot } from '../metrics/metrics.js'
import type { AgentServer } from '../metrics/server.js'
import { type Delivery, startDelivery } from '../outputs/delivery.js'
import { type EveFile, openEveFile } from '../outputs/eve-file.js'
import type { Output } from '../outputs/output.js'
import type { Settings } from '../settings.js'
import { type AlertLog, acknowledgedAll } from '../spool/alert-log.js'
import { createMemoryLog } from '../spool/memory-log.js'
import { openSpool } from '../spool/spool.js'
import { VERSION } from '../version.js'
import { ABORTED, orAborted, withinMillis } from './abortable.js'
import { type AlertPath, createAlertPath } from './alert-path.js'
import { CaptureClock } from './capture-clock.js'
import { type AgentCounters, agentCounters, type PacketTotals } from './counters.js'
import { type FrameInput, recordedInput } from './frame-input.js'
import { liveInput } from './live-input.js'
import { createLossHistory } from './loss-history.js'
import { planMemory } from './memory-plan.js'
import { createWatcher, type Watcher } from './watcher.js'

export interface AgentEnvironment {
  readonly files: FileSystem
  readonly clock: Clock
  readonly log: Log
  /** Aborted when the agent is to stop: what has come is brought to its end within two seconds. */
  readonly stop: AbortSignal
  /** Reads the settings anew; null where there is no configuration file. Rejects where they will not do. */
  readonly readAgain: (() => Promise<Settings>) | null
  /** Calls its argument whenever files are to be opened anew, and the settings read. */
  readonly onReopen: (reopen: () => void) => void
}

export interface AgentResult {
  readonly counters: AgentCounters
  /** Alerts that were accepted and not delivered; with a state folder they wait there. */
  readonly undelivered: readonly { readonly target: string; readonly alerts: number }[]
}

const TICK_MILLIS = 1000
const LONG_MILLIS = 2 ** 31 - 1
/** Flows ended at a time when the input has ended. */
const FLOWS_AT_A_TIME = 512
/** An output that fails for so long is given up when the input has ended. */
const GIVE_UP_MILLIS = 10_000
/** From the signal to the end of the process. */
const STOP_MILLIS = 800
/** Of that, before: what the recorder has still to hand over. */
const DRAIN_MILLIS = 500
const END_FLOWS_MILLIS = 400

/** Rejects with an error of ours when the model, the input or an output cannot be opened. */
export async function runAgent(settings: Settings, environment: AgentEnvironment): Promise<AgentResult> {
  const { clock, log, stop } = environment
  const { saved, sha256, sizeBytes } = readModelFile(settings.model)
  const modelId = sha256.slice(0, 16)
  const memory = planMemory(settings.memoryLimitBytes, sizeBytes, settings.outputs)
  const suppression = createSuppression(settings.suppress)
  const thresholds = await openThresholds(settings, environment, modelId, saved.threshold)
  const input = openInput(settings, environment)
  const alertLog = await openLog(settings, environment, memory.queueBytes)
  const eve = await openEve(environment.files, settings.eve)
  const packets: PacketTotals = { framesRead: 0, droppedKernel: 0, droppedAgent: 0 }
  const lostPackets = (): number => input.kernelDrops() + packets.droppedAgent
  const losses = createLossHistory()
  const path = createAlertPath({
    context: {
      model: modelId,
      localNetworks: settings.localNetworks,
    },
    suppression,
    fold: settings.fold,
    log: alertLog,
    interfaceName: input.interfaceName,
    dimension: saved.contract.dimension,
    explain: createAlertExplainer(saved),
    thresholds,
    modelThreshold: saved.threshold.value,
    lostPackets,
    losses,
  })
  const devices = await openDevices(settings, environment, path)
  let isWatched = true
  environment.onReopen(() => {
    eve.reopen()
    void reload(settings, environment, path)
  })
  const watcher = createWatcher({
    model: saved,
    thresholds,
    filter: settings.input.kind === 'recorded' ? settings.input.filter : null,
    memoryBytes: memory.flowBytes,
    hashSeed: randomInt(2 ** 48 - 1),
    onVerdict(record, novel) {
      isWatched = devices?.verdict(record, novel) ?? true
    },
    onNovel(record, verdict) {
      if (isWatched) path.raise(record, verdict)
      else path.hold()
    },
  })
  const deliveries: Delivery[] = []
  for (const output of [eve, ...(await openOutputs(settings, environment))]) {
    deliveries.push(
      await startDelivery({
        log: alertLog,
        output,
        clock,
        onTrouble: (trouble) => {
          if (trouble === null) log.info(`${output.target}: works again`)
          else log.warn(`${troubleText(output, trouble)}; trying again`)
        },
      }),
    )
  }
  const captureClock = new CaptureClock(clock, input.liveness)
  const isTroubled = (): boolean =>
    alertLog.trouble !== null || deliveries.some(({ trouble }) => trouble !== null)
  const counters = (): AgentCounters => {
    packets.droppedKernel = input.kernelDrops()
    return agentCounters(
      packets,
      input.interruptions(),
      watcher.counts,
      watcher.flowCounters(),
      watcher.openFlows,
      path.totals(),
      devices?.report() ?? null,
      thresholds.report(),
      alertLog,
      deliveries,
    )
  }
  const server = await openServer(settings, () => ({
    counters: counters(),
    openFlows: watcher.openFlows,
    maximumFlows: watcher.maximumFlows,
    residentBytes: process.memoryUsage.rss(),
    memoryLimitBytes: memory.limitBytes,
    lagSeconds: captureClock.lagSeconds(),
    outputs: deliveries.map(({ name, trouble }) => ({ name, works: trouble === null })),
    spoolWorks: alertLog.trouble === null,
    model: modelId,
    version: VERSION,
  })).catch(async (error: unknown) => {
    for (const each of deliveries) await each.stop()
    await alertLog.close()
    throw error
  })
  const control = await openControl(settings, devices).catch(async (error: unknown) => {
    await server?.close()
    for (const each of deliveries) await each.stop()
    await alertLog.close()
    throw error
  })
  if (server !== null) log.info(`metrics at http://${server.address}/metrics`)
  const room = async (): Promise<void> => {
    if (!input.waits) return
    while (alertLog.memoryBytes > memory.queueBytes / 4 && !isTroubled() && !stop.aborted) {
      await clock.sleep(2)
    }
  }
  const stopTicking = clock.every(TICK_MILLIS, () => {
    devices?.tick()
    const now = captureClock.nowMicros()
    if (now === null) return
    watcher.expire(now)
    path.advance(now)
    thresholds.advance(now)
  })

  try {
    await readFrames(input, environment, async (frames) => {
      packets.framesRead += frames.count
      watcher.add(frames)
      captureClock.note(watcher.counts.latestMicros)
      losses.note(watcher.counts.latestMicros, lostPackets())
      thresholds.advance(watcher.counts.latestMicros)
      await room()
    })
    for (const line of input.complaints()) log.warn(line)
    if (!settings.once && !stop.aborted) {
      log.info('the input has ended; waiting for a signal to stop')
      while (!stop.aborted) await clock.sleep(LONG_MILLIS, stop)
    }
    await endFlows(watcher, room, environment)
    path.flush()
    await bringOut(alertLog, deliveries, environment)
  } finally {
    stopTicking()
    await server?.close()
    await thresholds.close()
    await control?.close()
    await devices?.save()
    await alertLog.close()
    for (const each of deliveries) await each.stop().catch(() => undefined)
  }
  return {
    counters: counters(),
    undelivered: deliveries
      .map(({ target, backlog }) => ({ target, alerts: backlog + alertLog.pending }))
      .filter(({ alerts }) => alerts > 0),
  }
}

/** Takes over what may change while the agent runs, the rules of suppression, and says what does not. */
async function reload(
  settings: Settings,
  { readAgain, log }: AgentEnvironment,
  path: AlertPath,
): Promise<void> {
  if (readAgain === null) return
  try {
    const next = await readAgain()
    path.suppressBy(createSuppression(next.suppress))
    log.info(`the configuration was read again: ${next.suppress.length} rules of suppression`)
    const changed = (Object.keys(settings) as (keyof Settings)[]).filter(
      (key) => key !== 'suppress' && JSON.stringify(settings[key]) !== JSON.stringify(next[key]),
    )
    if (changed.length > 0)
      log.warn(`${changed.join(', ')}: what changed there counts from the next start on`)
  } catch (error) {
    log.warn(`${error instanceof Error ? error.message : error}; the configuration stays as it was`)
  }
}

/** The HTTP server and what it tells; loaded by who wants it. */
async function openServer({ listen }: Settings, snapshot: () => AgentSnapshot): Promise<AgentServer | null> {
  if (listen === null) return null
  const [{ createMetrics }, { startServer }] = await Promise.all([
    import('../metrics/metrics.js'),
    import('../metrics/server.js'),
  ])
  return startServer(listen, createMetrics(snapshot), () => {
    const { outputs, spoolWorks } = snapshot()
    return spoolWorks && outputs.every(({ works }) => works)
  })
}

/** Those beside the EVE file; each kind is loaded by who wants it. */
async function openOutputs({ outputs, eve }: Settings, { clock }: AgentEnvironment): Promise<Output[]> {
  return Promise.all(
    outputs.map(async (output) => {
      switch (output.kind) {
        case 'webhook':
          return (await import('../outputs/webhook.js')).createWebhook({ ...output, version: VERSION })
        case 'syslog':
          return (await import('../outputs/syslog.js')).createSyslog(output)
        case 'mqtt':
          return (await import('../outputs/mqtt.js')).createMqtt({
            ...output,
            version: VERSION,
            hostname: hostname(),
            alertFile: eve,
            clock,
          })
      }
    }),
  )
}

/** What keeps an output from taking alerts: of a file in the system's words, else in the output's own. */
function troubleText({ name, target }: Output, trouble: Error): string {
  if (name === 'eve') return fileError('write', target, trouble).message
  return trouble.message.startsWith(target) ? trouble.message : `${target}: ${trouble.message}`
}

/** null where devices are not kept. */
async function openDevices(
  { devices, localNetworks, state }: Settings,
  { files, log }: AgentEnvironment,
  path: AlertPath,
): Promise<DeviceWatch | null> {
  if (devices === null) return null
  const common = { settings: devices, localNetworks, onNew: path.announce }
  if (state === null) return createDeviceWatch({ ...common, known: [], write: null })
  let isTroubled = false
  return createDeviceWatch({
    ...common,
    known: await readKnownDevices(files, state),
    async write(all) {
      try {
        await writeKnownDevices(files, state, all)
        isTroubled = false
      } catch (error) {
        if (!isTroubled) log.warn(`${fileError('write', state, error).message}; devices are not kept`)
        isTroubled = true
      }
    },
  })
}

async function openControl({ state }: Settings, devices: DeviceWatch | null): Promise<ControlSocket | null> {
  if (state === null || devices === null) return null
  return openControlSocket(state, devices.table, devices.save)
}

/** The model's own threshold, or an alert budget's. */
async function openThresholds(
  { budget, localNetworks, state }: Settings,
  { files, log }: AgentEnvironment,
  model: string,
  modelThreshold: Threshold,
): Promise<Thresholds> {
  if (budget === null) return modelThresholds(modelThreshold)
  const common = { settings: budget, model, modelThreshold, localNetworks, log }
  if (budget.calibration !== null) {
    const given = readCalibrationFile(budget.calibration, model)
    try {
      return createAlertBudget({ ...common, given, kept: null, save: null })
    } catch (error) {
      throw inFile(budget.calibration, error)
    }
  }
  if (state === null) return createAlertBudget({ ...common, given: null, kept: null, save: null })
  const kept = await readKeptCalibration(files, state, model).catch((error: unknown) => {
    throw fileError('read', state, error)
  })
  let isTroubled = false
  return createAlertBudget({
    ...common,
    given: null,
    kept,
    async save(calibration) {
      try {
        await files.makeFolder(state)
        await writeKeptCalibration(files, state, calibration)
        isTroubled = false
      } catch (error) {
        if (!isTroubled) log.warn(`${fileError('write', state, error).message}; the calibration is not kept`)
        isTroubled = true
      }
    },
  })
}

function openInput(settings: Settings, { clock, log }: AgentEnvironment): FrameInput {
  const { input } = settings
  return input.kind === 'recorded' ? recordedInput(input.path) : liveInput({ ...input, clock, log })
}

async function openLog(
  settings: Settings,
  { files, clock, log }: AgentEnvironment,
  queueBytes: number,
): Promise<AlertLog> {
  if (settings.state === null) return createMemoryLog({ maximumBytes: queueBytes })
  try {
    return await openSpool({
      files,
      clock,
      folder: settings.state,
      maximumBytes: settings.spoolBytes,
      maximumPendingBytes: queueBytes,
      onTrouble: (trouble) => {
        if (trouble === null) log.info(`${settings.state}: works again`)
        else log.warn(`${fileError('write', settings.state ?? '', trouble).message}; trying again`)
      },
    })
  } catch (error) {
    throw fileError('write', settings.state, error)
  }
}

async function openEve(files: FileSystem, path: string): Promise<EveFile> {
  try {
    return await openEveFile(files, path)
  } catch (error) {
    throw fileError('write', path, error)
  }
}

/** Reads until the input ends or the signal comes; what an interface has given by then is still taken. */
async function readFrames(
  input: FrameInput,
  { clock, stop }: AgentEnvironment,
  onFrames: (frames: FrameBatch) => Promise<void>,
): Promise<void> {
  const iterator = input.frames[Symbol.asyncIterator]()
  let next = iterator.next()
  const takeUntil = async (signal: AbortSignal): Promise<boolean> => {
    for (;;) {
      const result = await orAborted(next, signal)
      if (result === ABORTED) return false
      if (result.done === true) return true
      await onFrames(result.value)
      next = iterator.next()
    }
  }
  if (await takeUntil(stop)) return
  // what comes of it later is nobody's concern
  next.catch(() => undefined)
  input.stop()
  if (input.drains) await withinMillis(clock, DRAIN_MILLIS, null, takeUntil)
}

/** Ends all flows; when the agent is to stop, as many as there is time for, and says how many are left. */
async function endFlows(
  watcher: Watcher,
  room: () => Promise<void>,
  { clock, log, stop }: AgentEnvironment,
): Promise<void> {
  let deadline = Number.POSITIVE_INFINITY
  while (watcher.finish(FLOWS_AT_A_TIME)) {
    await room()
    if (!stop.aborted) continue
    const now = clock.monotonicMillis()
    deadline = Math.min(deadline, now + END_FLOWS_MILLIS)
    if (now >= deadline) {
      log.warn(`${watcher.openFlows} open flows were not judged: there was no time left`)
      return
    }
    // outputs are given their turn
    await clock.sleep(0)
  }
}

/** Waits until all alerts are delivered, or no more can be within the time that there is. */
async function bringOut(
  alertLog: AlertLog,
  deliveries: readonly Delivery[],
  { clock, stop }: AgentEnvironment,
): Promise<void> {
  const delivered = (): number =>
    deliveries.reduce((sum, each) => sum + each.delivered, alertLog.acknowledged)
  for (;;) {
    const before = delivered()
    const isStopping = stop.aborted
    const millis = isStopping ? STOP_MILLIS : GIVE_UP_MILLIS
    const isOut = await withinMillis(clock, millis, isStopping ? null : stop, async (limit) => {
      await acknowledgedAll(alertLog, limit)
      for (const each of deliveries) await each.drained(limit)
      return !limit.aborted
    })
    if (isOut || isStopping) return
    if (!stop.aborted && delivered() === before) return
  }
}
