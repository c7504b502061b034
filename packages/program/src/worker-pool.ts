/**
 * Hands jobs one at a time to a few worker threads that run the same script. An OddFlowError from a job keeps its class and
 * ends the run, as does a thread that dies; all threads are stopped before the caller sees the error.
 */

import { parentPort, Worker, workerData } from 'node:worker_threads'
import { ArgumentError, DataError, OddFlowError } from '@oddflow/core'

/** Jobs for worker threads. */
export interface WorkerRun<Job, Said> {
  /** The module that each thread runs; it calls `serveJobs`. */
  readonly script: URL
  /** Most threads. */
  readonly workers: number
  /** Passed to each thread at its start. Typed arrays over shared memory are not copied. */
  readonly data: unknown
  /** In whatever order jobs say it. */
  onSaid(said: Said, job: Job): void
}

type Message<Said> =
  | { readonly kind: 'said'; readonly said: Said }
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly error: Refusal }

interface Refusal {
  readonly name: string
  readonly code: string
  readonly message: string
  readonly field: string | undefined
}

/** Runs all jobs. Throws the error of a job, or an OddFlowError if a thread ended before its job was done. */
export async function runInWorkers<Job, Said>(
  jobs: readonly Job[],
  { script, workers, data, onSaid }: WorkerRun<Job, Said>,
): Promise<void> {
  const waiting = jobs[Symbol.iterator]()
  const threads = Array.from({ length: Math.min(workers, jobs.length) }, () => startThread(script, data))
  const serve = async (thread: Thread): Promise<void> => {
    for (let next = waiting.next(); !next.done; next = waiting.next()) {
      const job = next.value
      await thread.run(job, (said) => onSaid(said as Said, job))
    }
  }
  try {
    await Promise.all(threads.map(serve))
  } finally {
    await Promise.all(threads.map((thread) => thread.stop()))
  }
}

interface Thread {
  /** One job at a time. */
  run(job: unknown, onSaid: (said: unknown) => void): Promise<void>
  stop(): Promise<unknown>
}

function startThread(script: URL, data: unknown): Thread {
  const worker = new Worker(script, { workerData: data })
  /** Why it will never answer again. */
  let dead: Error | null = null
  let current: { say(said: unknown): void; end(error: Error | null): void } | null = null
  const finish = (error: Error | null): void => {
    const job = current
    current = null
    job?.end(error)
  }
  const die = (error: Error): void => {
    dead ??= error
    finish(dead)
  }
  worker.on('error', (error: NodeJS.ErrnoException) => die(crash(error)))
  worker.on('exit', (code) => die(ended(code)))
  worker.on('message', (message: Message<unknown>) => {
    if (message.kind === 'done') finish(null)
    else if (message.kind === 'refused') finish(revived(message.error))
    else current?.say(message.said)
  })
  return {
    run: (job, onSaid) =>
      new Promise((resolve, reject) => {
        if (dead !== null) {
          reject(dead)
          return
        }
        current = {
          end: (error) => (error === null ? resolve() : reject(error)),
          say(said) {
            try {
              onSaid(said)
            } catch (error) {
              finish(error instanceof Error ? error : new Error(String(error)))
            }
          },
        }
        worker.postMessage(job)
      }),
    stop: () => worker.terminate(),
  }
}

/** In a worker: answers jobs for as long as the thread lives. */
export function serveJobs<Job, Said>(
  start: (data: never) => (job: Job, say: (said: Said) => void) => void,
): void {
  const port = parentPort
  if (port === null) throw new Error('serveJobs: expected to run in a worker thread')
  const answer = (message: Message<Said>): void => port.postMessage(message)
  let work: ((job: Job, say: (said: Said) => void) => void) | null = null
  port.on('message', (job: Job) => {
    try {
      work ??= start(workerData as never)
      work(job, (said) => answer({ kind: 'said', said }))
      answer({ kind: 'done' })
    } catch (error) {
      // a bug of the program ends the thread, and is reported with its stack
      if (!(error instanceof OddFlowError)) throw error
      const { name, code, message, field } = error
      answer({ kind: 'refused', error: { name, code, message, field } })
    }
  })
}

/** The error as thrown in the thread; classes do not survive the transfer. */
function revived({ name, code, message, field }: Refusal): OddFlowError {
  if (name === 'DataError') return new DataError(message, field)
  if (name === 'ArgumentError') return new ArgumentError(message, field)
  return new OddFlowError(code, message, field === undefined ? {} : { field })
}

function crash(error: NodeJS.ErrnoException): Error {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error
  return new OddFlowError(
    'worker.memory',
    'a worker thread ran out of memory: use fewer threads at a time, or fewer rows',
  )
}

function ended(code: number): OddFlowError {
  return new OddFlowError(
    'worker.ended',
    `a worker thread ended before its work was done (exit code ${code}): try again with one thread`,
  )
}
