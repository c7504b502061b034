/**
 * The bytes of a file, a FIFO, a device or standard input, in large blocks.
 *
 * A regular file is read ahead by one block, so that the disk works while the block before is decoded; a
 * pipe is not, since its next byte may be hours away and a reader that stops must not wait for it. Two
 * buffers take turns: a block is valid until the one after the next is asked for.
 */
import { open } from 'node:fs/promises'
import process from 'node:process'
import { describeSystemError } from './capture-file-error.js'

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
  const handle = await open(file, 'r').catch((cause: unknown) => {
    throw describeSystemError(file, cause)
  })
  const failed = (cause: unknown): never => {
    throw describeSystemError(file, cause)
  }
  try {
    const status = await handle.stat().catch(failed)
    if (status.isDirectory()) throw describeSystemError(file, Object.assign(new Error(), { code: 'EISDIR' }))
    const ahead = status.isFile()
    const size = ahead ? Math.max(4096, Math.min(blockBytes, status.size + 1)) : blockBytes
    const buffers = [new Uint8Array(size), new Uint8Array(ahead && status.size >= size ? size : 0)]
    let turn = 0
    let bytes = (await handle.read(buffers[0]!, 0, size, null).catch(failed)).bytesRead
    while (bytes > 0) {
      const block = buffers[turn]!.subarray(0, bytes)
      turn = 1 - turn
      if (buffers[turn]!.length < size) buffers[turn] = new Uint8Array(size)
      const next = (): Promise<{ bytesRead: number }> => handle.read(buffers[turn]!, 0, size, null)
      if (ahead) {
        const pending = next().catch(failed)
        // a consumer that stops early never awaits it
        pending.catch(() => undefined)
        yield block
        bytes = (await pending).bytesRead
      } else {
        yield block
        bytes = (await next().catch(failed)).bytesRead
      }
    }
  } finally {
    await handle.close()
  }
}
