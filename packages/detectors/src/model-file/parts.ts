/** What a detector adds to the common parts of a model file. */
import { categoryColumn, type FeatureContract, FormatError, type OnePacketRule } from '@oddflow/core'
import { encodeGroups } from '../calibration/groups.js'
import type { DetectorModel } from '../model.js'
import { DETECTORS } from '../registry.js'
import { FORMAT, LEARNED_KEY, type MetadataKey, SCALER_KEY } from './layout.js'
import type { SavedModel } from './saved-model.js'

/** The JSON metadata of a saved model as values, for writing and for comparison with a file. */

type MetadataValues = Readonly<Record<Exclude<MetadataKey, 'formatVersion' | 'kind'>, unknown>> &
  Readonly<Record<string, unknown>>

/** By metadata key, the detector's own family last. Every part is checked already. */
export function metadataValues(saved: SavedModel): MetadataValues {
  const { kind, parameters, fitReport, scaler } = saved.detector
  return {
    featureContract: saved.contract,
    fitReport,
    onePacketRule: saved.onePacketRule,
    parameters,
    provenance: saved.provenance,
    threshold: saved.threshold,
    ...(scaler.categoryColumn === undefined
      ? {}
      : { [SCALER_KEY]: { categoryColumn: scaler.categoryColumn } }),
    ...DETECTORS[kind].encode(saved.detector).metadata,
    ...(saved.groups === undefined ? {} : encodeGroups(saved.groups).metadata),
    ...(saved.learned === undefined ? {} : { [LEARNED_KEY]: saved.learned.metadata }),
  }
}

/** The parts of a saved model are checked one by one; this checks that they agree. */

/** Throws FormatError if contract, one-packet rule and detector do not fit together. */
export function checkAgreement(
  contract: FeatureContract,
  onePacketRule: OnePacketRule | null,
  { fitReport, scaler }: DetectorModel,
): void {
  const fail = (field: string, message: string): never => {
    throw new FormatError(FORMAT, `${field}: ${message}`, { field })
  }
  if (contract.dimension !== fitReport.dimension) {
    fail(
      'featureContract.dimension',
      `expected ${fitReport.dimension} as the detector has, found ${contract.dimension}`,
    )
  }
  if (contract.scaler !== scaler.kind) {
    fail('featureContract.scaler', `expected ${scaler.kind} as the detector has, found ${contract.scaler}`)
  }
  const names = categoryColumn(contract)
  // older files, from before this column existed, used its numbers as numbers
  if (
    scaler.categoryColumn !== undefined &&
    contract.featureSet !== 'rows' &&
    scaler.categoryColumn !== names
  ) {
    fail(
      'scaler.categoryColumn',
      `expected ${names ?? 'none'} as the contract has, found ${scaler.categoryColumn}`,
    )
  }
  if (onePacketRule !== null && contract.featureSet === 'rows') {
    fail('onePacketRule', 'expected null, since bare rows know no packets')
  }
  if (onePacketRule !== null && contract.featureSet === 'flow-summary') {
    fail('onePacketRule', 'expected null, since flows of one packet have rows')
  }
}
