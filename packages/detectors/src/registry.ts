/**
 * The one list of detectors. A new one is its file and its two lines here: definition and fit. Its name, its options and
 * the types of its parameters and its model follow from these. The fits are a list of their own, which a bundler leaves
 * out of a program that never fits.
 */
import type { DetectorDefinition, DetectorFit, DetectorName, MemberName } from './detector.js'
import {
  type EnsembleModel,
  type EnsembleOptions,
  type EnsembleParameters,
  ensembleOf,
  fitEnsemble,
} from './detectors/ensemble.js'
import { fitGmm, gmm } from './detectors/gmm.js'
import { fitHbos, hbos } from './detectors/hbos.js'
import { fitIforest, iforest } from './detectors/iforest.js'
import { fitKde, kde } from './detectors/kde.js'
import { fitNearest, nearest } from './detectors/nearest.js'
import { fitOcsvm, ocsvm } from './detectors/ocsvm.js'
import { fitPca, pca } from './detectors/pca.js'
import { fitEmbeddedMixture, ocKjl, ocKjlQs, ocNystrom, ocNystromQs } from './families/embedded-mixture.js'
import { fitEmbeddedSvm, ocKjlSvm, ocNystromSvm } from './families/embedded-svm.js'
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
