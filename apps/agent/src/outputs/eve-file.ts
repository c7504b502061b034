/**
 * EveFile: alerts as EVE JSON lines at the end of a file, as Suricata writes them, for the shippers that read
 * such files.
 *
 * The file is there from the start, alerts or none. It is only ever added to, and flushed before an alert counts
 * as delivered. A line that a kill or a full disk cut off is taken away before the next is written, so every
 * line is whole. `reopen` follows a file that was renamed by log rotation. A pipe or a terminal is written to
 * as it is.
 */
import type { FileSystem, OpenFile } from '../files/file-system.js'
import type { AlertBatch } from '../spool/alert-log.js'
import type { Output } from './output.js'

export interface EveFile extends Output {
  reopen(): void
}

const LINE_FEED = 10
/** A cut-off line is shorter than the longest alert. */
const TAIL_BYTES = 131_072

/** Rejects with the error of the file system when the file cannot be opened. */
export async function openEveFile(files: FileSystem, path: string): Promise<EveFile> {
  const isRegular = async (): Promise<boolean> => (await files.isRegular(path)) !== false
  let cuttable = await isRegular()
  let file: OpenFile | null = await files.open(path, 'append')
  let isWhole = !cuttable
  let isStale = false

  const current = async (): Promise<OpenFile> => {
    if (isStale) {
      isStale = false
      const old = file
      file = null
      await old?.close()
    }
    if (file === null) {
      cuttable = await isRegular()
      file = await files.open(path, 'append')
      isWhole = !cuttable
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
      const bytes = joinLines(lines)
      try {
        await target.write(bytes, 0)
        if (cuttable) await target.sync()
      } catch (error) {
        isWhole = !cuttable
        throw error
      }
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
  // not a line of ours: a line feed ends it, and nothing is taken away
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
