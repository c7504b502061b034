/** `oddflow-agent run`: watches an input until it ends or a signal comes. */
import { jsonLine, UsageError } from '@oddflow/program'
import { readCalibrationFile } from '../budget/calibration.js'
import type { Settings } from '../config/settings.js'
import { type RunOptions, readSettings } from '../config/settings-from.js'
import { checkFileWritable, checkFolderWritable, isPipe, nodeFileSystem } from '../files/file-system.js'
import { looseRights, userId } from '../files/rights.js'
import { createSystemClock } from '../input/clocks.js'
import { standardErrorLog } from '../log.js'
import { checkOutput } from '../outputs/registry.js'
import { readModels } from '../pipeline/open-models.js'
import { runAgent } from '../pipeline/run-agent.js'
import { serviceNotifier, sighups } from '../service/service.js'
import { exposures } from './doctor.js'

const AS_ITSELF =
  'run the agent as a separate user, as the systemd unit and the image do, or give --allow-root (allowRoot: true)'

/** ODDFLOW_WAIT_SCALE, above 0 and at most 1, shortens waiting times in tests. */
function waitScale(given: string | undefined): number {
  const scale = Number(given ?? 1)
  if (scale > 0 && scale <= 1) return scale
  throw new UsageError(`ODDFLOW_WAIT_SCALE ${given}: expected a number above 0, at most 1`)
}

export async function run(options: RunOptions & { readonly checkConfig?: boolean }): Promise<void> {
  const settings = await readSettings(options)
  const user = userId()
  for (const line of [...exposures(settings), ...looseRights(settings, user)]) standardErrorLog.warn(line)
  const isRefused = user === 0 && !settings.allowRoot
  if (options.checkConfig === true) {
    const { base } = readModels(settings)
    const calibration = settings.budget?.calibration ?? null
    if (calibration !== null && base !== null) readCalibrationFile(calibration, base.sha256.slice(0, 16))
    await checkFiles(settings)
    if (isRefused) standardErrorLog.warn(`the agent refuses to run as root; ${AS_ITSELF}`)
    process.stdout.write('configuration OK\n')
    return
  }
  if (isRefused) throw new UsageError(`refuses to run as root; ${AS_ITSELF}`)
  const clock = createSystemClock(waitScale(process.env.ODDFLOW_WAIT_SCALE))
  const stop = new AbortController()
  // without a handler Node opens the port of its debugger
  process.on('SIGUSR1', () => undefined)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    // a second signal ends the program at once
    process.once(signal, () => stop.abort())
  }
  const { counters, lost, undelivered, nothingRead } = await runAgent(settings, {
    files: nodeFileSystem,
    clock,
    log: standardErrorLog,
    stop: stop.signal,
    service: serviceNotifier(process.env, process.pid, clock, standardErrorLog),
    readAgain: options.config === undefined ? null : () => readSettings(options),
    onReopen: sighups.listen,
  })
  const peakResidentBytes = 1024 * process.resourceUsage().maxRSS
  const line = jsonLine({ ...counters, peakResidentBytes })
  if (settings.once) process.stdout.write(`${line}\n`)
  else standardErrorLog.info(line)
  if (nothingRead && settings.input.kind === 'recorded') {
    // a damaged capture is used as far as it goes, but an empty one is a failure
    const name = settings.input.path === '-' ? 'standard input' : settings.input.path
    standardErrorLog.error(`${name}: no packet in it; check what was captured`)
    process.exitCode = 1
  }
  if (lost > 0) {
    standardErrorLog.error(`${settings.state}: ${lost} alerts could not be written there and are lost`)
    process.exitCode = 1
  }
  for (const { target, alerts } of undelivered) {
    const where = settings.state === null ? 'are lost' : `wait in ${settings.state}`
    standardErrorLog.error(`${target}: ${alerts} alerts could not be written and ${where}`)
    process.exitCode = 1
  }
  // standard input or a stopped input must not keep the process
  if (stop.signal.aborted) setTimeout(() => process.exit(), 100).unref()
  process.stdin.unref?.()
}

/** Checks the files that a run opens, besides models. Rejects with an error that names the file. */
async function checkFiles({ eve, state, evidence, outputs }: Settings): Promise<void> {
  // opening the pipe to look for a reader would end the reader's input
  if (await isPipe(eve)) standardErrorLog.warn(`${eve}: is a pipe; alerts wait until something reads it`)
  await checkFileWritable(eve)
  for (const folder of [state, evidence?.directory ?? null]) {
    if (folder !== null) await checkFolderWritable(folder)
  }
  for (const output of outputs) checkOutput(output)
}
