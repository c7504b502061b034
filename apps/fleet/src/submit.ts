/** Queues captures: each one once, however often it is submitted. */
import { createHash } from 'node:crypto'
import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { join, relative, sep } from 'node:path'
import { JetStreamApiError } from '@nats-io/jetstream'
import { OddFlowError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { createFlowExtractor } from '@oddflow/flows'
import { createFlowJudge, inFile, UsageError } from '@oddflow/program'
import {
  type Archive,
  type Capture,
  DONE,
  doneSubject,
  FAILED,
  failedSubject,
  idOf,
  JOBS,
  jobOf,
  jobSubject,
  lastMessage,
  MessageError,
  mapWithLimit,
  onPath,
  wordsOf,
  write,
} from './archive.js'

export interface SubmitOptions {
  /** The folder that the workers have too. */
  readonly captures?: string
  /** An object store on the server, in place of a folder. */
  readonly bucket?: string
  readonly model?: string
  readonly retryFailed?: boolean
}

export interface Submitted {
  queued: number
  /** Waiting or being read already. */
  waiting: number
  done: number
  /** Set aside earlier. */
  failed: number
  /** Set aside now: their names cannot be queued. */
  setAside: number
}

const CAPTURE = /\.(pcap|pcapng|cap|dmp)(\.gz|\.zst)?$/i
/** Messages on their way to the server at a time. */
const IN_FLIGHT = 64
/** The server's code for a subject that holds a message already. */
const SUBJECT_IS_FULL = 10077

/** `paths` are files or folders below the folder of captures; none: all of it. */
export async function submit(
  archive: Archive,
  paths: readonly string[],
  options: SubmitOptions,
  onSubmitted: (count: number, total: number) => void,
  tell: (line: string) => void,
): Promise<Submitted> {
  const model = options.model === undefined ? null : await storeModel(archive, options.model)
  const captures =
    options.bucket === undefined
      ? capturesOfFolder(options.captures ?? '.', paths, model)
      : await capturesOfBucket(archive, options.bucket, paths, model)
  const submitted: Submitted = { queued: 0, waiting: 0, done: 0, failed: 0, setAside: 0 }
  let count = 0
  await mapWithLimit(captures, IN_FLIGHT, async (capture) => {
    submitted[await submitOne(archive, capture, options.retryFailed === true, tell)]++
    onSubmitted(++count, captures.length)
  })
  return submitted
}

async function submitOne(
  archive: Archive,
  capture: Capture,
  retryFailed: boolean,
  tell: (line: string) => void,
): Promise<keyof Submitted> {
  const id = idOf(capture)
  const { name } = capture
  if ((await lastMessage(archive, DONE, doneSubject(id))) !== null) return 'done'
  const failed = failedSubject(id)
  if ((await lastMessage(archive, FAILED, failed)) !== null) {
    if (!retryFailed) return 'failed'
    await archive.manager.streams.purge(FAILED, { filter: failed })
    // a killed server may have kept the message
    await archive.manager.streams.purge(JOBS, { filter: jobSubject(id) })
  }
  try {
    await archive.client.publish(jobSubject(id), write(jobOf(capture)))
    return 'queued'
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === SUBJECT_IS_FULL) return 'waiting'
    if (!(error instanceof MessageError)) {
      throw new OddFlowError('fleet.server', `${name}: cannot be queued: ${wordsOf(error)}`)
    }
    const reason = error.message
    const report = write({ format: 1, id, name: name.slice(0, 1024), reason, worker: hostname() })
    await archive.client.publish(failed, report)
    tell(`${name.slice(0, 1024)}: set aside: ${reason}`)
    return 'setAside'
  }
}

/** Puts the model into the store under its SHA-256. Throws if it cannot judge captures one packet after another. */
async function storeModel({ models }: Archive, path: string): Promise<string> {
  const bytes = onPath(path, (file) => readFileSync(file))
  try {
    checkStreams(decodeModelFile(bytes))
  } catch (error) {
    throw inFile(path, error)
  }
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const info = await models.info(sha256)
  if (info === null || info.deleted) await models.putBlob({ name: sha256 }, bytes)
  return sha256
}

/** Throws for models of rows, and for flow rules that need the whole capture. */
function checkStreams(saved: SavedModel): void {
  const { contract, row } = createFlowJudge(saved)
  createFlowExtractor({ contract, row, onRecord() {} })
}

function capturesOfFolder(folder: string, paths: readonly string[], model: string | null): Capture[] {
  const captures = new Map<string, Capture>()
  const add = (path: string): void => {
    const name = relative(folder, path).split(sep).join('/')
    if (name.startsWith('../')) throw new UsageError(`${path}: is not below --captures ${folder}`)
    const { size, mtimeMs } = onPath(path, (file) => statSync(file))
    captures.set(name, { bucket: null, name, sizeBytes: size, modifiedMillis: mtimeMs, model })
  }
  const walk = (path: string): void => {
    for (const entry of entriesOf(path)) {
      const at = join(path, entry.name)
      // links are not followed: they may lead out of the folder, or in circles
      if (entry.isDirectory()) walk(at)
      else if (entry.isFile() && CAPTURE.test(entry.name)) add(at)
    }
  }
  for (const path of paths.length === 0 ? [folder] : paths) {
    if (onPath(path, (file) => statSync(file)).isDirectory()) walk(path)
    else add(path)
  }
  if (captures.size === 0) throw noCaptures(folder)
  return [...captures.values()]
}

async function capturesOfBucket(
  archive: Archive,
  bucket: string,
  names: readonly string[],
  model: string | null,
): Promise<Capture[]> {
  const store = await archive.bucket(bucket)
  const wanted = names.length === 0 ? null : new Set(names)
  const captures = (await store.list())
    .filter(({ name, deleted }) => !deleted && (wanted === null ? CAPTURE.test(name) : wanted.delete(name)))
    .map(({ name, size, mtime }) => ({
      bucket,
      name,
      sizeBytes: size,
      modifiedMillis: Date.parse(mtime),
      model,
    }))
  for (const name of wanted ?? []) throw new UsageError(`${name}: there is no such object in ${bucket}`)
  if (captures.length === 0) throw noCaptures(bucket)
  return captures
}

const noCaptures = (place: string): UsageError =>
  new UsageError(`${place}: no captures (names that end in .pcap, .pcapng or .cap, .gz too)`)

/** Sorted by name. */
const entriesOf = (path: string): Dirent[] =>
  onPath(path, (folder) => readdirSync(folder, { withFileTypes: true })).sort((a, b) =>
    a.name < b.name ? -1 : 1,
  )
