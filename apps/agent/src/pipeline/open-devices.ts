/** Opens the known devices from the settings, and reports about them. */
import type { FlowRecord } from '@oddflow/flows'
import { isResponderDevice } from '@oddflow/program'
import type { FactRule } from '../alerts/alert.js'
import type { AlertPipeline } from '../alerts/alert-pipeline.js'
import type { Settings } from '../config/settings.js'
import { knowsContact } from '../devices/contacts.js'
import type { Routes } from '../devices/control-socket.js'
import { type Device, type DeviceState, toldOf } from '../devices/device.js'
import {
  type KnownDevices,
  readKnownDevices,
  recordOfDevice,
  usualContactTexts,
  writeKnownDevices,
} from '../devices/device-table.js'
import { DeviceWatch } from '../devices/device-watch.js'
import { PEER_NAMES, PeerNames } from '../devices/peer-names.js'
import type { VendorSeeker } from '../devices/vendors.js'
import type { AnswerBook } from '../incidents/answers.js'
import type { IncidentBook } from '../incidents/incidents.js'
import { deviceText, spanText } from '../incidents/sentences.js'
import type { ModelManager } from '../models/model-manager.js'
import { createGroupOf, modelRoutes } from '../models/model-scopes.js'
import { alarmsText } from '../page/texts.js'
import type { AgentEnvironment, OpeningEnvironment } from './environment.js'

export async function readDevices(
  { devices, state }: Settings,
  { files, faults }: OpeningEnvironment,
): Promise<KnownDevices> {
  return devices === null || state === null
    ? { devices: [], from: 'file' }
    : readKnownDevices(files, state, faults)
}

/** Names of peers of an earlier run and of this one; null where they are not looked for. */
export async function openPeerNames(
  { peerNames, localNetworks, state }: Settings,
  { files, log, faults }: OpeningEnvironment,
  stateOf: (device: string) => DeviceState | undefined,
): Promise<PeerNames | null> {
  if (peerNames === null) return null
  const known = state === null ? null : await PEER_NAMES.read(files, state, faults)
  return new PeerNames({
    known: known ?? [],
    localNetworks,
    isWatched: (device) => stateOf(device) === 'watching',
    isKept: (device) => ['watching', 'paused'].includes(stateOf(device) ?? ''),
    write: state === null ? null : (names) => PEER_NAMES.write(files, state, { names }),
    log,
  })
}

/** null where devices are not kept. */
export async function openDevices(
  { devices, localNetworks, state, models: modelSettings }: Settings,
  { files, log }: AgentEnvironment,
  path: AlertPipeline,
  known: KnownDevices,
  models: ModelManager | null,
  answers: Pick<AnswerBook, 'isOfAnswer'>,
  incidents: Pick<IncidentBook, 'noteHeld'> | null,
): Promise<DeviceWatch | null> {
  if (devices === null) return null
  const isNewContactOf = ({ contacts }: Device, record: FlowRecord): boolean =>
    !knowsContact(contacts, record, isResponderDevice(record, localNetworks), localNetworks)
  const common = {
    settings: devices,
    localNetworks,
    known,
    onNew: (record: FlowRecord, rule: FactRule) => path.announce(record, rule),
    onFact(record: FlowRecord, rule: FactRule, fact: string, isOfResponder: boolean): void {
      path.announce(record, rule, fact, isOfResponder)
      if (rule === 'contacts-full') log.warn(fact)
    },
    onReady(device: Device, atMicros: number, contacts: readonly string[]): void {
      const fact = readyText(device, atMicros, models, contacts)
      path.announce(recordOfDevice(device, atMicros), 'device-ready', fact)
      log.info(fact)
    },
    ...(modelSettings?.per === 'group'
      ? { groupOf: createGroupOf(new Map(Object.entries(modelSettings.groups))) }
      : {}),
    ...(models === null
      ? {}
      : {
          isProven: (key: string) => models.isProven(key),
          onEvicted: (key: string) => models.forget(key),
        }),
    onVerdict(record: FlowRecord, device: Device, novel: boolean): void {
      const isOfIncident =
        device.state !== 'watching' && incidents?.noteHeld(record, isNewContactOf(device, record)) === true
      // flows that are normal with one peer only train no model
      if (!answers.isOfAnswer && !isOfIncident) models?.note(record, device, novel)
    },
  }
  if (state === null) return new DeviceWatch({ ...common, write: null })
  return new DeviceWatch({
    ...common,
    write: (all) => writeKnownDevices(files, state, all),
    onTrouble(trouble) {
      if (trouble === null) log.info(`${state}: devices are saved again`)
      else log.warn(`${(trouble as Error).message}; devices are not saved; retrying`)
    },
  })
}

/** In the announcement of a device. */
const MAXIMUM_CONTACTS = 8

/** The message about a device that is ready or watched at once, with the promise of its model. */
function readyText(
  of: Device,
  atMicros: number,
  models: ModelManager | null,
  contacts: readonly string[],
): string {
  // a silence up to now counts
  const device = { ...of, lastSeenMicros: Math.max(of.lastSeenMicros, atMicros) }
  const { key, address, name, state, flows, learningSinceMicros, lastSeenMicros } = device
  const model = models?.scopeReport(key) ?? null
  const span = spanText(lastSeenMicros - learningSinceMicros)
  const promise = models === null ? '' : `: ${alarmsText(device, model) || noModelText(models.isJudged(key))}`
  const next =
    state === 'watching'
      ? 'is watched from now on'
      : `is ready to be watched; approve it with "oddflow-agent devices approve ${key}"`
  const who = deviceText({ mac: key, address, ...(name === null ? {} : { name: name.name }) })
  const told = contacts.slice(0, MAXIMUM_CONTACTS)
  const more = contacts.length - told.length
  const list =
    told.length === 0
      ? ''
      : `. Its most frequent contacts: ${told.join(', ')}${more === 0 ? '' : ` and ${more} more`}`
  return `${who} ${next}, after ${flows} ${flows === 1 ? 'flow' : 'flows'} in ${span}${promise}${list}`
}

/** @param isJudged - by its contacts alone, since it has too few flows. */
function noModelText(isJudged: boolean): string {
  return isJudged
    ? 'too few flows for its own model; training starts after more flows'
    : 'training on its flows has not succeeded yet, so its flows are not judged'
}

/** null where devices are not kept, or their vendors not asked for. */
export async function openVendors(
  { devices }: Settings,
  { files, log }: AgentEnvironment,
): Promise<VendorSeeker | null> {
  if (devices === null || devices.vendors === false) return null
  const { createVendorSeeker } = await import('../devices/vendors.js')
  return createVendorSeeker(files, devices.vendors, log)
}

/** What a running agent tells by its control socket, and does. */
export function controlAnswers(
  devices: DeviceWatch | null,
  models: ModelManager | null,
  /** Makes a link to the dashboard; null where there is none. */
  link: (() => string) | null,
  /** null where devices are not kept. */
  answers: Pick<AnswerBook, 'answer' | 'list'> | null,
): Routes {
  const routes: Routes = {
    ...(link === null ? {} : { '/dashboard': async () => ({ link: link() }) }),
    ...(answers === null
      ? {}
      : {
          '/incidents': async (body) =>
            body === undefined ? { answers: answers.list() } : answers.answer(body),
        }),
  }
  if (devices === null) return routes
  const { table } = devices
  const describe = (device: Device): object => {
    const model = models?.scopeReport(device.key) ?? null
    const contacts = usualContactTexts(device, table)
    const ofModels = models === null ? {} : { model, isJudged: models.isJudged(device.key) }
    return { ...ofModels, forecast: devices.forecast(device, model), contacts }
  }
  const ofModels = models === null ? {} : modelRoutes(models)
  return {
    ...routes,
    ...ofModels,
    '/devices': async (body) =>
      body === undefined
        ? { devices: [...table.all()].map((device) => ({ ...toldOf(device), ...describe(device) })) }
        : { results: await devices.word(body) },
  }
}
