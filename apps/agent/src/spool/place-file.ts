/**
 * How far an output has got, on disk: `NAME.place`, replaced as a whole. One that cannot be read (a disk gave
 * back something else) counts as none: what is left in the spool is then delivered again, under the same ids.
 */
import { join } from 'node:path'
import type { FileSystem } from '../files/file-system.js'
import { readState, writeState } from '../files/state-file.js'

export interface KeptPlace {
  /** Everything before is delivered. */
  readonly next: number
  /** Alerts lost to the spool's bound before they were delivered. */
  readonly dropped: number
}

const pathOf = (folder: string, name: string): string => join(folder, `${name}.place`)

export async function readPlace(files: FileSystem, folder: string, name: string): Promise<KeptPlace | null> {
  const kept = (await readState(files, pathOf(folder, name))) as Partial<
    Record<keyof KeptPlace, unknown>
  > | null
  const { next, dropped } = kept ?? {}
  return isCount(next) && isCount(dropped) ? { next, dropped } : null
}

export async function writePlace(
  files: FileSystem,
  folder: string,
  name: string,
  place: KeptPlace,
): Promise<void> {
  await writeState(files, pathOf(folder, name), place)
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
