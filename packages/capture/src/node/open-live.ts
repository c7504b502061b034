/**
 * The packets of a network interface, recorded by a child process (recorder.ts) and read like any capture. The pipe is
 * the only queue: if the consumer is too slow, the kernel drops packets, and the recorder counts them. After the abort
 * signal what the recorder has written is still delivered; if it ends by itself, LiveCaptureError is thrown.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import process from 'node:process'
import { OddFlowError, TOO_MANY_FILES } from '@oddflow/core'
import type { CaptureEnd } from '../capture-notes.js'
import { type CaptureReader, createCaptureReader, DEFAULT_BATCH_FRAMES } from '../capture-reader.js'
import type { FrameBatch } from '../packet-batch.js'
import { type FrameSource, frameSource } from './frame-source.js'
import {
  NO_COUNTS,
  type RecorderCommand,
  type RecorderCounts,
  RecorderMessages,
  type RecorderName,
  type RecorderOptions,
  recorderCommand,
} from './recorder.js'

/** Why a live capture could not start or broke off; `ended`: the recording program ended by itself. */
export type LiveCaptureProblem = 'no-program' | 'permission' | 'no-interface' | 'bad-filter' | 'ended'

/**
 * A live capture that could not start or broke off, in one line that ends with what to do. It quotes the recorder's last
 * words, and explains those of libpcap on Linux and the BSDs.
 */
export class LiveCaptureError extends OddFlowError {
  override readonly name = 'LiveCaptureError'
  readonly problem: LiveCaptureProblem
  readonly interface: string
  /** The program's last message, in one line; may be empty. */
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
function describeSpawnError(name: string, program: string, cause: unknown): LiveCaptureError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const fail = (problem: LiveCaptureProblem, why: string, words = ''): LiveCaptureError =>
    new LiveCaptureError(problem, name, `cannot be recorded${why}`, words)
  switch (code) {
    case 'ENOENT':
      return fail(
        'no-program',
        `, since there is no program ${program}; install it (its package has that name on most systems, dumpcap comes with Wireshark), or pipe a capture into standard input`,
      )
    case 'EACCES':
    case 'EPERM':
      return fail(
        'permission',
        `, since this user may not run ${program}; run as root or as a member of its group`,
      )
    case 'EMFILE':
    case 'ENFILE':
      return fail('ended', `: ${TOO_MANY_FILES}`)
    default: {
      const words = cause instanceof Error ? cause.message.split('\n')[0]! : String(cause)
      return fail('ended', `: ${program} did not start: ${words}`, words)
    }
  }
}

/** The program ended by itself. @param ending - `exit code 1`, or `signal SIGKILL` */
function describeEnding(
  name: string,
  recorder: RecorderName,
  ending: string,
  words: string,
): LiveCaptureError {
  const said = words === '' ? 'without a message' : `saying: ${words}`
  const fail = (problem: LiveCaptureProblem, advice: string): LiveCaptureError =>
    new LiveCaptureError(problem, name, `${recorder} ended (${ending}) ${said}${advice}`, words)
  if (PERMISSION.test(words)) {
    const command = `setcap cap_net_raw+eip $(command -v ${recorder})`
    return fail('permission', `; to record, give the program the right alone (${command})`)
  }
  if (NO_INTERFACE.test(words)) {
    return fail('no-interface', `; "${recorder} -D" lists the interfaces`)
  }
  if (BAD_FILTER.test(words)) return fail('bad-filter', '; see pcap-filter(7) for the syntax')
  return fail('ended', '')
}

/** How long a recorder may take to stop before it is killed. */
const STOP_MILLIS = 2000
/** Looks at the pipes of an ended program, all finding them silent, before they are closed: half a second. */
const SILENT_LOOKS = 10
/** Most that a pipe (1 MiB on Linux) and our buffer can hold of an ended program; more comes from another one. */
const LEFT_BYTES = 2 << 20
/** Time between two looks. */
const LOOK_MILLIS = 50
/** How long to wait for requested counts. */
const COUNTS_MILLIS = 1000

/** The recorders that run now. */
const children = new Set<ChildProcess>()

function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

/**
 * Kills process `pid` when this process has ended in any way: a shell waits for the end of a pipe that only we hold (without
 * a shell nothing does). Kill the returned guard when `pid` has ended, before its number is used again.
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

/**
 * The recording program as a child process. A guard kills it when this process is killed, since the child would notice
 * only at its next packet. Its end is noticed although a process of its own still holds its pipes open: what it wrote
 * is read, and then the pipes are closed.
 */
class Recorder {
  readonly messages = new RecorderMessages()
  /** It was asked to stop. */
  stopping = false
  /** Resolves when recording starts, or when the recorder ends without recording. */
  readonly begun: Promise<void>
  /** `exit code 1` or `signal SIGKILL`; `exit code 0` is an orderly end. Rejects if it did not start. */
  readonly ended: Promise<string>
  readonly #command: RecorderCommand
  readonly #child: ChildProcess
  #hasEnded = false
  #hasExited = false
  /** Whether the reader of the output waits, and for how many looks it has. */
  #isWaiting = false
  #silentLooks = 0
  #bytesAfterExit = 0
  #looks: NodeJS.Timeout | undefined
  #killTimer: NodeJS.Timeout | undefined
  #onNews: () => void = () => undefined
  #onBegun: () => void = () => undefined

  /** Throws LiveCaptureError. */
  constructor(name: string, command: RecorderCommand) {
    this.#command = command
    const child = spawnRecorder(name, command)
    this.#child = child
    this.begun = new Promise((resolve) => {
      this.#onBegun = resolve
    })
    if (children.size === 0) process.on('exit', killAll)
    children.add(child)
    const guard = child.pid === undefined ? null : endWithThisProcess(child.pid)
    // there are no pipes if there are no file descriptors left for them
    child.stderr?.setEncoding('utf8')
    child.stderr?.on('data', (text: string) => {
      this.messages.add(text)
      if (this.messages.hasBegun) this.#onBegun()
      this.#onNews()
    })
    child.stderr?.on('error', () => undefined)
    this.ended = new Promise((resolve, reject) => {
      child.once('error', (cause) => {
        // a signal that could not be sent comes here too, and is no end
        if (child.pid !== undefined) return
        this.#settle()
        reject(describeSpawnError(name, command.program, cause))
      })
      child.once('exit', () => {
        // before the number can be another process's
        guard?.kill('SIGKILL')
        this.#watchPipes()
      })
      child.once('close', (code, signal) => {
        this.#settle()
        resolve(signal === null ? `exit code ${code}` : `signal ${signal}`)
      })
    })
    // the reader of the capture awaits it, perhaps later
    this.ended.catch(() => undefined)
  }

  /** Its standard output; throws nothing if the program could not be started: `ended` does. */
  async *output(): AsyncGenerator<Uint8Array> {
    const chunks = this.#child.stdout?.[Symbol.asyncIterator]() as AsyncIterator<Uint8Array> | undefined
    if (chunks === undefined) return
    try {
      for (;;) {
        this.#isWaiting = true
        const next = await chunks.next()
        this.#isWaiting = false
        this.#silentLooks = 0
        if (next.done === true) return
        if (this.#hasExited) this.#bytesAfterExit += next.value.length
        yield next.value
      }
    } catch (cause) {
      // the program did not start, or its pipe was closed from here
      if (this.#child.pid !== undefined && !this.#hasExited) throw cause
    } finally {
      this.#isWaiting = false
      await chunks.return?.()
    }
  }

  /** Asks it to stop, and kills it if it has not ended STOP_MILLIS later. */
  stop(): void {
    if (this.stopping || this.#hasEnded) return
    this.stopping = true
    this.#child.kill('SIGTERM')
    this.#killTimer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MILLIS)
  }

  /** Asks for its counts, if it gives them while it runs, and waits for them. */
  async askForCounts(): Promise<void> {
    // before recording starts, the signal would end the recorder
    if (this.#command.recorder !== 'tcpdump' || !this.messages.hasBegun || this.#hasEnded) return
    const before = this.messages.countsTold
    this.#child.kill('SIGUSR1')
    let isWaiting = true
    const limit = setTimeout(() => {
      isWaiting = false
      this.#onNews()
    }, COUNTS_MILLIS)
    while (isWaiting && !this.#hasEnded && this.messages.countsTold === before) {
      await new Promise<void>((resolve) => {
        this.#onNews = resolve
      })
    }
    clearTimeout(limit)
  }

  #settle(): void {
    this.#hasEnded = true
    clearTimeout(this.#killTimer)
    clearInterval(this.#looks)
    children.delete(this.#child)
    if (children.size === 0) process.removeListener('exit', killAll)
    this.messages.end()
    this.#onBegun()
    this.#onNews()
  }

  #watchPipes(): void {
    this.#hasExited = true
    const { stdout, stderr } = this.#child
    let looks = 0
    this.#looks = setInterval(() => {
      if (++looks > SILENT_LOOKS) stderr?.destroy()
      this.#silentLooks = this.#isWaiting ? this.#silentLooks + 1 : 0
      if (this.#silentLooks > SILENT_LOOKS || this.#bytesAfterExit > LEFT_BYTES) stdout?.destroy()
    }, LOOK_MILLIS)
  }
}

/** Options of `openLive`. */
export interface OpenLiveOptions extends RecorderOptions {
  /** Ends the recording in order when it is aborted. */
  readonly signal?: AbortSignal
  /** Most frames in a batch. */
  readonly batchFrames?: number
}

/** `drops` holds the recorder's counts. */
export interface LiveEnd extends CaptureEnd {
  readonly counts: RecorderCounts
}

/** A live capture that is iterated over, with the recorder's counts. */
export interface LiveSource extends FrameSource<LiveEnd> {
  /** The recorder's counts so far: at the end, and after `askForCounts`. */
  readonly counts: RecorderCounts
  /** Asks the recorder for its counts and resolves to them; to those already known from dumpcap, or if it does not run. */
  askForCounts(): Promise<RecorderCounts>
  /** Resolves when recording starts, or when the recorder ends without recording. Iterating starts it. */
  readonly begun: Promise<void>
}

/** Throws ArgumentError; other errors come on iteration, which is possible once. */
export function openLive(options: OpenLiveOptions): LiveSource {
  const command = recorderCommand(options)
  const reader = createCaptureReader({ batchFrames: options.batchFrames ?? DEFAULT_BATCH_FRAMES })
  let child: Recorder | null = null
  let onBegun: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    onBegun = resolve
  })
  const start = (): Recorder => {
    child = new Recorder(options.interface, command)
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
  start: () => Recorder,
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
    // no waiting for a recorder whose output makes no sense
    const isDamaged = reader.finished
    if (isDamaged) child.stop()
    const ending = await child.ended
    const { messages } = child
    if (!child.stopping && ending !== 'exit code 0') {
      throw describeEnding(options.interface, command.recorder, ending, messages.lastWords)
    }
    const end = reader.end()
    // a recorder stopped before its first packet may not have written its file header
    const isEmpty = isAsked && !isDamaged && end.packets === 0
    if (end.error !== null && !isEmpty) {
      throw new LiveCaptureError(
        'ended',
        options.interface,
        `the output of ${command.program} is not a capture: ${end.error.message}`,
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
