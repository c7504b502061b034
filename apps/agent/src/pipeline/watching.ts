/** Packets on their way to verdicts: the watcher, what keeps it from being overrun, and the clocks of both. */
import { randomInt } from 'node:crypto'
import type { FrameBatch } from '@oddflow/capture'
import { DEFAULT_KERNEL_BUFFER_FRAMES } from '@oddflow/capture/node'
import type { NoticeRule } from '../alerts/eve.js'
import type { Thresholds } from '../budget/thresholds.js'
import type { KnownDevices } from '../devices/device-table.js'
import { findNames } from '../devices/names.js'
import type { FleetModels } from '../fleet/fleet-models.js'
import { type CaptureClock, secondsText, stepSince } from '../input/clocks.js'
import { partsByCount, partsByTime } from '../input/read-frames.js'
import type { Component, RunContext } from './environment.js'
import type { MemoryPlan } from './memory-plan.js'
import type { Alerting } from './open-alerting.js'
import { Overload } from './overload.js'
import { createWatcher } from './watcher.js'

/** Packets of a recording that are later than this are of another flow, where models are made of it. */
const RECORDED_SLACK_MICROS = 30_000_000
/** Of a recording that teaches models, between two looks for what is due: as short as for live traffic it would take a year. */
const RECORDED_STEP_MICROS = 60_000_000
/** Of an input that waits, between two looks whether it has to: each may raise an alert, of up to four thousand bytes. */
const WAITING_FRAMES = 64

interface WatchingOptions extends RunContext {
  readonly memory: Pick<MemoryPlan, 'processBytes' | 'flowBytes'>
  readonly alerting: Pick<Alerting, 'path' | 'devices' | 'evidence' | 'records' | 'peerNames'>
  /** Models of a fleet, on which flows are tried; null where none come. */
  readonly fleet: Pick<FleetModels, 'note'> | null
  readonly components: readonly Component[]
}

export type Watching = ReturnType<typeof createWatching>

export function createWatching(options: WatchingOptions) {
  const { settings, environment, memory, input, components } = options
  const { clock, log } = environment
  const { path, devices, evidence, records, peerNames } = options.alerting
  let steadyMicros = 0
  let isWatched = true
  const tellOverload = (rule: NoticeRule, summary: string, more: Record<string, number>): void => {
    const droppedKernel = input.kernelDrops()
    const droppedAgent = watcher.counts.shed
    const captured = watcher.counts.frames + droppedKernel
    const numbers = { captured, droppedKernel, droppedAgent, ...more }
    path.tell({ rule, atMicros: clock.wallMicros(), summary, numbers })
  }
  const overload = new Overload({
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
    decider: options.decider,
    filter: settings.input.kind === 'recorded' ? settings.input.filter : null,
    dropDuplicates: settings.dropDuplicates,
    memoryBytes: memory.flowBytes,
    hashSeed: randomInt(2 ** 48 - 1),
    onPackets(frames, of) {
      if (devices !== null) findNames(frames, of, (mac, claimed) => devices.named(mac, claimed))
      devices?.packets(frames, of)
      peerNames?.packets(frames, of)
      evidence?.ring.add(frames, of)
    },
    onClockStep(byMicros) {
      steadyMicros -= byMicros
      for (const component of components) component.clockSet?.(byMicros)
    },
    onVerdict(record, verdict) {
      const { novel, score, threshold } = verdict
      options.fleet?.note(record, verdict)
      records?.history.note(
        record.startMicros + record.durationMicros,
        novel,
        score === null || threshold === null ? null : score - threshold,
      )
      isWatched = devices?.verdict(record, novel) ?? true
    },
    onNovel(record, verdict, clockMicros) {
      if (isWatched) path.raise(record, verdict, clockMicros)
      else if (verdict.novel) path.hold()
    },
  })
  /** The same time of a clock of the packets that was never set, but for a constant. */
  const steady = (nowMicros: number): number => nowMicros + steadyMicros
  return { watcher, overload, steady }
}

interface IntakeOptions extends RunContext, Watching {
  readonly captureClock: CaptureClock
  readonly thresholds: Pick<Thresholds, 'advance'>
  readonly alerting: Pick<Alerting, 'devices' | 'incidents' | 'rate'>
  readonly known: KnownDevices
  /** Ends when there is room for further alerts. */
  readonly room: () => Promise<void>
}

/** Takes packets in: batch by batch, in the order of their time, with what they make due. */
export function createIntake(options: IntakeOptions): (frames: FrameBatch) => Promise<void> {
  const { input, watcher, overload, steady, captureClock, models, losses } = options
  const { clock, log } = options.environment
  const { devices, incidents, rate } = options.alerting
  let isFirst = true
  /** What was kept has times of the clock as it was then. */
  const joinWithKept = (nowMicros: number): void => {
    if (!isFirst || input.liveness !== 'live' || !Number.isFinite(nowMicros)) return
    isFirst = false
    const step = stepSince(options.known.devices, nowMicros)
    if (step === null) return
    const { byMicros, state } = step
    devices?.clockSet(byMicros, state)
    models?.clockSet(byMicros)
    if (state !== undefined) return
    incidents?.clockSet(byMicros)
    log.warn(
      `devices were last seen ${secondsText(-byMicros / 1e6)} in the future: the clock was set back since; their times are moved back too`,
    )
  }
  const take = async (frames: FrameBatch): Promise<void> => {
    const { shed } = watcher.counts
    const { flows } = watcher
    // what a file or a pipe holds back waits where it is, and its clock may be another
    const newestMicros = frames.count === 0 ? Number.NaN : frames.timestampMicros[frames.count - 1]
    const lagSeconds = input.waits ? null : Math.max(0, (clock.wallMicros() - newestMicros) / 1e6)
    overload.arrived(frames.count, Number.isNaN(lagSeconds) ? null : lagSeconds, newestMicros / 1e6)
    joinWithKept(newestMicros)
    for (const part of input.waits ? partsByCount(frames, WAITING_FRAMES) : [frames]) {
      watcher.add(part)
      if (input.waits) await options.room()
    }
    overload.judged(frames.count, watcher.counts.shed - shed, watcher.flows - flows)
    const { latestMicros } = watcher.counts
    captureClock.note(latestMicros)
    losses.note(latestMicros, options.lostPackets())
    options.thresholds.advance(steady(latestMicros))
    rate.advance(steady(latestMicros))
    if (models !== null && input.waits) {
      // short flows are judged within a minute of the packets' time, so that the model learns them with the others
      watcher.expire(latestMicros - RECORDED_SLACK_MICROS)
      // a recording waits for its models, so that the same one always teaches the same
      models.advance(latestMicros)
      models.trainDue()
      await models.idle()
    }
    devices?.advance(latestMicros)
    await options.room()
  }
  return async (frames) => {
    const isTeaching = models !== null && input.waits
    for (const part of isTeaching ? partsByTime(frames, RECORDED_STEP_MICROS) : [frames]) await take(part)
  }
}
