/**
 * openLive: the packets of a network interface as they come, behind the interface of a capture file.
 *
 * A child process records (recorder.ts) and its output is read as any capture is, so a frame has the
 * same bytes, lengths and time live as in the file that the same recorder would have written. What has come is
 * given at once, however little it is. There is no queue but the pipe: a consumer that is too slow makes the
 * kernel drop, and the recorder says how many (`counts`, and `drops` of the end state).
 *
 * It ends when the abort signal given is raised: the recorder is told to stop, what it has already written is
 * still given, and the end state is that of a whole capture. When the recorder ends by itself, or there is none,
 * the iteration throws LiveCaptureError, after every packet that came.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import process from 'node:process'
import { OddFlowError } from '@oddflow/core'
import type { CaptureEnd } from '../capture-notes.js'
import { type CaptureReader, createCaptureReader, DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import type { FrameBatch } from '../packet-batch.js'
import { type FrameSource, frameSource } from './frame-source.js'
import {
  createRecorderMessages,
  NO_COUNTS,
  type RecorderCommand,
  type RecorderCounts,
  type RecorderMessages,
  type RecorderName,
  type RecorderOptions,
  recorderCommand,
} from './recorder.js'

/**
 * LiveCaptureError: why nothing more is recorded, in one line that ends with what to do.
 *
 * The recording program is another's, so its own words are quoted; what they mean is told from them where they
 * are known (libpcap's messages on Linux and the BSDs), and otherwise they stand alone.
 */

export type LiveCaptureProblem =
  /** The recording program is not there. */
  | 'no-program'
  | 'permission'
  | 'no-interface'
  | 'bad-filter'
  /** The recording program ended although nobody had asked it to. */
  | 'ended'

/** A live capture that could not start or broke off, with the recorder's last words. */
export class LiveCaptureError extends OddFlowError {
  override readonly name = 'LiveCaptureError'
  readonly problem: LiveCaptureProblem
  readonly interface: string
  /** What the program said last, in one line; may be empty. */
  readonly lastWords: string

  constructor(problem: LiveCaptureProblem, name: string, message: string, lastWords = '') {
    super(`live-capture.${problem}`, `interface ${name}: ${message}`)
    this.problem = problem
    this.interface = name
    this.lastWords = lastWords
  }
}

const PERMISSION = /permission|not permitted|EPERM|EACCES/i
const NO_INTERFACE = /no such device|no device named|doesn't exist|not exist|unknown interface/i
const BAD_FILTER = /filter expression|capture filter|syntax error/i

/** The program could not be started. */
export function describeSpawnError(name: string, program: string, cause: unknown): LiveCaptureError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (code === 'ENOENT') {
    return new LiveCaptureError(
      'no-program',
      name,
      `cannot be recorded, since there is no program ${program}; install it (its package has that name on most systems, dumpcap comes with Wireshark), or pipe a capture into standard input`,
    )
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return new LiveCaptureError(
      'permission',
      name,
      `cannot be recorded, since this user may not run ${program}; run as one who may, for instance by joining its group`,
    )
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    return new LiveCaptureError(
      'ended',
      name,
      `cannot be recorded: too many open files; raise the limit (ulimit -n, or LimitNOFILE= of a unit)`,
    )
  }
  const words = cause instanceof Error ? cause.message.split('\n')[0]! : String(cause)
  return new LiveCaptureError('ended', name, `cannot be recorded: ${program} did not start: ${words}`, words)
}

/** The program ended by itself. @param ending `exit code 1`, or `signal SIGKILL` */
export function describeEnding(
  name: string,
  recorder: RecorderName,
  ending: string,
  words: string,
): LiveCaptureError {
  const said = words === '' ? 'without a word' : `saying: ${words}`
  const told = `${recorder} ended (${ending}) ${said}`
  if (PERMISSION.test(words)) {
    return new LiveCaptureError(
      'permission',
      name,
      `${told}; to record, give the program the right alone (setcap cap_net_raw+eip $(command -v ${recorder}))`,
      words,
    )
  }
  if (NO_INTERFACE.test(words)) {
    return new LiveCaptureError(
      'no-interface',
      name,
      `${told}; "${recorder} -D" lists the interfaces there are`,
      words,
    )
  }
  if (BAD_FILTER.test(words)) {
    return new LiveCaptureError(
      'bad-filter',
      name,
      `${told}; see pcap-filter(7) for what a filter may be`,
      words,
    )
  }
  return new LiveCaptureError('ended', name, told, words)
}

/**
 * The recording program as a child process: started, asked for its counts, stopped in bounded time.
 *
 * Its standard output is the capture, read by whoever owns this; its standard error goes to
 * recorder.ts. Nothing queues up here: while the capture is not read, the pipe fills, the program
 * waits, and the kernel drops and counts what no longer fits into its buffer. The child ends with us: on our
 * exit it is killed. Should we be killed ourselves, it would find its pipe closed only at the next packet, and a network
 * may be silent: so a shell waits for the end of a pipe that we alone hold, and ends the child then.
 *
 * A program that has ended is noticed although a child of its own still holds its pipes open (a wrapper that was
 * killed, a helper in the background): what it wrote is still read, and then the pipes are closed from here.
 */

/** How long a recorder that was told to stop may take before it is killed. */
const STOP_MILLIS = 2000
/** Looks at the pipes of a program that has ended, all finding them silent, before they are closed: half a second. */
const SILENT_LOOKS = 10
/** What a pipe (at most 1 MiB on Linux) and our buffer can hold of a program that has ended; more is another's. */
const LEFT_BYTES = 2 << 20
/** Time between two looks. */
const LOOK_MILLIS = 50
/** How long to wait for counts that were asked for. */
const COUNTS_MILLIS = 1000

interface RecorderChild {
  /** Its standard output; throws nothing where the program could not be started: `ended` does. */
  output(): AsyncIterable<Uint8Array>
  readonly messages: RecorderMessages
  /** It was told to stop. */
  readonly stopping: boolean
  /** Tells it to stop, and kills it if it has not ended STOP_MILLIS later. */
  stop(): void
  /** Resolves when it has begun to record, or has ended without. */
  readonly begun: Promise<void>
  /** Asks for its counts; false where it does not tell them while it runs. */
  askForCounts(): Promise<boolean>
  /** `exit code 1` or `signal SIGKILL`; `exit code 0` is an orderly end. Rejects where it did not start. */
  readonly ended: Promise<string>
}

/** Those that run now. */
const children = new Set<ChildProcess>()

function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

/**
 * Kills process `pid` when this process has ended, however that came; where there is no shell, nothing does. Kill the guard that is
 * returned when `pid` has ended, before another process has its number.
 */
export function endWithThisProcess(pid: number): ChildProcess {
  const guard = spawn('/bin/sh', ['-c', 'read -r _; kill -9 "$1"', 'sh', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.on('error', () => undefined)
  guard.stdin?.on('error', () => undefined)
  guard.unref()
  const pipe: unknown = guard.stdin
  if (pipe instanceof Socket) pipe.unref()
  return guard
}

function spawnRecorder(name: string, command: RecorderCommand): ChildProcess {
  try {
    return spawn(command.program, command.args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      // its messages are read by a program
      env: { ...process.env, LC_ALL: 'C' },
    })
  } catch (cause) {
    throw describeSpawnError(name, command.program, cause)
  }
}

/** Throws LiveCaptureError. */
function startRecorder(name: string, command: RecorderCommand): RecorderChild {
  const child = spawnRecorder(name, command)
  const messages = createRecorderMessages()
  let stopping = false
  let hasEnded = false
  let hasExited = false
  /** The reader of the output waits for more, and has for so many looks. */
  let isWaiting = false
  let silentLooks = 0
  let bytesAfterExit = 0
  let looks: NodeJS.Timeout | undefined
  let timer: NodeJS.Timeout | undefined
  let onNews: () => void = () => undefined
  let onBegun: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    onBegun = resolve
  })
  if (children.size === 0) process.on('exit', killAll)
  children.add(child)
  const guard = child.pid === undefined ? null : endWithThisProcess(child.pid)

  // there are no pipes where there are no file descriptors left for them
  child.stderr?.setEncoding('utf8')
  child.stderr?.on('data', (text: string) => {
    messages.add(text)
    if (messages.hasBegun) onBegun()
    onNews()
  })
  child.stderr?.on('error', () => undefined)

  const ended = new Promise<string>((resolve, reject) => {
    const settle = (): void => {
      hasEnded = true
      clearTimeout(timer)
      clearInterval(looks)
      children.delete(child)
      if (children.size === 0) process.removeListener('exit', killAll)
      messages.end()
      onBegun()
      onNews()
    }
    child.once('error', (cause) => {
      // a signal that could not be sent comes here as well, and is no end
      if (child.pid !== undefined) return
      settle()
      reject(describeSpawnError(name, command.program, cause))
    })
    child.once('exit', () => {
      hasExited = true
      // before the number can be another process's
      guard?.kill('SIGKILL')
      let looksTaken = 0
      looks = setInterval(() => {
        if (++looksTaken > SILENT_LOOKS) child.stderr?.destroy()
        silentLooks = isWaiting ? silentLooks + 1 : 0
        if (silentLooks > SILENT_LOOKS || bytesAfterExit > LEFT_BYTES) child.stdout?.destroy()
      }, LOOK_MILLIS)
    })
    child.once('close', (code, signal) => {
      settle()
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`)
    })
  })
  // whoever reads the capture awaits it, but perhaps later
  ended.catch(() => undefined)

  return {
    async *output() {
      const chunks = child.stdout?.[Symbol.asyncIterator]() as AsyncIterator<Uint8Array> | undefined
      if (chunks === undefined) return
      try {
        for (;;) {
          isWaiting = true
          const next = await chunks.next()
          isWaiting = false
          silentLooks = 0
          if (next.done === true) return
          if (hasExited) bytesAfterExit += next.value.length
          yield next.value
        }
      } catch (cause) {
        // where the program did not start, or its pipe was closed from here
        if (child.pid !== undefined && !hasExited) throw cause
      } finally {
        isWaiting = false
        await chunks.return?.()
      }
    },
    messages,
    begun,
    ended,
    get stopping() {
      return stopping
    },
    stop() {
      if (stopping || hasEnded) return
      stopping = true
      child.kill('SIGTERM')
      timer = setTimeout(() => child.kill('SIGKILL'), STOP_MILLIS)
    },
    async askForCounts() {
      // before it has begun, the signal would end it
      if (command.recorder !== 'tcpdump' || !messages.hasBegun || hasEnded) return false
      const before = messages.countsTold
      child.kill('SIGUSR1')
      let waiting = true
      const limit = setTimeout(() => {
        waiting = false
        onNews()
      }, COUNTS_MILLIS)
      while (waiting && !hasEnded && messages.countsTold === before) {
        await new Promise<void>((resolve) => {
          onNews = resolve
        })
      }
      clearTimeout(limit)
      return messages.countsTold > before
    },
  }
}

/** Options of `openLive`. */
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

/** A live capture that is iterated over, with the recorder's counts. */
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
