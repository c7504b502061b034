/** FrameInput: where frames come from, a recording or an interface, in one shape. */
import { readFile } from 'node:fs/promises'
import { describeDamage, type FrameBatch } from '@oddflow/capture'
import {
  DEFAULT_KERNEL_BUFFER_FRAMES,
  LiveCaptureError,
  type LiveSource,
  openCapture,
  openLive,
} from '@oddflow/capture/node'
import type { Settings } from '../config/settings.js'
import type { Log } from '../log.js'
import type { AgentEnvironment } from '../pipeline/environment.js'
import { ABORTED, createTurns, orAborted, withinMillis } from '../pipeline/shutdown.js'
import { BATCH_FRAMES } from '../pipeline/watcher.js'
import type { Clock, Liveness } from './clocks.js'

export interface FrameInput {
  readonly frames: AsyncIterable<FrameBatch>
  readonly liveness: Liveness
  /** Whether frames wait until they are read. Those of an interface are lost. */
  readonly waits: boolean
  /** null for a recording. */
  readonly interfaceName: string | null
  /** Packets that the kernel or the recorder lost because they were not read in time, as far as is known. */
  kernelDrops(): number
  /** Times that the recording was interrupted; packets that passed meanwhile are not counted. */
  interruptions(): number
  /** Why nothing is recorded now, and has not been for some seconds; null while all is well. */
  trouble(): string | null
  /** Warnings for the end of the input. */
  warnings(): readonly string[]
  /** Ends the frames: at once, or with `abandon` after the frames that arrived. */
  stop(): void
  /** Frames given from now on are not processed and count as dropped. */
  readonly abandon: (() => void) | null
}

/**
 * LiveInput: the frames of an interface, for as long as the agent runs.
 *
 * tcpdump records as a child process, which alone needs the privilege. If it ends by itself (killed, the interface gone or
 * down), it is started again after a second, then after twice as long each time up to half a minute, and the interruption
 * is counted. A start that fails before anything was recorded is an error: the interface's name, the filter or the
 * permission is wrong.
 *
 * Drops are asked of the child every ASK_MILLIS, and told by it at its end. Packets that a stopped child leaves in the
 * kernel's buffer or in the pipe are dropped too: packets received by the kernel minus packets processed.
 */

/** What a recorder's counts say of packets that were not processed. */
function createLosses({ interface: name, filter }: Pick<LiveInputOptions, 'interface' | 'filter'>) {
  /** The kernel also counts packets that came before the filter was active, and some of 'any' twice. */
  const isExact = filter === null && name !== 'any'
  const countsOf = ({ counts }: LiveSource) => {
    const dropped = counts.droppedByKernel ?? 0
    const recorded = (counts.captured ?? 0) + dropped
    // Linux counts a packet of the loopback interface when it leaves and when it comes
    const received = Math.floor((counts.received ?? 0) / (name === 'lo' ? 2 : 1))
    return { dropped, recorded, received }
  }
  return {
    /** @param processed - frames of a recorder that has ended; null while it records */
    dropsOf(source: LiveSource, processed: number | null): number {
      const { dropped, recorded, received } = countsOf(source)
      return processed === null ? dropped : Math.max(dropped, (isExact ? received : recorded) - processed)
    },
    /** Packets in no counter at most, of a recorder that has ended. */
    uncounted(source: LiveSource, hasTold: boolean): number {
      const { recorded, received } = countsOf(source)
      if (!hasTold) return DEFAULT_KERNEL_BUFFER_FRAMES
      return isExact ? 0 : Math.max(0, Math.min(received - recorded, DEFAULT_KERNEL_BUFFER_FRAMES))
    },
  }
}

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
/** A recorder that ran this long had started recording, even without packets. */
const STARTED_MILLIS = 3000
/** A started recorder that still runs after this time is recording. */
const BEGUN_MILLIS = 1000

function liveInput(options: LiveInputOptions): FrameInput {
  const { clock, log, interface: name } = options
  const stopping = new AbortController()
  const filter = options.filter === null ? {} : { filter: options.filter }
  const recorder = { interface: name, ...filter, batchFrames: BATCH_FRAMES }
  const heartbeat = createHeartbeat(name, clock)
  let current: LiveSource | null = null
  let stopped: { readonly source: LiveSource; readonly counts: LiveSource['counts'] } | null = null
  let earlierDrops = 0
  let interruptions = 0
  /** Of the current recorder. */
  let processed = 0
  let isAbandoned = false

  const { dropsOf, uncounted } = createLosses(options)
  async function* framesOf(source: LiveSource): AsyncGenerator<FrameBatch> {
    for await (const batch of source) {
      const { count } = batch
      heartbeat.packets()
      yield batch
      // the next batch is asked for when this one is processed
      if (!isAbandoned) processed += count
    }
  }
  async function* frames(): AsyncGenerator<FrameBatch> {
    const stopLooking = clock.every(LOOK_MILLIS, () => void heartbeat.look())
    const stopAsking = clock.every(ASK_MILLIS, () => {
      if (current !== null) heartbeat.ask(current).catch(() => undefined)
    })
    let pause = FIRST_PAUSE_MILLIS
    let hasRecorded = false
    try {
      while (!stopping.signal.aborted) {
        const source = openLive({ ...recorder, signal: stopping.signal })
        current = source
        processed = 0
        void source.begun
          .then(() => clock.sleep(BEGUN_MILLIS, stopping.signal))
          .then(() => {
            if (current === source) heartbeat.alive()
          })
        const startedMillis = clock.monotonicMillis()
        heartbeat.starts()
        let reason = 'tcpdump ended'
        try {
          for await (const batch of framesOf(source)) {
            pause = FIRST_PAUSE_MILLIS
            hasRecorded = true
            yield batch
          }
        } catch (error) {
          hasRecorded ||= clock.monotonicMillis() - startedMillis > STARTED_MILLIS
          if (!(error instanceof LiveCaptureError) || isHopeless(error, hasRecorded)) throw error
          reason = error.message
        } finally {
          earlierDrops += dropsOf(source, processed)
          current = null
        }
        if (stopping.signal.aborted) return
        interruptions++
        heartbeat.gap(reason)
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
    interfaceName: name,
    kernelDrops: () =>
      earlierDrops + (current === null ? 0 : dropsOf(current, isAbandoned ? processed : null)),
    interruptions: () => interruptions,
    trouble: heartbeat.trouble,
    warnings() {
      if (stopped === null) return []
      const { source, counts } = stopped
      // counts that are told are another object
      const most = uncounted(source, source.counts !== counts)
      return most === 0
        ? []
        : [`interface ${name}: at most ${most} packets stayed in the kernel's buffer and are not counted`]
    },
    stop() {
      if (current !== null && heartbeat.isRecording) stopped = { source: current, counts: current.counts }
      stopping.abort()
    },
    abandon() {
      isAbandoned = true
    },
  }
}

/** What no waiting mends. An interface that was there once may come back. */
function isHopeless({ problem }: LiveCaptureError, hasRecorded: boolean): boolean {
  return problem !== 'ended' && !(problem === 'no-interface' && hasRecorded)
}

/**
 * Heartbeat: whether an interface is recorded, by its packets, the recorder's answers and the interface's flags.
 *
 * A gap of PATIENCE_MILLIS is a trouble, and so is a recorder that neither gives packets nor answers when it is asked for
 * its counts, UNANSWERED times in a row. tcpdump waits in silence for an interface that is switched off, so the flags of
 * the interface are read too (Linux alone).
 */

const PATIENCE_MILLIS = 10_000
const UNANSWERED = 3
/** Of the flags of an interface (Linux, IFF_UP). */
const IS_UP = 1

function createHeartbeat(name: string, clock: Pick<Clock, 'monotonicMillis'>) {
  /** Since when nothing is recorded, and why; null while a recorder records. */
  let gap: { readonly sinceMillis: number; reason: string } | null = null
  let offSinceMillis: number | null = null
  let unanswered = 0
  let isAsking = false
  const isOver = (sinceMillis: number): boolean => clock.monotonicMillis() - sinceMillis >= PATIENCE_MILLIS
  const alive = (): void => {
    gap = null
    unanswered = 0
  }
  return {
    /** The recorder records, though no packet may have come. */
    alive,
    packets() {
      alive()
      offSinceMillis = null
    },
    starts() {
      const reason = `interface ${name}: the recorder has not started`
      gap ??= { sinceMillis: clock.monotonicMillis(), reason }
    },
    gap(reason: string) {
      if (gap === null) gap = { sinceMillis: clock.monotonicMillis(), reason }
      else gap.reason = reason
    },
    async ask(source: LiveSource): Promise<void> {
      // a recorder that has not started would not answer
      if (isAsking || gap !== null) return
      isAsking = true
      const before = source.counts
      unanswered++
      try {
        // counts that are told are another object; an answer of a recorder that has ended meanwhile says nothing
        if ((await source.askForCounts()) !== before && gap === null) alive()
      } finally {
        isAsking = false
      }
    },
    async look(): Promise<void> {
      const flags = await readFile(`/sys/class/net/${name}/flags`, 'latin1').catch(() => null)
      const isOff = flags !== null && (Number(flags) & IS_UP) === 0
      offSinceMillis = isOff ? (offSinceMillis ?? clock.monotonicMillis()) : null
    },
    trouble(): string | null {
      if (gap !== null) return isOver(gap.sinceMillis) ? `nothing is recorded: ${gap.reason}` : null
      if (offSinceMillis !== null && isOver(offSinceMillis))
        return `nothing is recorded: interface ${name} is down`
      return unanswered <= UNANSWERED
        ? null
        : `interface ${name}: the recorder does not answer, and gives no packets`
    },
    get isRecording() {
      return gap === null
    },
  }
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
    abandon: null,
    warnings() {
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

/** Splits a batch into parts of at most this many frames. Borrowed like the batch. */
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

/** What the recorder has still to hand over when the agent is to stop. */
const DRAIN_MILLIS = 300
/** Reads the rest without processing, until the recorder reports its counts. */
const DISCARD_MILLIS = 300

/** Reads until the input ends or the signal comes; what an interface has given by then is still taken. */
export async function readFrames(
  input: FrameInput,
  { clock, stop }: AgentEnvironment,
  onFrames: (frames: FrameBatch) => Promise<void>,
): Promise<void> {
  const iterator = input.frames[Symbol.asyncIterator]()
  let next = iterator.next()
  const giveTurns = createTurns(clock)
  const takeUntil = async (signal: AbortSignal, take = onFrames): Promise<boolean> => {
    for (;;) {
      const result = await orAborted(next, signal)
      if (result === ABORTED) return false
      if (result.done === true) return true
      await take(result.value)
      await giveTurns()
      next = iterator.next()
    }
  }
  if (await takeUntil(stop)) return
  next.catch(() => undefined)
  input.stop()
  const { abandon } = input
  if (abandon === null || (await withinMillis(clock, DRAIN_MILLIS, null, takeUntil))) return
  abandon()
  const discard = (signal: AbortSignal): Promise<boolean> => takeUntil(signal, async () => undefined)
  await withinMillis(clock, DISCARD_MILLIS, null, discard).catch(() => undefined)
  next.catch(() => undefined)
}
