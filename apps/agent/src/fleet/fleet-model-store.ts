/** The fleet's models of this gateway in the state folder: a record with a copy, and the model files. */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { checkSameContract, DataError, type FlowContract } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { learnedStateOf } from '@oddflow/online'
import { MAXIMUM_FLEET_MODEL_BYTES, type ModelFile } from '@oddflow/program'
import * as v from 'valibot'
import type { Settings } from '../config/settings.js'
import type { FileSystem } from '../files/file-system.js'
import { defineState, readTwice, valueOrWarn, writeBytes, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import { fleetOutput } from '../outputs/registry.js'
import type { OpeningEnvironment } from '../pipeline/environment.js'
import type { GivenModels } from '../pipeline/open-models.js'

const whole = v.pipe(v.number(), v.safeInteger())
const versionOfModel = v.nullable(
  v.object({ version: whole, sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)) }),
)

/** The saved state of the fleet's models; null stands for the model of the configuration. */
const RecordSchema = v.object({
  /** Highest version of the manifests that this gateway acted on. */
  highest: whole,
  /** That version is in shadow; after a restart the shadow begins again. */
  isPending: v.boolean(),
  inUse: versionOfModel,
  lastGood: versionOfModel,
  isProven: v.boolean(),
  /** The last version that was refused or rolled back. */
  refused: v.nullable(v.object({ version: whole, reason: v.string(), wasUsed: v.boolean() })),
})
export type FleetModelRecord = Readonly<v.InferOutput<typeof RecordSchema>>

const RECORD = defineState('agent-fleet-model', 1, RecordSchema)

const NOTHING: FleetModelRecord = {
  highest: 0,
  isPending: false,
  inUse: null,
  lastGood: null,
  isProven: true,
  refused: null,
}

export type FleetModelStore = ReturnType<typeof createFleetModelStore>

export const FLEET_STATE_FILE = 'fleet-model.json'
export const FLEET_MODELS_FOLDER = 'fleet-models'

export function createFleetModelStore(files: FileSystem, stateFolder: string) {
  const path = join(stateFolder, FLEET_STATE_FILE)
  const folder = join(stateFolder, FLEET_MODELS_FOLDER)
  const nameOf = (sha256: string): string => `${sha256.slice(0, 16)}.oddflow`
  return {
    async read(log: Pick<Log, 'warn'>): Promise<FleetModelRecord> {
      const found = await readTwice(files, path, RECORD.decode)
      const loss = 'the model of the configuration is used until the fleet offers one'
      return valueOrWarn(found, path, loss, log) ?? NOTHING
    },
    write: (record: FleetModelRecord): Promise<void> => writeStateTwice(files, path, RECORD.encode(record)),
    /** Rejects if the file is missing, damaged, or of another contract. */
    async readModel(sha256: string, contract: FlowContract): Promise<ModelFile> {
      const name = join(folder, nameOf(sha256))
      const bytes = await files.read(name, MAXIMUM_FLEET_MODEL_BYTES)
      if (bytes === null) throw new DataError(`${name}: is not there`)
      return fleetModelOf(bytes, sha256, contract)
    },
    writeModel: (sha256: string, bytes: Uint8Array): Promise<void> =>
      writeBytes(files, join(folder, nameOf(sha256)), bytes),
    async removeOthers(kept: readonly (string | undefined)[]): Promise<void> {
      if ((await files.isFolder(folder)) !== true) return
      const names = kept.map((sha256) => nameOf(sha256 ?? ''))
      for (const name of await files.list(folder)) {
        if (!names.includes(name)) await files.remove(join(folder, name)).catch(() => undefined)
      }
    },
  }
}

/** Throws DataError, FormatError or ContractMismatchError. */
export function fleetModelOf(bytes: Uint8Array, sha256: string, contract: FlowContract): ModelFile {
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== sha256) throw new DataError(`expected the SHA-256 ${sha256}, found ${found}`)
  const saved = decodeModelFile(bytes, learnedStateOf)
  checkSameContract(contract, saved.contract)
  return { saved, sha256, sizeBytes: bytes.length }
}

/** The model in use when the agent ended. */
export interface KeptFleetModel {
  readonly record: FleetModelRecord
  /** null: the model of the configuration. */
  readonly inUse: ModelFile | null
}

/** If the model in use is damaged, the last good one replaces it, else the model of the configuration. */
export async function readKeptFleetModel(
  store: FleetModelStore,
  contract: FlowContract,
  log: Pick<Log, 'warn'>,
): Promise<KeptFleetModel> {
  const record = await store.read(log)
  for (const of of [record.inUse, record.lastGood]) {
    if (of === null) continue
    try {
      const inUse = await store.readModel(of.sha256, contract)
      return of === record.inUse
        ? { record, inUse }
        : { record: { ...record, inUse: of, lastGood: null, isProven: true }, inUse }
    } catch (error) {
      log.warn(`the fleet's model version ${of.version}: ${(error as Error).message}; an earlier one is used`)
    }
  }
  return { record: { ...record, inUse: null, lastGood: null, isProven: true }, inUse: null }
}

export interface KeptFleet {
  readonly store: FleetModelStore
  readonly kept: KeptFleetModel
}

/** The state of an earlier run; null without models of a fleet. */
export async function readFleetModels(
  { outputs, state }: Settings,
  { files, faults }: OpeningEnvironment,
  { contract }: GivenModels,
): Promise<KeptFleet | null> {
  if (fleetOutput(outputs) === null || state === null) return null
  const store = createFleetModelStore(files, state)
  return { store, kept: await readKeptFleetModel(store, contract, faults) }
}
