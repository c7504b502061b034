/**
 * FrameInput: where frames come from, a recording or an interface, in one shape.
 */
import { readFile } from 'node:fs/promises'
import { describeDamage, type FrameBatch } from '@oddflow/capture'
import { LiveCaptureError, type LiveSource, openCapture, openLive } from '@oddflow/capture/node'
import type { Settings } from '../config/settings.js'
import type { Log } from '../log.js'
import type { AgentEnvironment } from '../pipeline/environment.js'
import { ABORTED, createTurns, orAborted, withinMillis } from '../pipeline/shutdown.js'
import { BATCH_FRAMES } from '../pipeline/watcher.js'
import type { Clock, Liveness } from './clocks.js'

/**
 * LiveInput: the frames of an interface, for as long as the agent runs.
 *
 * tcpdump records, a child that alone needs the right to. When it ends by itself (killed, the interface gone or
 * down) it is started again, after a second, then after twice as long each time up to half a minute; what passes
 * meanwhile nobody can count, so the interruptions are. A start that fails before anything was ever recorded is an
 * error: the interface's name, the filter or the permission is wrong, and waiting would not mend it.
 *
 * A recorder that is not there for PATIENCE_MILLIS is a trouble (a flap of a second is none), and so is one that neither
 * gives packets nor answers when it is asked for its counts, UNANSWERED times in a row.
 *
 * tcpdump waits for an interface that is switched off (`ip link set IF down`), so its flags are looked at (Linux alone).
 *
 * What the kernel dropped is asked of the child now and then, so that an alert can say what was lost before it, and
 * told by it at its end. Of one that is killed the last answer counts.
 */

interface LiveInputOptions {
  readonly interface: string
  readonly filter: string | null
  readonly clock: Clock
  readonly log: Log
}

const FIRST_PAUSE_MILLIS = 1000
const LONGEST_PAUSE_MILLIS = 30_000
const ASK_MILLIS = 10_000
const LOOK_MILLIS = 2000
/** A recorder that lived so long had begun to record, though nothing may have passed. */
const STARTED_MILLIS = 3000
const PATIENCE_MILLIS = 10_000
const UNANSWERED = 3
/** A recorder that has begun and is still there after so long records. */
const BEGUN_MILLIS = 1000
/** Of the flags of an interface (Linux, IFF_UP). */
const IS_UP = 1

/** Whether somebody has switched the interface off: tcpdump waits then until it is on again, without a word. */
async function isSwitchedOff(name: string): Promise<boolean> {
  const flags = await readFile(`/sys/class/net/${name}/flags`, 'latin1').catch(() => null)
  return flags !== null && (Number(flags) & IS_UP) === 0
}

function liveInput(options: LiveInputOptions): FrameInput {
  const { clock, log } = options
  const stopping = new AbortController()
  let current: LiveSource | null = null
  let earlierDrops = 0
  let interruptions = 0
  /** Since when nothing is recorded, and why; null while a recorder records. */
  let gap: { readonly sinceMillis: number; reason: string } | null = null
  /** Questions in a row to which the recorder gave neither an answer nor a packet. */
  let unanswered = 0
  const noteAlive = (): void => {
    gap = null
    unanswered = 0
  }
  const noteGap = (reason: string): void => {
    if (gap === null) gap = { sinceMillis: clock.monotonicMillis(), reason }
    else gap.reason = reason
  }
  let offSinceMillis: number | null = null
  const lookAtInterface = async (): Promise<void> => {
    const isOff = await isSwitchedOff(options.interface)
    offSinceMillis = isOff ? (offSinceMillis ?? clock.monotonicMillis()) : null
  }
  let isAsking = false
  const ask = async (source: LiveSource): Promise<void> => {
    // one that has not begun would not answer
    if (isAsking || gap !== null) return
    isAsking = true
    const before = source.counts
    unanswered++
    try {
      // counts that are told are another object
      if ((await source.askForCounts()) !== before && current === source) noteAlive()
    } finally {
      isAsking = false
    }
  }
  const trouble = (): string | null => {
    if (gap !== null) {
      return clock.monotonicMillis() - gap.sinceMillis < PATIENCE_MILLIS
        ? null
        : `nothing is recorded: ${gap.reason}`
    }
    if (offSinceMillis !== null && clock.monotonicMillis() - offSinceMillis >= PATIENCE_MILLIS)
      return `nothing is recorded: interface ${options.interface} is down`
    return unanswered <= UNANSWERED
      ? null
      : `interface ${options.interface}: the recorder does not answer, and gives no packets`
  }

  const dropsOf = (source: LiveSource | null): number => source?.counts.droppedByKernel ?? 0
  const open = (): LiveSource =>
    openLive({
      interface: options.interface,
      ...(options.filter === null ? {} : { filter: options.filter }),
      batchFrames: BATCH_FRAMES,
      signal: stopping.signal,
    })

  async function* frames(): AsyncGenerator<FrameBatch> {
    const stopLooking = clock.every(LOOK_MILLIS, () => void lookAtInterface())
    const stopAsking = clock.every(ASK_MILLIS, () => {
      if (current !== null) ask(current).catch(() => undefined)
    })
    let pause = FIRST_PAUSE_MILLIS
    let hasRecorded = false
    try {
      while (!stopping.signal.aborted) {
        const source = open()
        current = source
        void source.begun
          .then(() => clock.sleep(BEGUN_MILLIS, stopping.signal))
          .then(() => {
            if (current === source) noteAlive()
          })
        const startedMillis = clock.monotonicMillis()
        gap ??= {
          sinceMillis: startedMillis,
          reason: `interface ${options.interface}: the recorder has not started`,
        }
        let reason = 'tcpdump ended'
        try {
          for await (const batch of source) {
            pause = FIRST_PAUSE_MILLIS
            hasRecorded = true
            noteAlive()
            offSinceMillis = null
            yield batch
          }
        } catch (error) {
          hasRecorded ||= clock.monotonicMillis() - startedMillis > STARTED_MILLIS
          if (!(error instanceof LiveCaptureError) || isHopeless(error, hasRecorded)) throw error
          reason = error.message
        } finally {
          earlierDrops += dropsOf(source)
          current = null
        }
        if (stopping.signal.aborted) return
        interruptions++
        noteGap(reason)
        log.warn(`${reason}; recording again in ${pause / 1000} s`)
        await clock.sleep(pause, stopping.signal)
        pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS)
      }
    } finally {
      stopLooking()
      stopAsking()
    }
  }

  return {
    frames: frames(),
    liveness: 'live',
    waits: false,
    drains: true,
    interfaceName: options.interface,
    kernelDrops: () => earlierDrops + dropsOf(current),
    interruptions: () => interruptions,
    trouble,
    complaints: () => [],
    stop: () => stopping.abort(),
  }
}

/** What no waiting mends. An interface that was there once may come back. */
function isHopeless({ problem }: LiveCaptureError, hasRecorded: boolean): boolean {
  return problem !== 'ended' && !(problem === 'no-interface' && hasRecorded)
}

export interface FrameInput {
  readonly frames: AsyncIterable<FrameBatch>
  readonly liveness: Liveness
  /** Whether frames wait for who reads them. Those of an interface are lost when nobody does. */
  readonly waits: boolean
  /** The interface's name; null for a recording. */
  readonly interfaceName: string | null
  /** Packets that the kernel lost because they were not fetched in time, as far as is known. */
  kernelDrops(): number
  /** Times that the recording was interrupted; what passed meanwhile nobody has counted. */
  interruptions(): number
  /** Why nothing is recorded now, and has not been for some seconds; null while all is well. */
  trouble(): string | null
  /** What is to be said of the input when it has ended. */
  complaints(): readonly string[]
  /** Ends the frames: after those that have come, where `drains`, else at once. */
  stop(): void
  readonly drains: boolean
}

/** @param path - a capture file, or - for standard input. */
function recordedInput(path: string): FrameInput {
  const source = openCapture(path, { batchFrames: BATCH_FRAMES })
  const name = path === '-' ? 'standard input' : path
  return {
    frames: source,
    liveness: path === '-' ? 'by-time' : 'recorded',
    waits: true,
    interfaceName: null,
    kernelDrops: () => 0,
    interruptions: () => 0,
    trouble: () => null,
    drains: false,
    complaints() {
      const { end } = source
      if (end === null) return []
      const lines = end.warnings.map((warning) => `${name}: ${warning}`)
      if (!end.truncated && end.error === null) return lines
      return [...lines, describeDamage(name, end)]
    },
    stop() {
      if (path === '-') process.stdin.destroy()
    },
  }
}

/** Frames from the input to whoever works on them, until it ends or the agent is to stop. */

/** What the recorder has still to hand over when the agent is to stop. */
const DRAIN_MILLIS = 300

export function openInput(settings: Settings, { clock, log }: AgentEnvironment): FrameInput {
  const { input } = settings
  return input.kind === 'recorded' ? recordedInput(input.path) : liveInput({ ...input, clock, log })
}

/**
 * Parts of a batch, each of at most so much time, and the first frame after a longer silence by itself: what is due by then
 * can be done before the next. Borrowed as the batch is.
 */
export function* partsByTime(frames: FrameBatch, micros: number): Iterable<FrameBatch> {
  const { count, timestampMicros } = frames
  let from = 0
  let isAfterSilence = false
  for (let i = 1; i <= count; i++) {
    const isSilence = i < count && timestampMicros[i] - timestampMicros[i - 1] >= micros
    const isOver = i < count && timestampMicros[i] - timestampMicros[from] >= micros
    if (i < count && !isSilence && !isOver && !isAfterSilence) continue
    isAfterSilence = isSilence
    yield from === 0 && i === count ? frames : partOf(frames, from, i)
    from = i
  }
}

/** Parts of a batch, each of at most so many frames. Borrowed as the batch is. */
export function* partsByCount(frames: FrameBatch, count: number): Iterable<FrameBatch> {
  for (let from = 0; from < frames.count; from += count) {
    yield partOf(frames, from, Math.min(frames.count, from + count))
  }
}

function partOf(frames: FrameBatch, from: number, to: number): FrameBatch {
  return {
    count: to - from,
    firstFrame: frames.firstFrame + from,
    data: frames.data,
    offset: frames.offset.subarray(from, to),
    capturedBytes: frames.capturedBytes.subarray(from, to),
    wireBytes: frames.wireBytes.subarray(from, to),
    timestampMicros: frames.timestampMicros.subarray(from, to),
    timestampSubNanos: frames.timestampSubNanos.subarray(from, to),
    linkType: frames.linkType.subarray(from, to),
  }
}

/** Reads until the input ends or the signal comes; what an interface has given by then is still taken. */
export async function readFrames(
  input: FrameInput,
  { clock, stop }: AgentEnvironment,
  onFrames: (frames: FrameBatch) => Promise<void>,
): Promise<void> {
  const iterator = input.frames[Symbol.asyncIterator]()
  let next = iterator.next()
  const giveTurns = createTurns(clock)
  const takeUntil = async (signal: AbortSignal): Promise<boolean> => {
    for (;;) {
      const result = await orAborted(next, signal)
      if (result === ABORTED) return false
      if (result.done === true) return true
      await onFrames(result.value)
      await giveTurns()
      next = iterator.next()
    }
  }
  if (await takeUntil(stop)) return
  // what comes of it later is nobody's concern
  next.catch(() => undefined)
  input.stop()
  if (input.drains) await withinMillis(clock, DRAIN_MILLIS, null, takeUntil)
}
