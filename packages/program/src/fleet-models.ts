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
import * as v from 'valibot'

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

// ---- what is sent

const matching = (pattern: RegExp) => v.pipe(v.string(), v.regex(pattern))
const wholeFrom = (least: number) => v.pipe(v.number(), v.safeInteger(), v.minValue(least))
const version = wholeFrom(1)
const sha256 = matching(/^[0-9a-f]{64}$/)
/** ISO 8601. */
const time = matching(/^[0-9TZ:.-]{20,30}$/)

const manifestSchema = v.strictObject({
  format: v.literal(1),
  target: v.pipe(
    matching(/^(gateway|group)\.[a-z0-9][a-z0-9-]{0,62}$/),
    v.transform((text) => {
      const [kind, name] = text.split('.') as [FleetTarget['kind'], string]
      return { kind, name }
    }),
  ),
  /** Higher than that of every earlier manifest. */
  version,
  /** null: the model of the gateway's own configuration. */
  model: v.nullable(v.object({ sha256, sizeBytes: wholeFrom(1) })),
  /** The model judges beside the one in use for at least this long first. */
  shadowSeconds: wholeFrom(0),
  /** Where the model comes from. */
  provenance: v.object({
    publishedAt: time,
    oddflowVersion: matching(/^[\w.+-]{0,64}$/),
    dataSha256: matching(/^[0-9a-f]{0,64}$/),
  }),
})
/** The signed text. */
export type ModelManifest = Decoded<typeof manifestSchema>

const signedSchema = v.strictObject({
  /** JSON, as it was signed. */
  manifest: matching(/^[\x20-\x7e]{2,2000}$/),
  /** Base64 of 64 bytes. */
  signature: matching(/^[A-Za-z0-9+/]{86}==$/),
})
/** A manifest's text with its signature. */
export type SignedManifest = v.InferOutput<typeof signedSchema>

const offerSchema = v.strictObject({
  format: v.literal(1),
  signed: signedSchema,
  /** Names the last good model under the next version, signed at the same time; null in a roll-back. */
  rollback: v.nullable(signedSchema),
  /** Of the gateways: canaries below 1, all at 1. */
  share: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
})
/** What a target is offered. */
export type ModelOffer = Decoded<typeof offerSchema>

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

const stateSchema = v.strictObject({
  format: v.literal(1),
  group: v.nullable(matching(FLEET_NAME)),
  stage: v.picklist(MODEL_STAGES),
  /** That the stage is of. */
  version: wholeFrom(0),
  /** null: the model of the configuration is used. */
  inUse: v.nullable(v.object({ version, sha256 })),
  reason: v.nullable(matching(/^.{0,1000}$/s)),
  /** Flows that both models judged and the other one found normal, and those of them that the new one flagged. */
  flows: wholeFrom(0),
  falseAlarms: wholeFrom(0),
  at: time,
})
/** What a gateway reports. */
export type GatewayModelState = Decoded<typeof stateSchema>

type Schema = v.GenericSchema<unknown, { format: 1 }>
type Decoded<Of extends Schema> = Readonly<Omit<v.InferOutput<Of>, 'format'>>

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
  return decoded(manifestSchema, manifest, 'manifest')
}

/** JSON in UTF-8. */
export const encodeOffer = (offer: ModelOffer): Uint8Array => encoded(offer)

/** Throws FormatError. Signatures are not checked yet. */
export const decodeOffer = (bytes: Uint8Array): ModelOffer => decoded(offerSchema, bytes, 'offer')

/** JSON in UTF-8. */
export const encodeModelState = (state: GatewayModelState): Uint8Array => encoded(state)

/** Throws FormatError. */
export const decodeModelState = (bytes: Uint8Array): GatewayModelState => decoded(stateSchema, bytes, 'state')

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

const encoded = (message: ModelOffer | GatewayModelState): Uint8Array =>
  new TextEncoder().encode(JSON.stringify({ format: 1, ...message }))

function decoded<Of extends Schema>(schema: Of, message: Uint8Array | string, what: string): Decoded<Of> {
  if (message.length > MAXIMUM_OFFER_BYTES) {
    throw fail(`${what}: ${message.length} bytes, at most ${MAXIMUM_OFFER_BYTES}`)
  }
  let value: unknown
  try {
    value = JSON.parse(
      typeof message === 'string' ? message : new TextDecoder('utf-8', { fatal: true }).decode(message),
    )
  } catch {
    throw fail(`${what}: expected JSON in UTF-8`)
  }
  const { success, output, issues } = v.safeParse(schema, value)
  if (success) {
    const { format, ...rest } = output
    return rest
  }
  const [{ expected, type, path, input }] = issues
  const field = path?.map(({ key }) => String(key)).join('.') ?? what
  const found = (JSON.stringify(input) ?? 'nothing').slice(0, 60)
  throw fail(
    expected === 'never'
      ? `unknown field ${field.slice(0, 60)}`
      : `${field}: expected ${expected ?? type.replaceAll('_', ' ')}, found ${found}`,
  )
}
