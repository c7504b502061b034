/**
 * ModelStore: models and rows of owners in the state folder, each file whole or as it was.
 *
 *     models/OWNER.json              which model is in force, which one was before, and where they came from
 *     models/OWNER-SHA256….oddflow   model files, named by the first 16 digits of their SHA-256
 *     models/OWNER.rows              what a learning owner has shown (row-reservoir.ts)
 *
 * A model is written first and named by the record after, so a kill at any moment leaves the old model or the new one.
 * What is read back is checked: the record by its checksum and field by field, the model by its SHA-256 and as any model file. In
 * place of a model that is damaged or gone the one before it is used; where that is no better, the owner has lost its model.
 * A record has a copy (state-file.ts), since without it nobody knows which model is in force.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { DataError, FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { FileError, fileError } from '@oddflow/program'
import { type FileSystem, isOutOfFiles } from '../files/file-system.js'
import {
  asideOf,
  checkVersion,
  copyOf,
  lookAt,
  lookAtTwice,
  makeStateFolder,
  readBytesOrSetAside,
  readTwice,
  setAside,
  writeBytes,
  writeStateTwice,
} from '../files/state-file.js'
import type { Log } from '../log.js'

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
  /** The model that was in force is damaged, and this is the one before it. */
  readonly isPrevious: boolean
}

interface KeptModels {
  readonly models: readonly KeptModel[]
  /** Owners that had a model, of which nothing is whole. */
  readonly lost: readonly ModelRecord[]
  /** Path of the folder where it is not there; null where it is. */
  readonly goneFolder: string | null
}

export interface ModelStore {
  /** Models that can be used; what is damaged is reported. Nothing is changed. */
  lookAtAll(log: Pick<Log, 'warn'>): Promise<KeptModels>
  /** `lookAtAll`, after which the disk holds what is used: what is damaged is moved to `.damaged`, and records name the models in its place. */
  readAll(log: Pick<Log, 'warn'>): Promise<KeptModels>
  /** Writes the file, then the record, then removes files that no record names. */
  write(record: ModelRecord, file: Uint8Array): Promise<void>
  /** Puts the model before in force, and the one in force before it; null where there is none. Rejects where that cannot
   * be kept: then the record is as it was. */
  rollback(owner: string): Promise<KeptModel | null>
  /** The file that a record names. Rejects where it is not there or damaged. */
  readFile(record: ModelRecord): Promise<Uint8Array>
  remove(owner: string): Promise<void>
  /** null where there are none, or none that `decode` takes, which is reported. */
  readRows<T>(owner: string, decode: (bytes: Uint8Array) => T, log: Pick<Log, 'warn'>): Promise<T | null>
  writeRows(owner: string, bytes: Uint8Array): Promise<void>
  removeRows(owner: string): Promise<void>
}

const KIND = 'oddflow-agent-model'
const VERSION = 1
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
  const names = async (): Promise<string[]> =>
    (await files.isFolder(folder)) === true ? files.list(folder) : []
  /** A link that somebody has put there meanwhile is not followed. */
  const makeOwnFolder = async (): Promise<void> => {
    if ((await files.isFolder(folder)) === false) {
      throw new FileError(
        'file.ENOTDIR',
        `${folder}: is no folder any more; move it away and restart the agent`,
      )
    }
    await files.makeFolder(folder)
  }
  const removeIfThere = async (path: string): Promise<void> => files.remove(path).catch(() => undefined)

  const readFile = async (record: ModelRecord): Promise<Uint8Array> => {
    const name = modelName(record.owner, record.sha256)
    const bytes = await files.read(join(folder, name))
    if (bytes === null) throw new DataError(`${name}: is not there`)
    if (createHash('sha256').update(bytes).digest('hex') !== record.sha256) {
      throw new DataError(`${name}: is damaged: its SHA-256 does not match`)
    }
    return bytes
  }
  const readModel = async (record: ModelRecord): Promise<KeptModel> => {
    const bytes = await readFile(record)
    return { record, saved: decodeModelFile(bytes), sizeBytes: bytes.length, isPrevious: false }
  }
  /** A text is why it cannot be used. Rejects where the process has too many files open. */
  const tryModel = async (record: ModelRecord): Promise<KeptModel | string> => {
    try {
      return await readModel(record)
    } catch (error) {
      if (isOutOfFiles(error)) throw error
      return fileError('read', modelName(record.owner, record.sha256), error).message
    }
  }
  const writeRecord = (record: ModelRecord): Promise<void> =>
    writeStateTwice(files, recordPath(record.owner), { kind: KIND, version: VERSION, ...record })
  const readRecord = async (owner: string): Promise<ModelRecord | null> => {
    const found = await lookAtTwice(files, recordPath(owner), decodeRecord)
    return found.is === 'whole' || found.is === 'copy' ? found.value : null
  }
  const removeUnnamed = async ({ owner, sha256, previous }: ModelRecord): Promise<void> => {
    const kept = [sha256, previous].map((sha) => (sha === null ? '' : modelName(owner, sha)))
    const own = new RegExp(`^${nameOf(owner).replaceAll('.', '\\.')}-[0-9a-f]{16}\\.oddflow(\\.new)?$`)
    for (const name of await names()) {
      if (own.test(name) && !kept.includes(name)) await removeIfThere(join(folder, name))
    }
  }
  /** The model in force of a record, else the one before it; null where neither is whole. */
  const wholeModel = async (
    record: ModelRecord,
    log: Pick<Log, 'warn'>,
    mends: boolean,
  ): Promise<KeptModel | null> => {
    const kept = await tryModel(record)
    if (typeof kept !== 'string') return kept
    const path = join(folder, modelName(record.owner, record.sha256))
    const previous =
      record.previous === null ? null : await tryModel({ ...record, sha256: record.previous, previous: null })
    if (previous === null || typeof previous === 'string') {
      const none =
        previous === null ? 'there is none before it' : `nor is the one before it whole (${previous})`
      log.warn(`the model of ${record.owner} is lost: ${kept}, and ${none}`)
      return null
    }
    const { saved } = previous
    const source = saved.learned === undefined ? 'trained' : 'learnt-on'
    const used: KeptModel = {
      ...previous,
      record: { ...previous.record, source, pinned: false },
      isPrevious: true,
    }
    log.warn(`the model of ${record.owner} is damaged: ${kept}; the previous model is active`)
    if (mends) {
      if ((await lookAt(files, path, () => null)).is !== 'none') await setAside(files, path)
      await writeRecord(used.record).catch((error: unknown) =>
        log.warn(fileError('write', recordPath(record.owner), error).message),
      )
    }
    return used
  }
  const all = async (log: Pick<Log, 'warn'>, mends: boolean): Promise<KeptModels> => {
    const models: KeptModel[] = []
    const lost: ModelRecord[] = []
    const isThere = (await files.isFolder(folder)) !== null
    if (mends && isThere) await makeStateFolder(files, folder, log)
    if ((await files.isFolder(folder)) === false) log.warn(`${folder}: is no folder`)
    const listed = await names().catch((error: unknown) => {
      if (isOutOfFiles(error)) throw error
      log.warn(fileError('read', folder, error).message)
      return []
    })
    const records = new Set(listed.flatMap((name) => /^(.+\.json)(\.copy)?$/.exec(name)?.[1] ?? []))
    for (const name of [...records].sort()) {
      const path = join(folder, name)
      const found = await (mends ? readTwice : lookAtTwice)(files, path, decodeRecord)
      if (found.is === 'copy') log.warn(`${path}: ${found.reason}; its copy is used`)
      if (found.is === 'lost') log.warn(`${path}: ${found.reason}; which model is in force is not known`)
      // an owner of another kind: its models are kept for when they are asked for again
      if (found.is === 'none' || found.is === 'lost' || `${nameOf(found.value.owner)}.json` !== name) continue
      const kept = await wholeModel(found.value, log, mends)
      if (kept === null) lost.push(found.value)
      else models.push(kept)
    }
    return { models, lost, goneFolder: isThere ? null : folder }
  }
  return {
    lookAtAll: (log) => all(log, false),
    readAll: (log) => all(log, true),
    async write(record, file) {
      await makeOwnFolder()
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
      const own = [recordPath(owner), copyOf(recordPath(owner)), rowsPath(owner)]
      for (const sha256 of [record?.sha256, record?.previous]) {
        if (sha256) own.push(join(folder, modelName(owner, sha256)))
      }
      for (const path of own) {
        await removeIfThere(path)
        await removeIfThere(asideOf(path))
      }
    },
    readRows: (owner, decode, log) => readBytesOrSetAside(files, rowsPath(owner), decode, log),
    async writeRows(owner, bytes) {
      await makeOwnFolder()
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
  if (kind === KIND) checkVersion('model', VERSION, version)
  const isSound =
    kind === KIND &&
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
