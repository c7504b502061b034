/** Output: a receiver of alerts. Each kind is a `defineOutput`, and one line in registry.ts. */
import { X509Certificate } from 'node:crypto'
import { FileError, readFileBounded } from '@oddflow/program'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { readFirstLine } from '../files/file-system.js'
import type { FleetModels } from '../fleet/fleet-models.js'
import type { RemoteAnswers } from '../incidents/answers.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'
import type { AlertBatch } from '../spool/alert-log.js'

/** The receiver refuses these alerts, and would refuse them again. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/** What most outputs send at a time, and how long their receivers may take to answer. */
export const BATCH = 64
export const ANSWER_MILLIS = 10_000

export interface Output {
  readonly name: string
  /** Its address for messages, without secrets. */
  readonly target: string
  /** Maximum number of alerts at a time (default 512). */
  readonly batch?: number
  /**
   * Resolves to the receiver's answer in words when all are delivered. After a rejection all are sent again. Rejects with RefusedError
   * if the receiver accepts other alerts, or fewer at a time, but not these.
   */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<string>
  close(): Promise<void>
}

/** The status of a learned device, for outputs. */
export interface DeviceStatus {
  /** A MAC address, or an IP address on a link without them. */
  readonly key: string
  /** What it calls itself, else its address. */
  readonly name: string
  /** A person's; null without one. */
  readonly group: string | null
  readonly state: string
  readonly incidentsToday: number
  /** A sentence; empty before the first. */
  readonly lastIncident: string
  /** The id of that incident while it has no answer; else null. */
  readonly unanswered: string | null
}

/** How the agent is, for a fleet: small, and each replaces the one before. */
export interface AgentStatus {
  readonly format: 1
  /** ISO 8601. */
  readonly at: string
  readonly version: string
  /** null: a model of each device. */
  readonly model: string | null
  readonly isWell: boolean
  /** A sentence each, as in /healthz. */
  readonly reasons: readonly string[]
  readonly residentBytes: number
  readonly counters: Readonly<
    Record<'captured' | 'processed' | 'dropped' | 'flows' | 'novel' | 'events' | 'waiting' | 'lost', number>
  >
  /** By level; null without `devices`. */
  readonly openIncidents: Readonly<Record<string, number>> | null
  /** By state; null without `devices`. */
  readonly deviceCounts: Readonly<Record<string, number>> | null
  /** Those seen last. */
  readonly devices: readonly DeviceStatus[]
}

export interface OutputEnvironment {
  readonly version: string
  /** Of the machine. */
  readonly hostname: string
  /** The EVE file. */
  readonly alertFile: string
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  readonly devices?: () => readonly DeviceStatus[]
  /** null or absent without a state folder. */
  readonly state?: { readonly files: FileSystem; readonly folder: string } | null
  /** null while the agent starts. */
  readonly status?: () => Promise<AgentStatus | null>
  /** Of the dashboard; null if other machines cannot reach it. */
  readonly dashboardUrl?: string | null
  /** One message, perhaps beside an agent that runs and keeps what it has with the receiver. */
  readonly isTrial?: boolean
  /** Takes models of a fleet, if there are any. */
  readonly fleetModels?: FleetModels | null
  /** Takes answers to incidents, if there are any. */
  readonly remoteAnswers?: RemoteAnswers | null
}

export const path = (what: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(4096), v.description(what))
export const text = (what: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(256), v.description(what))
export const number = (least: number, most: number, what: string) =>
  v.pipe(v.number(), v.minValue(least), v.maxValue(most), v.description(what))
export const whole = (least: number, most: number, what: string) =>
  v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most), v.description(what))
export const flag = (what: string) => v.pipe(v.boolean(), v.description(what))
export const choice = <const Names extends readonly string[]>(names: Names, what: string) =>
  v.pipe(v.picklist(names), v.description(what))

/** Entries of an object whose keys may be left out, with the defaults of some. */
export function optional<
  const Entries extends Readonly<Record<string, v.GenericSchema>>,
  const Defaults extends { readonly [Key in keyof Entries]?: Readonly<v.InferInput<Entries[Key]>> },
>(entries: Entries, defaults?: Defaults): OptionalEntries<Entries, Defaults> {
  const given: Readonly<Record<string, unknown>> = defaults ?? {}
  return Object.fromEntries(
    Object.entries(entries).map(([key, schema]) => [key, v.optional(schema, given[key])]),
  ) as unknown as OptionalEntries<Entries, Defaults>
}
type OptionalEntries<Entries extends Readonly<Record<string, v.GenericSchema>>, Defaults> = {
  [Key in keyof Entries]: v.OptionalSchema<
    Entries[Key],
    Key extends keyof Defaults ? Defaults[Key] : undefined
  >
}

const caFile = v.optional(
  path(
    'Certificate authorities to trust, in PEM, in place of the public ones; such as that of a server at home.',
  ),
)

const outputName = v.optional(
  v.pipe(
    v.string(),
    v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'at most 32 lowercase letters, digits and hyphens'),
    v.description(
      'The name of the output in counters and logs (default: its kind). Each output needs a different name.',
    ),
  ),
)

export const urlOf = (schemes: RegExp, expected: string, what: string) =>
  v.pipe(v.string(), v.maxLength(4096), v.url(), v.regex(schemes, expected), v.description(what))

export type CommonEntries<Kind extends string> = {
  readonly kind: v.LiteralSchema<Kind, undefined>
  readonly name: typeof outputName
  readonly caFile: typeof caFile
}

export type OutputSchema<Kind extends string, Entries extends v.ObjectEntries> = v.StrictObjectSchema<
  CommonEntries<Kind> & Entries,
  undefined
>

/** The settings of an output, with its name, and with paths relative to the agent's working directory. */
export type SettingsOf<Kind extends string, Entries extends v.ObjectEntries> = v.InferOutput<
  OutputSchema<Kind, Entries>
> & { readonly name: string }

export interface OutputParts<Kind extends string, Entries extends v.ObjectEntries> {
  readonly kind: Kind
  /** Keys of the configuration beside `kind`, `name` and `caFile`, with their defaults. */
  readonly entries: Entries
  /** Checks beyond the schema; throws UsageError by `refuse`. */
  check?(settings: SettingsOf<Kind, Entries>, refuse: (key: string, message: string) => never): void
  /** Its address without secrets; by default the origin of `url`. */
  target?(settings: SettingsOf<Kind, Entries>): string
  /** Resident memory of its library (measured); by default none. */
  readonly memoryBytes?: number
  /** Loads its library. Rejects with FileError if a file cannot be read. */
  create(settings: SettingsOf<Kind, Entries>, environment: OutputEnvironment): Promise<Output>
}

export function defineOutput<const Kind extends string, Entries extends v.ObjectEntries>(
  parts: OutputParts<Kind, Entries>,
): OutputParts<Kind, Entries> & { readonly schema: OutputSchema<Kind, Entries> } {
  const { kind, entries } = parts
  return { ...parts, schema: v.strictObject({ kind: v.literal(kind), name: outputName, caFile, ...entries }) }
}

/** Waits for all, then rejects with the first failure. */
export async function allDone(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

/** A URL without user, password, path and query. */
export function originOf(url: string): string {
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

/** What an output reads from the file that a key names, and how. */
const FILES = {
  urlFile: { what: 'url', read: readUrl },
  tokenFile: { what: 'token', read: readToken },
  seedFile: { what: 'seed', read: readSeed },
  passwordFile: { what: 'password', read: readSecret },
  signatureFile: { what: 'signature key', read: readSecret },
  caFile: { what: 'certificates', read: readCertificates },
} as const

export function filesOf(output: { readonly [Key in keyof typeof FILES]?: string | undefined }) {
  return (Object.keys(FILES) as (keyof typeof FILES)[]).flatMap((key) => {
    const path = output[key]
    return path === undefined ? [] : [{ ...FILES[key], path }]
  })
}

const MAXIMUM_BYTES = 1_048_576
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Certificate authorities in PEM; they replace those of Node. Throws FileError if the file or a certificate in it is unusable. */
export function readCertificates(file: string): string[] {
  const text = new TextDecoder().decode(
    readFileBounded(file, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true }),
  )
  const found = text.match(CERTIFICATE) ?? []
  try {
    for (const each of found) new X509Certificate(each)
    if (found.length > 0) return found
  } catch {
    // reported below
  }
  throw new FileError('file.certificate', `${file}: expected certificates in PEM (BEGIN CERTIFICATE)`)
}

/** A password or a key: the first line of a file. Throws FileError, which quotes nothing of the file, as do the following. */
export function readSecret(file: string): string {
  const secret = readFirstLine(file)
  if (secret !== '') return secret
  throw new FileError('file.empty', `${file}: expected a password or a key in its first line, found none`)
}

export const LOOPBACK = /^(localhost|127\.[\d.]+|\[?::1\]?)$/

/** A URL that is a secret: the first line of a file. */
export function readUrl(file: string): string {
  const text = readToken(file)
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.test(url.hostname))) return text
  throw new FileError('file.url', `${file}: expected a URL of https in its first line`)
}

/** The seed of a user's nkey: the first line of a file. */
export function readSeed(file: string): string {
  const seed = readToken(file)
  if (/^SU[A-Z2-7]{56}$/.test(seed)) return seed
  throw new FileError('file.seed', `${file}: expected the seed of an nkey (SU…) in its first line`)
}

const MAXIMUM_TOKEN_BYTES = 8192

/** A token: the first line of a file. */
export function readToken(file: string): string {
  const token = readFirstLine(file).trim()
  if (token.length === 0 || token.length > MAXIMUM_TOKEN_BYTES || !/^[\x21-\x7e]+$/.test(token)) {
    throw new FileError(
      'file.token',
      `${file}: expected a token of visible ASCII characters in its first line`,
    )
  }
  return token
}
