/**
 * Output: somewhere that alerts go to.
 *
 * Each kind is one file with a `defineOutput`, and one line in registry.ts.
 */
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

/** The receiver is there and refuses what it was sent. The same alerts again would be refused again. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

export interface Output {
  readonly name: string
  /** Where to, for messages: without anything secret. */
  readonly target: string
  /** Alerts that it takes at a time, at most; some hundreds where it does not say. */
  readonly batch?: number
  /** Resolves when all are delivered, to what the receiver answered, in words. When it rejects none may count as delivered, and all come again. Rejects with RefusedError
   * where the receiver takes in other alerts, or fewer at a time, and not these. */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<string>
  close(): Promise<void>
}

/** A file that an output reads. */
interface OutputFile {
  readonly what: (typeof FILES)[keyof typeof FILES]
  readonly path: string
}

/** The status of a learned device, for outputs. */
export interface DeviceStatus {
  /** A MAC address, or an address where the link has none. */
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
  /** By level; null where devices are not kept. */
  readonly openIncidents: Readonly<Record<string, number>> | null
  /** By state; null where devices are not kept. */
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
  /** null or absent where nothing is kept. */
  readonly state?: { readonly files: FileSystem; readonly folder: string } | null
  /** null while the agent starts. */
  readonly status?: () => Promise<AgentStatus | null>
  /** Of the dashboard, where others can reach it; null where they cannot. */
  readonly dashboardUrl?: string | null
  /** One message, perhaps beside an agent that runs and keeps what it has with the receiver. */
  readonly isTrial?: boolean
  /** Takes models of a fleet; null or absent where none come. */
  readonly fleetModels?: FleetModels | null
  /** Takes answers to incidents; null or absent where there are none. */
  readonly remoteAnswers?: RemoteAnswers | null
}

/** Parts of the configuration's schema, of outputs and of the rest (config/settings.ts). */

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

/** Parts of the schema that outputs share. */

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

/** What the configuration says of an output, with its name, and with paths from the folder where the agent was started. */
export type SettingsOf<Kind extends string, Entries extends v.ObjectEntries> = v.InferOutput<
  OutputSchema<Kind, Entries>
> & { readonly name: string }

export interface OutputParts<Kind extends string, Entries extends v.ObjectEntries> {
  readonly kind: Kind
  /** Keys of the configuration beside `kind`, `name` and `caFile`, with their defaults. */
  readonly entries: Entries
  /** Throws UsageError by `refuse` for what the schema cannot refuse. */
  check?(settings: SettingsOf<Kind, Entries>, refuse: (key: string, message: string) => never): void
  /** Where to, without a user, a password and whatever else may be secret; by default the origin of `url`. */
  target?(settings: SettingsOf<Kind, Entries>): string
  /** What its library adds to resident memory (measured); by default nothing. */
  readonly memoryBytes?: number
  /** Rejects with FileError where a file cannot be read. Libraries are loaded here, by those who have such an output. */
  create(settings: SettingsOf<Kind, Entries>, environment: OutputEnvironment): Promise<Output>
}

export function defineOutput<const Kind extends string, Entries extends v.ObjectEntries>(
  parts: OutputParts<Kind, Entries>,
): OutputParts<Kind, Entries> & { readonly schema: OutputSchema<Kind, Entries> } {
  const { kind, entries } = parts
  return { ...parts, schema: v.strictObject({ kind: v.literal(kind), name: outputName, caFile, ...entries }) }
}

/** Waits for all, so that one that fails leaves no other unheard. Rejects with the first that failed. */
export async function allDone(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

/** Of a URL: without the user, the password, the path and the query. */
export function originOf(url: string): string {
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

/** What the file holds that a key of an output names. */
const FILES = {
  urlFile: 'url',
  tokenFile: 'token',
  seedFile: 'seed',
  passwordFile: 'password',
  signatureFile: 'signature key',
  caFile: 'certificates',
} as const

export function filesOf(output: { readonly [Key in keyof typeof FILES]?: string | undefined }): OutputFile[] {
  return (Object.keys(FILES) as (keyof typeof FILES)[]).flatMap((key) => {
    const file = output[key]
    return file === undefined ? [] : [{ what: FILES[key], path: file }]
  })
}

/** Reads it as the output will. Throws FileError. */
export function checkOutputFile({ what, path: file }: OutputFile): void {
  if (what === 'certificates') readCertificates(file)
  else if (what === 'url') readUrl(file)
  else if (what === 'token') readToken(file)
  else if (what === 'seed') readSeed(file)
  else readSecret(file)
}

/** The certificate authorities that an output trusts, in PEM; they replace those of Node. */

const MAXIMUM_BYTES = 1_048_576
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws FileError where the file cannot be read or a certificate in it is damaged. */
export function readCertificates(file: string): string[] {
  const text = new TextDecoder().decode(
    readFileBounded(file, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true }),
  )
  const found = text.match(CERTIFICATE) ?? []
  try {
    for (const each of found) new X509Certificate(each)
    if (found.length > 0) return found
  } catch {
    // told below
  }
  throw new FileError('file.certificate', `${file}: expected certificates in PEM (BEGIN CERTIFICATE)`)
}

/** A password or a key: the first line of a file. Throws FileError where it cannot be read or is empty. */
export function readSecret(file: string): string {
  const secret = readFirstLine(file)
  if (secret !== '') return secret
  throw new FileError('file.empty', `${file}: expected a password or a key in its first line, found none`)
}

export const LOOPBACK = /^(localhost|127\.[\d.]+|\[?::1\]?)$/

/** A URL that is a secret: the first line of a file. Throws FileError where it is none; what it holds is not told. */
export function readUrl(file: string): string {
  const text = readToken(file)
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.test(url.hostname))) return text
  throw new FileError('file.url', `${file}: expected a URL of https in its first line`)
}

/** The seed of a user's nkey: the first line of a file. Throws FileError where it is none; what it holds is not told. */
export function readSeed(file: string): string {
  const seed = readToken(file)
  if (/^SU[A-Z2-7]{56}$/.test(seed)) return seed
  throw new FileError('file.seed', `${file}: expected the seed of an nkey (SU…) in its first line`)
}

/** A token: the first line of a file. */

const MAXIMUM_TOKEN_BYTES = 8192

/** Throws FileError where it cannot be read or is no token; what it holds is not told. */
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
