/**
 * The protocol by which a fleet's models come to gateways, as the agent and `oddflow-fleet` both speak it (decision 0019).
 *
 *     $KV.oddflow-models.TARGET.offer        which model is offered, signed, and to what share of the gateways
 *     $KV.oddflow-models.TARGET.SHA256       a model file
 *     $KV.oddflow-model-states.GATEWAY       what became of it on a gateway
 *
 * TARGET is `gateway.NAME` or `group.NAME`. The signature (Ed25519) is over the manifest: which target, version, model and
 * time in shadow. The share is not signed: who runs the server decides when a signed model is used, and never which one.
 * Bytes from a server are hostile: everything is bounded and checked here.
 */
import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { FormatError } from '@oddflow/core'

/** The bucket of offers and model files. */
export const MODELS_BUCKET = 'oddflow-models'
/** The bucket of the states that gateways report. */
export const MODEL_STATES_BUCKET = 'oddflow-model-states'
/** The longest offer or state. */
export const MAXIMUM_OFFER_BYTES = 8192
/** The longest model: NATS clients take messages of 1 MiB, and the server adds headers to its answer. */
export const MAXIMUM_FLEET_MODEL_BYTES = 1_048_576 - 4096
/** Share of flows, normal before, that a model may flag: beyond it a gateway refuses the model or goes back. */
export const MOST_FALSE_ALARMS = 0.05
/** Flows by which that share is judged. */
export const LEAST_JUDGED_FLOWS = 100

/** Names of gateways and groups. */
export const FLEET_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/
const SHA256 = /^[0-9a-f]{64}$/
/** A signature over a manifest is none over a model file. */
const SIGNED_PREFIX = 'oddflow model manifest\n'

/** The target of a model. */
export type FleetTarget = { readonly kind: 'gateway' | 'group'; readonly name: string }

/** Whether gateways and groups can have this name. */
export const isFleetName = (name: string): boolean => FLEET_NAME.test(name)
/** `gateway.NAME` or `group.NAME`. */
export const targetText = ({ kind, name }: FleetTarget): string => `${kind}.${name}`
/** Subject of the offer to a target. */
export const offerSubject = (target: FleetTarget): string =>
  `$KV.${MODELS_BUCKET}.${targetText(target)}.offer`
/** Subject of a model file that is offered to a target. */
export const modelSubject = (target: FleetTarget, sha256: string): string =>
  `$KV.${MODELS_BUCKET}.${targetText(target)}.${sha256}`
/** Subject of a gateway's state. */
export const modelStateSubject = (gateway: string): string => `$KV.${MODEL_STATES_BUCKET}.${gateway}`
/** A request to this subject is answered with the last message of a subject of a bucket. */
export const directGetSubject = (bucket: string, subject: string): string =>
  `$JS.API.DIRECT.GET.KV_${bucket}.${subject}`

/** The signed text. */
export interface ModelManifest {
  readonly target: FleetTarget
  /** Higher than that of every earlier manifest. */
  readonly version: number
  /** null: the model of the gateway's own configuration. */
  readonly model: { readonly sha256: string; readonly sizeBytes: number } | null
  /** The model judges beside the one in use for at least this long first. */
  readonly shadowSeconds: number
  /** Where the model comes from. */
  readonly provenance: {
    readonly publishedAt: string
    readonly oddflowVersion: string
    readonly dataSha256: string
  }
}

/** A manifest's text with its signature. */
export interface SignedManifest {
  /** JSON, as it was signed. */
  readonly manifest: string
  /** Base64 of 64 bytes. */
  readonly signature: string
}

/** What a target is offered. */
export interface ModelOffer {
  readonly signed: SignedManifest
  /** Names the last good model under the next version, signed at the same time; null in a roll-back. */
  readonly rollback: SignedManifest | null
  /** Of the gateways: canaries below 1, all at 1. */
  readonly share: number
}

/** What became of the newest version on a gateway. */
const MODEL_STAGES = [
  // nothing was offered
  'none',
  // offered, but this gateway is no canary
  'waiting',
  // judges beside the model in use
  'shadow',
  // is used, and the one before judges beside it
  'proving',
  'in-use',
  'refused',
  // was used and flagged too much
  'rolled-back',
] as const
/** One of MODEL_STAGES. */
export type ModelStage = (typeof MODEL_STAGES)[number]

/** What a gateway reports. */
export interface GatewayModelState {
  readonly group: string | null
  readonly stage: ModelStage
  /** That the stage is of. */
  readonly version: number
  /** null: the model of the configuration is used. */
  readonly inUse: { readonly version: number; readonly sha256: string } | null
  readonly reason: string | null
  /** Flows that both models judged and the other one found normal, and those of them that the new one flagged. */
  readonly flows: number
  readonly falseAlarms: number
  /** ISO 8601. */
  readonly at: string
}

/** Signs with a private Ed25519 key. */
export function signManifest(manifest: ModelManifest, key: KeyObject): SignedManifest {
  const text = JSON.stringify({ format: 1, ...manifest, target: targetText(manifest.target) })
  return { manifest: text, signature: sign(null, signedBytes(text), key).toString('base64') }
}

/** Throws FormatError where the signature is not by this key, or the text is no manifest. */
export function readManifest(
  { manifest, signature }: SignedManifest,
  key: KeyObject | 'unchecked',
): ModelManifest {
  if (key !== 'unchecked' && !isSigned(manifest, signature, key)) {
    throw fail('the signature is not by the pinned key')
  }
  const { format, target, version, model, shadowSeconds, provenance, ...rest } = objectOf(
    parse(manifest),
    'manifest',
  )
  if (format !== 1) throw fail(`format: expected 1, found ${short(format)}`)
  const [, kind, name] = /^(gateway|group)\.([a-z0-9-]+)$/.exec(String(target)) ?? []
  if (kind === undefined || name === undefined || !isFleetName(name)) throw fail(`target: ${short(target)}`)
  const from = objectOf(provenance, 'provenance')
  const sized = model === null ? null : objectOf(model, 'model')
  checkRest(rest)
  return {
    target: { kind: kind as FleetTarget['kind'], name },
    version: whole(version, 'version', 1),
    model:
      sized === null
        ? null
        : {
            sha256: matching(sized.sha256, SHA256, 'model.sha256'),
            sizeBytes: whole(sized.sizeBytes, 'model.sizeBytes', 1),
          },
    shadowSeconds: whole(shadowSeconds, 'shadowSeconds', 0),
    provenance: {
      publishedAt: matching(from.publishedAt, /^[0-9TZ:.-]{20,30}$/, 'provenance.publishedAt'),
      oddflowVersion: matching(from.oddflowVersion, /^[\w.+-]{0,64}$/, 'provenance.oddflowVersion'),
      dataSha256: matching(from.dataSha256, /^[0-9a-f]{0,64}$/, 'provenance.dataSha256'),
    },
  }
}

/** JSON in UTF-8. */
export function encodeOffer({ signed, rollback, share }: ModelOffer): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ format: 1, signed, rollback, share }))
}

/** Throws FormatError. Signatures are not checked yet. */
export function decodeOffer(bytes: Uint8Array): ModelOffer {
  const { format, signed, rollback, share, ...rest } = decodeObject(bytes, 'offer')
  if (format !== 1) throw fail(`format: expected 1, found ${short(format)}`)
  if (typeof share !== 'number' || !(share >= 0 && share <= 1)) throw fail(`share: ${short(share)}`)
  checkRest(rest)
  return { signed: signedOf(signed), rollback: rollback === null ? null : signedOf(rollback), share }
}

/** JSON in UTF-8. */
export function encodeModelState(state: GatewayModelState): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ format: 1, ...state }))
}

/** Throws FormatError. */
export function decodeModelState(bytes: Uint8Array): GatewayModelState {
  const { format, group, stage, version, inUse, reason, flows, falseAlarms, at, ...rest } = decodeObject(
    bytes,
    'state',
  )
  if (format !== 1) throw fail(`format: expected 1, found ${short(format)}`)
  if (!MODEL_STAGES.includes(stage as ModelStage)) throw fail(`stage: ${short(stage)}`)
  const used = inUse === null ? null : objectOf(inUse, 'inUse')
  checkRest(rest)
  return {
    group: group === null ? null : matching(group, FLEET_NAME, 'group'),
    stage: stage as ModelStage,
    version: whole(version, 'version', 0),
    inUse:
      used === null
        ? null
        : {
            version: whole(used.version, 'inUse.version', 1),
            sha256: matching(used.sha256, SHA256, 'inUse.sha256'),
          },
    reason: reason === null ? null : matching(reason, /^.{0,1000}$/s, 'reason'),
    flows: whole(flows, 'flows', 0),
    falseAlarms: whole(falseAlarms, 'falseAlarms', 0),
    at: matching(at, /^[0-9TZ:.-]{20,30}$/, 'at'),
  }
}

/** The same gateways for a version every time, and others for the next. */
export function isCanary(gateway: string, version: number, share: number): boolean {
  const digest = createHash('sha256').update(`${version} ${gateway}`).digest()
  return digest.readUIntBE(0, 6) < share * 2 ** 48
}

/** What a gateway may do on the server for its models: read those offered to it and its group, and write its own state. */
export function modelPermissions(
  gateway: string,
  group: string | null,
): { readonly publish: readonly string[]; readonly subscribe: readonly string[] } {
  const targets: FleetTarget[] = [
    { kind: 'gateway', name: gateway },
    ...(group === null ? [] : [{ kind: 'group' as const, name: group }]),
  ]
  return {
    publish: [
      modelStateSubject(gateway),
      ...targets.map((target) =>
        directGetSubject(MODELS_BUCKET, `$KV.${MODELS_BUCKET}.${targetText(target)}.*`),
      ),
    ],
    subscribe: targets.map(offerSubject),
  }
}

function isSigned(manifest: string, signature: string, key: KeyObject): boolean {
  const bytes = Buffer.from(signature, 'base64')
  const publicKey = key.type === 'private' ? createPublicKey(key) : key
  return bytes.length === 64 && verify(null, signedBytes(manifest), publicKey, bytes)
}

const signedBytes = (manifest: string): Uint8Array => new TextEncoder().encode(SIGNED_PREFIX + manifest)

const fail = (problem: string): FormatError => new FormatError('fleet-model', problem)

function decodeObject(bytes: Uint8Array, what: string): Record<string, unknown> {
  if (bytes.length > MAXIMUM_OFFER_BYTES) {
    throw fail(`${what}: ${bytes.length} bytes, at most ${MAXIMUM_OFFER_BYTES}`)
  }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw fail(`${what}: not UTF-8`)
  }
  return objectOf(parse(text), what)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw fail('not JSON')
  }
}

function objectOf(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>
  }
  throw fail(`${what}: expected an object, found ${short(value)}`)
}

function signedOf(value: unknown): SignedManifest {
  const { manifest, signature, ...rest } = objectOf(value, 'signed')
  checkRest(rest)
  return {
    manifest: matching(manifest, /^[\x20-\x7e]{2,2000}$/, 'manifest'),
    signature: matching(signature, /^[A-Za-z0-9+/]{86}==$/, 'signature'),
  }
}

function checkRest(rest: Record<string, unknown>): void {
  const [unknown] = Object.keys(rest)
  if (unknown !== undefined) throw fail(`unknown field ${short(unknown)}`)
}

function whole(value: unknown, field: string, least: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number
  throw fail(`${field}: expected a whole number from ${least}, found ${short(value)}`)
}

function matching(value: unknown, pattern: RegExp, field: string): string {
  if (typeof value === 'string' && pattern.test(value)) return value
  throw fail(`${field}: ${short(value)}`)
}

const short = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 60)
