/**
 * gzip, told by its magic number and unpacked block by block.
 *
 * Output is taken as it is asked for: zlib stops while its small output buffer is full, so an input that
 * would unpack to terabytes costs time and no memory, and a caller who stops reading stops the work. Every
 * output block of an input block is taken before the next is fed, so a stream that is cut gives all that it
 * holds before its end is told as `truncated`. Several members are one stream, as gzip(1) has it.
 */
import { createGunzip, type Gunzip } from 'node:zlib'

/** How the compressed stream ended. */
export interface GzipState {
  compressed: boolean
  truncated: boolean
  /** What zlib says of a damaged stream. */
  damage: string | null
}

const OUTPUT_BYTES = 262_144

/** Passes plain input on as it is. `state` is final when the generator is done. */
export async function* gunzipBlocks(
  blocks: AsyncIterable<Uint8Array>,
  state: GzipState,
): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | null = null
  let gunzip: Gunzip | null = null
  let decided = false
  try {
    for await (const block of blocks) {
      let next = block
      if (!decided) {
        if (head !== null) next = Buffer.concat([head, block])
        if (next.length < 2) {
          head = next.slice()
          continue
        }
        head = null
        decided = true
        state.compressed = next[0] === 0x1f && next[1] === 0x8b
        if (state.compressed) {
          gunzip = createGunzip({ chunkSize: OUTPUT_BYTES })
          // a late error of a stream that nobody waits for any more must not end the process
          gunzip.on('error', () => undefined)
        }
      }
      if (gunzip === null) {
        yield next
      } else {
        yield* unpack(gunzip, next, state)
        if (state.damage !== null || state.truncated) return
      }
    }
    if (head !== null) yield head
    if (gunzip !== null) yield* unpack(gunzip, null, state)
  } finally {
    gunzip?.destroy()
  }
}

/** Feeds one block (null: the end of the input) and gives all output that it makes. */
async function* unpack(
  gunzip: Gunzip,
  block: Uint8Array | null,
  state: GzipState,
): AsyncGenerator<Uint8Array> {
  let done = false
  let failure: (Error & { code?: string }) | null = null
  let wake: () => void = () => undefined
  const onReadable = (): void => wake()
  const onDone = (): void => {
    done = true
    wake()
  }
  const onError = (error: Error): void => {
    failure = error
    wake()
  }
  gunzip.on('readable', onReadable)
  gunzip.on('end', onDone)
  gunzip.on('error', onError)
  try {
    if (block === null) gunzip.end()
    else gunzip.write(block, onDone)
    for (;;) {
      const chunk = gunzip.read() as Buffer | null
      if (chunk !== null) {
        yield chunk
        continue
      }
      if (failure !== null) {
        const { code, message } = failure as Error & { code?: string }
        if (code === 'Z_BUF_ERROR') state.truncated = true
        else state.damage = message
        return
      }
      if (done) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    gunzip.off('readable', onReadable)
    gunzip.off('end', onDone)
    gunzip.off('error', onError)
  }
}
