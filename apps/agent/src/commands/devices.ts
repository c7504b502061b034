/**
 * `oddflow-agent devices`: what the agent knows of the devices, and a person's word on them.
 *
 * A running agent is asked and told by its control socket. Where none is at work in the state folder, the command
 * reads and changes what the last one has kept there.
 */
import { binomialInterval } from '@oddflow/detectors'
import { fileError, UsageError } from '@oddflow/program'
import { DEFAULT_DEVICES } from '../config/settings.js'
import { askDevices, askToAct } from '../devices/control-socket.js'
import { recentNovelShare, type ToldDevice, toldOf } from '../devices/device.js'
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
import type { Forecast } from '../page/api.js'
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

/** What came of the promise: the share of its scored flows that was novel since it is watched, and a 95 % interval of that. */
function achievedText({ watchedFlows = 0, watchedNovel = 0, model }: ListedDevice): string {
  if (watchedFlows === 0) return '-'
  const percent = (share: number): string => (100 * share).toFixed(1)
  const { low, high } = binomialInterval(watchedNovel, watchedFlows)
  const promised = model?.falseAlarmShare ?? null
  const more = promised !== null && low > promised ? ', more than promised' : ''
  return `${watchedNovel} of ${watchedFlows}: ${percent(watchedNovel / watchedFlows)} % (${percent(low)} to ${percent(high)} %)${more}`
}

/** What the dashboard says of the model, and whether nothing judges the device. */
function modelOf({ model, state, isJudged, ...device }: ListedDevice): string {
  const unjudged = isJudged === false && state === 'watching' ? 'NOT JUDGED' : ''
  const text = model === undefined || model === null ? '' : modelText(model, device)
  return [unjudged, text].filter((each) => each !== '').join('; ') || '-'
}

export interface ActOptions extends StateOptions {
  /** All that are ready. */
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

/** As a running agent reports it. */
interface ListedDevice extends Omit<ToldDevice, 'novelShare'> {
  /** Of its recent flows; null before the first. */
  readonly novelShare: number | null
  /** What its model is of; null or absent where there is none. */
  readonly model?: ScopeReport | null
  readonly contacts?: readonly string[]
  /** Of a running agent; null of a device that has learned. */
  readonly forecast?: Forecast | null
  /** Whether a model judges it; of a running agent that makes models. */
  readonly isJudged?: boolean
}

interface ListedDevices {
  readonly devices: ListedDevice[]
  readonly isRunning: boolean
}

async function knownDevices(state: string): Promise<ListedDevices> {
  const told = await askDevices(state)
  if (told !== null) return { devices: told.map(listed), isRunning: true }
  const known = await lookAtKnownDevices(nodeFileSystem, state, standardErrorLog)
  const models = new Map((await keptReports(state, known)).map((of) => [of.owner, of]))
  // which group a device is of stands in the configuration alone
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
  // where they are lost, the next start has to find what is damaged
  await lookAtKnownDevices(nodeFileSystem, state, { warn: () => undefined })
  const { devices: known } = await readKnownDevices(nodeFileSystem, state, standardErrorLog)
  const table = new DeviceTable({ ...DEFAULT_DEVICES, maximum: known.length }, known)
  const results = await actKept(table, DEFAULT_DEVICES, { action, devices, text }, async (changed) => {
    try {
      await writeKnownDevices(nodeFileSystem, state, changed)
    } catch (error) {
      // it may have got as far as its name
      await writeKnownDevices(nodeFileSystem, state, known).catch(() => undefined)
      throw fileError('write', state, error)
    }
  })
  if (action === 'forget' || action === 'relearn')
    await forgetPeerNames(nodeFileSystem, state, devices, standardErrorLog)
  return results
}
