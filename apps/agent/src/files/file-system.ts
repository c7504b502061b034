/**
 * FileSystem: the few things that the agent asks of a disk, passed in, so that tests can make each write,
 * flush and rename fail in turn.
 *
 * A write is whole or an error. Nothing counts as kept before `sync` (of the file) and `syncFolder` (of a new
 * or renamed name) have come back. Errors are those of node:fs, with their code.
 */
import { mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises'

export interface OpenFile {
  /** Writes all bytes at a position. */
  write(bytes: Uint8Array, position: number): Promise<void>
  /** Fewer bytes than asked for at the end of the file. */
  read(position: number, length: number): Promise<Uint8Array>
  sync(): Promise<void>
  truncate(length: number): Promise<void>
  size(): Promise<number>
  close(): Promise<void>
}

/** `append`: made where it is missing, and every write goes to its end whatever the position. */
export type OpenMode = 'read' | 'read-write' | 'create' | 'append'

export interface FileSystem {
  open(path: string, mode: OpenMode): Promise<OpenFile>
  /** A small file; null where there is none. */
  read(path: string): Promise<Uint8Array | null>
  /** Names in a folder. */
  list(folder: string): Promise<string[]>
  makeFolder(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  syncFolder(path: string): Promise<void>
  /** Whether it is a file that can be flushed and cut (and not a pipe or a terminal); null where there is none. */
  isRegular(path: string): Promise<boolean | null>
}

const FLAGS: Record<OpenMode, string> = { read: 'r', 'read-write': 'r+', create: 'wx+', append: 'a+' }

export const nodeFileSystem: FileSystem = {
  async open(path, mode) {
    // a pipe or a terminal cannot be opened for reading too
    const special = mode === 'append' && (await this.isRegular(path)) === false
    const handle = await open(path, special ? 'a' : FLAGS[mode], mode === 'create' ? 0o600 : 0o640)
    return {
      async write(bytes, position) {
        for (let done = 0; done < bytes.length; ) {
          const at = mode === 'append' ? null : position + done
          done += (await handle.write(bytes, done, bytes.length - done, at)).bytesWritten
        }
      },
      async read(position, length) {
        const buffer = new Uint8Array(length)
        let done = 0
        while (done < length) {
          const { bytesRead } = await handle.read(buffer, done, length - done, position + done)
          if (bytesRead === 0) break
          done += bytesRead
        }
        return buffer.subarray(0, done)
      },
      sync: () => handle.sync(),
      truncate: (length) => handle.truncate(length),
      size: async () => (await handle.stat()).size,
      close: () => handle.close(),
    }
  },
  async read(path) {
    try {
      return await readFile(path)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return null
      throw error
    }
  },
  list: (folder) => readdir(folder),
  makeFolder: async (path) => {
    await mkdir(path, { recursive: true, mode: 0o700 })
  },
  rename: (from, to) => rename(from, to),
  remove: (path) => unlink(path),
  async syncFolder(path) {
    const handle = await open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
  async isRegular(path) {
    try {
      return (await stat(path)).isFile()
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return null
      throw error
    }
  },
}

export function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === code
}
