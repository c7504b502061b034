/**
 * The one list of detectors. A new one is its file and its lines here: definition, fit and, if it can be exported, C. Its
 * name, its options and the types of its parameters and its model follow from these. Fits and C are lists of their own,
 * which a bundler leaves out of a program that only scores.
 */
import type { DetectorDefinition, DetectorFit, DetectorName, MemberName, WriteC } from './detector.js'
import {
  type EnsembleModel,
  type EnsembleOptions,
  type EnsembleParameters,
  ensembleOf,
  fitEnsemble,
} from './detectors/ensemble.js'
import { fitGmm, gmm, writeGmm } from './detectors/gmm.js'
import { fitHbos, hbos, writeHbos } from './detectors/hbos.js'
import { fitIforest, iforest, writeIforest } from './detectors/iforest.js'
import { fitKde, kde, writeKde } from './detectors/kde.js'
import { fitNearest, nearest, writeNearest } from './detectors/nearest.js'
import { fitOcsvm, ocsvm, writeOcsvm } from './detectors/ocsvm.js'
import { fitPca, pca, writePca } from './detectors/pca.js'
import {
  fitEmbeddedMixture,
  ocKjl,
  ocKjlQs,
  ocNystrom,
  ocNystromQs,
  writeEmbeddedMixture,
} from './families/embedded-mixture.js'
import { fitEmbeddedSvm, ocKjlSvm, ocNystromSvm, writeEmbeddedSvm } from './families/embedded-svm.js'
import type { OptionDefinition, OptionName } from './options.js'
import { optionsIn } from './table-checks.js'

const MEMBERS = {
  ocsvm,
  'oc-kjl': ocKjl,
  'oc-nystrom': ocNystrom,
  'oc-kjl-qs': ocKjlQs,
  'oc-nystrom-qs': ocNystromQs,
  'oc-kjl-svm': ocKjlSvm,
  'oc-nystrom-svm': ocNystromSvm,
  gmm,
  nearest,
  kde,
  iforest,
  pca,
  hbos,
}

const ensemble: DetectorDefinition<EnsembleParameters, EnsembleModel, EnsembleOptions> = ensembleOf(MEMBERS)

const DEFINITIONS = { ...MEMBERS, ensemble }

/** What each detector that may be a member of an ensemble is. */
export type MemberDefinitions = typeof MEMBERS
/** What each detector is. */
export type Definitions = typeof DEFINITIONS

/** The definition of every detector, by name. */
export const DETECTORS: Readonly<Record<DetectorName, DetectorDefinition>> = DEFINITIONS

/** The fit of every detector, by name. */
export const FITS: Readonly<Record<DetectorName, DetectorFit>> = {
  ocsvm: fitOcsvm,
  'oc-kjl': fitEmbeddedMixture,
  'oc-nystrom': fitEmbeddedMixture,
  'oc-kjl-qs': fitEmbeddedMixture,
  'oc-nystrom-qs': fitEmbeddedMixture,
  'oc-kjl-svm': fitEmbeddedSvm,
  'oc-nystrom-svm': fitEmbeddedSvm,
  gmm: fitGmm,
  nearest: fitNearest,
  kde: fitKde,
  iforest: fitIforest,
  pca: fitPca,
  hbos: fitHbos,
  ensemble: (rows, parameters: EnsembleParameters, context) =>
    fitEnsemble(MEMBERS, FITS, rows, parameters, context),
}

/** What writes the model of a detector as C; one without it cannot be exported. An ensemble's is in export-c.ts. */
export const C_WRITERS: Readonly<Partial<Record<MemberName, WriteC>>> = {
  ocsvm: writeOcsvm,
  'oc-kjl': writeEmbeddedMixture,
  'oc-nystrom': writeEmbeddedMixture,
  'oc-kjl-qs': writeEmbeddedMixture,
  'oc-nystrom-qs': writeEmbeddedMixture,
  'oc-kjl-svm': writeEmbeddedSvm,
  'oc-nystrom-svm': writeEmbeddedSvm,
  gmm: writeGmm,
  nearest: writeNearest,
  kde: writeKde,
  iforest: writeIforest,
  pca: writePca,
  hbos: writeHbos,
}

// ---- what follows from the list

/** The names of all detectors. */
export const DETECTOR_NAMES = Object.keys(DETECTORS) as readonly DetectorName[]
/** Detectors that an ensemble can have as members: all but the ensemble. */
export const MEMBER_NAMES = Object.keys(MEMBERS) as readonly MemberName[]

/** Whether a value is the name of a detector. */
export function isDetectorName(value: unknown): value is DetectorName {
  return (DETECTOR_NAMES as readonly unknown[]).includes(value)
}

/** The options of all detectors, in the order of the help. */
export const OPTIONS = optionsIn(DETECTORS) as Readonly<Record<OptionName, OptionDefinition<unknown>>>

/** The names of all detector options, in the order of the help. */
export const OPTION_NAMES = Object.keys(OPTIONS) as readonly OptionName[]

/** Any of them, where its type does not matter. */
export function optionNamed(name: OptionName): OptionDefinition<unknown> {
  return OPTIONS[name]
}
