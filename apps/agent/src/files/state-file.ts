/**
 * State in small files that are whole or as they were: written under another name, flushed, renamed, and the
 * folder flushed, so that a kill or a power cut at any moment leaves the old state or the new one.
 */
import { dirname } from 'node:path'
import { OddFlowError } from '@oddflow/core'
import type { Log } from '../log.js'
import type { FileSystem } from './file-system.js'

/** `writeBytes` of a value as JSON. */
export async function writeState(files: FileSystem, path: string, value: unknown): Promise<void> {
  await writeBytes(files, path, new TextEncoder().encode(`${JSON.stringify(value)}\n`))
}

/** Rejects with the error of the step that failed; the state is then the old one (or, past the rename, the new). */
export async function writeBytes(files: FileSystem, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.new`
  await files.remove(temporary).catch(() => undefined)
  const file = await files.open(temporary, 'create')
  try {
    await file.write(bytes, 0)
    await file.sync()
  } finally {
    await file.close()
  }
  await files.rename(temporary, path)
  await files.syncFolder(dirname(path))
}

/**
 * What a state file holds, by `decode`, which throws for what it is not; null where there is none. One rule for
 * a file that is damaged or of another shape: it is told of, kept aside under `.damaged` (the last such one),
 * and its owner begins anew. Rejects with the error of the file system where it cannot be read.
 */
export async function readBytesOrSetAside<T>(
  files: FileSystem,
  path: string,
  decode: (bytes: Uint8Array) => T,
  log: Pick<Log, 'warn'>,
): Promise<T | null> {
  const bytes = await files.read(path)
  if (bytes === null) return null
  try {
    return decode(bytes)
  } catch (error) {
    const reason = error instanceof OddFlowError ? error.message : 'is no whole JSON of its kind'
    const aside = asideOf(path)
    const kept = await files.rename(path, aside).then(
      () => `it is kept as ${aside}`,
      (failure: unknown) => `it could not be kept as ${aside} (${(failure as Error).message})`,
    )
    log.warn(`${path}: ${reason}; ${kept}, and what it held begins anew`)
    return null
  }
}

/** `readBytesOrSetAside` of JSON. */
export async function readStateOrSetAside<T>(
  files: FileSystem,
  path: string,
  decode: (value: unknown) => T,
  log: Pick<Log, 'warn'>,
): Promise<T | null> {
  const decodeText = (bytes: Uint8Array): T =>
    decode(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)))
  return readBytesOrSetAside(files, path, decodeText, log)
}

/** Where a damaged file is kept. */
export function asideOf(path: string): string {
  return `${path}.damaged`
}
