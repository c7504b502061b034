/** `oddflow-agent run`: watches an input until it ends or a signal comes. */
import { compileFilter, type PacketFilter } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import { jsonLine, UsageError } from '@oddflow/program'
import { PRIVATE_NETWORKS, parseNetwork } from '../alerts/local-networks.js'
import { systemClock } from '../clock.js'
import { nodeFileSystem } from '../files/file-system.js'
import { standardErrorLog } from '../log.js'
import { DEFAULT_MEMORY_LIMIT_BYTES, parseBytes } from '../pipeline/memory-plan.js'
import { runAgent } from '../pipeline/run-agent.js'
import { DEFAULT_FOLD, DEFAULT_SPOOL_BYTES, type Settings } from '../settings.js'

export interface RunOptions {
  readonly read?: string
  readonly filter?: string
  readonly model?: string
  readonly eve?: string
  readonly fold: boolean
  readonly once?: boolean
  readonly state?: string
  readonly memoryLimit?: string
}

export async function run(options: RunOptions): Promise<void> {
  const settings = settingsFrom(options)
  const stop = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    // the second one ends the program at once, as it would without a handler
    process.once(signal, () => stop.abort())
  }
  const { counters, undelivered } = await runAgent(settings, {
    files: nodeFileSystem,
    clock: systemClock,
    log: standardErrorLog,
    stop: stop.signal,
    onReopen: (reopen) => process.on('SIGHUP', reopen),
  })
  const line = jsonLine(counters)
  if (settings.once) process.stdout.write(`${line}\n`)
  else standardErrorLog.info(line)
  if (undelivered > 0) {
    const where = settings.state === null ? 'are lost' : `wait in ${settings.state}`
    standardErrorLog.error(`${settings.eve}: ${undelivered} alerts could not be written and ${where}`)
    process.exitCode = 1
  }
  // standard input, or what a stopped input still reads, must not keep the process
  if (stop.signal.aborted) setTimeout(() => process.exit(), 100).unref()
  process.stdin.unref?.()
}

function settingsFrom(options: RunOptions): Settings {
  return {
    read: required(options.read, '--read', 'a capture file, or - for standard input'),
    filter: filterFrom(options.filter),
    model: required(options.model, '--model', 'a model that oddflow train wrote'),
    eve: required(options.eve, '--eve', 'the file that alerts go to'),
    fold: options.fold ? DEFAULT_FOLD : null,
    once: options.once === true,
    state: options.state ?? null,
    spoolBytes: DEFAULT_SPOOL_BYTES,
    memoryLimitBytes:
      options.memoryLimit === undefined
        ? DEFAULT_MEMORY_LIMIT_BYTES
        : parseBytes(options.memoryLimit, '--memory-limit'),
    localNetworks: PRIVATE_NETWORKS.map(parseNetwork),
    suppress: [],
  }
}

function required(value: string | undefined, flag: string, what: string): string {
  if (value === undefined || value === '') throw new UsageError(`${flag} is missing: give ${what}`)
  return value
}

function filterFrom(text: string | undefined): PacketFilter | null {
  if (text === undefined) return null
  try {
    return compileFilter(text)
  } catch (error) {
    if (error instanceof ArgumentError) throw new UsageError(`--filter: ${error.message}`)
    throw error
  }
}
