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

/** Throws CaptureFileError. */
export async function* fileBlocks(file: string, blockBytes: number): AsyncGenerator<Uint8Array> {
  if (file === '-') {
    try {
      for await (const chunk of process.stdin) yield chunk as Uint8Array
    } catch (cause) {
      throw describeSystemError(file, cause)
    }
    return
  }
  const failed = (cause: unknown): never => {
    throw describeSystemError(file, cause)
  }
  const handle = await open(file, 'r').catch(failed)
  try {
    const status = await handle.stat().catch(failed)
    if (status.isDirectory()) throw describeSystemError(file, Object.assign(new Error(), { code: 'EISDIR' }))
    const isRegular = status.isFile()
    const size = isRegular ? Math.max(4096, Math.min(blockBytes, status.size + 1)) : blockBytes
    const buffer = new Uint8Array(BLOCK_START + size).subarray(BLOCK_START)
    let sinceTurn = 0
    for (;;) {
      const bytes = isRegular
        ? readNow(handle, buffer, failed)
        : (await handle.read(buffer, 0, size, null).catch(failed)).bytesRead
      if (bytes === 0) return
      yield bytes === size ? buffer : buffer.subarray(0, bytes)
      sinceTurn += bytes
      if (isRegular && sinceTurn >= BYTES_A_TURN) {
        sinceTurn = 0
        await setImmediate()
      }
    }
  } finally {
    await handle.close()
  }
}

function readNow(handle: FileHandle, buffer: Uint8Array, failed: (cause: unknown) => never): number {
  try {
    return readSync(handle.fd, buffer, 0, buffer.length, null)
  } catch (cause) {
    return failed(cause)
  }
}
