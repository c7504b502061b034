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

const LINE_FEED = 10
/** Longer than the longest alert, and so than a cut-off line. */
const TAIL_BYTES = 131_072

/**
 * Rejects with the error of the file system if the file cannot be opened.
 * @param onNoReader - called if the file is a pipe without a reader.
 * @param onShared - called once if another program wrote to the file.
 */
export async function openEveFile(
  files: FileSystem,
  path: string,
  onNoReader: (error: FileError) => void = () => undefined,
  onShared: () => void = () => undefined,
): Promise<EveFile> {
  const output = new AppendedFile(files, path, onShared)
  await output.open().catch((error: unknown) => {
    if (!(error instanceof FileError && error.code === 'file.no-reader')) throw error
    onNoReader(error)
  })
  return output
}

export type EveFile = Output & Pick<AppendedFile, 'reopen'>

class AppendedFile implements Output {
  readonly name = 'eve'
  readonly target: string
  readonly #files: FileSystem
  readonly #onShared: () => void
  #file: OpenFile | null = null
  /** It can be flushed and cut, unlike a pipe or a terminal. */
  #isRegular = false
  /** It ends with a whole line. */
  #isWhole = false
  /** A write to a pipe failed midway in a line. */
  #isTorn = false
  #isStale = false
  #wasShared = false
  /** The length of the file after the last delivery. */
  #endBytes = Number.POSITIVE_INFINITY

  constructor(files: FileSystem, path: string, onShared: () => void) {
    this.#files = files
    this.target = path
    this.#onShared = onShared
  }

  async open(): Promise<OpenFile> {
    this.#isRegular = (await this.#files.isRegular(this.target)) !== false
    this.#file = await this.#files.open(this.target, 'append')
    this.#isWhole = !this.#isRegular
    this.#endBytes = Number.POSITIVE_INFINITY
    return this.#file
  }

  async deliver({ lines }: AlertBatch): Promise<string> {
    const file = await this.#current()
    try {
      if (this.#isTorn) await file.write(Uint8Array.of(LINE_FEED), 0)
      this.#isTorn = false
      const bytes = joinLines(lines)
      if (this.#isRegular) this.#noteLength(await file.size(), bytes.length)
      await file.write(bytes, 0)
      if (!this.#isRegular) return 'written'
      await file.sync()
      // removed meanwhile: the alerts are lost
      if (!this.#isStale && !(await file.isReachedBy(this.target)))
        throw new FileError('file.gone', `${this.target}: was removed or renamed while it was written to`)
      return 'written'
    } catch (error) {
      this.#endBytes = Number.POSITIVE_INFINITY
      if (this.#isRegular)
        this.#isWhole = await cutTornLine(file).then(
          () => true,
          () => false,
        )
      // another reader may come
      else if (hasCode(error, 'EPIPE')) this.#isStale = true
      else this.#isTorn = true
      throw error
    }
  }

  reopen(): void {
    this.#isStale = true
  }

  async close(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close()
  }

  async #current(): Promise<OpenFile> {
    const isGone = this.#file !== null && this.#isRegular && !(await this.#file.isReachedBy(this.target))
    if (this.#isStale || isGone) {
      this.#isStale = false
      await this.close()
    }
    const file = this.#file ?? (await this.open())
    if (!this.#isWhole) await cutTornLine(file)
    this.#isWhole = true
    return file
  }

  #noteLength(sizeBytes: number, addedBytes: number): void {
    if (sizeBytes > this.#endBytes && !this.#wasShared) {
      this.#wasShared = true
      this.#onShared()
    }
    this.#endBytes = sizeBytes + addedBytes
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
