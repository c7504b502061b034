/**
 * ModelStore: models and rows of owners in the state folder, each file whole or as it was.
 *
 *     models/OWNER.json              which model is in force, which one was before, and where they came from
 *     models/OWNER-SHA256….oddflow   model files, named by the first 16 digits of their SHA-256
 *     models/OWNER.rows              what a learning owner has shown (row-reservoir.ts)
 *
 * A model is written first and named by the record after, so a kill at any moment leaves the old model or the new one.
 * What is read back is checked: the record field by field, the model by its SHA-256 and as any model file. A model that is
 * damaged is none, which is told; its owner learns anew. Records and rows that are damaged are set aside (state-file.ts).
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { DataError, FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { fileError } from '@oddflow/program'
import type { FileSystem } from '../files/file-system.js'
import {
  asideOf,
  readBytesOrSetAside,
  readStateOrSetAside,
  writeBytes,
  writeState,
} from '../files/state-file.js'

/** How a model came about, and the numbers that it was accepted by. */
export interface ModelRecord {
  readonly owner: string
  /** SHA-256 of the file in force. */
  readonly sha256: string
  /** To which `models rollback` goes: the model before, or of one that has learnt on the one that was trained; null where
   * there is none. */
  readonly previous: string | null
  readonly source: 'trained' | 'learnt-on'
  /** It learns on no more: a person went back to it over what was learnt. */
  readonly pinned: boolean
  /** Rows that it was trained with, and those that it has learnt since. */
  readonly rows: number
  readonly unsettledShare: number
  /** Time of the packets then. */
  readonly trainedAtMicros: number
}

export interface KeptModel {
  readonly record: ModelRecord
  readonly saved: SavedModel
  readonly sizeBytes: number
}

export interface ModelStore {
  /** Models that can be used; `onDamage` is told of the others. */
  readAll(onDamage: (message: string) => void): Promise<KeptModel[]>
  /** Writes the file, then the record, then removes files that no record names. */
  write(record: ModelRecord, file: Uint8Array): Promise<void>
  /** Puts the model before in force, and the one in force before it; null where there is none. Rejects where that cannot
   * be kept: then the record is as it was. */
  rollback(owner: string): Promise<KeptModel | null>
  /** The file that a record names. Rejects where it is not there or damaged. */
  readFile(record: ModelRecord): Promise<Uint8Array>
  remove(owner: string): Promise<void>
  /** null where there are none; `onDamage` is told of those that `decode` throws for. */
  readRows<T>(
    owner: string,
    decode: (bytes: Uint8Array) => T,
    onDamage: (message: string) => void,
  ): Promise<T | null>
  /** Whether there are rows of an owner: it was learning when they were last kept. */
  hasRows(owner: string): Promise<boolean>
  writeRows(owner: string, bytes: Uint8Array): Promise<void>
  removeRows(owner: string): Promise<void>
}

const KIND = 'oddflow-agent-model'
const SHA256 = /^[0-9a-f]{64}$/

/** @param nameOf - of an owner's files, without extension. */
export function createModelStore(
  files: FileSystem,
  stateFolder: string,
  nameOf: (owner: string) => string,
): ModelStore {
  const folder = join(stateFolder, 'models')
  const recordPath = (owner: string): string => join(folder, `${nameOf(owner)}.json`)
  const rowsPath = (owner: string): string => join(folder, `${nameOf(owner)}.rows`)
  const modelName = (owner: string, sha256: string): string =>
    `${nameOf(owner)}-${sha256.slice(0, 16)}.oddflow`
  const names = async (): Promise<string[]> => files.list(folder).catch(() => [])
  const removeIfThere = async (path: string): Promise<void> => files.remove(path).catch(() => undefined)

  const readFile = async (record: ModelRecord): Promise<Uint8Array> => {
    const name = modelName(record.owner, record.sha256)
    const bytes = await files.read(join(folder, name))
    if (bytes === null) throw new DataError(`${name}: is not there`)
    if (createHash('sha256').update(bytes).digest('hex') !== record.sha256) {
      throw new DataError(`${name}: is damaged: its SHA-256 is another one`)
    }
    return bytes
  }
  const readModel = async (record: ModelRecord): Promise<KeptModel> => {
    const bytes = await readFile(record)
    return { record, saved: decodeModelFile(bytes), sizeBytes: bytes.length }
  }
  const writeRecord = (record: ModelRecord): Promise<void> =>
    writeState(files, recordPath(record.owner), { kind: KIND, version: 1, ...record })
  /** null for one that is damaged too: the start tells of those. */
  const readRecord = async (owner: string): Promise<ModelRecord | null> => {
    const bytes = await files.read(recordPath(owner))
    try {
      return bytes === null ? null : decodeRecord(JSON.parse(new TextDecoder().decode(bytes)))
    } catch {
      return null
    }
  }
  const removeUnnamed = async ({ owner, sha256, previous }: ModelRecord): Promise<void> => {
    const kept = [sha256, previous].map((sha) => (sha === null ? '' : modelName(owner, sha)))
    const own = new RegExp(`^${nameOf(owner).replaceAll('.', '\\.')}-[0-9a-f]{16}\\.oddflow$`)
    for (const name of await names()) {
      if (own.test(name) && !kept.includes(name)) await removeIfThere(join(folder, name))
    }
  }
  return {
    async readAll(onDamage) {
      const models: KeptModel[] = []
      for (const name of (await names()).filter((each) => each.endsWith('.json')).sort()) {
        const record = await readStateOrSetAside(files, join(folder, name), decodeRecord, { warn: onDamage })
        // an owner of another kind: its models are kept for when they are asked for again
        if (record === null || `${nameOf(record.owner)}.json` !== name) continue
        try {
          models.push(await readModel(record))
        } catch (error) {
          onDamage(`${join(folder, name)}: ${error instanceof Error ? error.message : error}`)
        }
      }
      return models
    },
    async write(record, file) {
      await files.makeFolder(folder)
      await writeBytes(files, join(folder, modelName(record.owner, record.sha256)), file)
      await writeRecord(record)
      await removeUnnamed(record)
    },
    async rollback(owner) {
      const record = await readRecord(owner)
      if (record === null || record.previous === null) return null
      const turned: ModelRecord = { ...record, sha256: record.previous, previous: record.sha256 }
      const kept = await readModel(turned)
      const source = kept.saved.learned === undefined ? 'trained' : 'learnt-on'
      const pinned = source === 'trained' && record.source === 'learnt-on'
      const back: ModelRecord = { ...turned, source, pinned }
      try {
        await writeRecord(back)
      } catch (error) {
        // it may have got as far as its name; what is in force is what a restart should find
        await writeRecord(record).catch(() => undefined)
        throw fileError('write', recordPath(owner), error)
      }
      return { ...kept, record: back }
    },
    readFile,
    async remove(owner) {
      const record = await readRecord(owner)
      for (const path of [recordPath(owner), rowsPath(owner)]) {
        await removeIfThere(path)
        await removeIfThere(asideOf(path))
      }
      for (const sha256 of [record?.sha256, record?.previous]) {
        if (sha256) await removeIfThere(join(folder, modelName(owner, sha256)))
      }
    },
    readRows: (owner, decode, onDamage) =>
      readBytesOrSetAside(files, rowsPath(owner), decode, { warn: onDamage }),
    hasRows: async (owner) => (await files.isRegular(rowsPath(owner))) === true,
    async writeRows(owner, bytes) {
      await files.makeFolder(folder)
      await writeBytes(files, rowsPath(owner), bytes)
    },
    removeRows: (owner) => removeIfThere(rowsPath(owner)),
  }
}

/** Throws FormatError for what is no record of ours. */
function decodeRecord(value: unknown): ModelRecord {
  const {
    kind,
    version,
    owner,
    sha256,
    previous,
    source,
    // records of before there was such a thing have none
    pinned = false,
    rows,
    unsettledShare,
    trainedAtMicros,
  } = (value ?? {}) as Record<string, unknown>
  const isSound =
    kind === KIND &&
    version === 1 &&
    typeof owner === 'string' &&
    /^[0-9a-z:.-]{1,64}$/.test(owner) &&
    typeof sha256 === 'string' &&
    SHA256.test(sha256) &&
    (previous === null || (typeof previous === 'string' && SHA256.test(previous))) &&
    (source === 'trained' || source === 'learnt-on') &&
    typeof pinned === 'boolean' &&
    Number.isSafeInteger(rows) &&
    typeof unsettledShare === 'number' &&
    Number.isSafeInteger(trainedAtMicros)
  if (!isSound) throw new FormatError('model', 'is no record of a model')
  return { owner, sha256, previous, source, pinned, rows, unsettledShare, trainedAtMicros } as ModelRecord
}
