/** Models of a fleet for tests: good ones and bad ones of flow summaries, and offers of them. */
import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createRng, type FlowContract } from '@oddflow/core'
import { decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import {
  encodeOffer,
  type FleetTarget,
  type ModelFile,
  type ModelManifest,
  signManifest,
} from '@oddflow/program'
import { type FileSystem, nodeFileSystem } from '../../src/files/file-system.js'
import { createFleetModelStore, readKeptFleetModel } from '../../src/fleet/fleet-model-store.js'
import { FleetModels } from '../../src/fleet/fleet-models.js'
import { createJudgingModel } from '../../src/models/judging.js'
import { trainRows } from '../../src/models/train.js'
import { missedAttacks } from '../../src/pipeline/self-test.js'
import { hastyClock } from './hasty-clock.js'
import { keepingLog } from './keeping-log.js'
import { iatSizeContract, summaries, wanderingRows, wholeFlows } from './rows.js'
import { sampleRecord } from './sample-record.js'

export const operator = generateKeyPairSync('ed25519')
export const stranger = generateKeyPairSync('ed25519')
export const home: FleetTarget = { kind: 'group', name: 'home' }
export const kitchen: FleetTarget = { kind: 'gateway', name: 'kitchen' }

export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export function fileOf(bytes: Uint8Array): ModelFile {
  return { saved: decodeModelFile(bytes), sha256: sha256Of(bytes), sizeBytes: bytes.length }
}

const trained = (rows: Float64Array, contract: FlowContract = wholeFlows): Uint8Array =>
  trainRows({
    rows,
    contract,
    onePacketRule: null,
    falsePositiveRate: 0.005,
    seed: 1,
    oddflowVersion: '0.0.0',
  }).file

const joined = (...parts: readonly Float64Array[]): Float64Array =>
  Float64Array.from(parts.flatMap((part) => [...part]))

/** Rows that come later look the same to `wide` and `good`; those of `change` 3 only to `wide`. */
export function makeModels() {
  const wide = trained(joined(summaries(300, 1), summaries(300, 2, 3)))
  const good = trained(summaries(600, 3))
  const saved = decodeModelFile(good)
  return {
    wide,
    good,
    better: trained(summaries(600, 4)),
    flagsAll: trained(summaries(300, 5, 40)),
    flagsNothing: encodeModelFile({ ...saved, threshold: { ...saved.threshold, value: -1e300 } }),
    otherContract: trained(wanderingRows(300, 5, createRng(1)), iatSizeContract(3)),
  }
}

export function manifestOf(
  version: number,
  model: Uint8Array | null,
  changes: Partial<ModelManifest> = {},
): ModelManifest {
  return {
    target: home,
    version,
    model: model === null ? null : { sha256: sha256Of(model), sizeBytes: model.length },
    shadowSeconds: 0,
    provenance: { publishedAt: '2026-11-29T12:00:00.000Z', oddflowVersion: '0.0.0', dataSha256: '' },
    ...changes,
  }
}

export function offerOf(
  version: number,
  model: Uint8Array | null,
  changes: Partial<ModelManifest> & { readonly share?: number; readonly key?: KeyObject } = {},
): Uint8Array {
  const { share = 1, key = operator.privateKey, ...more } = changes
  return encodeOffer({ signed: signManifest(manifestOf(version, model, more), key), rollback: null, share })
}

export type TestModels = ReturnType<typeof makeModels>

/** The gateway kitchen of the group home, with `wide` in its configuration. */
export async function fleetGateway(models: TestModels, state: string, files: FileSystem = nodeFileSystem) {
  const log = keepingLog()
  const told: string[] = []
  const row = new Float64Array(wholeFlows.dimension)
  const store = createFleetModelStore(files, state)
  const kept = await readKeptFleetModel(store, wholeFlows, log)
  const configured = fileOf(models.wide)
  let used: ModelFile = kept.inUse ?? configured
  const fleet = new FleetModels({
    gateway: 'kitchen',
    group: 'home',
    publicKey: operator.publicKey,
    row,
    configured,
    contract: wholeFlows,
    kept,
    store,
    use(model) {
      used = model
    },
    selfTest: (model) =>
      missedAttacks(
        model,
        { localNetworks: [], dropDuplicates: false },
        hastyClock,
        new AbortController().signal,
      ),
    wallMicros: () => 1_796_000_000_000_000,
    log,
    tell: (summary) => told.push(summary),
  })
  await fleet.idle()
  const server = new Map<string, Uint8Array>()
  for (const model of Object.values(models)) server.set(sha256Of(model), model)
  let flows = 0
  return {
    fleet,
    state,
    log,
    told,
    server,
    used: () => used.sha256.slice(0, 16),
    offered: (...offers: Uint8Array[]) =>
      fleet.offered(offers, async (_, sha256) => server.get(sha256) ?? null),
    /** Flows come, and a second passes. */
    async flow(count: number, change = 0): Promise<void> {
      const rows = summaries(count, 100 + flows++, change)
      for (let i = 0; i < count; i++) {
        row.set(rows.subarray(i * row.length, (i + 1) * row.length))
        const record = sampleRecord(1, { row })
        const { novel } = createJudgingModel(used, row).judge(record)
        fleet.note(record, { novel, model: used.sha256.slice(0, 16) })
      }
      fleet.tick()
      await fleet.idle()
    },
    stage: () => fleet.state().stage,
  }
}
