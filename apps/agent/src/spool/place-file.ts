/**
 * How far an output has got, on disk: `NAME.place`, replaced as a whole. One that is
 * damaged is told of and set aside; what is left in the spool is then delivered again, under the same ids.
 *
 * `end.mark` in the same form says how far the spool itself had got when it was last closed, so that a lost end can be counted.
 */
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import type { FileSystem } from '../files/file-system.js'
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'

export interface KeptPlace {
  /** Everything before is delivered. */
  readonly next: number
  /** Alerts that were lost before they were delivered. */
  readonly dropped: number
}

export const placePath = (folder: string, name: string): string => join(folder, `${name}.place`)
const endPath = (folder: string): string => join(folder, 'end.mark')

export async function readPlace(
  files: FileSystem,
  folder: string,
  name: string,
  log: Pick<Log, 'warn'>,
): Promise<KeptPlace | null> {
  return readStateOrSetAside(files, placePath(folder, name), decodePlace, log)
}

export async function writePlace(
  files: FileSystem,
  folder: string,
  name: string,
  place: KeptPlace,
): Promise<void> {
  await writeState(files, placePath(folder, name), place)
}

/** 0 where there is none. */
export async function readEnd(files: FileSystem, folder: string, log: Pick<Log, 'warn'>): Promise<number> {
  return (await readStateOrSetAside(files, endPath(folder), decodePlace, log))?.next ?? 0
}

export async function writeEnd(files: FileSystem, folder: string, end: number): Promise<void> {
  await writeState(files, endPath(folder), { next: end, dropped: 0 })
}

/** Throws FormatError. */
function decodePlace(value: unknown): KeptPlace {
  const { next, dropped } = (value ?? {}) as Record<string, unknown>
  if (!isCount(next) || !isCount(dropped)) throw new FormatError('place', 'expected counts')
  return { next, dropped }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
