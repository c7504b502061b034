/**
 * The one list of detectors. A new one is its file, its name in `detector.ts` and its line here.
 */
import type { DetectorDefinition, DetectorName } from './detector.js'
import { ensembleOf } from './detectors/ensemble.js'
import { gmm } from './detectors/gmm.js'
import { hbos } from './detectors/hbos.js'
import { iforest } from './detectors/iforest.js'
import { kde } from './detectors/kde.js'
import { nearest } from './detectors/nearest.js'
import { ocKjl, ocKjlQs, ocKjlSvm } from './detectors/oc-kjl.js'
import { ocNystrom, ocNystromQs, ocNystromSvm } from './detectors/oc-nystrom.js'
import { ocsvm } from './detectors/ocsvm.js'
import { pca } from './detectors/pca.js'
import type { MemberDetectors } from './ensemble/members.js'

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
