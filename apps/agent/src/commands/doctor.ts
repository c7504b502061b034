/**
 * `oddflow-agent doctor`: checks whether this machine can run the agent as configured, and says what to do.
 *
 * Each check is a line: `ok`, `missing` (the agent will not run), or `note`. Nothing is changed; the recorder is started for a moment.
 */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import files, { readFile, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { hostname, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { LiveCaptureError, openLive } from '@oddflow/capture/node'
import { OddFlowError } from '@oddflow/core'
import { jsonLine, printable, readModelFile } from '@oddflow/program'
import { readCalibrationFile } from '../budget/calibration.js'
import { budgetThresholds } from '../budget/thresholds.js'
import type { ListenSettings, Settings } from '../config/settings.js'
import { type RunOptions, readSettings } from '../config/settings-from.js'
import { isAtWork } from '../devices/control-socket.js'
import { lookAtKnownDevices } from '../devices/device-table.js'
import { checkFileWritable, checkFolderWritable, nodeFileSystem } from '../files/file-system.js'
import { looseRights, userId } from '../files/rights.js'
import { emptyIncident, encodeIncidentEvent, type Incident } from '../incidents/incident.js'
import { type Clock, createSystemClock } from '../input/clocks.js'
import { type Log, standardErrorLog } from '../log.js'
import { LOOPBACK, type Output } from '../outputs/output.js'
import {
  checkOutput,
  createOutput,
  type OutputSettings,
  targetOf,
  unencryptedSecrets,
} from '../outputs/registry.js'
import { readModels } from '../pipeline/open-models.js'
import { VERSION } from '../version.js'
import { keptReports } from './models.js'
import { USUAL_CONFIG } from './state-of.js'

/** One line of doctor. */
interface Finding {
  readonly what: string
  /** `missing`: the agent will not run. */
  readonly state: 'ok' | 'missing' | 'note'
  readonly detail: string
}

const finding =
  (state: Finding['state']) =>
  (what: string, detail: string): Finding => ({ what, state, detail })
const ok = finding('ok')
const missing = finding('missing')
const note = finding('note')

function messageOf(error: unknown): string {
  if (error instanceof OddFlowError || error instanceof Error) return error.message.split('\n', 1)[0]
  return String(error)
}

/** What `work` finds; missing with its error. @param place - before the error. */
async function checked(what: string, work: () => Finding | Promise<Finding>, place = ''): Promise<Finding> {
  try {
    return await work()
  } catch (error) {
    return missing(what, `${place}${messageOf(error)}`)
  }
}

function outputFinding(output: OutputSettings): Promise<Finding> {
  const work = (): Finding => {
    checkOutput(output)
    return ok('output', `${output.name}: to ${targetOf(output)}, not tried (--try sends a test incident)`)
  }
  return checked('output', work, `${output.name}: `)
}

/** Listens for a moment. An address in use is no fault: a running agent has it. */
function listenFinding({ host, port }: ListenSettings): Promise<Finding> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (code === 'EADDRINUSE')
        resolve(note('listen', `${host}:${port}: port in use, perhaps by a running agent`))
      else resolve(missing('listen', `${host}:${port}: ${message}`))
    })
    server.listen(port, host, () => {
      server.close(() => resolve(ok('listen', `${host}:${port}`)))
    })
  })
}

/** Secrets and pages that others on the network could read; `run` and --check-config warn of them too. */
export function exposures({ outputs, listen, dashboard }: Settings): string[] {
  const found: string[] = []
  for (const output of outputs)
    for (const { what, url } of unencryptedSecrets(output))
      if (!LOOPBACK.test(url.hostname))
        found.push(
          `${output.name}: the ${what} goes to ${url.hostname} unencrypted; use ${url.protocol.slice(0, -1)}s`,
        )
  if (listen !== null && !LOOPBACK.test(listen.host)) {
    const what =
      dashboard === null
        ? 'anyone who reaches this address can read /metrics'
        : "the dashboard's token and cookie go over the network unencrypted"
    found.push(
      `listen ${listen.host}:${listen.port}: ${what}; listen on 127.0.0.1, behind a proxy with TLS or an ssh tunnel`,
    )
  }
  return found
}

type DoctorOptions = RunOptions & { readonly format: 'text' | 'json'; readonly try?: boolean }

export async function doctor(options: DoctorOptions): Promise<void> {
  const isUsual = options.read === undefined && options.interface === undefined && existsSync(USUAL_CONFIG)
  const settings = await readSettings(isUsual ? { config: USUAL_CONFIG, ...options } : options)
  const { input, eve, state, evidence, outputs, listen } = settings
  const findings = [nodeVersion(), memory(settings), await checked('model', () => model(settings))]
  findings.push(...(await budget(settings)))
  if (input.kind === 'live') {
    findings.push(await recorder(), await networkInterface(input.interface))
    findings.push(await recording(input.interface, input.filter, state))
  } else if (input.path !== '-') findings.push(await checked('capture', () => readable(input.path)))
  findings.push(await writable('alerts', eve, checkFileWritable))
  if (state !== null) {
    findings.push(await writable('state', state, checkFolderWritable), ...(await damage(state)))
  } else findings.push(note('state', 'no --state: undelivered alerts are lost when the process ends'))
  if (evidence !== null) findings.push(await writable('evidence', evidence.directory, checkFolderWritable))
  if (options.try === true && outputs.length === 0)
    findings.push(note('output', 'none: no test incident was sent'))
  else if (options.try === true)
    findings.push(...(await tryOutputs(settings, createSystemClock(1), standardErrorLog)))
  else findings.push(...(await Promise.all(outputs.map(outputFinding))))
  if (listen !== null) findings.push(await listenFinding(listen))
  findings.push(...userFindings(settings))
  findings.push(...exposures(settings).map((detail) => note('exposed', detail)))
  for (const finding of findings) {
    process.stdout.write(options.format === 'json' ? `${jsonLine(finding)}\n` : `${textLine(finding)}\n`)
  }
  if (findings.some(({ state }) => state === 'missing')) process.exitCode = 1
}

function textLine({ what, state, detail }: Finding): string {
  return `${state.padEnd(8)} ${what.padEnd(10)} ${printable(detail)}`
}

const LEAST_NODE = 20
const MAXIMUM_DAMAGE = 8

function nodeVersion(): Finding {
  const detail = `Node ${process.versions.node} on ${process.platform} ${process.arch}`
  const isOld = Number(process.versions.node.split('.')[0]) < LEAST_NODE
  return isOld ? missing('node', `${detail}; ${LEAST_NODE} or later is needed`) : ok('node', detail)
}

/** Damage in the devices and models of the state folder. */
async function damage(state: string): Promise<Finding[]> {
  const found: string[] = []
  const log = { warn: (message: string): void => void found.push(message) }
  const keep = (error: unknown): void => log.warn(messageOf(error))
  await lookAtKnownDevices(nodeFileSystem, state, log).catch(keep)
  await keptReports(state, [], log).catch(keep)
  return found.slice(0, MAXIMUM_DAMAGE).map((detail) => note('damage', detail))
}

function userFindings(settings: Settings): Finding[] {
  const user = userId()
  const own =
    user === 0 && !settings.allowRoot
      ? missing('user', 'is root, and the agent refuses to run as root; give the agent its own user')
      : user === 0
        ? note('user', 'user 0')
        : ok('user', user === null ? 'this system has no users' : `user ${user}`)
  return [own, ...looseRights(settings, user).map((detail) => note('rights', detail))]
}

function memory({ memoryLimitBytes }: Settings): Finding {
  const mebibytes = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MiB`
  const detail = `limit ${mebibytes(memoryLimitBytes)}; this machine has ${mebibytes(totalmem())}`
  return memoryLimitBytes > totalmem() / 2 ? note('memory', detail) : ok('memory', detail)
}

function model(settings: Settings): Finding {
  const { base, contract } = readModels(settings)
  const made = settings.models === null ? '' : `; models per ${settings.models.per} are made here`
  const given =
    base === null
      ? `no model given, ${contract.featureSet} of D = ${contract.dimension}`
      : `${settings.model}: ${base.saved.detector.kind}, ${contract.featureSet}, ${base.sizeBytes} bytes`
  return ok('model', `${given}${made}`)
}

async function budget({ budget: wanted, model: path, state }: Settings): Promise<Finding[]> {
  if (wanted === null || path === null) return []
  const file = wanted.calibration
  if (file === null) {
    const kept = state === null ? 'again at each start, because there is no --state' : 'once'
    const detail = `the agent calibrates itself for ${wanted.calibrateHours} hours, ${kept}`
    return [(state === null ? note : ok)('budget', detail)]
  }
  const work = (): Finding => {
    const { sha256 } = readModelFile(path, { onlyRegular: true })
    const calibration = readCalibrationFile(file, sha256.slice(0, 16))
    const { thresholds, refusal } = budgetThresholds(wanted, calibration)
    const detail =
      thresholds === null
        ? `${refusal.reason}; ${refusal.rowsNeeded} flows are needed`
        : `${calibration.scores.count} flows, ${thresholds.strictest.method}`
    return (thresholds === null ? missing : ok)('budget', `${file}: ${detail}`)
  }
  return [await checked('budget', work)]
}

async function recorder(): Promise<Finding> {
  try {
    const { stdout, stderr } = await promisify(execFile)('tcpdump', ['--version'], { timeout: 5000 })
    return ok('tcpdump', `${stdout}${stderr}`.split('\n', 1)[0])
  } catch {
    return missing('tcpdump', 'is not installed; its package is called tcpdump')
  }
}

async function networkInterface(name: string): Promise<Finding> {
  const there = await interfaceNames()
  if (there === null) return note('interface', 'this system does not list its interfaces')
  return name === 'any' || there.includes(name)
    ? ok('interface', name)
    : missing('interface', `there is no ${name}; there are ${there.join(', ')}`)
}

/** Interfaces of this process's network namespace (/sys may show another one); null if the system has no such list. */
export async function interfaceNames(): Promise<string[] | null> {
  const table = await readFile('/proc/self/net/dev', 'utf8').catch(() => null)
  return table === null ? null : [...table.matchAll(/^\s*([^\s:|]+):/gm)].map(([, name]) => name)
}

/** Starts the recorder for a moment. A running agent may have a right to record that this command has not (the systemd service). */
async function recording(name: string, filter: string | null, state: string | null): Promise<Finding> {
  const stop = new AbortController()
  const source = openLive({ interface: name, ...(filter === null ? {} : { filter }), signal: stop.signal })
  void source.begun.then(() => stop.abort())
  const timer = setTimeout(() => stop.abort(), 5000)
  try {
    for await (const _ of source) stop.abort()
    return ok('recording', `tcpdump may record ${name}`)
  } catch (error) {
    const isRefused = error instanceof LiveCaptureError && error.problem === 'permission'
    if (!isRefused) return missing('recording', messageOf(error))
    if (state !== null && (await isAtWork(state)))
      return note(
        'recording',
        `this command may not record ${name}, but the running agent may; see its dashboard`,
      )
    return missing('recording', `${messageOf(error)}; the systemd service needs no such command`)
  } finally {
    clearTimeout(timer)
  }
}

async function readable(path: string): Promise<Finding> {
  return ok('capture', `${path}: ${(await stat(path)).size} bytes`)
}

function writable(what: string, path: string, check: (path: string) => Promise<void>): Promise<Finding> {
  return checked(what, async () => {
    await check(path)
    const there = await stat(path).catch(() => null)
    // a pipe takes no place, and a file that is there needs no inode
    const isStored = there === null || there.isFile() || there.isDirectory()
    const lack = isStored ? await lackOf(path, there?.isFile() !== true) : null
    return lack === null
      ? ok(what, `${path} can be written`)
      : missing(what, `${path}: no free ${lack} on its disk; remove files there, or choose another place`)
  })
}

/** What the disk of a path has none of, for other users than root; null if there is some, or the system does not say. */
async function lackOf(path: string, isNew: boolean): Promise<'blocks' | 'inodes' | null> {
  const disk = await files.statfs(path).catch(() => null)
  if (disk === null) return dirname(path) === path ? null : lackOf(dirname(path), isNew)
  if (disk.blocks > 0 && disk.bavail === 0) return 'blocks'
  // some file systems have no number of inodes
  return isNew && disk.files > 0 && disk.ffree === 0 ? 'inodes' : null
}

const PATIENCE_MILLIS = 15_000

/** Sends a test incident through each output. The EVE file gets none: its readers would take the incident for a real one. */
export function tryOutputs(
  { outputs, eve }: Pick<Settings, 'outputs' | 'eve'>,
  clock: Clock,
  log: Pick<Log, 'warn'>,
): Promise<Finding[]> {
  const line = testIncident(clock.wallMicros())
  return Promise.all(
    outputs.map((settings) =>
      checked(
        'output',
        async () => {
          const output = await createOutput(settings, {
            version: VERSION,
            hostname: hostname(),
            alertFile: eve,
            clock,
            log,
            isTrial: true,
          })
          return tryOutput(settings, output, line)
        },
        `${settings.name}: `,
      ),
    ),
  )
}

async function tryOutput(settings: OutputSettings, output: Output, line: Uint8Array): Promise<Finding> {
  const { name } = settings
  try {
    const answer = await output.deliver({ first: 0, lines: [line] }, AbortSignal.timeout(PATIENCE_MILLIS))
    return ok('output', `${name}: ${targetOf(settings)}: ${answer}`)
  } catch (error) {
    const { message } = error as Error
    const said = message === 'stopped' ? `no answer within ${PATIENCE_MILLIS / 1000} s` : message
    const detail = said.startsWith(output.target) ? said : `${output.target}: ${said}`
    return missing('output', `${name}: ${detail}`)
  } finally {
    await output.close()
  }
}

/** The event of an incident, marked by `oddflow.test`. */
function testIncident(nowMicros: number): Uint8Array {
  const incident: Incident = {
    ...emptyIncident({
      id: createHash('sha256').update(randomBytes(16)).digest('hex').slice(0, 32),
      key: 'test',
      // an address for documentation (RFC 5737)
      device: { mac: null, address: '192.0.2.1', name: 'Test device' },
      beginMicros: nowMicros,
      endMicros: nowMicros,
    }),
    state: 'open',
    reports: 1,
    summary: `This is a test by oddflow-agent on ${hostname()}: incidents are reported like this. Nothing has happened.`,
  }
  const event = JSON.parse(new TextDecoder().decode(encodeIncidentEvent(incident, 'opened', null)))
  event.alert.signature = 'OddFlow: test incident'
  event.alert.signature_id = 1_790_059
  event.oddflow.test = true
  return new TextEncoder().encode(jsonLine(event))
}
