/**
 * The metadata of a saved model that is JSON, as values: what is written, and what a file that was read must have
 * had in it.
 */
import { encodeGroups } from '../groups.js'
import { DETECTORS } from '../registry.js'
import { type MetadataKey, SCALER_KEY } from './layout.js'
import { encodeLearned } from './learned-parts.js'
import type { SavedModel } from './saved-model.js'

export type MetadataValues = Readonly<Record<Exclude<MetadataKey, 'formatVersion' | 'kind'>, unknown>> &
  Readonly<Record<string, unknown>>

/** By metadata key, those of the detector's own family last. Every part is checked already. */
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
    ...(saved.learned === undefined ? {} : encodeLearned(saved.learned).metadata),
  }
}
