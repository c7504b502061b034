/**
 * What an earlier run has left in the state folder, taken up again: models that are in force, and rows of those that were
 * learning. Whatever is damaged or of another feature contract is told, and its owner learns anew.
 */
import type { FlowContract } from '@oddflow/core'
import type { Device } from '../devices/device.js'
import type { Log } from '../log.js'
import { mustLearn } from './learning-progress.js'
import type { ModelStore } from './model-store.js'
import type { OwnerBook } from './owner-book.js'
import { decodeRowReservoir, type ReservoirShape, type RowReservoir } from './row-reservoir.js'

/** Of owners that have no model yet. How many were damaged; rejects as the store does. */
export async function recallModels(
  book: OwnerBook,
  store: ModelStore,
  contract: FlowContract,
  log: Log,
): Promise<number> {
  let damaged = 0
  const kept = await store.readAll((message) => {
    damaged++
    log.warn(`${message}; its owner learns anew`)
  })
  for (const { record, saved } of kept) {
    const of = book.owner(record.owner)
    if (of.model !== null) continue
    if (JSON.stringify(saved.contract) !== JSON.stringify(contract)) {
      log.warn(`the model of ${record.owner} was made under another feature contract; it learns anew`)
      continue
    }
    book.putInForce(of, { saved, sha256: record.sha256 }, record)
  }
  return damaged
}

/** Of those devices that learn. */
export async function recallRows(
  book: OwnerBook,
  store: ModelStore,
  shape: ReservoirShape,
  known: readonly Device[],
  ownerOf: (device: string) => string,
  log: Log,
): Promise<void> {
  for (const device of known) {
    const of = book.owner(ownerOf(device.key))
    if (of.learning !== null || !book.hasPlace() || !mustLearn(of, device)) continue
    const decode = (bytes: Uint8Array): RowReservoir => decodeRowReservoir(bytes, shape)
    const reservoir = await store.readRows(of.name, decode, log.warn)
    if (reservoir !== null) book.beginLearning(of, reservoir)
  }
}
