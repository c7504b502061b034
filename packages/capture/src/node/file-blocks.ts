/**
 * The bytes of a file, a FIFO, a device or standard input, in blocks.
 *
 * A regular file is read synchronously into one buffer that is used again and again: a block that stays in the
 * processor's second cache (DEFAULT_BLOCK_BYTES) is written by the kernel and read by the decoder without a way to
 * memory and back, and the kernel reads ahead of a reader that goes forward. The event loop gets its turn once in
 * BYTES_A_TURN, so timers and signals do not wait for the file's end. A pipe is waited for, since its next byte may
 * be hours away and a reader that stops must not wait for it. A block is valid until the next is asked for.
 */
import { readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import process from 'node:process'
import { setImmediate } from 'node:timers/promises'
import { describeSystemError } from './capture-file-error.js'

/** Bytes of a regular file between two turns of the event loop. */
const BYTES_A_TURN = 1_048_576

/**
 * Where blocks begin in their buffer. A large buffer begins 16 bytes behind the start of a page, and the kernel's
 * copies from whole pages to there are four to five times slower than to elsewhere: each store looks to the
 * processor like one to the address that is loaded next (4 KiB aliasing).
 */
const BLOCK_START = 64

/** Ends as at the end of the input when `stop` is aborted. Throws CaptureFileError. */
export async function* fileBlocks(
  file: string,
  blockBytes: number,
  stop?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const waiting = stop === undefined ? null : createWaiting(stop)
  try {
    if (file === '-') yield* standardInput(waiting)
    else yield* blocksOf(file, blockBytes, waiting)
  } finally {
    waiting?.end()
  }
}

async function* standardInput(waiting: Waiting | null): AsyncGenerator<Uint8Array> {
  const chunks = process.stdin[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await orStopped(chunks.next(), waiting)
      if (next === STOPPED) {
        process.stdin.destroy()
        return
      }
      if (next.done === true) return
      yield next.value as Uint8Array
    }
  } catch (cause) {
    throw describeSystemError('-', cause)
  }
}

async function* blocksOf(
  file: string,
  blockBytes: number,
  waiting: Waiting | null,
): AsyncGenerator<Uint8Array> {
  const failed = (cause: unknown): never => {
    throw describeSystemError(file, cause)
  }
  // a FIFO cannot be opened before somebody writes to it
  const handle = await orStopped(open(file, 'r').catch(failed), waiting)
  if (handle === STOPPED) return
  let isWaitedFor = false
  try {
    const status = await handle.stat().catch(failed)
    if (status.isDirectory()) throw describeSystemError(file, Object.assign(new Error(), { code: 'EISDIR' }))
    const isRegular = status.isFile()
    const size = isRegular ? Math.max(4096, Math.min(blockBytes, status.size + 1)) : blockBytes
    const buffer = new Uint8Array(BLOCK_START + size).subarray(BLOCK_START)
    let sinceTurn = 0
    for (;;) {
      let bytes: number
      if (isRegular) {
        if (waiting?.isStopped === true) return
        bytes = readNow(handle, buffer, failed)
      } else {
        const read = await orStopped(handle.read(buffer, 0, size, null).catch(failed), waiting)
        if (read === STOPPED) {
          isWaitedFor = true
          return
        }
        bytes = read.bytesRead
      }
      if (bytes === 0) return
      yield bytes === size ? buffer : buffer.subarray(0, bytes)
      sinceTurn += bytes
      if (isRegular && sinceTurn >= BYTES_A_TURN) {
        sinceTurn = 0
        await setImmediate()
      }
    }
  } finally {
    // closing would wait for a read that may never end
    if (!isWaitedFor) await handle.close()
  }
}

const STOPPED = Symbol('stopped')

interface Waiting {
  readonly isStopped: boolean
  /** Called on abort: the end of what is waited for now. One at a time, so a long run gathers none. */
  wake: () => void
  end(): void
}

function createWaiting(stop: AbortSignal): Waiting {
  const onAbort = (): void => waiting.wake()
  const waiting: Waiting = {
    get isStopped() {
      return stop.aborted
    },
    wake: () => {},
    end: () => stop.removeEventListener('abort', onAbort),
  }
  stop.addEventListener('abort', onAbort)
  return waiting
}

/** What `work` gives, unless the signal is aborted before; what becomes of it then nobody asks. */
function orStopped<T>(work: Promise<T>, waiting: Waiting | null): Promise<T | typeof STOPPED> {
  if (waiting === null) return work
  return new Promise((resolve, reject) => {
    waiting.wake = () => resolve(STOPPED)
    if (waiting.isStopped) waiting.wake()
    work.then(resolve, reject)
  })
}

function readNow(handle: FileHandle, buffer: Uint8Array, failed: (cause: unknown) => never): number {
  try {
    return readSync(handle.fd, buffer, 0, buffer.length, null)
  } catch (cause) {
    return failed(cause)
  }
}
