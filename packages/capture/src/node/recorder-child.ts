/**
 * The recording program as a child process: started, asked for its counts, stopped in bounded time.
 *
 * Its standard output is the capture, read by whoever owns this; its standard error goes to
 * recorder-messages.ts. Nothing queues up here: while the capture is not read, the pipe fills, the program
 * waits, and the kernel drops and counts what no longer fits into its buffer. The child ends with us: on our
 * exit it is killed. Should we be killed ourselves, it would find its pipe closed only at the next packet, and a network
 * may be silent: so a shell waits for the end of a pipe that we alone hold, and ends the child then.
 *
 * A program that has ended is noticed although a child of its own still holds its pipes open (a wrapper that was
 * killed, a helper in the background): what it wrote is still read, and then the pipes are closed from here.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import process from 'node:process'
import { describeSpawnError } from './live-capture-error.js'
import type { RecorderCommand } from './recorder-command.js'
import { createRecorderMessages, type RecorderMessages } from './recorder-messages.js'

/** How long a recorder that was told to stop may take before it is killed. */
export const STOP_MILLIS = 2000
/** Looks at the pipes of a program that has ended, all finding them silent, before they are closed: half a second. */
const SILENT_LOOKS = 10
/** What a pipe (at most 1 MiB on Linux) and our buffer can hold of a program that has ended; more is another's. */
const LEFT_BYTES = 2 << 20
/** Time between two looks. */
const LOOK_MILLIS = 50
/** How long to wait for counts that were asked for. */
const COUNTS_MILLIS = 1000

export interface RecorderChild {
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

/** Ends process `pid` when this process has ended, however that came. Without a shell there is none. */
function spawnGuard(pid: number): ChildProcess {
  const guard = spawn('/bin/sh', ['-c', 'read -r _; kill "$1"', 'sh', String(pid)], {
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
export function startRecorder(name: string, command: RecorderCommand): RecorderChild {
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
  const guard = child.pid === undefined ? null : spawnGuard(child.pid)

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
