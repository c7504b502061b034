/**
 * Models for gateways: publishing a signed model, and rolling it out by canaries (packages/program/src/fleet-models.ts has the
 * protocol). Both are key-value buckets of the server. A subject of the models' bucket holds one message and the server
 * refuses another, so a gateway could not overwrite what is offered to others even through a request's reply (decision 0019).
 */
import { createHash, type KeyObject } from 'node:crypto'
import { DeliverPolicy, DiscardPolicy, JetStreamApiError } from '@nats-io/jetstream'
import { OddFlowError } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { learnedStateOf } from '@oddflow/online'
import {
  decodeModelState,
  decodeOffer,
  encodeOffer,
  type FleetTarget,
  type GatewayModelState,
  inFile,
  isCanary,
  isFleetName,
  MAXIMUM_FLEET_MODEL_BYTES,
  MAXIMUM_OFFER_BYTES,
  MODEL_STATES_BUCKET,
  MODELS_BUCKET,
  type ModelManifest,
  type ModelOffer,
  modelSubject,
  offerSubject,
  readFileBounded,
  readManifest,
  readPrivateKey,
  signManifest,
  targetText,
  UsageError,
} from '@oddflow/program'
import { type Archive, DAY_NANOS, lastMessage } from './archive.js'

const MODELS = `KV_${MODELS_BUCKET}`
const STATES = `KV_${MODEL_STATES_BUCKET}`
/** Headers that the server adds to its answer. */
const HEADER_BYTES = 4096
const STATE_DAYS = 30
const PUT_TRIES = 5
/** A gateway that reports a version further above all offers lies: a fleet does not publish so often. */
const MOST_VERSIONS_AHEAD = 1_000_000
/** A model is rolled back when more than this share of the gateways that it is offered to refuse it or go back. */
const MOST_BAD_GATEWAYS = 0.1

/** Creates the buckets, if they are missing. */
export async function prepareModels({ addStream }: Archive): Promise<void> {
  await addStream({
    name: MODELS,
    subjects: [`$KV.${MODELS_BUCKET}.>`],
    allow_direct: true,
    allow_rollup_hdrs: true,
    max_msgs_per_subject: 1,
    discard: DiscardPolicy.New,
    discard_new_per_subject: true,
  })
  await addStream({
    name: STATES,
    subjects: [`$KV.${MODEL_STATES_BUCKET}.*`],
    allow_direct: true,
    allow_rollup_hdrs: true,
    max_msgs_per_subject: 1,
    max_msg_size: MAXIMUM_OFFER_BYTES,
    max_age: STATE_DAYS * DAY_NANOS,
  })
}

export interface TargetOptions {
  readonly gateway?: string
  readonly group?: string
}

/** Throws UsageError unless one of the two is given. */
export function targetOf({ gateway, group }: TargetOptions): FleetTarget {
  const name = gateway ?? group
  if (name === undefined || (gateway !== undefined && group !== undefined)) {
    throw new UsageError('expected either --gateway or --group')
  }
  if (!isFleetName(name)) {
    throw new UsageError(`${name}: expected at most 63 lowercase letters, digits and hyphens`)
  }
  return { kind: gateway === undefined ? 'group' : 'gateway', name }
}

export interface PublishOptions extends TargetOptions {
  /** File of the private key, which never reaches the server. */
  readonly key: string
  /** Percent of the gateways. */
  readonly canaries: number
  readonly shadowMinutes: number
  /** The current offer may be signed with another key. */
  readonly newKey?: boolean
}

/** Signs a model and its roll-back, and offers it. */
export async function publishModel(archive: Archive, path: string, options: PublishOptions) {
  const target = targetOf(options)
  const key = readPrivateKey(options.key)
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_FLEET_MODEL_BYTES })
  const { provenance } = decoded(path, bytes)
  const longest = (archive.connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - HEADER_BYTES
  if (bytes.length > longest) {
    throw new OddFlowError(
      'fleet.model-size',
      `${path}: ${bytes.length} bytes, the server takes ${longest}; raise max_payload in its configuration`,
    )
  }
  const before = await readOffer(archive, target)
  const lastGood = before === null ? null : lastGoodOf(target, before, key, options.newKey === true)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const offered = await highestVersion(archive)
  const reported = highestReported(await readModelStates(archive), offered + MOST_VERSIONS_AHEAD)
  const { oddflowVersion = '', dataSha256 = '' } = provenance ?? {}
  const manifest: ModelManifest = {
    target,
    version: Math.max(offered, reported) + 1,
    model: { sha256, sizeBytes: bytes.length },
    shadowSeconds: Math.round(60 * options.shadowMinutes),
    provenance: { publishedAt: new Date().toISOString(), oddflowVersion, dataSha256 },
  }
  const back: ModelManifest = {
    ...manifest,
    version: manifest.version + 1,
    model: lastGood?.model ?? null,
    provenance: lastGood?.provenance ?? { ...manifest.provenance, oddflowVersion: '', dataSha256: '' },
  }
  await put(archive, modelSubject(target, sha256), bytes)
  await put(
    archive,
    offerSubject(target),
    encodeOffer({
      signed: signManifest(manifest, key),
      rollback: signManifest(back, key),
      share: options.canaries / 100,
    }),
  )
  await removeOthers(archive, target, [sha256, lastGood?.model?.sha256])
  return {
    target: targetText(target),
    version: manifest.version,
    /** The highest version that gateways report, if the server has lost its offer. */
    lostVersion: reported > offered ? reported : null,
    sha256,
    /** Of the model to which a roll-back goes; null: that of the gateways' configuration. */
    lastGood: lastGood?.model?.sha256 ?? null,
  }
}

function decoded(path: string, bytes: Uint8Array) {
  try {
    return decodeModelFile(bytes, learnedStateOf)
  } catch (error) {
    throw inFile(path, error, '; give a whole model file that oddflow train wrote')
  }
}

/** What is offered to all; of a model that only canaries have, the one to which it would be rolled back. */
function lastGoodOf(
  target: FleetTarget,
  { signed, rollback, share }: ModelOffer,
  key: KeyObject,
  isNewKey: boolean,
): ModelManifest | null {
  const good = share < 1 && rollback !== null ? rollback : signed
  try {
    return readManifest(good, key)
  } catch {
    if (isNewKey) return null
    throw new OddFlowError(
      'fleet.other-key',
      `${targetText(target)}: the model that is offered now is signed with another key; give that --key, or --new-key if the gateways have the new one's public key`,
    )
  }
}

/** null: nothing is offered, or what is there is no offer. */
export async function readOffer(archive: Archive, target: FleetTarget): Promise<ModelOffer | null> {
  const data = await lastMessage(archive, MODELS, offerSubject(target))
  try {
    return data === null ? null : decodeOffer(data)
  } catch {
    return null
  }
}

/** Of all offers and their roll-backs. */
async function highestVersion(archive: Archive): Promise<number> {
  const { state } = await archive.manager.streams.info(MODELS, {
    subjects_filter: `$KV.${MODELS_BUCKET}.*.*.offer`,
  })
  let highest = 0
  for (const subject of Object.keys(state.subjects ?? {})) {
    const data = await lastMessage(archive, MODELS, subject)
    try {
      const { signed, rollback } = decodeOffer(data ?? new Uint8Array(0))
      for (const each of rollback === null ? [signed] : [signed, rollback]) {
        highest = Math.max(highest, readManifest(each, 'unchecked').version)
      }
    } catch {
      // no offer
    }
  }
  return highest
}

/** Of the gateways, which refuse lower versions than they had: a server that was set up again has no offers. */
function highestReported(states: ReadonlyMap<string, GatewayModelState>, most: number): number {
  const versions = [...states.values()].map(({ version, inUse }) => Math.max(version, inUse?.version ?? 0))
  return Math.max(0, ...versions.filter((version) => version <= most))
}

/** Puts a message in place of the one that the subject holds. */
async function put({ client, manager }: Archive, subject: string, data: Uint8Array): Promise<void> {
  for (let tries = 1; ; tries++) {
    await manager.streams.purge(MODELS, { filter: subject })
    try {
      await client.publish(subject, data)
      return
    } catch (error) {
      // another message arrived meanwhile
      if (!(error instanceof JetStreamApiError) || tries === PUT_TRIES) throw error
    }
  }
}

async function removeOthers(
  { manager }: Archive,
  target: FleetTarget,
  kept: readonly (string | undefined)[],
): Promise<void> {
  const { state } = await manager.streams.info(MODELS, { subjects_filter: modelSubject(target, '*') })
  const keep = [offerSubject(target), ...kept.map((sha256) => modelSubject(target, sha256 ?? ''))]
  for (const subject of Object.keys(state.subjects ?? {})) {
    if (!keep.includes(subject)) await manager.streams.purge(MODELS, { filter: subject })
  }
}

/** The last reports of gateways. What is no report is left out. */
export async function readModelStates({
  client,
  manager,
}: Archive): Promise<ReadonlyMap<string, GatewayModelState>> {
  const states = new Map<string, GatewayModelState>()
  const { state } = await manager.streams.info(STATES)
  if (state.messages === 0) return states
  const consumer = await client.consumers.get(STATES, { deliver_policy: DeliverPolicy.LastPerSubject })
  const messages = await consumer.consume()
  for await (const message of messages) {
    try {
      states.set(message.subject.split('.')[2]!, decodeModelState(message.data))
    } catch {
      // written by a thief, or by another version
    }
    if (message.info.pending === 0) break
  }
  await messages.close()
  return states
}

export type RolloutProgress = ReturnType<typeof progressOf>

const SHOWN_REASONS = 5

/** How far an offer has come, by what the gateways report. */
export function progressOf(offer: ModelOffer, states: ReadonlyMap<string, GatewayModelState>) {
  const { target, version, model, provenance } = readManifest(offer.signed, 'unchecked')
  const members = [...states].filter(([gateway, { group }]) =>
    target.kind === 'gateway' ? gateway === target.name : group === target.name,
  )
  const offered = members.filter(([gateway]) => isCanary(gateway, version, offer.share))
  // one that waits has not heard yet that it is its turn
  const reached = offered.filter(([, state]) => state.version === version && state.stage !== 'waiting')
  const count = (stage: GatewayModelState['stage']): number =>
    reached.filter(([, state]) => state.stage === stage).length
  const usesIt = ({ inUse }: GatewayModelState): boolean =>
    model === null ? inUse === null : inUse?.sha256 === model.sha256
  return {
    target: targetText(target),
    version,
    /** null: the model of the gateways' configuration. */
    sha256: model?.sha256 ?? null,
    share: offer.share,
    publishedMillis: Date.parse(provenance.publishedAt),
    /** Gateways of the target that report. */
    gateways: members.length,
    /** Those of them that the model is offered to. */
    offered: offered.length,
    notReached: offered.length - reached.length,
    shadow: count('shadow'),
    proving: count('proving'),
    inUse: count('in-use'),
    refused: count('refused'),
    rolledBack: count('rolled-back'),
    /** Gateways that use the model now. */
    using: members.filter(([, state]) => usesIt(state)).length,
    /** The first few, with their gateways. */
    reasons: reached
      .flatMap(([gateway, { reason }]) => (reason === null ? [] : [`${gateway}: ${reason}`]))
      .slice(0, SHOWN_REASONS),
  }
}

export type RolloutStep = 'wait' | 'to-all' | 'roll-back' | 'over'

/**
 * What is due. A few gateways cannot decide for all: a roll-back takes more than MOST_BAD_GATEWAYS of the gateways that the model is
 * offered to, and all get it when at least half of the canaries use it and the time is over.
 */
export function nextStep(progress: RolloutProgress, hasRollback: boolean, isTimeOver: boolean): RolloutStep {
  const { offered, refused, rolledBack, proving, inUse, shadow, notReached, share } = progress
  const bad = refused + rolledBack
  if (hasRollback && bad > MOST_BAD_GATEWAYS * offered) return 'roll-back'
  if (share < 1) return isTimeOver && 2 * inUse >= offered && offered > 0 ? 'to-all' : 'wait'
  return offered > 0 && proving + shadow + notReached === 0 ? 'over' : 'wait'
}

/** Offers the model to all gateways of the target, or the last good one in its place. */
export async function advanceRollout(
  archive: Archive,
  offer: ModelOffer,
  step: 'to-all' | 'roll-back',
): Promise<ModelOffer> {
  const { target } = readManifest(offer.signed, 'unchecked')
  const { rollback } = offer
  if (step === 'roll-back' && rollback === null) {
    throw new OddFlowError('fleet.rollback', `${targetText(target)}: was rolled back already`)
  }
  const next: ModelOffer =
    step === 'to-all' || rollback === null
      ? { ...offer, share: 1 }
      : { signed: rollback, rollback: null, share: 1 }
  await put(archive, offerSubject(target), encodeOffer(next))
  return next
}
