/**
 * A worker: takes one capture at a time from the queue, scores it, writes its results, reports the outcome, and only then
 * takes the capture off the queue. A worker that is killed loses nothing: its capture goes to another worker after
 * ACK_WAIT_MILLIS, and leaves the same files.
 */
import { createHash } from 'node:crypto'
import { createWriteStream, mkdirSync, realpathSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Consumer, JsMsg } from '@nats-io/jetstream'
import type { ObjectResult, ObjectStore } from '@nats-io/obj'
import { OddFlowError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { fileError, openScratchFolder, writeFileWhole } from '@oddflow/program'
import {
  ACK_WAIT_MILLIS,
  type Archive,
  DONE,
  type Done,
  doneSubject,
  type Failed,
  failedSubject,
  isServerAway,
  type Job,
  lastMessage,
  MessageError,
  readJob,
  WAIT_SCALE,
  wordsOf,
  write,
} from './archive.js'
import { type CaptureOutcome, ResultsError, scoreCapture } from './score-capture.js'

export interface WorkOptions {
  /** The folder of captures; absent: object stores only. */
  readonly captures?: string
  readonly results: string
  /** Ends when no capture waits. */
  readonly untilEmpty?: boolean
}

export interface Work {
  readonly done: number
  readonly failed: number
}

const MAXIMUM_MODEL_BYTES = 64 * 2 ** 20
/** A capture that this many workers were given and did not finish is set aside. */
const MAXIMUM_DELIVERIES = 3
const WAIT_MILLIS = 5_000
/** The client's shortest wait for a message. */
const LOOK_MILLIS = 1_000
/** An object of which no part comes for this long is damaged, if the server answers. */
const SILENCE_MILLIS = ACK_WAIT_MILLIS
const RETRY_MILLIS = 1_000 * WAIT_SCALE

/** Works until `stop` is aborted, or the queue is empty. Throws ResultsError if results cannot be written. */
export async function work(
  archive: Archive,
  options: WorkOptions,
  stop: AbortSignal,
  tell: (line: string) => void,
): Promise<Work> {
  checkResults(options.results)
  const worker = new Worker(archive, options, stop, tell)
  const queue = await archive.queue()
  const counts = { done: 0, failed: 0 }
  const waitMillis = options.untilEmpty === true ? LOOK_MILLIS : WAIT_MILLIS
  while (!stop.aborted) {
    const message = await worker.persistently(() => queue.next({ expires: waitMillis }))
    if (message === null) {
      if (options.untilEmpty === true && (await worker.persistently(() => isEmpty(queue)))) break
      continue
    }
    const beat = setInterval(() => message.working(), ACK_WAIT_MILLIS / 3)
    try {
      const outcome = await worker.handle(message)
      if (outcome !== null) counts[outcome]++
    } finally {
      clearInterval(beat)
    }
  }
  return counts
}

class Worker {
  readonly #archive: Archive
  readonly #options: WorkOptions
  readonly #stop: AbortSignal
  readonly #tell: (line: string) => void
  readonly #name = `${hostname()}/${process.pid}`
  /** The last one: a queue has few. */
  #model: { readonly sha256: string; readonly model: SavedModel } | null = null

  constructor(archive: Archive, options: WorkOptions, stop: AbortSignal, tell: (line: string) => void) {
    this.#archive = archive
    this.#options = options
    this.#stop = stop
    this.#tell = tell
  }

  /** null: given back, because the worker stops. */
  async handle(message: JsMsg): Promise<'done' | 'failed' | null> {
    const begun = performance.now()
    let job: Job
    try {
      job = readJob(message.data)
    } catch (error) {
      if (!(error instanceof MessageError)) throw error
      this.#tell(`a message of the queue is dropped: ${error.message}`)
      // without a reason, which servers before 2.10 do not understand
      message.term()
      return 'failed'
    }
    const { id, name } = job
    // an outcome whose acknowledgment was lost
    if ((await this.persistently(() => lastMessage(this.#archive, DONE, doneSubject(id)))) !== null) {
      message.ack()
      return 'done'
    }
    try {
      if (message.info.deliveryCount > MAXIMUM_DELIVERIES) {
        throw unusable(`${MAXIMUM_DELIVERIES} workers started this capture, and none finished`)
      }
      const outcome = await this.#scoreJob(job)
      if (outcome === null) {
        message.nak()
        return null
      }
      const seconds = Math.round(performance.now() - begun) / 1000
      await this.#publish(doneSubject(id), { format: 1, id, name, ...outcome, seconds, worker: this.#name })
      message.ack()
      const damage = outcome.damage === null ? '' : `; damaged: ${outcome.damage}`
      this.#tell(`${name}: ${outcome.flows} flows, ${outcome.novel} novel, ${seconds.toFixed(1)} s${damage}`)
      return 'done'
    } catch (error) {
      if (error instanceof ResultsError) {
        message.nak()
        throw error
      }
      if (!(error instanceof OddFlowError)) throw error
      const reason = error.message.slice(0, 1000)
      await this.#publish(failedSubject(id), { format: 1, id, name, reason, worker: this.#name })
      message.term()
      this.#tell(`${name}: set aside: ${reason}`)
      return 'failed'
    }
  }

  /** Repeats `work` while the server is away; says so once. */
  async persistently<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      try {
        const result = await work()
        if (tries > 0) this.#tell('the server answers again')
        return result
      } catch (error) {
        if (this.#stop.aborted) throw error
        if (tries === 0) {
          this.#tell(`the server does not answer (${wordsOf(error)}); trying again every second`)
        }
        await pause(RETRY_MILLIS)
      }
    }
  }

  async #publish(subject: string, outcome: Done | Failed): Promise<void> {
    await this.persistently(() => this.#archive.client.publish(subject, write(outcome)))
  }

  async #scoreJob(job: Job): Promise<CaptureOutcome | null> {
    const sha256 = job.model
    const model = sha256 === null ? null : await this.#fetched(() => this.#modelOf(sha256))
    if (sha256 !== null && model === null) return null
    const score = async (path: string): Promise<CaptureOutcome | null> => {
      try {
        return await scoreCapture(job, path, model, this.#options.results, this.#stop)
      } catch (error) {
        const isNamed = error instanceof OddFlowError && error.message.startsWith(`${path}: `)
        if (!isNamed || error instanceof ResultsError) throw error
        // the job's name says which capture it is, and the path is only of this machine
        throw new OddFlowError(error.code, error.message.slice(path.length + 2))
      }
    }
    if (job.bucket === null) return score(pathOf(job, this.#options.captures))
    const scratch = openScratchFolder('oddflow-fleet')
    try {
      const path = join(scratch.path, `capture${/\.[A-Za-z0-9.]{1,20}$/.exec(job.name)?.[0] ?? ''}`)
      const isWhole = await this.#fetched(() => fetchObject(this.#archive, job, path, this.#stop))
      return isWhole ? await score(path) : null
    } finally {
      scratch.remove()
    }
  }

  /** What is wrong with an object sets its capture aside; a server that is away does not. */
  async #fetched<T>(fetch: () => Promise<T>): Promise<T> {
    const result = await this.persistently(async (): Promise<{ value: T } | { error: unknown }> => {
      try {
        return { value: await fetch() }
      } catch (error) {
        if (isServerAway(error)) throw error
        return { error }
      }
    })
    if ('value' in result) return result.value
    const { error } = result
    if (error instanceof OddFlowError) throw error
    throw unusable(`cannot be fetched: ${wordsOf(error)}`)
  }

  /** null: the worker stops. */
  async #modelOf(sha256: string): Promise<SavedModel | null> {
    if (this.#model?.sha256 === sha256) return this.#model.model
    const fail = (problem: string): never => {
      throw new OddFlowError('fleet.model', `model ${sha256}: ${problem}`)
    }
    const { models } = this.#archive
    const info = await models.info(sha256)
    if (info === null || info.deleted) return fail('is not in the store')
    if (info.size > MAXIMUM_MODEL_BYTES) fail(`${info.size} bytes are too many for a model`)
    const object = await models.get(sha256)
    const parts: Uint8Array[] = []
    const to = new WritableStream<Uint8Array>({ write: (part) => void parts.push(part) })
    if (object !== null && !(await copyObject(models, object, to, this.#stop))) return null
    const bytes = Buffer.concat(parts)
    if (createHash('sha256').update(bytes).digest('hex') !== sha256) {
      fail('the store has other bytes under this name')
    }
    const model = decodeModelFile(bytes)
    this.#model = { sha256, model }
    return model
  }
}

const unusable = (problem: string): OddFlowError => new OddFlowError('fleet.capture', problem)

async function isEmpty(queue: Consumer): Promise<boolean> {
  const { num_pending, num_ack_pending } = await queue.info()
  return num_pending + num_ack_pending === 0
}

/** Throws OddFlowError for a capture that is outside the folder, gone, or another one than was submitted. */
function pathOf({ name, sizeBytes, modifiedMillis }: Job, captures: string | undefined): string {
  if (captures === undefined) {
    throw unusable('this worker has no folder of captures (--captures)')
  }
  let path: string
  try {
    const root = realpathSync(captures)
    path = realpathSync(join(root, name))
    if (!path.startsWith(root.endsWith('/') ? root : `${root}/`))
      throw unusable('is outside the folder of captures')
    const { size, mtimeMs } = statSync(path)
    if (size !== sizeBytes || mtimeMs !== modifiedMillis) {
      throw unusable('has changed since it was submitted; submit it again')
    }
  } catch (error) {
    throw fileError('read', join(captures, name), error)
  }
  return path
}

/** False if the worker stops. */
async function fetchObject(
  archive: Archive,
  { bucket, name, sizeBytes }: Job,
  path: string,
  stop: AbortSignal,
): Promise<boolean> {
  const store = await archive.bucket(bucket!)
  const object = await store.get(name)
  if (object === null) throw unusable(`is not in the object store ${bucket}`)
  if (object.info.size !== sizeBytes) {
    throw unusable('has changed since it was submitted; submit it again')
  }
  const file = Writable.toWeb(createWriteStream(path, { mode: 0o600 })) as WritableStream<Uint8Array>
  try {
    return await copyObject(store, object, file, stop)
  } catch (error) {
    // a full disk is no fault of the capture
    const isDisk = (error as NodeJS.ErrnoException).syscall !== undefined
    if (isDisk) throw new ResultsError('fleet.results', `${path}: ${wordsOf(error)}`)
    throw error
  }
}

/** False if the worker stops. The size and the parts are the writer's word: parts may be missing or too many. */
async function copyObject(
  store: ObjectStore,
  { info, data, error }: ObjectResult,
  to: WritableStream<Uint8Array>,
  stop: AbortSignal,
): Promise<boolean> {
  const end = new AbortController()
  const onStop = (): void => end.abort()
  let isSilent = false
  const onSilence = (): void => {
    isSilent = true
    end.abort()
  }
  let silence = setTimeout(onSilence, SILENCE_MILLIS)
  let bytes = 0
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      clearTimeout(silence)
      silence = setTimeout(onSilence, SILENCE_MILLIS)
      bytes += part.length
      if (bytes > info.size) throw new Error(`more bytes than the ${info.size} of its description`)
      controller.enqueue(part)
    },
  })
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  try {
    await data.pipeThrough(count).pipeTo(to, { signal: end.signal })
  } catch (failure) {
    if (stop.aborted) return false
    if (!isSilent) throw failure
    // throws if the server is away
    await store.info(info.name)
    throw new Error(`the server has only ${bytes} of its ${info.size} bytes`)
  } finally {
    clearTimeout(silence)
    stop.removeEventListener('abort', onStop)
  }
  const failure = await error
  if (failure instanceof Error) throw failure
  return true
}

/** Before a capture is taken: one that is given back counts as not finished. Throws ResultsError. */
function checkResults(results: string): void {
  try {
    mkdirSync(results, { recursive: true })
    writeFileWhole(join(results, `.oddflow-fleet-${process.pid}`), 'can be written')
    rmSync(join(results, `.oddflow-fleet-${process.pid}`))
  } catch (error) {
    throw new ResultsError('fleet.results', fileError('write', results, error).message)
  }
}
