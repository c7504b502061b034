/** What an agent does for itself each second: whether it watches at all, whether its models notice anything, and its clocks. */
import type { ControlSocket } from '../devices/control-socket.js'
import type { DeviceWatch } from '../devices/device-watch.js'
import { type CaptureClock, type ClockChange, createClockWatch, secondsText } from '../input/clocks.js'
import type { ModelManager } from '../models/model-manager.js'
import { createCondition, createPacketWarnings, createSilence } from './conditions.js'
import type { OpeningEnvironment, RunContext } from './environment.js'
import type { Alerting } from './open-alerting.js'
import { SelfTest } from './self-test.js'
import type { Watching } from './watching.js'

/** Ticks between two rounds of synthetic attacks. */
const SELF_TEST_TICKS = 180
const FIRST_SELF_TEST_TICKS = 10
const OTHER_TIME_TICKS = 10
const OTHER_TIME =
  'the packets of standard input are not current, so they count as a recording: the agent reports no silence and sends no synthetic attack; if they are live, set the clock of the recording machine'
/** Packets in which copies and wrong checksums are looked for at a time. */
const CHECKED_PACKETS = 1000

interface UpkeepOptions extends RunContext, Pick<Watching, 'watcher' | 'overload'> {
  readonly alerting: Pick<Alerting, 'path' | 'devices' | 'records'>
  readonly captureClock: CaptureClock
  /** Holds the state folder; null where there is none. */
  readonly control: ControlSocket | null
  readonly onClockSet: (byMicros: number) => void
}

export function createUpkeep(options: UpkeepOptions) {
  const { settings, models, input, captureClock, watcher, overload, control } = options
  const { clock, log, stop, faults } = options.environment
  const { path, devices, records } = options.alerting
  const condition = createCondition({ clock, log, tell: path.tell })
  const silence = createSilence()
  const selfTest = new SelfTest({
    decider: options.decider,
    explain: options.explain,
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
  const warnOfPackets = createPacketWarnings(watcher.check, log.warn)
  const clockWatch = createClockWatch(clock)
  const pipe = createPipeWatch(options)
  let ticks = 0
  let hasEnded = false
  let ipPackets = 0
  const watchItself = (): void => {
    const trouble = hasEnded ? 'the input has ended: nothing is watched any more' : input.trouble()
    condition.set('recorder', trouble)
    if (watcher.check.ipPackets !== ipPackets) silence.end()
    ipPackets = watcher.check.ipPackets
    if (trouble === null) condition.set('silence', silence.tick())
    // not before the models of a start are there, and not while every moment is needed
    if (++ticks % SELF_TEST_TICKS === FIRST_SELF_TEST_TICKS && !overload.isOverloaded) void selfTest.round()
  }
  const keepFolder = async (): Promise<void> => {
    try {
      // perhaps the whole folder was removed
      if (await control?.renew()) void devices?.save()
      condition.set('folder', null)
    } catch (error) {
      condition.set('folder', (error as Error).message)
    }
  }
  const lookAtClock = (): void => {
    const change = clockWatch.look()
    if (change === null) return
    logClockChange(change, log)
    const { setMicros, suspendedSeconds, stoppedSeconds } = change
    if (setMicros !== 0) {
      // a file's packets have another clock, and a pipe's may
      if (input.liveness === 'live') watcher.clockSet(setMicros)
      records?.suppressions.clockSet(setMicros)
      options.onClockSet(setMicros)
    }
    if (suspendedSeconds > 0 || stoppedSeconds > 0) {
      overload.resume()
      captureClock.resume()
    }
  }
  return {
    get selfTests() {
      return selfTest.counts
    },
    /** Why it does not watch as it should; the earliest first. */
    reasons: () => [...condition.reasons, ...selfTest.warnings],
    /** Whether each watched device has a model. */
    lookForUnjudged: () => condition.set('unjudged', unjudgedReason(devices, models)),
    lookAtClock,
    packetsCame: silence.others,
    inputEnded(): void {
      hasEnded = true
    },
    /** Of what the last packets had. */
    warnOfPackets: () => warnOfPackets(1),
    tick(): void {
      lookAtClock()
      warnOfPackets(CHECKED_PACKETS)
      if (input.liveness === 'live' || captureClock.lagSeconds() !== null) watchItself()
      if (!hasEnded) pipe.tick()
      void keepFolder()
    },
    warnings: () => [...faults.reasons(), ...(pipe.isOfOtherTime() && !hasEnded ? [OTHER_TIME] : [])],
    close: selfTest.end,
  }
}

/** A pipe whose packets are not current may be a recording, or the clock of the recording machine is wrong. */
function createPipeWatch({
  input,
  watcher,
  captureClock,
  environment,
}: Pick<UpkeepOptions, 'input' | 'watcher' | 'captureClock' | 'environment'>) {
  let ticks = 0
  return {
    tick(): void {
      if (input.liveness !== 'by-time' || watcher.counts.frames === 0) return
      ticks = captureClock.lagSeconds() === null ? ticks + 1 : 0
      if (ticks === OTHER_TIME_TICKS) environment.log.warn(OTHER_TIME)
    },
    isOfOtherTime: (): boolean => ticks >= OTHER_TIME_TICKS,
  }
}

function logClockChange(
  { setMicros, suspendedSeconds, stoppedSeconds }: ClockChange,
  log: Pick<OpeningEnvironment['log'], 'info' | 'warn'>,
): void {
  if (setMicros !== 0) {
    const how = `${setMicros > 0 ? 'forward' : 'back'} by ${secondsText(Math.abs(setMicros) / 1e6)}`
    log.warn(`the clock was set ${how}; open flows and learning continue`)
  }
  if (suspendedSeconds > 0) log.info(`the machine was suspended for ${secondsText(suspendedSeconds)}`)
  if (stoppedSeconds > 0)
    log.warn(`the agent did not run for ${secondsText(stoppedSeconds)} (stopped, or without a processor)`)
}

/** Of watched devices that have no model, nothing is reported. */
function unjudgedReason(devices: DeviceWatch | null, models: ModelManager | null): string | null {
  let unjudged = 0
  for (const { key, state } of devices?.table.all() ?? []) {
    if (state === 'watching' && models?.isJudged(key) === false) unjudged++
  }
  if (unjudged === 0) return null
  const which = unjudged === 1 ? 'one watched device is' : `${unjudged} watched devices are`
  return `${which} not judged: no model, learning again; see "oddflow-agent devices list"`
}
