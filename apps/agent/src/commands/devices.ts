/**
 * `oddflow-agent devices`: lists and changes devices, by the control socket of a running agent, else in the state folder.
 */
import { binomialInterval } from '@oddflow/detectors'
import { fileError, UsageError } from '@oddflow/program'
import { DEFAULT_DEVICES } from '../config/settings.js'
import { askDevices, askToAct } from '../devices/control-socket.js'
import { type Forecast, recentNovelShare, type ToldDevice, toldOf } from '../devices/device.js'
import {
  type DeviceAction,
  DeviceTable,
  lookAtKnownDevices,
  readKnownDevices,
  usualContactTexts,
  writeKnownDevices,
} from '../devices/device-table.js'
import { type ActionResult, actKept } from '../devices/device-watch.js'
import { forgetPeerNames } from '../devices/peer-names.js'
import { nodeFileSystem } from '../files/file-system.js'
import { spanText } from '../incidents/sentences.js'
import { standardErrorLog } from '../log.js'
import { EVERYONE } from '../models/model-scopes.js'
import type { ScopeReport } from '../models/progress.js'
import { modelText, stateText } from '../page/texts.js'
import { keptReports } from './models.js'
import {
  askOrAct,
  keyOf,
  type ListFormat,
  printList,
  printResults,
  type StateOptions,
  stateOf,
} from './state-of.js'

export interface ListOptions extends StateOptions {
  readonly format: ListFormat
  /** Of this group alone. */
  readonly group?: string
}

export async function listDevices({ format, group, ...options }: ListOptions): Promise<void> {
  const { devices: all, isRunning } = await knownDevices(await stateOf(options))
  const devices = all.filter((device) => group === undefined || device.group === group)
  devices.sort((a, b) => b.lastSeenMicros - a.lastSeenMicros || (a.key < b.key ? -1 : 1))
  printList(format, devices, {
    device: ({ key }) => key,
    address: ({ address }) => address,
    name: ({ name }) => name?.name ?? '',
    group: ({ group }) => group ?? '',
    vendor: ({ vendor }) => vendor ?? '',
    state: stateText,
    flows: ({ flows }) => String(flows),
    'unusual now': ({ novelShare }) => (novelShare === null ? '-' : `${(100 * novelShare).toFixed(1)} %`),
    'since watched': achievedText,
    'seen for': ({ firstSeenMicros, lastSeenMicros }) => spanText(lastSeenMicros - firstSeenMicros),
    'last seen': ({ lastSeenMicros }) => new Date(lastSeenMicros / 1000).toISOString().slice(0, 19),
    model: modelOf,
    '': ({ randomised }) => (randomised ? 'private (randomized) MAC address' : ''),
  })
  if (!isRunning && format === 'text')
    standardErrorLog.info('no agent is running here; showing the state that the last one saved')
}

/** The share of scored flows that were novel since the device is watched, with a 95 % interval. */
function achievedText({ watchedFlows = 0, watchedNovel = 0, model }: ListedDevice): string {
  if (watchedFlows === 0) return '-'
  const percent = (share: number): string => (100 * share).toFixed(1)
  const { low, high } = binomialInterval(watchedNovel, watchedFlows)
  const promised = model?.falseAlarmShare ?? null
  const more = promised !== null && low > promised ? ', more than promised' : ''
  return `${watchedNovel} of ${watchedFlows}: ${percent(watchedNovel / watchedFlows)} % (${percent(low)} to ${percent(high)} %)${more}`
}

/** The model as on the dashboard, and whether no model judges the device. */
function modelOf({ model, state, isJudged, ...device }: ListedDevice): string {
  const unjudged = isJudged === false && state === 'watching' ? 'NOT JUDGED' : ''
  const text = model === undefined || model === null ? '' : modelText(model, device)
  return [unjudged, text].filter((each) => each !== '').join('; ') || '-'
}

export interface ActOptions extends StateOptions {
  /** All ready devices. */
  readonly ready?: boolean
}

export async function actOnDevices(
  action: DeviceAction,
  given: readonly string[],
  { ready, ...options }: ActOptions,
  text = '',
): Promise<void> {
  const state = await stateOf(options)
  const devices =
    ready === true
      ? (await knownDevices(state)).devices.filter((device) => device.state === 'ready').map(({ key }) => key)
      : given.map(keyOf)
  if (ready !== true && given.length === 0) {
    throw new UsageError(
      `devices ${action}: give the MAC address of a device; "oddflow-agent devices list" prints it`,
    )
  }
  if (devices.length === 0) {
    process.stdout.write('no device is ready\n')
    return
  }
  const results = await askOrAct(
    state,
    () => askToAct(state, action, devices, text),
    () => actOnKept(state, action, devices, text),
  )
  printResults(results, ({ device }) => `${device}: ${doneText(action, text)}`)
}

const DONE: Record<Exclude<DeviceAction, 'name' | 'group'>, string> = {
  approve: 'is watched',
  pause: 'is paused',
  resume: 'is watched',
  relearn: 'learns again',
  forget: 'is forgotten',
}

function doneText(action: DeviceAction, text: string): string {
  if (action === 'name') return text === '' ? 'has no name of yours' : `is named "${text}"`
  if (action === 'group') return text === '' ? 'is in no group' : `is in the group "${text}"`
  return DONE[action]
}

interface ListedDevice extends Omit<ToldDevice, 'novelShare'> {
  /** Of its recent flows; null before the first. */
  readonly novelShare: number | null
  readonly model?: ScopeReport | null
  readonly contacts?: readonly string[]
  /** From a running agent; null for a device that has learned. */
  readonly forecast?: Forecast | null
  /** Whether a model judges it; from a running agent that makes models. */
  readonly isJudged?: boolean
}

async function knownDevices(state: string): Promise<{ devices: ListedDevice[]; isRunning: boolean }> {
  const told = await askDevices(state)
  if (told !== null) return { devices: told.map(listed), isRunning: true }
  const known = await lookAtKnownDevices(nodeFileSystem, state, standardErrorLog)
  const models = new Map((await keptReports(state, known)).map((of) => [of.owner, of]))
  // the groups of devices are in the configuration only
  const byKey = new Map(known.map((device) => [device.key, device]))
  const devices = known.map((device) => ({
    ...listed(toldOf(device)),
    contacts: usualContactTexts(device, byKey),
    model: models.get(device.key) ?? models.get(EVERYONE) ?? null,
  }))
  return { devices, isRunning: false }
}

function listed(told: ToldDevice): ListedDevice {
  return { ...told, novelShare: recentNovelShare(told) }
}

async function actOnKept(
  state: string,
  action: DeviceAction,
  devices: readonly string[],
  text: string,
): Promise<ActionResult[]> {
  // rejects if the devices are lost, so that the next start finds the damaged files
  await lookAtKnownDevices(nodeFileSystem, state, { warn: () => undefined })
  const { devices: known } = await readKnownDevices(nodeFileSystem, state, standardErrorLog)
  const table = new DeviceTable({ ...DEFAULT_DEVICES, maximum: known.length }, known)
  const results = await actKept(table, DEFAULT_DEVICES, { action, devices, text }, async (changed) => {
    try {
      await writeKnownDevices(nodeFileSystem, state, changed)
    } catch (error) {
      // the rename may have happened
      await writeKnownDevices(nodeFileSystem, state, known).catch(() => undefined)
      throw fileError('write', state, error)
    }
  })
  if (action === 'forget' || action === 'relearn')
    await forgetPeerNames(nodeFileSystem, state, devices, standardErrorLog)
  return results
}
