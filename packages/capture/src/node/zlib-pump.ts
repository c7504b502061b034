/**
 * A decompressing stream of node:zlib, fed one block at a time and read as its output is wanted.
 *
 * zlib works in another thread and stops while its small output buffer is full, so what is not read is not
 * unpacked. The order for the caller: `feed`, then `read` until it is null, then look at `outcome`; while that
 * is null too, wait for `changed`.
 */

/** What is used of zlib's streams. */
export interface ZlibStream {
  /** Bytes of input that were used. */
  readonly bytesWritten: number
  write(block: Uint8Array, done: () => void): unknown
  end(): unknown
  read(): unknown
  on(event: string, listener: (error: Error) => void): unknown
  destroy(): unknown
}

export type ZlibOutcome =
  /** The block is used up. */
  | 'used'
  /** The compressed data have ended; what is left of the block is no part of them. */
  | 'ended'
  /** The input ended before the compressed data did. */
  | 'cut'
  | 'damaged'

export interface ZlibPump {
  readonly bytesUsed: number
  /** Of the block that was fed last, null while zlib works on it. */
  readonly outcome: ZlibOutcome | null
  /** What zlib says of the damage. */
  readonly message: string
  /** Hands over a block, or null for the end of the input. It stays borrowed until there is an outcome. */
  feed(block: Uint8Array | null): void
  /** Output that is there. */
  read(): Buffer | null
  changed(): Promise<void>
  destroy(): void
}

export function createZlibPump(stream: ZlibStream): ZlibPump {
  let outcome: ZlibOutcome | null = null
  let message = ''
  let wake: () => void = () => undefined
  const settle = (next: ZlibOutcome): void => {
    // a failed stream still calls the writer back
    if (outcome !== 'damaged' && outcome !== 'cut') outcome = next
    wake()
  }
  stream.on('readable', () => wake())
  stream.on('end', () => settle('ended'))
  // it stays for good: a late error of a stream that nobody waits for must not end the process
  stream.on('error', (error: Error & { code?: string }) => {
    message = error.message
    settle(error.code === 'Z_BUF_ERROR' ? 'cut' : 'damaged')
  })
  return {
    get bytesUsed() {
      return stream.bytesWritten
    },
    get outcome() {
      return outcome
    },
    get message() {
      return message
    },
    feed(block) {
      outcome = null
      if (block === null) {
        stream.end()
        return
      }
      const goal = stream.bytesWritten + block.length
      // zlib leaves alone what follows the end of its data
      stream.write(block, () => settle(stream.bytesWritten < goal ? 'ended' : 'used'))
    },
    read: () => stream.read() as Buffer | null,
    changed: () =>
      new Promise<void>((resolve) => {
        wake = resolve
      }),
    destroy() {
      stream.destroy()
    },
  }
}
