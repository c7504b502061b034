/**
 * ModelStore: models and rows of scopes in the state folder.
 *
 *     models/OWNER.json              a record of the active and the previous model; with a copy
 *     models/OWNER-SHA256….oddflow   model files, named by the first 16 digits of their SHA-256
 *     models/OWNER.rows              rows of a learning scope (row-reservoir.ts)
 *
 * A model is written before its record, so a kill at any moment leaves the old model or the new one. A damaged or missing model is
 * replaced by the previous one; if that is unusable too, the scope has lost its model.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { DataError, FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { learnedStateOf } from '@oddflow/online'
import { FileError, fileError } from '@oddflow/program'
import * as v from 'valibot'
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
  valueOrWarn,
  writeBytes,
  writeStateTwice,
} from '../files/state-file.js'
import type { Log } from '../log.js'

const KIND = 'oddflow-agent-model'
const VERSION = 1
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/))
const whole = v.pipe(v.number(), v.safeInteger())

/** The origin of a model, and the numbers of its acceptance. */
const RecordSchema = v.object({
  owner: v.pipe(v.string(), v.regex(/^[0-9a-z:.-]{1,64}$/)),
  /** SHA-256 of the active file. */
  sha256,
  /** For `models rollback`: the model before, or the trained one of an updated one; or null. */
  previous: v.nullable(sha256),
  source: v.picklist(['trained', 'learnt-on']),
  /** Never updated again: a person rolled an update back. Older records have no such key. */
  pinned: v.optional(v.boolean(), false),
  /** Rows of its training, and rows learned since. */
  rows: whole,
  unsettledShare: v.number(),
  /** Time of the packets at its training. */
  trainedAtMicros: whole,
})
export type ModelRecord = Readonly<v.InferOutput<typeof RecordSchema>>

/** Throws FormatError for an invalid record. */
function decodeRecord(value: unknown): ModelRecord {
  const { kind, version } = (value ?? {}) as Record<string, unknown>
  if (kind === KIND) checkVersion('model', VERSION, version)
  const parsed = v.safeParse(RecordSchema, value)
  if (kind !== KIND || !parsed.success) throw new FormatError('model', 'is no record of a model')
  return parsed.output
}

export interface KeptModel {
  readonly record: ModelRecord
  readonly saved: SavedModel
  readonly sizeBytes: number
  /** True if the active model was damaged, and this is the previous one. */
  readonly isPrevious: boolean
}

interface KeptModels {
  readonly models: readonly KeptModel[]
  /** Owners without a usable model. */
  readonly lost: readonly ModelRecord[]
  /** Path of a missing folder, else null. */
  readonly goneFolder: string | null
}

type Warner = Pick<Log, 'warn'>

export class ModelStore {
  readonly #files: FileSystem
  readonly #folder: string
  readonly #nameOf: (owner: string) => string

  /** @param nameOf - of an owner's files, without extension. */
  constructor(files: FileSystem, stateFolder: string, nameOf: (owner: string) => string) {
    this.#files = files
    this.#folder = join(stateFolder, 'models')
    this.#nameOf = nameOf
  }

  /** Usable models; damaged ones are reported. Changes nothing. */
  lookAtAll(log: Warner): Promise<KeptModels> {
    return this.#all(log, false)
  }

  /** `lookAtAll`, then repairs the disk: damaged files are moved to `.damaged`, and records name the models used instead. */
  readAll(log: Warner): Promise<KeptModels> {
    return this.#all(log, true)
  }

  /** Writes the file, then the record, then removes files that no record names. */
  async write(record: ModelRecord, file: Uint8Array): Promise<void> {
    await this.#makeOwnFolder()
    await writeBytes(this.#files, join(this.#folder, this.#modelName(record)), file)
    await this.#writeRecord(record)
    await this.#removeUnnamed(record)
  }

  /** Swaps the active and the previous model; null if there is no previous one. Rejects if the record cannot be written. */
  async rollback(owner: string): Promise<KeptModel | null> {
    const record = await this.#readRecord(owner)
    if (record === null || record.previous === null) return null
    const turned: ModelRecord = { ...record, sha256: record.previous, previous: record.sha256 }
    const kept = await this.#readModel(turned)
    const source = sourceOf(kept.saved)
    const back = { ...turned, source, pinned: source === 'trained' && record.source === 'learnt-on' }
    try {
      await this.#writeRecord(back)
    } catch (error) {
      // the rename may have happened; a restart must find the active state
      await this.#writeRecord(record).catch(() => undefined)
      throw fileError('write', this.#recordPath(owner), error)
    }
    return { ...kept, record: back }
  }

  /** The file that a record names. Rejects if it is missing or damaged. */
  async readFile(record: ModelRecord): Promise<Uint8Array> {
    const name = this.#modelName(record)
    const bytes = await this.#files.read(join(this.#folder, name))
    if (bytes === null) throw new DataError(`${name}: is not there`)
    if (createHash('sha256').update(bytes).digest('hex') !== record.sha256) {
      throw new DataError(`${name}: is damaged: its SHA-256 does not match`)
    }
    return bytes
  }

  async remove(owner: string): Promise<void> {
    const record = await this.#readRecord(owner)
    const path = this.#recordPath(owner)
    const models = [record?.sha256, record?.previous].flatMap((sha256) =>
      sha256 ? [join(this.#folder, this.#modelName({ owner, sha256 }))] : [],
    )
    for (const own of [path, copyOf(path), this.#rowsPath(owner), ...models]) {
      await this.#removeIfThere(own)
      await this.#removeIfThere(asideOf(own))
    }
  }

  /** null if there are none; damaged ones are reported. */
  readRows<T>(owner: string, decode: (bytes: Uint8Array) => T, log: Warner): Promise<T | null> {
    return readBytesOrSetAside(this.#files, this.#rowsPath(owner), decode, log)
  }

  async writeRows(owner: string, bytes: Uint8Array): Promise<void> {
    await this.#makeOwnFolder()
    await writeBytes(this.#files, this.#rowsPath(owner), bytes)
  }

  removeRows(owner: string): Promise<void> {
    return this.#removeIfThere(this.#rowsPath(owner))
  }

  #recordPath(owner: string): string {
    return join(this.#folder, `${this.#nameOf(owner)}.json`)
  }

  #rowsPath(owner: string): string {
    return join(this.#folder, `${this.#nameOf(owner)}.rows`)
  }

  #modelName({ owner, sha256 }: Pick<ModelRecord, 'owner' | 'sha256'>): string {
    return `${this.#nameOf(owner)}-${sha256.slice(0, 16)}.oddflow`
  }

  async #names(): Promise<string[]> {
    return (await this.#files.isFolder(this.#folder)) === true ? this.#files.list(this.#folder) : []
  }

  /** Does not follow a link that replaced the folder. */
  async #makeOwnFolder(): Promise<void> {
    if ((await this.#files.isFolder(this.#folder)) === false) {
      throw new FileError(
        'file.ENOTDIR',
        `${this.#folder}: is no longer a folder; move it away and restart the agent`,
      )
    }
    await this.#files.makeFolder(this.#folder)
  }

  #removeIfThere(path: string): Promise<void> {
    return this.#files.remove(path).catch(() => undefined)
  }

  async #removeUnnamed({ owner, sha256, previous }: ModelRecord): Promise<void> {
    const kept = [sha256, previous].map((sha) =>
      sha === null ? '' : this.#modelName({ owner, sha256: sha }),
    )
    const own = new RegExp(`^${this.#nameOf(owner).replaceAll('.', '\\.')}-[0-9a-f]{16}\\.oddflow(\\.new)?$`)
    for (const name of await this.#names()) {
      if (own.test(name) && !kept.includes(name)) await this.#removeIfThere(join(this.#folder, name))
    }
  }

  #writeRecord(record: ModelRecord): Promise<void> {
    return writeStateTwice(this.#files, this.#recordPath(record.owner), {
      kind: KIND,
      version: VERSION,
      ...record,
    })
  }

  async #readRecord(owner: string): Promise<ModelRecord | null> {
    const found = await lookAtTwice(this.#files, this.#recordPath(owner), decodeRecord)
    return found.is === 'whole' || found.is === 'copy' ? found.value : null
  }

  async #readModel(record: ModelRecord): Promise<KeptModel> {
    const bytes = await this.readFile(record)
    return {
      record,
      saved: decodeModelFile(bytes, learnedStateOf),
      sizeBytes: bytes.length,
      isPrevious: false,
    }
  }

  /** A text says why it is unusable. Rejects if the process has too many open files. */
  async #tryModel(record: ModelRecord): Promise<KeptModel | string> {
    try {
      return await this.#readModel(record)
    } catch (error) {
      if (isOutOfFiles(error)) throw error
      return fileError('read', this.#modelName(record), error).message
    }
  }

  /** The active model of a record, else the previous one; null if both are damaged. */
  async #wholeModel(record: ModelRecord, log: Warner, mends: boolean): Promise<KeptModel | null> {
    const { owner, previous: sha256 } = record
    const kept = await this.#tryModel(record)
    if (typeof kept !== 'string') return kept
    const previous = sha256 === null ? null : await this.#tryModel({ ...record, sha256, previous: null })
    if (previous === null || typeof previous === 'string') {
      const none =
        previous === null ? 'no previous model exists' : `the previous model is damaged too (${previous})`
      log.warn(`the model of ${owner} is lost: ${kept}; ${none}`)
      return null
    }
    const source = sourceOf(previous.saved)
    const used = { ...previous, record: { ...previous.record, source, pinned: false }, isPrevious: true }
    log.warn(`the model of ${owner} is damaged: ${kept}; the previous model is active`)
    if (mends) {
      const path = join(this.#folder, this.#modelName(record))
      if ((await lookAt(this.#files, path, () => null)).is !== 'none') await setAside(this.#files, path)
      await this.#writeRecord(used.record).catch((error: unknown) =>
        log.warn(fileError('write', this.#recordPath(owner), error).message),
      )
    }
    return used
  }

  async #all(log: Warner, mends: boolean): Promise<KeptModels> {
    const [files, folder] = [this.#files, this.#folder]
    const models: KeptModel[] = []
    const lost: ModelRecord[] = []
    const isThere = (await files.isFolder(folder)) !== null
    if (mends && isThere) await makeStateFolder(files, folder, log)
    if ((await files.isFolder(folder)) === false) log.warn(`${folder}: is not a folder`)
    const listed = await this.#names().catch((error: unknown) => {
      if (isOutOfFiles(error)) throw error
      log.warn(fileError('read', folder, error).message)
      return []
    })
    const records = new Set(listed.flatMap((name) => /^(.+\.json)(\.copy)?$/.exec(name)?.[1] ?? []))
    for (const name of [...records].sort()) {
      const path = join(folder, name)
      const found = await (mends ? readTwice : lookAtTwice)(files, path, decodeRecord)
      const record = valueOrWarn(found, path, 'the active model is unknown', log)
      if (record === null) continue
      // an owner of another kind (models.per): its models are kept for later
      if (`${this.#nameOf(record.owner)}.json` !== name) continue
      const kept = await this.#wholeModel(record, log, mends)
      if (kept === null) lost.push(record)
      else models.push(kept)
    }
    return { models, lost, goneFolder: isThere ? null : folder }
  }
}

function sourceOf({ learned }: SavedModel): ModelRecord['source'] {
  return learned === undefined ? 'trained' : 'learnt-on'
}
