/**
 * openLive: the packets of a network interface as they come, behind the interface of a capture file.
 *
 * A child process records (recorder-command.ts) and its output is read as any capture is, so a frame has the
 * same bytes, lengths and time live as in the file that the same recorder would have written. What has come is
 * given at once, however little it is. There is no queue but the pipe: a consumer that is too slow makes the
 * kernel drop, and the recorder says how many (`counts`, and `drops` of the end state).
 *
 * It ends when the abort signal given is raised: the recorder is told to stop, what it has already written is
 * still given, and the end state is that of a whole capture. When the recorder ends by itself, or there is none,
 * the iteration throws LiveCaptureError, after every packet that came.
 */

import type { CaptureEnd } from '../capture-end.js'
import { type CaptureReader, createCaptureReader, DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import type { FrameBatch } from '../frame-batch.js'
import { type FrameSource, frameSource } from './frame-source.js'
import { describeEnding, LiveCaptureError } from './live-capture-error.js'
import { type RecorderChild, startRecorder } from './recorder-child.js'
import { type RecorderCommand, type RecorderOptions, recorderCommand } from './recorder-command.js'
import { NO_COUNTS, type RecorderCounts } from './recorder-messages.js'

export interface OpenLiveOptions extends RecorderOptions {
  /** Ends the recording in order when it is aborted. */
  readonly signal?: AbortSignal
  /** Most frames in a batch. */
  readonly batchFrames?: number
}

/** `drops` hold what the recorder counted. */
export interface LiveEnd extends CaptureEnd {
  readonly counts: RecorderCounts
}

export interface LiveSource extends FrameSource<LiveEnd> {
  /** What the recorder has told of its counts so far: at the end, and after `askForCounts`. */
  readonly counts: RecorderCounts
  /**
   * Asks the recorder for its counts while it runs and resolves to them; to what is known already where it does
   * not tell (dumpcap) or does not run.
   */
  askForCounts(): Promise<RecorderCounts>
  /** Resolves when the recorder has begun to record, or has ended without. Iterating starts it. */
  readonly begun: Promise<void>
}

/** Throws ArgumentError; the other errors come when it is iterated, which may be done once. */
export function openLive(options: OpenLiveOptions): LiveSource {
  const command = recorderCommand(options)
  const reader = createCaptureReader({ batchFrames: options.batchFrames ?? DEFAULT_BATCH_FRAMES })
  let child: RecorderChild | null = null
  let onBegun: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    onBegun = resolve
  })
  const start = (): RecorderChild => {
    child = startRecorder(options.interface, command)
    child.begun.then(onBegun)
    return child
  }
  const source = frameSource(record(options, command, reader, start))
  return {
    [Symbol.asyncIterator]: () => source[Symbol.asyncIterator](),
    get end() {
      return source.end
    },
    get counts() {
      return child?.messages.counts ?? NO_COUNTS
    },
    async askForCounts() {
      await child?.askForCounts()
      return child?.messages.counts ?? NO_COUNTS
    },
    begun,
  }
}

async function* record(
  options: OpenLiveOptions,
  command: RecorderCommand,
  reader: CaptureReader,
  start: () => RecorderChild,
): AsyncGenerator<FrameBatch, LiveEnd> {
  const child = start()
  const stop = (): void => child.stop()
  if (options.signal?.aborted === true) stop()
  options.signal?.addEventListener('abort', stop)
  try {
    for await (const chunk of child.output()) {
      reader.push(chunk)
      for (let batch = reader.read(); batch !== null; batch = reader.read()) yield batch
      if (reader.finished) break
    }
    const isAsked = child.stopping
    // a recorder whose output makes no sense is not waited for
    const isDamaged = reader.finished
    if (isDamaged) child.stop()
    const ending = await child.ended
    const { messages } = child
    if (!child.stopping && ending !== 'exit code 0') {
      throw describeEnding(options.interface, command.recorder, ending, messages.lastWords)
    }
    const end = reader.end()
    // one that was stopped before its first packet may not have written its file header
    const isEmpty = isAsked && !isDamaged && end.packets === 0
    if (end.error !== null && !isEmpty) {
      throw new LiveCaptureError(
        'ended',
        options.interface,
        `what ${command.program} wrote is no capture: ${end.error.message}`,
        messages.lastWords,
      )
    }
    return liveEnd(end, messages.counts)
  } finally {
    options.signal?.removeEventListener('abort', stop)
    child.stop()
    await child.ended.catch(() => undefined)
  }
}

function liveEnd(end: CaptureEnd, counts: RecorderCounts): LiveEnd {
  const { received, droppedByKernel, droppedByInterface } = counts
  const drops = {
    interfaceReceived: received,
    interfaceDropped: droppedByInterface,
    systemDropped: droppedByKernel,
    betweenPackets: null,
  }
  return { ...end, error: null, detail: end.error === null ? end.detail : null, drops, counts }
}
