/**
 * What an earlier run has left in the state folder, taken up again: models that are in force, and rows of those that were
 * learning. What is damaged or of another feature contract is reported; a watched owner that has no model by that learns again.
 */
import type { FlowContract } from '@oddflow/core'
import { createDevice, type Device } from '../devices/device.js'
import type { Log } from '../log.js'
import { mustLearn } from './learning-progress.js'
import type { ModelStore } from './model-store.js'
import type { OwnerBook } from './owner-book.js'
import { decodeRowReservoir, type ReservoirShape, type RowReservoir } from './row-reservoir.js'

/**
 * Of owners that have no model yet. Where the folder of models is gone, watched devices that no other model judges are
 * reported. How many models were damaged; rejects as the store does.
 */
export async function recallModels(
  book: OwnerBook,
  store: ModelStore,
  contract: FlowContract,
  known: readonly Device[],
  ownerOf: (device: string) => string,
  hasBase: boolean,
  log: Pick<Log, 'warn'>,
): Promise<number> {
  const { models, lost, goneFolder } = await store.readAll(log)
  const unjudged = known.filter(
    ({ key, state }) => state === 'watching' && !hasBase && (book.get(ownerOf(key))?.model ?? null) === null,
  )
  if (goneFolder !== null && unjudged.length > 0) {
    const which = unjudged.length === 1 ? 'one watched device' : `${unjudged.length} watched devices`
    log.warn(
      `${goneFolder}: is gone, and with it the models of ${which}, which learn again and are not judged until then. Bring back the folder, or check "oddflow-agent devices list"`,
    )
  }
  for (const { record, saved, isPrevious } of models) {
    const of = book.owner(record.owner)
    if (of.model !== null) continue
    if (JSON.stringify(saved.contract) !== JSON.stringify(contract)) {
      log.warn(`the model of ${record.owner} was made under another feature contract, and is not used`)
      of.damage = 'lost'
      continue
    }
    book.putInForce(of, { saved, sha256: record.sha256 }, record)
    if (isPrevious) of.damage = 'previous'
  }
  for (const { owner } of lost) book.owner(owner).damage = 'lost'
  return lost.length + models.filter(({ isPrevious }) => isPrevious).length
}

/** The devices that had a model, where the table of devices is lost: watched, but for those that were learning. */
export async function devicesOfModels(store: ModelStore, log: Pick<Log, 'warn'>): Promise<Device[]> {
  const { models, lost } = await store.readAll(log)
  const devices: Device[] = []
  for (const { owner, trainedAtMicros } of [...models.map(({ record }) => record), ...lost]) {
    const device = createDevice(owner, owner, trainedAtMicros)
    if (!(await store.hasRows(owner))) device.state = 'watching'
    devices.push(device)
  }
  return devices
}

/** Of those devices that learn, and of watched ones whose rows are there still: they were too few when they were judged. */
export async function recallRows(
  book: OwnerBook,
  store: ModelStore,
  shape: ReservoirShape,
  known: readonly Device[],
  ownerOf: (device: string) => string,
  hasBase: boolean,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  for (const device of known) {
    const of = book.owner(ownerOf(device.key))
    const isJudged = device.state === 'ready' || device.state === 'watching'
    if (of.learning !== null || !book.hasPlace() || !(isJudged || mustLearn(of, device, hasBase))) continue
    const decode = (bytes: Uint8Array): RowReservoir => decodeRowReservoir(bytes, shape)
    const reservoir = await store.readRows(of.name, decode, log)
    if (reservoir !== null) book.beginLearning(of, reservoir).isOnDisk = true
  }
}
