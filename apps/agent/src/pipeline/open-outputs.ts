/** Where alerts go, opened from the settings: the log that keeps them, and a delivery for each output. */
import { hostname } from 'node:os'
import { fileError, jsonLine } from '@oddflow/program'
import type { Settings } from '../config/settings.js'
import type { ControlSocket } from '../devices/control-socket.js'
import type { Device } from '../devices/device.js'
import { type PeerName, withNames } from '../devices/peer-names.js'
import type { FleetModels } from '../fleet/fleet-models.js'
import type { RemoteAnswers } from '../incidents/answers.js'
import type { Incident } from '../incidents/incident.js'
import { type Delivery, startDelivery } from '../outputs/delivery.js'
import { type EveFile, openEveFile } from '../outputs/eve-file.js'
import { type AgentStatus, type DeviceStatus, LOOPBACK, type Output } from '../outputs/output.js'
import { createOutput } from '../outputs/registry.js'
import { type AlertLog, createMemoryLog } from '../spool/alert-log.js'
import { openSpool } from '../spool/spool.js'
import { VERSION } from '../version.js'
import type { AgentSnapshot } from '../web/metrics.js'
import type { AgentEnvironment, OpeningEnvironment } from './environment.js'

const TAKEN_ATTEMPTS = 20
const TAKEN_PAUSE_MILLIS = 100

/** Takes the state folder for this run: two agents must not share one. null where nothing is kept. */
export async function openState(
  { state }: Settings,
  { files, clock }: AgentEnvironment,
): Promise<ControlSocket | null> {
  if (state === null) return null
  try {
    await files.makeFolder(state)
  } catch (error) {
    throw fileError('write', state, error)
  }
  const { ControlError, openControlSocket } = await import('../devices/control-socket.js')
  for (let attempt = 1; ; attempt++) {
    try {
      return await openControlSocket(state)
    } catch (error) {
      // a command may have it for a moment
      const isTaken = error instanceof ControlError && error.code === 'control.taken'
      if (!isTaken || attempt === TAKEN_ATTEMPTS) throw error
      await clock.sleep(TAKEN_PAUSE_MILLIS)
    }
  }
}

export async function openLog(
  settings: Settings,
  { files, clock, log, faults }: OpeningEnvironment,
  queueBytes: number,
): Promise<AlertLog> {
  if (settings.state === null) return createMemoryLog({ maximumBytes: queueBytes })
  try {
    return await openSpool({
      files,
      clock,
      log,
      faults,
      folder: settings.state,
      maximumBytes: settings.spoolBytes,
      maximumPendingBytes: queueBytes,
      inputWaits: settings.input.kind === 'recorded',
      onError: (error) => {
        if (error === null) log.info(`${settings.state}: works again`)
        else log.warn(`${fileError('write', settings.state ?? '', error).message}; trying again`)
      },
    })
  } catch (error) {
    throw fileError('write', settings.state, error)
  }
}

export async function openEve(
  { files, log }: Pick<AgentEnvironment, 'files' | 'log'>,
  path: string,
): Promise<EveFile> {
  try {
    return await openEveFile(
      files,
      path,
      ({ message }) => log.warn(`${message}; alerts wait until then`),
      () => log.warn(`${path}: another program writes to this file too; give each agent its own alert file`),
    )
  } catch (error) {
    throw fileError('write', path, error)
  }
}

/** A delivery for the EVE file and each further output; failures and recoveries are logged. */
export async function startDeliveries(
  settings: Settings,
  environment: AgentEnvironment,
  alertLog: AlertLog,
  eve: EveFile,
  remoteAnswers: RemoteAnswers | null,
  devices: () => readonly DeviceStatus[],
  status: (output: string) => Promise<AgentStatus | null>,
  fleetModels: FleetModels | null,
): Promise<Delivery[]> {
  const { clock, log } = environment
  const deliveries: Delivery[] = []
  const further = await Promise.all(
    settings.outputs.map((output) =>
      createOutput(output, {
        version: VERSION,
        hostname: hostname(),
        alertFile: settings.eve,
        state: settings.state === null ? null : { files: environment.files, folder: settings.state },
        clock,
        log,
        remoteAnswers,
        fleetModels,
        devices,
        status: () => status(output.name),
        dashboardUrl: dashboardUrlOf(settings),
      }),
    ),
  )
  const named = (output: Output): boolean => settings.peerNames?.includes(output.name) === true
  for (const output of [
    onlyOwnEvents(eve, { names: named(eve), muted: true }),
    ...further.map((each) => onlyOwnEvents(each, { names: named(each), muted: false })),
  ]) {
    deliveries.push(
      await startDelivery({
        log: alertLog,
        output,
        clock,
        onError: (error) => {
          if (error === null) log.info(`${output.target}: works again`)
          else log.warn(`${errorText(output, error)}; trying again`)
        },
        onSetAside: (lines, { message }) =>
          log.warn(
            `${message}: refuses ${lines.length === 1 ? 'an alert' : `${lines.length} alerts`} (${idsOf(lines)}); set aside and not sent again, see ${settings.eve}`,
          ),
        onCommitError: (error) => {
          const how = `the delivery position of ${output.name}`
          if (error === null) log.info(`${settings.state}: ${how} is saved again`)
          else log.warn(`${error.message}; ${how} is not saved; retrying`)
        },
      }),
    )
  }
  return deliveries
}

/** What an output gets beside the events that are for all: names of peers, and events that an answer mutes. */
interface Choice {
  readonly names: boolean
  readonly muted: boolean
}

interface ChosenEvent {
  oddflow: {
    summary: string
    names?: readonly PeerName[]
    muted?: string
    incident?: string | { facts: { fact: string }[] }
  }
}

/** The same output; what it is not to get counts as delivered. */
function onlyOwnEvents(output: Output, choice: Choice): Output {
  const { name, target, batch } = output
  return {
    name,
    target,
    ...(batch === undefined ? {} : { batch }),
    async deliver({ first, lines }, signal) {
      const own = lines.map((line) => eventFor(line, choice)).filter((line) => line !== null)
      return own.length === 0 ? 'nothing to send' : output.deliver({ first, lines: own }, signal)
    },
    close: () => output.close(),
  }
}

/** Sentences with names in them, or an event without names; null where it is not for this output. */
function eventFor(line: Uint8Array, { names, muted }: Choice): Uint8Array | null {
  // most events have neither, and parsing costs ten times as much
  const bytes = Buffer.from(line.buffer, line.byteOffset, line.length)
  if (!bytes.includes('"muted":') && !bytes.includes('"names":')) return line
  const event = JSON.parse(new TextDecoder().decode(line)) as ChosenEvent
  const { oddflow } = event
  if (oddflow.muted !== undefined && !muted) return null
  const found = oddflow.names ?? []
  if (found.length === 0) return line
  if (names) {
    oddflow.summary = withNames(oddflow.summary, found)
    if (typeof oddflow.incident === 'object')
      for (const each of oddflow.incident.facts) each.fact = withNames(each.fact, found)
  } else delete oddflow.names
  return new TextEncoder().encode(jsonLine(event))
}

/** The first few. */
function idsOf(lines: readonly Uint8Array[]): string {
  const ids = lines.slice(0, 4).map((line) => {
    const { oddflow } = JSON.parse(new TextDecoder().decode(line)) as { oddflow: { id: string } }
    return oddflow.id
  })
  return `${ids.join(', ')}${lines.length > ids.length ? ', …' : ''}`
}

/** What keeps an output from taking alerts: of a file in the system's words, else in the output's own. */
function errorText({ name, target }: Output, error: Error): string {
  if (name === 'eve') return fileError('write', target, error).message
  return error.message.startsWith(target) ? error.message : `${target}: ${error.message}`
}

/** The status of the agent and of devices and the dashboard's address, for outputs. */

/** Those seen last; more would be a flood of addresses. */
const MAXIMUM_TOLD = 64

/** Devices that have learned, with what became of them today, in the machine's time. */
export function deviceStatuses(
  devices: Iterable<Device>,
  incidents: readonly Incident[],
  nowMicros: number,
  /** Ids of incidents. */
  answered: ReadonlySet<string>,
): DeviceStatus[] {
  const dayMicros = 1000 * new Date(nowMicros / 1000).setHours(0, 0, 0, 0)
  const reported = incidents.filter(({ state }) => state !== 'gathering')
  return [...devices]
    .filter(({ state }) => state !== 'learning')
    .sort((a, b) => b.lastSeenMicros - a.lastSeenMicros)
    .slice(0, MAXIMUM_TOLD)
    .map(({ key, address, name, group, state }) => {
      const own = reported.filter((incident) => incident.key === key)
      const last = own.reduce<Incident | null>(
        (latest, each) => (latest === null || each.beginMicros > latest.beginMicros ? each : latest),
        null,
      )
      return {
        key,
        name: name?.name ?? address,
        group,
        state,
        incidentsToday: own.filter(({ beginMicros }) => beginMicros >= dayMicros).length,
        lastIncident: last?.summary ?? '',
        unanswered: last === null || answered.has(last.id) ? null : last.id,
      }
    })
}

const MAXIMUM_REASONS = 16
const MAXIMUM_REASON_LENGTH = 300

/** @param output - the fleet's, whose waiting and lost events are counted. */
export async function agentStatus(
  snapshot: AgentSnapshot,
  devices: readonly DeviceStatus[],
  nowMicros: number,
  output: string,
): Promise<AgentStatus> {
  // loaded by those who have such an output or a server
  const { healthOf } = await import('../web/server.js')
  const { counters, version, model, residentBytes } = snapshot
  const { alerts } = counters
  const { isWell, reasons } = healthOf(snapshot)
  return {
    format: 1,
    at: new Date(nowMicros / 1000).toISOString(),
    version,
    model,
    isWell,
    reasons: reasons.slice(0, MAXIMUM_REASONS).map((reason) => reason.slice(0, MAXIMUM_REASON_LENGTH)),
    residentBytes,
    counters: {
      captured: counters.captured,
      processed: counters.processed,
      dropped: counters.dropped,
      flows: counters.flows,
      novel: counters.novel.total,
      events: alerts.accepted,
      waiting: alerts.waiting[output] ?? 0,
      lost: (alerts.dropped[output] ?? 0) + alerts.refused,
    },
    openIncidents: counters.incidents?.open ?? null,
    deviceCounts: counters.devices?.byState ?? null,
    devices,
  }
}

/** null where the agent listens on loopback alone, and no name of the machine is given. */
export function dashboardUrlOf({ listen, dashboard }: Pick<Settings, 'listen' | 'dashboard'>): string | null {
  if (listen === null || dashboard === null || listen.port === 0) return null
  const isWild = listen.host === '0.0.0.0' || listen.host === '::'
  const host = dashboard.hosts[0] ?? (isWild ? hostname() : LOOPBACK.test(listen.host) ? null : listen.host)
  return host === null ? null : `http://${host.includes(':') ? `[${host}]` : host}:${listen.port}/`
}
