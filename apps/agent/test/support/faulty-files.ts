/**
 * A file system that fails where a test says so, over the real one: each step that changes something (write,
 * flush, cut, rename, removal, new file) is numbered, and a step that is to fail does nothing, or half of it.
 */
import { type FileSystem, nodeFileSystem, type OpenFile } from '../../src/files/file-system.js'

export interface Faults {
  /** Steps so far. */
  steps: number
  /** What each step was. */
  readonly seen: string[]
  /** Whether the step of this number and kind fails. */
  fails: (step: number, kind: string) => boolean
}

export function noFaults(): Faults {
  return { steps: 0, seen: [], fails: () => false }
}

export function faultyFiles(faults: Faults, code = 'ENOSPC'): FileSystem {
  const step = (kind: string): boolean => {
    faults.seen.push(kind)
    return faults.fails(faults.steps++, kind)
  }
  const attempt = (kind: string): void => {
    if (step(kind)) throw Object.assign(new Error(`${code}: made to fail, ${kind}`), { code })
  }
  const wrap = (file: OpenFile): OpenFile => ({
    ...file,
    async write(bytes, position) {
      try {
        attempt('write')
      } catch (error) {
        // a full disk takes what it can
        await file.write(bytes.subarray(0, bytes.length >> 1), position)
        throw error
      }
      await file.write(bytes, position)
    },
    async sync() {
      attempt('sync')
      await file.sync()
    },
    async truncate(length) {
      attempt('truncate')
      await file.truncate(length)
    },
  })
  return {
    ...nodeFileSystem,
    async open(path, mode) {
      if (mode === 'create') attempt('create')
      return wrap(await nodeFileSystem.open(path, mode))
    },
    async rename(from, to) {
      attempt('rename')
      await nodeFileSystem.rename(from, to)
    },
    async remove(path) {
      attempt('remove')
      await nodeFileSystem.remove(path)
    },
    async syncFolder(path) {
      attempt('syncFolder')
      await nodeFileSystem.syncFolder(path)
    },
  }
}
