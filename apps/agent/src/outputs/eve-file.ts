/**
 * EveFile: alerts as EVE JSON lines at the end of a file, as Suricata writes them.
 *
 * An alert is delivered when the file is flushed. A line that a full disk or a kill cut off is removed before the next one is written.
 * `reopen` is for log rotation; if the file was removed or replaced, the next alert goes to a new file. Alerts wait in the log until a
 * pipe has a reader.
 */
import { FileError } from '@oddflow/program'
import { type FileSystem, hasCode, type OpenFile } from '../files/file-system.js'
import type { AlertBatch } from '../spool/alert-log.js'
import type { Output } from './output.js'

export interface EveFile extends Output {
  reopen(): void
}

const LINE_FEED = 10
/** Longer than the longest alert, and so than a cut-off line. */
const TAIL_BYTES = 131_072

/**
 * Rejects with the error of the file system when the file cannot be opened.
 * @param onNoReader - called if the file is a pipe without a reader.
 */
export async function openEveFile(
  files: FileSystem,
  path: string,
  onNoReader: (error: FileError) => void = () => undefined,
  /** Called once if another program wrote to the file. */
  onShared: () => void = () => undefined,
): Promise<EveFile> {
  const isRegular = async (): Promise<boolean> => (await files.isRegular(path)) !== false
  let cuttable = await isRegular()
  let file: OpenFile | null = await files.open(path, 'append').catch((error: unknown) => {
    if (!(error instanceof FileError && error.code === 'file.no-reader')) throw error
    onNoReader(error)
    return null
  })
  /** A write to a pipe failed midway in a line. */
  let isTorn = false
  let isWhole = !cuttable
  let isStale = false
  /** The length of the file after the last delivery. */
  let endBytes = Number.POSITIVE_INFINITY
  const noteLength = (sizeBytes: number, addedBytes: number): void => {
    if (sizeBytes > endBytes) {
      onShared()
      onShared = () => undefined
    }
    endBytes = sizeBytes + addedBytes
  }

  const current = async (): Promise<OpenFile> => {
    if (isStale || (file !== null && cuttable && !(await file.isReachedBy(path)))) {
      isStale = false
      const old = file
      file = null
      await old?.close()
    }
    if (file === null) {
      cuttable = await isRegular()
      file = await files.open(path, 'append')
      isWhole = !cuttable
      endBytes = Number.POSITIVE_INFINITY
    }
    if (!isWhole) {
      await cutTornLine(file)
      isWhole = true
    }
    return file
  }

  return {
    name: 'eve',
    target: path,
    async deliver({ lines }: AlertBatch) {
      const target = await current()
      try {
        if (isTorn) await target.write(Uint8Array.of(LINE_FEED), 0)
        isTorn = false
        const bytes = joinLines(lines)
        if (cuttable) noteLength(await target.size(), bytes.length)
        await target.write(bytes, 0)
        if (cuttable) await target.sync()
        // removed meanwhile: the alerts are lost
        if (cuttable && !isStale && !(await target.isReachedBy(path)))
          throw new FileError('file.gone', `${path}: was removed or renamed while it was written to`)
      } catch (error) {
        endBytes = Number.POSITIVE_INFINITY
        if (cuttable) {
          isWhole = await cutTornLine(target).then(
            () => true,
            () => false,
          )
        } else if (hasCode(error, 'EPIPE')) {
          // another reader may come
          isStale = true
        } else isTorn = true
        throw error
      }
      return 'written'
    },
    reopen() {
      isStale = true
    },
    async close() {
      await file?.close()
      file = null
    },
  }
}

async function cutTornLine(file: OpenFile): Promise<void> {
  const size = await file.size()
  const from = Math.max(0, size - TAIL_BYTES)
  const tail = await file.read(from, size - from)
  const end = tail.lastIndexOf(LINE_FEED) + 1
  if (end === tail.length) return
  // another program's line: end it by a line feed, and cut nothing
  if (end === 0 && from > 0) await file.write(Uint8Array.of(LINE_FEED), size)
  else await file.truncate(from + end)
}

function joinLines(lines: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(lines.reduce((sum, { length }) => sum + length + 1, 0))
  let at = 0
  for (const line of lines) {
    bytes.set(line, at)
    at += line.length + 1
    bytes[at - 1] = LINE_FEED
  }
  return bytes
}
