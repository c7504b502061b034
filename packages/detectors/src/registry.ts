/**
 * The one list of detectors. A new one is its file, its name in `detector.ts` and its two lines here: definition and
 * fit. The fits are a list of their own, which a bundler leaves out of a program that never fits.
 */
import type { DetectorDefinition, DetectorFit, DetectorName } from './detector.js'
import { ensembleOf, fitEnsemble } from './detectors/ensemble.js'
import { fitGmm, gmm } from './detectors/gmm.js'
import { fitHbos, hbos } from './detectors/hbos.js'
import { fitIforest, iforest } from './detectors/iforest.js'
import { fitKde, kde } from './detectors/kde.js'
import { fitNearest, nearest } from './detectors/nearest.js'
import { fitOcsvm, ocsvm } from './detectors/ocsvm.js'
import { fitPca, pca } from './detectors/pca.js'
import type { MemberDetectors } from './ensemble/members.js'
import { fitEmbeddedMixture, ocKjl, ocKjlQs, ocNystrom, ocNystromQs } from './families/embedded-mixture.js'
import { fitEmbeddedSvm, ocKjlSvm, ocNystromSvm } from './families/embedded-svm.js'
import type { EnsembleParameters } from './parameters.js'

const MEMBERS: MemberDetectors = {
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

/** The definition of every detector, by name. */
export const DETECTORS: Readonly<Record<DetectorName, DetectorDefinition>> = {
  ...MEMBERS,
  ensemble: ensembleOf(MEMBERS),
}

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
