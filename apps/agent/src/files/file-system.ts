/**
 * FileSystem: the disk operations of the agent, passed in so that tests can make each of them fail. Errors are those of node:fs.
 *
 * Data is on disk after `sync` (of the file) and `syncFolder` (of a name). Only regular files are opened for reading, because a pipe
 * would block. Links in the agent's own folders are not followed.
 */
import { constants, type Stats } from 'node:fs'
import { access, type FileHandle, lstat, mkdir, open, readdir, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { FileError, fileError, readFileBounded } from '@oddflow/program'

const MAXIMUM_SECRET_BYTES = 65_536

/** The first line of a regular file, such as a secret, without its end. Throws FileError, which quotes nothing of the file. */
export function readFirstLine(path: string): string {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_SECRET_BYTES, onlyRegular: true })
  return new TextDecoder().decode(bytes).split('\n', 1)[0].replace(/\r$/, '')
}

export interface OpenFile {
  /** Writes all bytes at a position. */
  write(bytes: Uint8Array, position: number): Promise<void>
  /** Fewer bytes at the end of the file. */
  read(position: number, length: number): Promise<Uint8Array>
  sync(): Promise<void>
  truncate(length: number): Promise<void>
  size(): Promise<number>
  /** Whether this is still the file of that name and can be read: not removed, moved, replaced or forbidden. */
  isAt(path: string): Promise<boolean>
  /** Whether that name, a link too, still leads to this file. */
  isReachedBy(path: string): Promise<boolean>
  close(): Promise<void>
}

/** `append` creates a missing file and writes at its end. `follow` reads. Both follow links: a person gives the path. */
type OpenMode = 'read' | 'read-write' | 'follow' | 'create' | 'append'

export interface FileSystem {
  open(path: string, mode: OpenMode): Promise<OpenFile>
  /** A whole file; null if there is none. Rejects with FileError if it is longer (MAXIMUM_WHOLE_BYTES by default). */
  read(path: string, maximumBytes?: number): Promise<Uint8Array | null>
  /** Names in a folder. */
  list(folder: string): Promise<string[]>
  makeFolder(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  syncFolder(path: string): Promise<void>
  /** Whether it can be flushed and cut, unlike a pipe or a terminal; null if there is none. */
  isRegular(path: string): Promise<boolean | null>
  /** Whether it is a folder and no link; null if there is nothing. */
  isFolder(path: string): Promise<boolean | null>
}

const FLAGS: Record<'read' | 'read-write' | 'follow', number> = {
  read: constants.O_RDONLY | constants.O_NOFOLLOW,
  'read-write': constants.O_RDWR | constants.O_NOFOLLOW,
  follow: constants.O_RDONLY,
}
/** Maximum size for `read`; models and rows of one owner are the longest. */
const MAXIMUM_WHOLE_BYTES = 268_435_456
/** Time to wait for a full pipe, and between two attempts. */
const FULL_MILLIS = 5000
const FULL_PAUSE_MILLIS = 20

/** Rejects with the error of node:fs if there is none, with FileError if it cannot be read. */
async function openRegular(path: string, mode: 'read' | 'read-write' | 'follow'): Promise<FileHandle> {
  let handle: FileHandle | null = null
  try {
    handle = await open(path, FLAGS[mode] | constants.O_NONBLOCK)
    const found = await handle.stat()
    if (found.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    if (!found.isFile()) throw Object.assign(new Error('is no file'), { code: 'ENXIO' })
    return handle
  } catch (error) {
    await handle?.close()
    if (hasCode(error, 'ENOENT')) throw error
    if (hasCode(error, 'ELOOP') && mode !== 'follow') {
      throw new FileError(
        'file.link',
        `${path}: is a link, which is not followed here; put the file itself there`,
      )
    }
    // what the system says of a socket
    if (hasCode(error, 'ENXIO'))
      throw new FileError('file.special', `${path}: is not a regular file; give one`)
    throw fileError('read', path, error)
  }
}

/** A new file, or the end of a file, pipe or terminal. A pipe without a reader is a FileError: opening it would block. */
async function openToWrite(path: string, mode: 'create' | 'append'): Promise<FileHandle> {
  if (mode === 'create') return open(path, 'wx+', 0o600)
  if ((await nodeFileSystem.isRegular(path)) !== false) return open(path, 'a+', 0o640)
  try {
    return await open(path, constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK)
  } catch (error) {
    if (!hasCode(error, 'ENXIO')) throw error
    throw new FileError('file.no-reader', `${path}: is a pipe without a reader; start its reader`)
  }
}

/** Waits for a full pipe. Rejects with EAGAIN if it stays full. */
async function writeSome(
  handle: FileHandle,
  bytes: Uint8Array,
  from: number,
  at: number | null,
): Promise<number> {
  for (let waited = 0; ; waited += FULL_PAUSE_MILLIS) {
    try {
      return (await handle.write(bytes, from, bytes.length - from, at)).bytesWritten
    } catch (error) {
      if (!hasCode(error, 'EAGAIN') || waited >= FULL_MILLIS) throw error
      await pause(FULL_PAUSE_MILLIS)
    }
  }
}

export const nodeFileSystem: FileSystem = {
  async open(path, mode) {
    const handle =
      mode === 'create' || mode === 'append' ? await openToWrite(path, mode) : await openRegular(path, mode)
    return {
      async write(bytes, position) {
        for (let done = 0; done < bytes.length; ) {
          const at = mode === 'append' ? null : position + done
          done += await writeSome(handle, bytes, done, at)
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
      async isAt(path) {
        const [own, named] = await Promise.all([handle.stat(), lstat(path).catch(() => null)])
        const isReadable = (own.mode & constants.S_IRUSR) !== 0
        return isSame(own, named) && isReadable
      },
      isReachedBy: async (path) => isSame(await handle.stat(), await stat(path).catch(() => null)),
      close: () => handle.close(),
    }
  },
  async read(path, maximumBytes = MAXIMUM_WHOLE_BYTES) {
    let handle: FileHandle | null = null
    try {
      handle = await openRegular(path, 'read')
      if ((await handle.stat()).size > maximumBytes) {
        throw new FileError('file.too-long', `${path}: is longer than ${maximumBytes} bytes`)
      }
      return await handle.readFile()
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return null
      throw error
    } finally {
      await handle?.close()
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
  isRegular: async (path) => (await stat(path).catch(nullIfMissing))?.isFile() ?? null,
  isFolder: async (path) => (await lstat(path).catch(nullIfMissing))?.isDirectory() ?? null,
}

function nullIfMissing(error: unknown): null {
  if (hasCode(error, 'ENOENT')) return null
  throw error
}

function isSame(a: Stats, b: Stats | null): boolean {
  return b !== null && a.ino === b.ino && a.dev === b.dev
}

/** Too many open files, of the process or the machine: the file itself may be fine. */
export function isOutOfFiles(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? ''
  return /^(file\.)?(EMFILE|ENFILE)$/.test(code)
}

export function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === code
}

/** Changes nothing. Rejects with FileError if the path is a folder, lies in none, or may not be written. */
export async function checkFileWritable(path: string): Promise<void> {
  try {
    const found = await stat(path).catch(nullIfMissing)
    if (found?.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    if (found !== null) await access(path, constants.W_OK)
    else await checkFolder(dirname(path))
  } catch (error) {
    throw fileError('write', path, error)
  }
}

export async function isPipe(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFIFO() === true
}

/** Changes nothing. Rejects with FileError if the folder, or the nearest existing one above it, may not be written. */
export async function checkFolderWritable(path: string): Promise<void> {
  const checkNearest = (at: string): Promise<void> =>
    checkFolder(at).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT') || dirname(at) === at) throw error
      return checkNearest(dirname(at))
    })
  await checkNearest(path).catch((error: unknown) => {
    throw fileError('write', path, error)
  })
}

async function checkFolder(path: string): Promise<void> {
  const found = await stat(path)
  if (!found.isDirectory()) throw Object.assign(new Error('is not a folder'), { code: 'ENOTDIR' })
  await access(path, constants.W_OK | constants.X_OK)
}
