/**
 * State in small files, each whole or as it was after a kill or a power cut: written under another name, flushed, renamed, and the folder
 * flushed. JSON ends with its CRC-32, which is checked before the text is parsed.
 *
 * Anything unusable in place of a state file (damaged, of a newer version, unreadable, a folder, a pipe, a link) is moved to `.damaged`
 * and reported. State that must not be lost has a copy (`writeStateTwice`).
 */
import { dirname, join } from 'node:path'
import { crc32, FormatError, OddFlowError } from '@oddflow/core'
import { fileError } from '@oddflow/program'
import * as v from 'valibot'
import type { Notice } from '../alerts/eve.js'
import type { Log } from '../log.js'
import { type FileSystem, hasCode, isOutOfFiles } from './file-system.js'

/** A failed disk damages thousands of files; beyond this number, one notice counts the rest. */
const MAXIMUM_TOLD = 16

export type StateFaults = ReturnType<typeof createStateFaults>

/** Damage found in the state folder: a line of the log each, and a notice to every output. */
export function createStateFaults(log: Pick<Log, 'warn'>, wallMicros: () => number) {
  const seen = new Set<string>()
  const waiting: string[] = []
  let count = 0
  let tell: ((notice: Notice) => void) | null = null
  const give = (summary: string): void => tell?.({ rule: 'state-damaged', atMicros: wallMicros(), summary })
  return {
    warn(message: string): void {
      // a file that is read twice is reported once
      if (seen.has(message)) return
      if (seen.size < MAXIMUM_TOLD) seen.add(message)
      count++
      log.warn(message)
      if (count > MAXIMUM_TOLD) return
      if (tell === null) waiting.push(message)
      else give(message)
    },
    /** Reports earlier and new damage to the outputs. */
    tellBy(to: (notice: Notice) => void): void {
      tell = to
      for (const message of waiting.splice(0)) give(message)
      const more = count - MAXIMUM_TOLD
      if (more > 0) give(`${more} more files of the state folder are damaged; see the log`)
    },
    /** For /healthz. */
    reasons(): string[] {
      if (count === 0) return []
      const what =
        count === 1 ? 'one file of the state folder was' : `${count} files of the state folder were`
      return [`${what} damaged; see the log`]
    },
  }
}

/** Maximum size of a JSON file; the table of devices may be longer. */
const MAXIMUM_STATE_BYTES = 16_777_216

/** `writeBytes` of a value as JSON. */
export function writeState(files: FileSystem, path: string, value: object): Promise<void> {
  return writeBytes(files, path, encodeState(value))
}

/** Writes a copy, then the file: if the copy cannot be written, the file stays as it was. */
export async function writeStateTwice(files: FileSystem, path: string, value: object): Promise<void> {
  const bytes = encodeState(value)
  await writeBytes(files, copyOf(path), bytes)
  await writeBytes(files, path, bytes)
}

/**
 * Saves `next` in place of `current`. If that fails, the rename may have happened: `current` is written again, because a restart must
 * find the active state.
 */
export async function writeOrRestore<T>(
  write: (value: T) => Promise<void>,
  next: T,
  current: T,
): Promise<void> {
  await write(next).catch(async (error: unknown) => {
    await write(current).catch(() => undefined)
    throw error
  })
}

/**
 * Makes the folder if it is missing. Rejects with FileError of the failed step: the file is then the old one, or after the rename the
 * new one.
 */
export async function writeBytes(files: FileSystem, path: string, bytes: Uint8Array): Promise<void> {
  try {
    await files.makeFolder(dirname(path))
    await replaceFile(files, path, bytes)
  } catch (error) {
    throw fileError('write', path, error)
  }
}

/** Without a flush a power cut may lose the file. Rejects with the error of the failed step. */
export async function replaceFile(
  files: FileSystem,
  path: string,
  bytes: Uint8Array,
  isFlushed = true,
): Promise<void> {
  const temporary = `${path}.new`
  const removeTemporary = (): Promise<void> => files.remove(temporary).catch(() => undefined)
  await removeTemporary()
  const file = await files.open(temporary, 'create')
  try {
    try {
      await file.write(bytes, 0)
      if (isFlushed) await file.sync()
    } finally {
      await file.close()
    }
    await files.rename(temporary, path).catch(async (error: unknown) => {
      if (!hasCode(error, 'EISDIR')) throw error
      await setAside(files, path)
      await files.rename(temporary, path)
    })
  } catch (error) {
    // on a full disk it would take the space that the next attempt needs
    await removeTemporary()
    throw error
  }
  if (isFlushed) await files.syncFolder(dirname(path))
}

/** `damaged`: anything but a whole file of its kind. */
type Found<T> =
  | { readonly is: 'whole'; readonly value: T }
  | { readonly is: 'none' }
  | { readonly is: 'damaged'; readonly reason: string }

/** Reads a file by `decode`, which throws for a damaged one. Changes nothing. Rejects with FileError if the process has too many open files. */
export async function lookAt<T>(
  files: FileSystem,
  path: string,
  decode: (bytes: Uint8Array) => T,
  maximumBytes?: number,
): Promise<Found<T>> {
  try {
    const bytes = await files.read(path, maximumBytes)
    return bytes === null ? { is: 'none' } : { is: 'whole', value: decode(bytes) }
  } catch (error) {
    if (isOutOfFiles(error)) throw fileError('read', path, error)
    return { is: 'damaged', reason: reasonOf(path, error) }
  }
}

/** `lookAt` of what `writeState` wrote. */
export function lookAtState<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  maximumBytes = MAXIMUM_STATE_BYTES,
): Promise<Found<T>> {
  return lookAt(files, path, (bytes) => decode(decodeState(bytes)), maximumBytes)
}

/** What a file holds; null if it is missing or damaged. A damaged file is moved to `.damaged` and reported. */
export async function readBytesOrSetAside<T>(
  files: FileSystem,
  path: string,
  decode: (bytes: Uint8Array) => T,
  log: Pick<Log, 'warn'>,
  maximumBytes?: number,
): Promise<T | null> {
  const found = await lookAt(files, path, decode, maximumBytes)
  if (found.is === 'whole') return found.value
  if (found.is === 'damaged') {
    log.warn(`${path}: ${found.reason}; ${await setAside(files, path)}, and its contents are lost`)
  }
  return null
}

/** `readBytesOrSetAside` of what `writeState` wrote. */
export async function readStateOrSetAside<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  log: Pick<Log, 'warn'>,
): Promise<T | null> {
  return readBytesOrSetAside(files, path, (bytes) => decode(decodeState(bytes)), log, MAXIMUM_STATE_BYTES)
}

/** `copy`: the file is damaged or gone, and its copy is whole. `lost`: neither is whole. */
type FoundTwice<T> =
  | { readonly is: 'whole'; readonly value: T }
  | { readonly is: 'copy'; readonly value: T; readonly reason: string }
  | { readonly is: 'none' }
  | { readonly is: 'lost'; readonly reason: string }

async function lookAtBoth<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  maximumBytes: number | undefined,
): Promise<readonly [file: Found<T>, copy: Found<T>]> {
  const at = (each: string): Promise<Found<T>> => lookAtState(files, each, decode, maximumBytes)
  return [await at(path), await at(copyOf(path))]
}

function foundTwice<T>([file, copy]: readonly [Found<T>, Found<T>]): FoundTwice<T> {
  if (file.is === 'whole' || (file.is === 'none' && copy.is === 'none')) return file
  const reason = file.is === 'damaged' ? file.reason : 'is gone'
  if (copy.is === 'whole') return { is: 'copy', value: copy.value, reason }
  return { is: 'lost', reason: copy.is === 'damaged' ? `${reason}, and its copy ${copy.reason}` : reason }
}

/** What `writeStateTwice` wrote. Changes nothing. */
export async function lookAtTwice<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  maximumBytes?: number,
): Promise<FoundTwice<T>> {
  return foundTwice(await lookAtBoth(files, path, decode, maximumBytes))
}

/** `lookAtTwice`, then repairs: damaged files are moved to `.damaged`, and of file and copy the missing one is written again. */
export async function readTwice<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  maximumBytes?: number,
): Promise<FoundTwice<T>> {
  const both = await lookAtBoth(files, path, decode, maximumBytes)
  const [file, copy] = both
  const found = foundTwice(both)
  if (found.is === 'whole' && copy.is !== 'whole') await mend(files, path, copyOf(path))
  if (found.is !== 'copy' && found.is !== 'lost') return found
  const reasons = [found.reason]
  if (file.is === 'damaged') reasons.push(await setAside(files, path))
  if (copy.is === 'damaged') reasons.push(await setAside(files, copyOf(path)))
  if (found.is === 'copy') await mend(files, copyOf(path), path)
  return { ...found, reason: reasons.join('; ') }
}

/** The value; null if there is none. Warns if the copy is used, or of `loss` if both are lost. */
export function valueOrWarn<T>(
  found: FoundTwice<T>,
  path: string,
  loss: string,
  log: Pick<Log, 'warn'>,
): T | null {
  if (found.is === 'copy') log.warn(`${path}: ${found.reason}; its copy is used`)
  if (found.is === 'lost') log.warn(`${path}: ${found.reason}; ${loss}`)
  return found.is === 'whole' || found.is === 'copy' ? found.value : null
}

/** If this fails, the next write of the file repairs both. */
async function mend(files: FileSystem, from: string, to: string): Promise<void> {
  const bytes = await files.read(from)
  if (bytes !== null) await writeBytes(files, to, bytes).catch(() => undefined)
}

/** Moves a file to `.damaged`, replacing an earlier one. Resolves to a clause for the log. */
export async function setAside(files: FileSystem, path: string): Promise<string> {
  const aside = asideOf(path)
  return files.rename(path, aside).then(
    () => `it is kept as ${aside}`,
    (failure: unknown) => `it could not be kept as ${aside} (${(failure as Error).message})`,
  )
}

/** A folder in the state folder. Anything else in its place (a file, a link, an unreadable folder) is renamed and reported. */
export async function makeStateFolder(
  files: FileSystem,
  path: string,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const found = await files.isFolder(path)
  const reason = found === false ? 'is not a folder' : found === true ? await whyUnlisted(files, path) : null
  if (reason !== null) {
    log.warn(`${path}: ${reason}; ${await setAside(files, path)}, and its contents are lost`)
  }
  await files.makeFolder(path)
}

async function whyUnlisted(files: FileSystem, path: string): Promise<string | null> {
  try {
    await files.list(path)
    return null
  } catch (error) {
    if (isOutOfFiles(error)) throw error
    return reasonOf(path, error)
  }
}

export function asideOf(path: string): string {
  return `${path}.damaged`
}

export function copyOf(path: string): string {
  return `${path}.copy`
}

/** Throws FormatError for a file of another version. */
export function checkVersion(kind: string, expected: number, found: unknown): void {
  if (found === expected) return
  const newer = typeof found === 'number' && found > expected ? ', which a newer version writes' : ''
  throw new FormatError(kind, `version: expected ${expected}, found ${JSON.stringify(found)}${newer}`, {
    field: 'version',
  })
}

/** A kind of state file: `NAME.json`, `oddflow-NAME` of a version, and its other fields by a schema. */
export function defineState<Schema extends v.GenericSchema>(name: string, version: number, schema: Schema) {
  const kind = `oddflow-${name}`
  const pathIn = (folder: string): string => join(folder, `${name}.json`)
  const encode = (fields: object): object => ({ kind, version, ...fields })
  const decode = (value: unknown): v.InferOutput<Schema> => {
    const head = (value ?? {}) as Record<string, unknown>
    if (head.kind !== kind) throw new FormatError(name, `kind: expected ${kind}`, { field: 'kind' })
    checkVersion(name, version, head.version)
    const parsed = v.safeParse(schema, value, { abortEarly: true })
    if (parsed.success) return parsed.output
    const [issue] = parsed.issues
    const field = v.getDotPath(issue) ?? 'fields'
    throw new FormatError(name, `${field}: ${issue.message}`, { field })
  }
  return {
    pathIn,
    encode,
    /** Throws FormatError that names the field. */
    decode,
    /** `writeState`, or with a copy `writeStateTwice`. */
    write: (files: FileSystem, folder: string, fields: object): Promise<void> =>
      writeState(files, pathIn(folder), encode(fields)),
    writeTwice: (files: FileSystem, folder: string, fields: object): Promise<void> =>
      writeStateTwice(files, pathIn(folder), encode(fields)),
    /** `readStateOrSetAside`; `readTwice` with a warning of `loss` if file and copy are lost. */
    read: (files: FileSystem, folder: string, log: Pick<Log, 'warn'>) =>
      readStateOrSetAside(files, pathIn(folder), decode, log),
    async readTwice(files: FileSystem, folder: string, loss: string, log: Pick<Log, 'warn'>) {
      const path = pathIn(folder)
      return valueOrWarn(await readTwice(files, path, decode), path, loss, log)
    },
  }
}

function encodeState(value: object): Uint8Array {
  // a table of thousands of devices is made a text once
  const text = JSON.stringify(value)
  const begun = text === '{}' ? '{' : `${text.slice(0, -1)},`
  return new TextEncoder().encode(`${begun}"crc32":${crc32(new TextEncoder().encode(text))}}\n`)
}

/** The CRC-32 at the end is of all that is before it, without its comma, and a brace. */
const CHECKSUM = /,?"crc32":(\d{1,10})\}\n?$/

/** Throws FormatError for anything but the result of `encodeState`. */
function decodeState(bytes: Uint8Array): unknown {
  const fail = (problem: string): never => {
    throw new FormatError('state', problem)
  }
  const end = new TextDecoder('latin1').decode(bytes.subarray(-24))
  const found = CHECKSUM.exec(end)
  if (found === null) return fail('no CRC-32 at its end')
  const text = bytes.subarray(0, bytes.length - found[0].length)
  if (crc32(BRACE, crc32(text)) !== Number(found[1])) return fail('its CRC-32 does not match')
  return JSON.parse(`${new TextDecoder().decode(text)}}`)
}

const BRACE = new TextEncoder().encode('}')

/** A clause that follows the file's name. */
function reasonOf(path: string, error: unknown): string {
  if (error instanceof OddFlowError) {
    return error.message.startsWith(`${path}: `) ? error.message.slice(path.length + 2) : error.message
  }
  const { code } = (error ?? {}) as NodeJS.ErrnoException
  return code === undefined
    ? `is no file of its kind (${(error as Error).message})`
    : `cannot be read (${code})`
}

/** Runs pieces of work one after another, whether or not they fail. */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>

export function createTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
}

interface KeeperOptions {
  /** "incidents are". */
  readonly what: string
  readonly ticksBetween: number
  /** A number that differs after each change. */
  readonly changes: () => number
  /** Its value for the saved state. */
  readonly savedChanges: number
  /** Rejects with an error that names the file. */
  readonly write: () => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn'>
}

export type Keeper = ReturnType<typeof createKeeper>

/** Writes state that changed now and then and at the end, one write after another. Logs the first failure and its end. */
export function createKeeper(options: KeeperOptions) {
  const { what, ticksBetween, changes, write, log } = options
  let { savedChanges } = options
  let ticks = 0
  let isTroubled = false
  const inTurn = createTurns()
  const writeChanges = async (): Promise<void> => {
    const now = changes()
    if (now === savedChanges) return
    try {
      await write()
      savedChanges = now
      if (isTroubled) log.info(`${what} saved again`)
      isTroubled = false
    } catch (error) {
      if (!isTroubled) log.warn(`${(error as Error).message}; ${what} not saved; retrying`)
      isTroubled = true
    }
  }
  /** Never rejects. */
  const save = (): Promise<void> => {
    ticks = 0
    return inTurn(writeChanges)
  }
  return {
    /** To be called every second. @param isDue - write changes now. */
    tick(isDue = false): void {
      ticks++
      if (isDue || ticks >= ticksBetween) void save()
    },
    save,
    /** Whether the last write failed. */
    get isTroubled() {
      return isTroubled
    },
  }
}
